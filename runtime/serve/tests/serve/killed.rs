//! Promises for the case that processes die: workers and servers.
//!
//! The processes are this test program itself: [`process_of_other_tests`].

use std::{
    env, fs,
    io::Write as _,
    net::TcpStream,
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use acestep_serve::{
    http::Security,
    job::{Job, NewJob, State},
    store::Store,
    worker::WorkerTimes,
};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    contract::{fill, new, of_each_store},
    place::{Process, SharedQueue, port, wait_for},
    support::{Queue, Running, open_gate, quick},
    web::{agent, body},
};

pub(crate) use crate::{contract::job, web::LATE};

of_each_store!(
    a_job_of_a_killed_worker_runs_again_on_another,
    a_job_that_kills_its_worker_each_time_fails_and_the_next_one_runs,
    a_killed_server_loses_no_job_and_makes_none_twice,
    two_workers_share_the_jobs_for_a_time,
    a_client_that_goes_away_leaves_its_job,
    a_job_that_hangs_is_taken_from_its_worker_and_done_by_another,
    workers_whose_clocks_are_an_hour_off_keep_their_jobs,
);

/// The time of the long test in seconds: `SERVE_TEST_SECONDS=3600` for an hour.
fn seconds() -> u64 {
    let text = env::var_os("SERVE_TEST_SECONDS").and_then(|text| text.into_string().ok());
    text.and_then(|text| text.parse().ok()).unwrap_or(3)
}

/// Started by other tests with the variable `SERVE_PROCESS`: folder, port (0 for a worker alone), name,
/// length of its leases in milliseconds, and the address of NATS, with bars between.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a process that other tests start"]
async fn process_of_other_tests() {
    let Some(text) = env::var_os("SERVE_PROCESS").and_then(|text| text.into_string().ok()) else {
        return;
    };
    let parts: Vec<&str> = text.split('|').collect();
    let [folder, port, name, lease, nats] = parts[..] else { panic!("{text}") };
    let queue = Queue::open(Path::new(folder), Some(nats).filter(|nats| !nats.is_empty())).await;
    let port: u16 = port.parse().expect("a port");
    let lease = Duration::from_millis(lease.parse().expect("a time"));
    let _worker = (port == 0).then(|| queue.work(name, WorkerTimes { lease, ..quick() }));
    let _server = match port {
        0 => None,
        _ => Some(Running::over(&queue, Security::default(), port, 1, |_| ()).await),
    };
    // The parent ends the process, or it is an orphan: then its folder goes.
    while Path::new(folder).exists() {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// A process of this program: a worker, or with a port a server with a worker.
pub(crate) struct Started<'a> {
    pub(crate) folder: &'a Path,
    pub(crate) port: u16,
    pub(crate) name: &'a str,
    /// The length of a worker's leases.
    pub(crate) lease: Duration,
    pub(crate) nats: Option<&'a str>,
    /// Words before the program.
    pub(crate) before: &'a [&'a str],
}

pub(crate) fn start(process: Started<'_>) -> Process {
    let Started { folder, port, name, lease, nats, before } = process;
    let lease = lease.as_millis();
    let own = env::current_exe().expect("this program");
    let mut words = before.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    words.push(own.display().to_string());
    let nats = nats.unwrap_or_default();
    let child = Command::new(&words[0])
        .args(&words[1..])
        .args(["--exact", "killed::process_of_other_tests", "--ignored", "--nocapture"])
        .env("SERVE_PROCESS", format!("{}|{port}|{name}|{lease}|{nats}", folder.display()))
        .env("DONT_FAKE_MONOTONIC", "1")
        .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the process starts");
    Process(child)
}

impl SharedQueue {
    /// Starts a worker whose leases no busy machine ends.
    pub(crate) fn worker(&self, name: &str) -> Process {
        self.worker_with(name, quick().lease)
    }

    /// Starts a worker with leases of some length.
    pub(crate) fn worker_with(&self, name: &str, lease: Duration) -> Process {
        self.process(0, name, lease)
    }

    fn process(&self, port: u16, name: &str, lease: Duration) -> Process {
        let (folder, address) = (self.folder.path(), self.address());
        start(Started { folder, port, name, lease, nats: address.as_deref(), before: &[] })
    }

    fn server(&self, port: u16) -> Process {
        let process = self.process(port, "server", quick().lease);
        wait_for(port).expect("the server answers");
        process
    }
}

pub(crate) async fn put(store: &Arc<dyn Store>, caption: &str) -> Uuid {
    store.put(new(caption)).await.expect("stored").job.id
}

