//! A server that runs: its queue, its workers, and its catalog.

#[path = "support/catalog.rs"]
mod catalog;
#[path = "support/sine.rs"]
mod sine;

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use acestep_serve::{
    http::{self, Security, Server},
    objects::Objects,
    sqlite::Sqlite,
    store::Store,
    worker::{Worker, WorkerTimes},
};
use tokio::{net::TcpListener, runtime::Handle, sync::watch};

pub(crate) use self::catalog::Two;
use self::sine::Sine;

/// The name of the file that opens the gate of a queue's folder.
const GATE: &str = "gate";

pub(crate) fn open_gate(folder: &Path) {
    fs::write(folder.join(GATE), "").expect("written");
}

#[derive(Clone)]
pub(crate) struct Queue {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) objects: Objects,
}

impl Queue {
    /// Opens the queue of `folder`, or the one at the address `nats`.
    pub(crate) async fn open(folder: &Path, nats: Option<&str>) -> Self {
        fs::create_dir_all(folder).expect("a folder");
        let Some(nats) = nats else {
            let store = Sqlite::open(&folder.join("jobs.sqlite")).expect("a store");
            return Self {
                store: Arc::new(store),
                objects: Objects::open(folder).expect("a folder"),
            };
        };
        #[cfg(feature = "nats")]
        {
            let store = acestep_serve::nats::Nats::open(nats).await.expect("a store");
            let objects = store.objects(folder).expect("a folder");
            Self { store: Arc::new(store), objects }
        }
        #[cfg(not(feature = "nats"))]
        panic!("{nats}: this build has no NATS (--features nats)");
    }

    /// Returns a worker of this queue, which is not started.
    pub(crate) fn worker(
        &self,
        name: &str,
        times: WorkerTimes,
        is_draining: &'static AtomicBool,
    ) -> Worker<'static> {
        Worker {
            name: name.to_owned(),
            store: self.store.clone(),
            objects: self.objects.clone(),
            times,
            is_draining,
            is_ending: Arc::default(),
            on_hang: || (),
            on_disk_full: |_| (),
        }
    }

    /// Starts a worker on a thread; it takes no more jobs when the result is dropped.
    #[must_use]
    pub(crate) fn work(&self, name: &str, times: WorkerTimes) -> Draining {
        let (runtime, queue, name) = (Handle::current(), self.clone(), name.to_owned());
        let is_draining: &'static AtomicBool = Box::leak(Box::default());
        thread::spawn(move || {
            let worker = queue.worker(&name, times, is_draining);
            while !is_draining.load(Ordering::Relaxed) {
                if let Err(error) = worker.run(&runtime, &mut Sine) {
                    tracing::error!(%error, "the worker begins again");
                    thread::sleep(Duration::from_millis(200));
                }
            }
        });
        Draining(is_draining)
    }

    /// Returns jobs of lost workers to the queue, again and again.
    pub(crate) fn sweep(&self, every: Duration) -> tokio::task::JoinHandle<()> {
        let store = self.store.clone();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(every).await;
                if let Err(error) = store.sweep().await {
                    tracing::error!(%error, "nothing was swept");
                }
            }
        })
    }
}

/// Drains a worker when it is dropped.
pub(crate) struct Draining(pub(crate) &'static AtomicBool);

impl Drop for Draining {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A server that runs, with workers of its own.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    ending: watch::Sender<bool>,
    _workers: Vec<Draining>,
    sweeper: tokio::task::JoinHandle<()>,
    serving: Option<tokio::task::JoinHandle<std::io::Result<()>>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.sweeper.abort();
        let _ = self.ending.send(true);
    }
}

impl Running {
    /// Starts a server over a queue, on `port` (0 for any free one), whose state is changed first.
    pub(crate) async fn over(
        queue: &Queue,
        security: Security,
        port: u16,
        workers: usize,
        change: impl FnOnce(&mut Server),
    ) -> Self {
        Self::over_with(queue, security, port, (workers, quick()), change).await
    }

    /// Starts a server over a queue, with a number of workers and their times.
    pub(crate) async fn over_with(
        queue: &Queue,
        security: Security,
        port: u16,
        (workers, times): (usize, WorkerTimes),
        change: impl FnOnce(&mut Server),
    ) -> Self {
        let (ending, receiver) = watch::channel(false);
        let Queue { store, objects } = queue.clone();
        let mut server = Server::new(store, objects, Arc::new(Two), security, receiver);
        change(&mut server);
        let server = Arc::new(server);
        let listener = TcpListener::bind(("127.0.0.1", port)).await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        server.is_ready.fetch_or(workers > 0, Ordering::Relaxed);
        let serving = Some(tokio::spawn(http::serve(listener, server)));
        let name = |n: usize| format!("server-{n}-{}", uuid::Uuid::now_v7());
        let _workers = (0..workers).map(|n| queue.work(&name(n), times)).collect();
        let sweeper = queue.sweep(times.extend);
        Self { address, ending, _workers, sweeper, serving }
    }

    pub(crate) async fn stop(&mut self) {
        let _ = self.ending.send(true);
        if let Some(serving) = self.serving.take() {
            serving.await.expect("no panic").expect("no failure");
        }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

/// Times that make tests short. A lease is so long that no busy machine ends it: a test that waits for the
/// end of one makes it shorter.
pub(crate) fn quick() -> WorkerTimes {
    WorkerTimes {
        lease: Duration::from_secs(120),
        extend: Duration::from_millis(200),
        report: Duration::from_millis(50),
        poll: Duration::from_millis(50),
        patience: Duration::from_secs(1),
        refused: Duration::from_millis(200),
        full: Duration::from_millis(50),
        stall: Duration::ZERO,
    }
}
