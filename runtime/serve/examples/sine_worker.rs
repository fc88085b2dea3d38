//! A worker whose songs are a sine, as a process of its own:
//! `cargo run -p acestep-serve --example sine_worker -- FOLDER NAME [NATS]`.

#![expect(clippy::print_stderr, reason = "an example for people")]

#[path = "../tests/serve/support.rs"]
#[expect(dead_code, reason = "a worker starts no server")]
mod support;

use std::{path::PathBuf, sync::atomic::AtomicBool};

#[tokio::main]
async fn main() -> std::io::Result<()> {
    static IS_DRAINING: AtomicBool = AtomicBool::new(false);
    let mut args = std::env::args().skip(1);
    let folder = PathBuf::from(args.next().unwrap_or_else(|| "sine".to_owned()));
    let name = args.next().unwrap_or_else(|| "sine".to_owned());
    let queue = support::Queue::open(&folder, args.next().as_deref()).await;
    queue.work(&name, support::quick(), &IS_DRAINING);
    eprintln!("{name} works");
    tokio::signal::ctrl_c().await
}
