//! Places of a queue: an SQLite file, or servers of NATS on loopback.

use std::{
    io,
    net::{TcpListener, TcpStream},
    process::Child,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use acestep_serve::store::Store;
use tempfile::TempDir;

use crate::support::Queue;

/// A queue that more than one process can open.
pub(crate) struct SharedQueue {
    /// The folder of files, and of the SQLite file.
    pub(crate) folder: TempDir,
    pub(crate) servers: Vec<NatsServer>,
}

impl SharedQueue {
    pub(crate) fn sqlite() -> Option<Self> {
        Some(Self { folder: folder(), servers: Vec::new() })
    }

    #[cfg(feature = "nats")]
    pub(crate) fn nats() -> Option<Self> {
        Some(Self { folder: folder(), servers: vec![NatsServer::start("", "")?] })
    }

    pub(crate) fn address(&self) -> Option<String> {
        let urls: Vec<String> = self.servers.iter().map(NatsServer::url).collect();
        (!urls.is_empty()).then(|| urls.join(","))
    }

    /// Opens the queue, as another process would.
    pub(crate) async fn open(&self) -> Queue {
        Queue::open(self.folder.path(), self.address().as_deref()).await
    }

    pub(crate) async fn store(&self) -> Arc<dyn Store> {
        self.open().await.store
    }
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

pub(crate) fn port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("an address").port()
}

/// Waits until something listens.
pub(crate) fn wait_for(port: u16) -> io::Result<()> {
    let start = Instant::now();
    loop {
        match TcpStream::connect(("127.0.0.1", port)) {
            Ok(_) => return Ok(()),
            Err(error) if start.elapsed() > Duration::from_secs(300) => return Err(error),
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// A process that ends with its owner.
pub(crate) struct Process(pub(crate) Child);

impl Process {
    /// Ends it as a power cut would.
    pub(crate) fn kill(&mut self) {
        self.0.kill().expect("it runs");
        self.0.wait().expect("it ended");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) struct NatsServer {
    port: u16,
    #[cfg(feature = "nats")]
    pub(crate) process: Process,
    #[cfg(feature = "nats")]
    folder: TempDir,
}

impl NatsServer {
    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }
}

#[cfg(feature = "nats")]
impl NatsServer {
    /// Starts a server with lines added to its settings, and to those of JetStream; none if it is not installed.
    pub(crate) fn start(settings: &str, jetstream: &str) -> Option<Self> {
        let (port, folder) = (port(), folder());
        let data = folder.path().join("data").display().to_string();
        let own = format!(
            "listen: \"127.0.0.1:{port}\"\njetstream {{\nstore_dir: {data:?}\n{jetstream}\n}}\n\
             {settings}\n"
        );
        std::fs::write(folder.path().join("nats.conf"), own).expect("written");
        Some(Self { port, process: started(&folder, port)?, folder })
    }

    /// Starts it again, after it was killed.
    pub(crate) fn again(&mut self) {
        self.process = started(&self.folder, self.port).expect("it is there");
    }
}

/// Starts the server of a folder; none if it is not installed.
#[cfg(feature = "nats")]
fn started(folder: &TempDir, port: u16) -> Option<Process> {
    use std::process::{Command, Stdio};
    let mut command = Command::new("nats-server");
    command.arg("-c").arg(folder.path().join("nats.conf"));
    match command.stdout(Stdio::null()).stderr(Stdio::null()).spawn() {
        Ok(child) => {
            let process = Process(child);
            wait_for(port).expect("the server answers");
            Some(process)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            eprintln!("not tested: `nats-server` is not installed (Debian: nats-server)");
            None
        }
        Err(error) => panic!("nats-server: {error}"),
    }
}
