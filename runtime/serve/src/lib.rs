//! A server of durable jobs: queue, workers, HTTP.
//!
//! ```text
//! client -> http -> Store (queue and state) <- Worker -> Runner (networks) -> results
//! ```
//!
//! | module | content |
//! |---|---|
//! | `job` | a job, its states, results and events |
//! | `store` | the contract of the queue |
//! | `sqlite` | the embedded queue: one file |
//! | `nats` | the queue of many machines |
//! | `objects` | files of jobs; sound and text of a run, between machines |
//! | `worker` | takes jobs, keeps their leases, stores their ends |
//! | `service` | the running server: listener, worker process, orderly end |
//! | `stages` | times of stages: time left, sums for Prometheus |
//! | `maintenance` | jobs of lost workers, old results |
//! | `catalog` | the models of a machine; the check of a request |
//! | `request` | requests as JSON objects |
//! | `runner` | runs jobs with networks that stay in memory |
//! | `installed` | the catalog of this machine |
//! | `preview` | sound while it is made |
//! | `arriving` | text that arrives while it is spoken |
//! | `file_watch` | files that grow |
//! | `task` | a task that ends with its owner |
//! | `http` | the API |
//! | `error` | errors of the engine as errors of jobs |

pub mod arriving;
pub mod catalog;
pub mod error;
mod file_watch;
pub mod http;
pub mod installed;
pub mod job;
pub mod maintenance;
#[cfg(feature = "nats")]
pub mod nats;
pub mod objects;
pub mod preview;
pub mod request;
pub mod runner;
pub mod service;
pub mod sqlite;
mod stages;
pub mod store;
pub mod worker;
