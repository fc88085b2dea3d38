//! A server whose songs are a sine, to try the API and the page without a network:
//! `cargo run -p acestep-serve --example sine_server -- FOLDER PORT`.

#[path = "../tests/serve/support.rs"]
mod support;

use std::path::PathBuf;

use acestep_serve::http::Security;

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let mut args = std::env::args().skip(1);
    let folder = PathBuf::from(args.next().unwrap_or_else(|| "sine".to_owned()));
    let port = args.next().and_then(|port| port.parse().ok()).unwrap_or(8001);
    std::fs::create_dir_all(&folder)?;
    let running = support::Running::start(&folder, Security::default(), port).await;
    eprintln!("{} ({})", running.url(""), running.server.version);
    tokio::signal::ctrl_c().await
}
