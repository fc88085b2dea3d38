//! The queue, the worker and the API, over a real socket, without a network of a model.

mod contract;
mod cpp;
mod native;
mod openai;
mod support;
mod upstream;
mod web;