pub(crate) async fn until(store: &Arc<dyn Store>, id: Uuid, is_it: impl Fn(&Job) -> bool) -> Job {
    let start = Instant::now();
    loop {
        let job = job(store, id).await;
        if is_it(&job) {
            return job;
        }
        assert!(start.elapsed() < LATE, "too late: {job:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(crate) fn is_ended(job: &Job) -> bool {
    job.state.is_ended()
}

async fn a_job_of_a_killed_worker_runs_again_on_another(place: SharedQueue) {
    let queue = place.open().await;
    // Nobody looks for lost workers before the first one is killed, so its short lease cannot end earlier.
    let mut first = place.worker_with("first", Duration::from_secs(1));
    let id = put(&queue.store, "gate").await;
    until(&queue.store, id, |job| job.state == State::Running && job.progress.done > 0).await;
    first.kill();
    open_gate(place.folder.path());
    let sweeper = queue.sweep(Duration::from_millis(100));
    let _second = place.worker("second");
    let job = until(&queue.store, id, is_ended).await;
    assert_eq!((job.state, job.attempts), (State::Done, 2));
    assert_eq!(job.worker.as_deref(), Some("second"));
    for output in &job.outputs {
        let objects = queue.objects.clone();
        let (output, bytes) = (output.clone(), output.bytes);
        let path = tokio::task::spawn_blocking(move || objects.fetch(&output)).await;
        let path = path.expect("no panic").expect("a file");
        assert_eq!(fs::metadata(path).expect("a file").len(), bytes);
    }
    sweeper.abort();
}

async fn a_job_that_kills_its_worker_each_time_fails_and_the_next_one_runs(place: SharedQueue) {
    let queue = place.open().await;
    let (bad, good) = (put(&queue.store, "kill").await, put(&queue.store, "brief").await);
    let mut worker = place.worker("w0");
    let mut deaths = 0;
    let start = Instant::now();
    loop {
        let (bad, good) = (job(&queue.store, bad).await, job(&queue.store, good).await);
        if bad.state.is_ended() && good.state.is_ended() {
            assert_eq!((bad.state, good.state), (State::Failed, State::Done));
            assert_eq!(bad.error.expect("a reason").code, "worker_lost");
            break;
        }
        if worker.0.try_wait().expect("a process").is_some() {
            // As a server does that sees the end of its worker.
            let taken = queue.store.abandon(format!("w{deaths}"), true).await.expect("answered");
            assert_eq!(taken, [bad.id]);
            deaths += 1;
            worker = place.worker(&format!("w{deaths}"));
        }
        assert!(start.elapsed() < LATE, "{bad:?} {good:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(deaths, 2);
}

fn submit(port: u16, caption: &str, key: &str) -> Value {
    let job = json!({ "request": { "caption": caption } }).to_string();
    let request = agent().post(format!("http://127.0.0.1:{port}/v1/jobs"));
    let request = request.content_type("application/json").header("idempotency-key", key);
    body(request.send(job.as_bytes()).expect("taken"))
}

async fn a_killed_server_loses_no_job_and_makes_none_twice(place: SharedQueue) {
    let store = place.store().await;
    let port = port();
    let mut server = place.server(port);
    let captions = ["gate", "brief", "brief", "brief", "brief", "brief"];
    let ids = move || -> Vec<Uuid> {
        let each = captions.iter().enumerate();
        let ids = each.map(|(n, caption)| submit(port, caption, &n.to_string()));
        ids.map(|job| job["id"].as_str().and_then(|id| id.parse().ok()).expect("an id")).collect()
    };
    let before = tokio::task::spawn_blocking(ids).await.expect("no panic");
    let running = until(&store, before[0], |job| job.state == State::Running).await;
    server.kill();
    // The end of its lease would do the same, a little later.
    let lost = store.abandon(running.worker.expect("a worker"), true).await.expect("answered");
    assert_eq!(lost, [before[0]]);
    open_gate(place.folder.path());
    let _again = place.server(port);
    // A client that does not know if its job was taken sends it again.
    let after = tokio::task::spawn_blocking(ids).await.expect("no panic");
    assert_eq!(before, after);
    for id in before {
        let job = until(&store, id, is_ended).await;
        assert_eq!(job.state, State::Done, "{job:?}");
    }
    let counts = store.counts(None).await.expect("answered");
    assert_eq!((counts.done, counts.queued, counts.running), (captions.len() as u64, 0, 0));
}

async fn two_workers_share_the_jobs_for_a_time(place: SharedQueue) {
    let queue = place.open().await;
    let sweeper = queue.sweep(Duration::from_millis(100));
    let _workers = [place.worker("one"), place.worker("two")];
    // Each of them has a job before the others come.
    let mut ids = vec![put(&queue.store, "gate").await, put(&queue.store, "gate").await];
    for id in &ids {
        until(&queue.store, *id, |job| job.state == State::Running).await;
    }
    open_gate(place.folder.path());
    let end = Instant::now() + Duration::from_secs(seconds());
    while Instant::now() < end || ids.len() < 20 {
        // Two at once: while one worker is busy, the other one is free.
        ids.push(put(&queue.store, "rain").await);
        ids.push(put(&queue.store, "rain").await);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let mut of_one = 0;
    for id in &ids {
        let job = until(&queue.store, *id, is_ended).await;
        assert_eq!((job.state, job.attempts), (State::Done, 1), "{job:?}");
        of_one += usize::from(job.worker.as_deref() == Some("one"));
    }
    assert!(of_one > 0 && of_one < ids.len(), "{of_one} of {}", ids.len());
    assert_eq!(queue.store.counts(None).await.expect("answered").done, ids.len() as u64);
    sweeper.abort();
}

async fn a_client_that_goes_away_leaves_its_job(place: SharedQueue) {
    let queue = place.open().await;
    let running = Running::over(&queue, Security::default(), 0, 1, |_| ()).await;
    let body = json!({ "request": { "caption": "gate" } }).to_string();
    let mut client = TcpStream::connect(running.address).expect("a connection");
    write!(
        client,
        "POST /v1/jobs?wait=300 HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .expect("sent");
    let start = Instant::now();
    let id = loop {
        let all =
            queue.store.list(acestep_serve::store::Selection { limit: 2, ..Default::default() });
        if let [job] = &all.await.expect("a list")[..] {
            break job.id;
        }
        assert!(start.elapsed() < LATE, "no job");
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    drop(client);
    open_gate(place.folder.path());
    assert_eq!(until(&queue.store, id, is_ended).await.state, State::Done);
}

async fn a_job_that_hangs_is_taken_from_its_worker_and_done_by_another(place: SharedQueue) {
    let queue = place.open().await;
    let sweeper = queue.sweep(Duration::from_millis(100));
    let (stall, lease) = (Duration::from_millis(300), Duration::from_secs(1));
    let _first = queue.work("first", WorkerTimes { stall, lease, ..quick() });
    let id = put(&queue.store, "hang").await;
    until(&queue.store, id, |job| job.attempts == 1).await;
    let _second = queue.work("second", quick());
    let job = until(&queue.store, id, is_ended).await;
    assert_eq!((job.state, job.attempts), (State::Done, 2), "{job:?}");
    assert_eq!(job.worker.as_deref(), Some("second"));
    sweeper.abort();
}

async fn workers_whose_clocks_are_an_hour_off_keep_their_jobs(place: SharedQueue) {
    if Command::new("faketime").arg("--version").output().is_err() {
        eprintln!("not tested: `faketime` is not installed (Debian: faketime)");
        return;
    }
    let queue = place.open().await;
    let sweep = async || queue.store.sweep().await.expect("answered");
    assert!(sweep().await.is_empty());
    let address = place.address();
    let (folder, lease, nats) = (place.folder.path(), quick().lease, address.as_deref());
    let worker = |name, off| {
        let before = &["faketime", "-f", off];
        start(Started { folder, port: 0, name, lease, nats, before })
    };
    let _workers = [worker("early", "-1h"), worker("late", "+1h")];
    let ids = [put(&queue.store, "gate").await, put(&queue.store, "gate").await];
    for id in ids {
        let job = until(&queue.store, id, |job| job.progress.done > 0).await;
        let off = job.started.expect("it began") - job.created;
        assert!(off.abs() > 3_000_000, "its worker's clock was right");
    }
    // By its own clock the lease of the first one ended an hour ago.
    for _ in 0..3 {
        assert!(sweep().await.is_empty());
    }
    open_gate(folder);
    for id in ids {
        let job = until(&queue.store, id, is_ended).await;
        assert_eq!((job.state, job.attempts), (State::Done, 1), "{job:?}");
    }
}

/// The disk is a small one in memory, which only root can mount.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_jobs_by_its_name_and_keeps_those_it_took() {
    let folder = tempfile::tempdir().expect("a folder");
    let mount = |words: &[&str]| {
        let done = Command::new(words[0]).args(&words[1..]).arg(folder.path()).output();
        done.is_ok_and(|done| done.status.success())
    };
    if !mount(&["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs"]) {
        eprintln!("not tested: a small disk cannot be mounted here");
        return;
    }
    let filler = folder.path().join("filler");
    let store = Queue::open(folder.path(), None).await.store;
    fs::write(&filler, vec![0; 1 << 20]).expect("room");
    let large = NewJob { request: json!({ "lyrics": "x".repeat(20_000) }), ..new("song") };
    let taken = fill(&store, &large).await;
    assert!(!taken.is_empty());
    for id in &taken {
        assert_eq!(job(&store, *id).await.state, State::Queued);
    }
    fs::remove_file(&filler).expect("removed");
    let later = store.put(large).await.expect("there is room again").job.id;
    assert_eq!(job(&store, later).await.state, State::Queued);
    assert_eq!(store.counts(None).await.expect("answered").queued, taken.len() as u64 + 1);
    drop(store);
    // Its threads close the file a moment later.
    let start = Instant::now();
    while !mount(&["umount"]) && start.elapsed() < Duration::from_secs(5) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
