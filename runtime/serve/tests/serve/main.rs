//! The queue, the worker and the API, over a real socket, without a network of a model.

#[cfg(feature = "nats")]
mod cluster;
mod contract;
mod cpp;
mod file;
mod killed;
mod native;
mod openai;
mod page;
mod place;
mod stored;
mod support;
mod upstream;
mod web;
