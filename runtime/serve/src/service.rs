//! The running server: listener, worker process, housekeeping, orderly end.
//!
//! The worker is a process of its own. A job that ends it (out of memory, a fault of the driver) does
//! not end the server: the worker starts again. It watches its standard input, so it also ends when the
//! server is killed.

use std::{
    io,
    net::{IpAddr, SocketAddr, ToSocketAddrs as _},
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::TcpListener,
    process::{Child, Command},
    sync::watch,
    time,
};

use crate::{
    catalog::Catalog,
    http::{self, Limits, Security, Server},
    maintenance::{self, Retention},
    objects::Objects,
    sqlite::Sqlite,
    store::{Store, StoreError},
    worker,
};

/// The line that a worker writes when it takes jobs.
pub const READY: &str = "ready";
/// The beginning of the line that a worker writes in place of [`READY`] if its model is not warm: the reason
/// follows.
pub const NOT_WARM: &str = "not warm: ";
/// The lines that a worker writes when it waits for a full disk, and when it goes on.
const FULL: &str = "the disk is full\n";
const ROOM: &str = "the disk has room\n";
/// Shortest and longest time before a worker that ended starts again.
const AGAIN: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(30)];
/// A worker that lived this long begins with the shortest time again.
const STEADY: Duration = Duration::from_secs(60);

/// Settings of a server.
#[derive(Debug)]
pub struct Service {
    /// The address.
    pub address: SocketAddr,
    /// The folder of the queue and the results.
    pub data_dir: PathBuf,
    /// The address of a queue of many machines.
    pub queue: Option<String>,
    /// Keys, names and origins.
    pub security: Security,
    /// True: a network may be served without a key.
    pub is_open: bool,
    /// Limits of the clients.
    pub limits: Limits,
    /// The life of results.
    pub retention: Retention,
    /// The program and the arguments of the worker, which takes `--name` too; none if workers are started
    /// elsewhere.
    pub worker: Option<Vec<std::ffi::OsString>>,
    /// The device that the worker is told to use.
    pub device: Option<String>,
    /// Time that the present job has to end when the server ends.
    pub drain: Duration,
    /// The version of the program.
    pub version: &'static str,
}

/// The reason why a server cannot run.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The address cannot be used.
    #[error("cannot listen on {address}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The reason.
        source: io::Error,
    },
    /// A name without an address.
    #[error("the host `{0}` has no address")]
    Host(String),
    /// A network address without a key.
    #[error("{0} can be reached from the network, and no key is set")]
    Open(IpAddr),
    /// The folder cannot be used.
    #[error("cannot use the folder `{}`", .path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The file of the queue cannot be used.
    #[error("the queue `{}` cannot be used: {why}", .path.display())]
    Queue {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// A queue that this build does not know.
    #[error("the queue `{0}` is of NATS, which is not built into this program")]
    NotBuiltIn(String),
    /// The queue cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another failure of the system.
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl ServiceError {
    /// Returns the remedy, if one is known. It names settings of the server in backquotes.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Listen { source, .. } if source.kind() == io::ErrorKind::AddrInUse => {
                Some("another program has this port: choose another `port`")
            }
            Self::Listen { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                Some("ports below 1024 are for administrators: choose another `port`")
            }
            Self::Listen { .. } => Some("choose an address of this machine as `host`"),
            Self::Host(_) => {
                Some("give an address of this machine as `host`, or a name of it, without a port")
            }
            Self::Open(_) => {
                Some("set ACESTEP_API_KEY to a long random text, or pass `open` to let everyone in")
            }
            Self::Folder { .. } => Some("choose another folder as `data_dir`"),
            Self::Queue { .. } => Some(
                "if the disk has room and works, the file is damaged or of another program: move it \
                 away, or choose another folder as `data_dir`",
            ),
            Self::NotBuiltIn(_) => Some("build it with --features nats"),
            Self::Store(_) | Self::Io(_) => None,
        }
    }
}

