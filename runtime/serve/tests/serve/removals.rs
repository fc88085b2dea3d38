//! Removals go to their end when their client goes away in the middle.

use std::{
    io,
    path::Path,
    pin::pin,
    sync::{Arc, Condvar, Mutex},
    time::Duration,
};

use acestep_serve::{
    http::{self, Security, Server},
    maintenance::{self, Retention},
    objects::RemoteFiles,
    store::{End, Lookup, Store},
};
use axum::{body::Body, extract::Request};
use tempfile::TempDir;
use tokio::{sync::watch, time};
use tower::ServiceExt;
use uuid::Uuid;

use crate::{
    contract::{claim, lease_of, put},
    support::{Queue, Two},
    uploads::{delete, kept, soon},
    web::{FORM, parts},
};

/// A place whose removals wait until they may go on.
struct Slow {
    /// The number of removals that began.
    begun: watch::Sender<u32>,
    may_go_on: (Mutex<bool>, Condvar),
}

impl Slow {
    fn new() -> Arc<Self> {
        Arc::new(Self { begun: watch::channel(0).0, may_go_on: Default::default() })
    }

    fn go_on(&self) {
        *self.may_go_on.0.lock().expect("no panic") = true;
        self.may_go_on.1.notify_all();
    }

    fn wait(&self) {
        self.begun.send_modify(|number| *number += 1);
        let guard = self.may_go_on.0.lock().expect("no panic");
        drop(self.may_go_on.1.wait_while(guard, |may_go_on| !*may_go_on).expect("no panic"));
    }
}

impl RemoteFiles for Slow {
    fn put(&self, _: &str, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn put_folder(&self, _: &str, _: &[String], _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn get(&self, _: &str, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn remove(&self, _: &str) -> io::Result<()> {
        self.wait();
        Ok(())
    }

    fn remove_folder(&self, _: &str) -> io::Result<()> {
        self.wait();
        Ok(())
    }

    fn older_than(&self, _: &str, _: Duration) -> io::Result<Vec<String>> {
        Ok(Vec::new())
    }
}

/// A server without workers, whose files lie in a slow place.
struct SlowServer {
    server: Arc<Server>,
    place: Arc<Slow>,
    queue: Queue,
    folder: TempDir,
    _ending: watch::Sender<bool>,
}

impl SlowServer {
    async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut queue = Queue::open(folder.path(), None).await;
        let place = Slow::new();
        queue.objects = queue.objects.with_remote(place.clone());
        let (_ending, receiver) = watch::channel(false);
        let Queue { store, objects } = queue.clone();
        let server = Server::new(store, objects, Arc::new(Two), Security::default(), receiver);
        Self { server: Arc::new(server), place, queue, folder, _ending }
    }

    /// Sends a request, goes away in the middle of its first removal, and lets the removal go on.
    async fn cut(&self, request: Request<Body>) {
        let mut begun = self.place.begun.subscribe();
        {
            let mut answer = pin!(http::router(self.server.clone()).oneshot(request));
            tokio::select! {
                answer = &mut answer => panic!("it did not wait: {answer:?}"),
                begun = begun.wait_for(|&number| number == 1) => drop(begun.expect("a place")),
            }
        }
        self.place.go_on();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_files_of_a_refused_request_are_removed() {
    let slow = SlowServer::start().await;
    let sounds: [(&str, &[u8]); 2] = [("src_audio", b"sound"), ("reference_audio", b"sound")];
    let form = parts(&[("request", r#"{"captoin":"x"}"#)], &sounds);
    let post = Request::post("/v1/jobs").header("host", "localhost");
    let post = post.header("content-type", FORM);
    slow.cut(post.body(form.into()).expect("good")).await;
    let names = || std::fs::read_dir(slow.folder.path().join("files")).expect("a folder").count();
    let store = &slow.queue.store;
    soon("a file stays", async || {
        names() == 0 && store.files("local".into(), None, 9).await.expect("answered").is_empty()
    })
    .await;
    assert_eq!(*slow.place.begun.borrow(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_removed_with_its_description() {
    let slow = SlowServer::start().await;
    let (store, objects) = (&slow.queue.store, &slow.queue.objects);
    let id = kept(&slow.queue).await;
    slow.cut(delete(&format!("/v1/files/{id}"))).await;
    // The description goes before the bytes.
    soon("the bytes stay", async || !objects.file(id).exists()).await;
    assert!(store.file(id).await.expect("answered").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_forgotten_with_its_results() {
    let slow = SlowServer::start().await;
    let store = &slow.queue.store;
    let id = ended(store).await;
    slow.cut(delete(&format!("/v1/jobs/{id}?forget=true"))).await;
    soon("the job stays", async || {
        matches!(store.get(id).await.expect("answered"), Lookup::Forgotten)
    })
    .await;
}

/// On a runtime of one thread, which the place needs too.
#[tokio::test]
async fn old_results_are_removed_beside_the_thread_of_the_runtime() {
    let SlowServer { place, queue, folder: _folder, .. } = SlowServer::start().await;
    let id = ended(&queue.store).await;
    // Later than the millisecond of its end.
    time::sleep(Duration::from_millis(5)).await;
    let all = Retention { age: Duration::ZERO, ..Retention::default() };
    let mut begun = place.begun.subscribe();
    let clean = maintenance::clean(&*queue.store, &queue.objects, all);
    let go_on = async {
        begun.wait_for(|&number| number == 1).await.expect("a place");
        place.go_on();
    };
    let (cleaned, ()) = tokio::join!(clean, go_on);
    cleaned.expect("answered");
    assert!(matches!(queue.store.get(id).await.expect("answered"), Lookup::Forgotten));
}

/// Puts a job into the queue and ends it.
async fn ended(store: &Arc<dyn Store>) -> Uuid {
    let id = put(store, "x").await.id;
    let lease = lease_of(&claim(store, "w").await.expect("a job"));
    assert!(store.finish(lease, End::Done(Vec::new())).await.expect("stored"));
    id
}
