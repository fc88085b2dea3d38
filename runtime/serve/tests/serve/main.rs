//! The queue, the worker and the API, over a real socket, without a network of a model.

#![expect(clippy::print_stderr, reason = "a test says why it did not run")]

mod access;
mod catalog;
#[cfg(feature = "nats")]
mod cluster;
mod connections;
mod contract;
mod cpp;
mod crowded;
mod cut;
mod dialogue;
mod families;
mod file;
mod killed;
mod late;
#[cfg(feature = "nats")]
mod live;
mod memory;
mod native;
mod openai;
mod page;
mod place;
mod real;
mod realtime;
mod removals;
mod retry;
mod stages;
mod stored;
mod support;
mod uploads;
mod upstream;
mod voices;
mod web;
