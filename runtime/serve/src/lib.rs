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
//! | `objects` | files of jobs |
//! | `worker` | takes jobs, keeps their leases, stores their ends |

pub mod job;
pub mod objects;
pub mod sqlite;
pub mod store;
pub mod worker;
