//! A server whose songs are a sine, to try the API and the page without a network:
//! `cargo run -p acestep-serve --example sine_server -- FOLDER PORT [WORKERS [WAITING [NATS [KEY]]]]`.
//!
//! `WAITING` is the most jobs that may wait, `NATS` the address of a queue, e.g. `nats://127.0.0.1`.
//! A NATS of `-` is none. `KEY` is the key that clients need.

#![expect(clippy::print_stderr, reason = "an example for people")]

#[path = "../tests/serve/support.rs"]
#[expect(dead_code, reason = "a part of it is for tests alone")]
mod support;

use std::{path::PathBuf, time::Duration};

use acestep_serve::{
    http::{ApiKey, Security},
    worker::WorkerTimes,
};

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let mut args = std::env::args().skip(1);
    let folder = PathBuf::from(args.next().unwrap_or_else(|| "sine".to_owned()));
    let mut number = |or: u64| args.next().map_or(Some(or), |text| text.parse().ok());
    let wrong = || std::io::Error::other("usage: FOLDER PORT [WORKERS [WAITING [NATS [KEY]]]]");
    let port = number(8001).and_then(|port| u16::try_from(port).ok()).ok_or_else(wrong)?;
    let workers = number(1).and_then(|n| usize::try_from(n).ok()).ok_or_else(wrong)?;
    let waiting = number(200).ok_or_else(wrong)?;
    let nats = args.next().filter(|nats| nats != "-");
    let keys = args.next().iter().map(|key| ApiKey::new("page", key)).collect();
    let security = Security { keys, ..Security::default() };
    let queue = support::Queue::open(&folder, nats.as_deref()).await;
    // The job of a server that was killed comes back soon.
    let times = WorkerTimes { lease: Duration::from_secs(5), ..support::quick() };
    let running = support::Running::over_with(&queue, security, port, (workers, times), |server| {
        server.limits.queue = waiting;
        server.limits.queue_of_one = waiting;
    });
    let running = running.await;
    eprintln!("http://{}", running.address);
    tokio::signal::ctrl_c().await
}