/// Returns the line of a worker about its disk, with a line end.
pub fn room(is_full: bool) -> &'static [u8] {
    (if is_full { FULL } else { ROOM }).as_bytes()
}

/// Opens the queue and the files below `data_dir`; or the queue of many machines at the address `queue`,
/// with copies of its files there.
///
/// # Errors
/// A folder or a queue that cannot be used.
pub async fn open(
    data_dir: &Path,
    queue: Option<&str>,
) -> Result<(Arc<dyn Store>, Objects), ServiceError> {
    let of_folder = |source| ServiceError::Folder { path: data_dir.to_owned(), source };
    std::fs::create_dir_all(data_dir).map_err(of_folder)?;
    let Some(queue) = queue else {
        let objects = Objects::open(data_dir).map_err(of_folder)?;
        let path = data_dir.join("jobs.sqlite");
        let opened = Sqlite::open(&path);
        let store = opened.map_err(|StoreError { why, .. }| ServiceError::Queue { path, why })?;
        return Ok((Arc::new(store), objects));
    };
    #[cfg(feature = "nats")]
    {
        let store = crate::nats::Nats::open(queue).await?;
        let objects = store.objects(data_dir).map_err(of_folder)?;
        Ok((Arc::new(store), objects))
    }
    #[cfg(not(feature = "nats"))]
    Err(ServiceError::NotBuiltIn(queue.to_owned()))
}

/// Returns the address of `host`, an address or a name. Of several it is one of IPv4: `localhost` is then
/// 127.0.0.1, which every browser tries.
///
/// # Errors
/// [`ServiceError::Host`].
pub fn address(host: &str, port: u16) -> Result<SocketAddr, ServiceError> {
    // An address of IPv6 as in a URL.
    let bare = host.strip_prefix('[').and_then(|of| of.strip_suffix(']')).unwrap_or(host);
    let found = (bare, port).to_socket_addrs().into_iter().flatten();
    found.min_by_key(SocketAddr::is_ipv6).ok_or_else(|| ServiceError::Host(host.to_owned()))
}

/// Returns the addresses of a queue without names of users, passwords and tokens.
pub fn without_secrets(addresses: &str) -> String {
    let plain = |address: &str| match (address.split_once("://"), address.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, place))) => format!("{scheme}://{place}"),
        (None, Some((_, place))) => place.to_owned(),
        (_, None) => address.to_owned(),
    };
    addresses.split(',').map(plain).collect::<Vec<_>>().join(",")
}

impl Service {
    /// Checks the settings.
    ///
    /// # Errors
    /// A network address without a key.
    pub fn check(&self) -> Result<(), ServiceError> {
        self.check_address(self.address.ip())
    }

    fn check_address(&self, ip: IpAddr) -> Result<(), ServiceError> {
        if !ip.is_loopback() && self.security.keys.is_empty() && !self.is_open {
            return Err(ServiceError::Open(ip));
        }
        Ok(())
    }

