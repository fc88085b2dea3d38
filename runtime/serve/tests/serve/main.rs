//! The queue, the worker and the API, over a real socket, without a network of a model.

mod contract;
mod native;
mod page;
mod support;
