//! Promises for the case that servers of NATS die or are full.

use std::{
    fs,
    sync::Arc,
    time::{Duration, Instant},
};

use acestep_serve::{
    http::Security,
    job::{Job, NewJob, State},
    store::{End, Store},
};
use bytes::Bytes;
use serde_json::json;
use uuid::Uuid;

use crate::{
    contract::{claim, fill, lease_of, new},
    killed::{LATE, Started, is_ended, job, put, start, until},
    place::{NatsServer, SharedQueue, port},
    support::{Queue, Running, open_gate, quick},
    web::{Api, body, bytes, code, text},
};

/// Three servers; none if it is not installed.
fn three() -> Option<SharedQueue> {
    let folder = tempfile::tempdir().expect("a folder");
    let routes = [port(), port(), port()];
    let urls = routes.map(|route| format!("\"nats://127.0.0.1:{route}\"")).join(", ");
    let mut servers = Vec::new();
    for route in routes {
        let cluster = format!("name: c, listen: \"127.0.0.1:{route}\", routes: [{urls}]");
        let settings = format!("server_name: n{route}\ncluster {{ {cluster} }}");
        servers.push(NatsServer::start(&settings, "")?);
    }
    Some(SharedQueue { folder, servers })
}

async fn opened(place: &SharedQueue) -> Queue {
    let start = Instant::now();
    // The servers choose a leader first, which may take a while.
    loop {
        let address = place.address().expect("servers");
        match acestep_serve::nats::Nats::open(&address).await {
            Ok(_) => return place.open().await,
            Err(error) if start.elapsed() > LATE => panic!("{error}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
        }
    }
}

/// Submits a job as a client does that tries again: a busy machine may need long to choose a leader.
async fn stored(queue: &Queue, new: &NewJob) -> Uuid {
    let start = Instant::now();
    loop {
        match queue.store.put(new.clone()).await {
            Ok(put) => return put.job.id,
            Err(error) => assert!(start.elapsed() < LATE, "{error}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_node_of_three_loses_no_job_and_makes_none_twice() {
    let Some(mut place) = three() else { return };
    let queue = opened(&place).await;
    let sweeper = queue.sweep(Duration::from_millis(100));
    let _workers = [place.worker("one"), place.worker("two")];
    let mut ids = Vec::new();
    for n in 0..40 {
        if n == 10 {
            // The one that this process is connected to, or not: both must do.
            place.servers[0].process.kill();
        }
        let keyed = NewJob { idempotency_key: Some(n.to_string()), ..new("rain") };
        let first = stored(&queue, &keyed).await;
        assert_eq!(first, stored(&queue, &keyed).await);
        ids.push(first);
    }
    for id in &ids {
        let job = until(&queue.store, *id, is_ended).await;
        assert_eq!(job.state, State::Done, "{job:?}");
    }
    assert_eq!(queue.store.counts(None).await.expect("answered").done, 40);
    sweeper.abort();
}

/// The bucket of jobs.
async fn bucket(place: &SharedQueue) -> async_nats::jetstream::kv::Store {
    let client = async_nats::connect(place.address().expect("a server")).await.expect("connected");
    let bucket = async_nats::jetstream::new(client).get_key_value("acestep_jobs").await;
    bucket.expect("the bucket of jobs")
}

/// Stores a job whose record has about that length, as an older version did.
async fn of_length(place: &SharedQueue, store: &Arc<dyn Store>, bytes: usize) -> Uuid {
    let titled = async |length: usize| {
        let job = NewJob { title: Some("t".repeat(length)), ..new("song") };
        store.put(job).await.expect("stored").job.id
    };
    let small = titled(1).await;
    let record = bucket(place).await.get(small.to_string()).await.expect("answered");
    store.cancel(small).await.expect("answered");
    titled(bytes - record.expect("a job").len()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_no_message_takes_any_more_fails_and_says_why() {
    let Some(place) = SharedQueue::nats() else { return };
    let store = place.store().await;
    // A message has room for it, and not for the name of a worker.
    let large = of_length(&place, &store, (1 << 20) - 500).await;
    let next = put(&store, "rain").await;
    assert_eq!(claim(&store, "w").await.expect("a job").id, next);
    let failed = job(&store, large).await;
    assert_eq!((failed.state, failed.title), (State::Failed, None));
    assert_eq!(failed.error.expect("a reason").code, "too_large");
    assert!(store.retry(large).await.expect("answered"));
    assert_eq!(claim(&store, "w").await.expect("a job").id, large);
}

#[tokio::test(flavor = "multi_thread")]
async fn tags_that_no_message_takes_are_refused_and_the_job_goes_on() {
    let Some(place) = SharedQueue::nats() else { return };
    let queue = place.open().await;
    let running = Running::over(&queue, Security::default(), 0, 0, |_| ()).await;
    // Room for the name of a worker.
    let large = of_length(&place, &queue.store, (1 << 20) - 5000).await;
    let tags = json!({ "tags": vec!["t".repeat(100); 64] }).to_string();
    let refused = Api::of(&running).patch_text(&format!("/v1/jobs/{large}"), &tags);
    assert_eq!(code(refused), (413, json!("too_large")));
    let waits = job(&queue.store, large).await;
    assert_eq!((waits.state, waits.tags.len(), waits.error), (State::Queued, 0, None));
    assert_eq!(claim(&queue.store, "w").await.expect("a job").id, large);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_another_one_overwrote_is_made_again() {
    let Some(place) = SharedQueue::nats() else { return };
    let (worker, server) = (place.store().await, place.store().await);
    let bucket = bucket(&place).await;
    // As a cluster writes that accepted two changes of one revision: the second one knows nothing of the first one.
    let overwrite = async |id: Uuid, old: &Bytes| {
        bucket.put(id.to_string(), old.clone()).await.expect("written");
    };
    let running = |job: &Job| job.state == State::Running;
    for _ in 0..2 {
        let job = put(&server, "rain").await;
        // A claim asks no server: it sees what the watch brought.
        until(&worker, job, |job| job.state == State::Queued).await;
    }
    let done = claim(&worker, "one").await.expect("a job");
    let old = bucket.get(done.id.to_string()).await.expect("answered").expect("a job");
    assert!(worker.finish(lease_of(&done), End::Done(Vec::new())).await.expect("stored"));
    overwrite(done.id, &old).await;
    until(&server, done.id, running).await;
    until(&worker, done.id, running).await;
    // A worker that looks for its next job stores the end of the last one again.
    let next = claim(&worker, "one").await.expect("a job");
    assert_eq!(until(&server, done.id, is_ended).await.state, State::Done);

    let old = bucket.get(next.id.to_string()).await.expect("answered").expect("a job");
    assert_eq!(server.cancel(next.id).await.expect("stored"), Some(State::Cancelling));
    overwrite(next.id, &old).await;
    until(&server, next.id, running).await;
    assert!(server.sweep().await.expect("answered").is_empty());
    until(&worker, next.id, |job| job.state == State::Cancelling).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_server_refuses_jobs_by_its_name_and_keeps_those_it_took() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(server) = NatsServer::start("", "max_file_store: 2000000") else { return };
    let place = SharedQueue { folder, servers: vec![server] };
    let store = place.store().await;
    let large = NewJob { request: json!({ "lyrics": "x".repeat(50_000) }), ..new("song") };
    let taken = fill(&store, &large).await;
    let again = place.store().await;
    assert_eq!(again.counts(None).await.expect("answered").queued, taken.len() as u64);
    for id in &taken {
        assert_eq!(job(&again, *id).await.state, State::Queued);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_was_away_for_longer_than_a_lease_costs_no_worker_its_job() {
    let Some(mut place) = SharedQueue::nats() else { return };
    let queue = place.open().await;
    let sweeper = queue.sweep(Duration::from_millis(100));
    // Long enough to come back in after a connection is there again.
    let lease = Duration::from_secs(5);
    let _worker = place.worker_with("one", lease);
    let id = put(&queue.store, "gate").await;
    until(&queue.store, id, |job| job.state == State::Running).await;
    place.servers[0].process.kill();
    tokio::time::sleep(lease + Duration::from_secs(1)).await;
    place.servers[0].again();
    open_gate(place.folder.path());
    let job = until(&queue.store, id, is_ended).await;
    assert_eq!((job.state, job.attempts), (State::Done, 1), "{job:?}");
    sweeper.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_song_of_a_worker_elsewhere_is_fetched_from_the_server() {
    let Some(place) = SharedQueue::nats() else { return };
    let elsewhere = tempfile::tempdir().expect("a folder");
    let address = place.address();
    let queue = place.open().await;
    let running = Running::over(&queue, Security::default(), 0, 0, |_| ()).await;
    let (folder, lease) = (elsewhere.path(), quick().lease);
    let nats = address.as_deref();
    let _worker = start(Started { folder, port: 0, name: "far", lease, nats, before: &[] });
    let api = Api::of(&running);
    let job = body(api.post("/v1/jobs?wait=300", &json!({ "request": { "caption": "rain" } })));
    assert_eq!(job["state"], "done", "{job}");
    let sound = text(&job["outputs"][0]["url"]);
    let part = api.get_with(&sound, "range", "bytes=8-11");
    assert_eq!(part.status(), 206);
    assert_eq!(bytes(part), b"WAVE");
    assert_eq!(bytes(api.get(&sound)).len() as u64, job["outputs"][0]["bytes"]);
    let id = text(&job["id"]);
    for (status, query) in [(200, "?forget=true"), (410, "")] {
        assert_eq!(api.delete(&format!("/v1/jobs/{id}{query}")).status(), status);
    }
    let left = fs::read_dir(place.folder.path().join("results")).expect("a folder");
    assert_eq!(left.count(), 0, "copies of a removed job stay");
}