    /// Serves until `ending` is true, then lets the present job end. `listening` gets the address when
    /// the server takes requests.
    ///
    /// # Errors
    /// An address, a folder or a queue that cannot be used.
    pub async fn run(
        self,
        catalog: Arc<dyn Catalog>,
        ending: watch::Receiver<bool>,
        listening: impl FnOnce(SocketAddr),
    ) -> Result<(), ServiceError> {
        let (store, objects) = open(&self.data_dir, self.queue.as_deref()).await?;
        let address = self.address;
        let listener = match listenfd::ListenFd::from_env().take_tcp_listener(0)? {
            // The service manager has opened the socket.
            Some(listener) => {
                listener.set_nonblocking(true)?;
                TcpListener::from_std(listener)?
            }
            None => TcpListener::bind(address)
                .await
                .map_err(|source| ServiceError::Listen { address, source })?,
        };
        // A socket of the service manager has an address of its own.
        let address = listener.local_addr()?;
        self.check_address(address.ip())?;
        let on_network = !address.ip().is_loopback();
        let mut server = Server::new(
            store.clone(),
            objects.clone(),
            catalog,
            Security { on_network, ..self.security.clone() },
            ending.clone(),
        );
        server.limits = self.limits;
        server.version = self.version;
        server.device.clone_from(&self.device);
        let server = Arc::new(server);
        let keeping =
            tokio::spawn(maintenance::run(store.clone(), objects, self.retention, ending.clone()));
        let worker = self.worker.clone().map(|command| {
            tokio::spawn(supervise(
                command,
                store.clone(),
                WorkerReport {
                    is_ready: server.is_ready.clone(),
                    not_warm: server.not_warm.clone(),
                    is_full: server.is_full.clone(),
                },
                ending.clone(),
                self.drain,
            ))
        });
        if worker.is_none() {
            // Workers of other places are not seen from here.
            server.is_ready.store(true, Ordering::Relaxed);
        }
        listening(address);
        notify("READY=1");
        http::serve(listener, server).await?;
        notify("STOPPING=1");
        if let Some(worker) = worker {
            // It ends by itself, at the latest after the time to drain.
            let _ = worker.await;
        }
        keeping.abort();
        Ok(())
    }
}

/// Tells the service manager, if there is one.
fn notify(state: &str) {
    #[cfg(unix)]
    if let Err(error) = sd_notify::notify(&[sd_notify::NotifyState::Custom(state)]) {
        tracing::debug!(%error, "the service manager is not told");
    }
    // Windows has none.
    #[cfg(not(unix))]
    let _ = state;
}

/// The state of a worker, as it said.
struct WorkerReport {
    is_ready: Arc<AtomicBool>,
    not_warm: Arc<Mutex<Option<String>>>,
    is_full: Arc<AtomicBool>,
}

impl WorkerReport {
    fn line(&self, line: &str) {
        if line == READY {
            self.is_ready.store(true, Ordering::Relaxed);
        } else if let Some(why) = line.strip_prefix(NOT_WARM) {
            self.set_not_warm(Some(why.to_owned()));
        } else if [FULL, ROOM].map(str::trim_end).contains(&line) {
            self.is_full.store(line == FULL.trim_end(), Ordering::Relaxed);
        }
    }

    /// Forgets all: the worker ended.
    fn ended(&self) {
        self.is_ready.store(false, Ordering::Relaxed);
        self.is_full.store(false, Ordering::Relaxed);
        self.set_not_warm(None);
    }

    fn set_not_warm(&self, why: Option<String>) {
        *self.not_warm.lock().unwrap_or_else(PoisonError::into_inner) = why;
    }
}

/// Keeps a worker running until `ending` is true.
async fn supervise(
    command: Vec<std::ffi::OsString>,
    store: Arc<dyn Store>,
    said: WorkerReport,
    mut ending: watch::Receiver<bool>,
    drain: Duration,
) {
    let mut pause = AGAIN[0];
    while !*ending.borrow() {
        let begin = time::Instant::now();
        // Of this process alone, so its jobs can be given back when it ends.
        let name = worker::unique_name("server");
        match spawn(&command, &name) {
            Ok(mut child) => {
                watch_worker(&mut child, &said, &mut ending, drain).await;
                said.ended();
                // A crash may be the fault of the job; the end of the server never is.
                let is_loss = !*ending.borrow();
                match store.abandon(name, is_loss).await {
                    Ok(jobs) if jobs.is_empty() => {}
                    Ok(jobs) => tracing::warn!(?jobs, "jobs of the worker were taken back"),
                    Err(error) => tracing::warn!(%error, "its job waits for the end of its lease"),
                }
            }
            Err(error) => tracing::error!(%error, "the worker cannot be started"),
        }
        if *ending.borrow() {
            return;
        }
        if begin.elapsed() > STEADY {
            pause = AGAIN[0];
        }
        tracing::warn!(seconds = pause.as_secs_f32(), "the worker starts again");
        tokio::select! {
            () = time::sleep(pause) => {}
            _ = ending.changed() => {}
        }
        pause = (pause * 2).min(AGAIN[1]);
    }
}

