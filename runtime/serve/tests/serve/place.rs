//! Places of a queue: an SQLite file, or servers of NATS on loopback.

use std::{
    io,
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
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
        Some(Self { folder: folder(), servers: vec![NatsServer::start("")?] })
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
    pub(crate) port: u16,
    #[cfg_attr(not(feature = "nats"), expect(dead_code, reason = "for the feature `nats`"))]
    pub(crate) process: Process,
    _folder: TempDir,
}

impl NatsServer {
    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Starts a server with lines added to its settings; none if it is not installed.
    #[cfg_attr(not(feature = "nats"), expect(dead_code, reason = "for the feature `nats`"))]
    pub(crate) fn start(settings: &str) -> Option<Self> {
        let folder = folder();
        Self::start_at(port(), &folder.path().join("data"), settings, folder)
    }

    /// Starts a server at a port, over a folder.
    pub(crate) fn start_at(
        port: u16,
        data: &Path,
        settings: &str,
        folder: TempDir,
    ) -> Option<Self> {
        let file: PathBuf = folder.path().join("nats.conf");
        let own = format!(
            "listen: \"127.0.0.1:{port}\"\njetstream {{ store_dir: {:?} }}\n{settings}\n",
            data.display().to_string()
        );
        std::fs::write(&file, own).expect("written");
        let started = Command::new("nats-server")
            .arg("-c")
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        match started {
            Ok(child) => {
                let process = Process(child);
                wait_for(port).expect("the server answers");
                Some(Self { port, process, _folder: folder })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                eprintln!("not tested: `nats-server` is not installed (Debian: nats-server)");
                None
            }
            Err(error) => panic!("nats-server: {error}"),
        }
    }
}