fn spawn(command: &[std::ffi::OsString], name: &str) -> io::Result<Child> {
    let [program, args @ ..] = command else { return Err(io::ErrorKind::InvalidInput.into()) };
    Command::new(program)
        .args(args)
        .args(["--name", name])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
}

/// Waits for the end of a worker, and asks for it when the server ends.
async fn watch_worker(
    child: &mut Child,
    said: &WorkerReport,
    ending: &mut watch::Receiver<bool>,
    drain: Duration,
) {
    let stdin = child.stdin.take();
    if let Some(stdout) = child.stdout.take() {
        let mut lines = BufReader::new(stdout).lines();
        loop {
            tokio::select! {
                line = lines.next_line() => match line {
                    Ok(Some(line)) => said.line(&line),
                    Ok(None) | Err(_) => break,
                },
                _ = ending.changed() => break,
            }
        }
    }
    if !*ending.borrow() {
        // It may hang after it closed its output: then the end of the server ends it.
        tokio::select! {
            status = child.wait() => {
                let status = status.ok();
                return tracing::warn!(?status, "the worker ended");
            }
            _ = ending.changed() => {}
        }
    }
    // The end of its input tells it to stop. It has a little more time than it knows.
    drop(stdin);
    let patience = drain + Duration::from_secs(10);
    if time::timeout(patience, child.wait()).await.is_err() {
        tracing::warn!("the worker did not end in time, and is killed");
        let _ = child.kill().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::ApiKey;

    #[test]
    fn a_worker_whose_model_is_not_warm_is_not_ready_and_its_end_is_a_new_beginning() {
        let said = WorkerReport {
            is_ready: Arc::default(),
            not_warm: Arc::default(),
            is_full: Arc::default(),
        };
        let state = || {
            let why = said.not_warm.lock().expect("no panic").clone();
            (said.is_ready.load(Ordering::Relaxed), why)
        };
        said.line("not warm: the warm-up of `x` failed: no");
        assert_eq!(state(), (false, Some("the warm-up of `x` failed: no".to_owned())));
        said.ended();
        assert_eq!(state(), (false, None));
        said.line("ready or not");
        assert_eq!(state(), (false, None));
        said.line("ready");
        assert_eq!(state(), (true, None));
        for (line, is_full) in [(FULL, true), (READY, true), (ROOM, false), (FULL, true)] {
            said.line(line.trim_end());
            assert_eq!(said.is_full.load(Ordering::Relaxed), is_full, "{line}");
        }
        said.ended();
        assert!(!said.is_full.load(Ordering::Relaxed), "another worker looks for itself");
    }

    #[test]
    fn an_address_of_ipv6_may_have_the_brackets_of_a_url() {
        for host in ["::1", "[::1]"] {
            assert_eq!(address(host, 9).expect(host).to_string(), "[::1]:9");
        }
    }

    #[test]
    fn an_address_of_a_network_needs_a_key_or_a_server_that_is_open() {
        let is_served = |address: &str, keys: Vec<ApiKey>, is_open| {
            let service = Service {
                address: address.parse().expect("an address"),
                data_dir: PathBuf::new(),
                queue: None,
                security: Security { keys, ..Security::default() },
                is_open,
                limits: Limits::default(),
                retention: Retention::default(),
                worker: None,
                device: None,
                drain: Duration::ZERO,
                version: "",
            };
            service.check().is_ok()
        };
        for own in ["127.0.0.1:8001", "127.9.9.9:1", "[::1]:8001"] {
            assert!(is_served(own, Vec::new(), false), "{own}");
        }
        for network in ["0.0.0.0:8001", "192.168.1.5:8001", "[::]:8001", "[fd00::5]:8001"] {
            assert!(!is_served(network, Vec::new(), false), "{network}");
            assert!(is_served(network, vec![ApiKey::new("ann", "secret")], false), "{network}");
            assert!(is_served(network, Vec::new(), true), "{network}");
        }
    }
}
