//! The contract of the queue. Every store passes the same tests.

use std::{sync::Arc, time::Duration};

use acestep_serve::{
    job::{Job, JobError, Kind, NewJob, Progress, State},
    sqlite::Sqlite,
    store::{Claim, End, File, Found, Held, Lease, Marks, News, Selection, Store},
};
use serde_json::json;

use crate::place::Place;

/// Makes a module of tests for each kind of store.
macro_rules! of_each_store {
    ($($name:ident),* $(,)?) => {
        mod sqlite {
            use super::Place;
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name(Place::sqlite().expect("it is built in")).await;
            })*
        }
        #[cfg(feature = "nats")]
        mod nats {
            use super::Place;
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                if let Some(place) = Place::nats() {
                    super::$name(place).await;
                }
            })*
        }
    };
}
pub(crate) use of_each_store;

of_each_store!(
    jobs_run_by_priority_and_then_by_age,
    jobs_of_the_model_in_memory_go_first_but_no_other_waits_for_ever,
    the_same_idempotency_key_is_the_same_job_of_one_owner,
    a_lost_worker_gives_its_job_back_once_and_then_the_job_fails,
    a_worker_without_its_lease_changes_nothing,
    a_queued_job_is_cancelled_at_once_and_a_running_one_by_its_worker,
    a_cancelled_job_of_a_lost_worker_is_cancelled_and_does_not_run_again,
    a_released_job_waits_again_and_the_attempt_does_not_count,
    events_count_up_and_progress_is_removed_at_the_end,
    a_removed_id_is_forgotten_and_an_unknown_one_is_unknown,
    words_about_a_job_change_and_a_deleted_one_leaves_the_list,
    jobs_expire_by_age_and_by_bytes_from_the_oldest,
    a_crowd_of_workers_takes_each_job_once,
    a_change_by_another_process_is_heard,
    a_large_request_comes_back_whole,
    files_and_settings_are_kept_until_they_are_removed,
    two_submissions_at_once_with_one_key_are_one_job,
    counts_and_lists_follow_each_change_by_client,
);

const LEASE: Duration = Duration::from_secs(60);

fn new(caption: &str) -> NewJob {
    NewJob::new(Kind::Generate, Some("tiny".into()), json!({ "caption": caption }), "local")
}

fn offer(worker: &str, lease: Duration) -> Claim {
    Claim {
        worker: worker.into(),
        kinds: Kind::ALL.to_vec(),
        resident: None,
        patience: Duration::from_secs(300),
        lease,
    }
}

fn lease_of(job: &Job) -> Lease {
    Lease { id: job.id, worker: job.worker.clone().expect("it was claimed"), attempt: job.attempts }
}

async fn put(store: &Arc<dyn Store>, caption: &str) -> Job {
    store.put(new(caption)).await.expect("stored").job
}

async fn claim(store: &Arc<dyn Store>, worker: &str) -> Option<Job> {
    store.claim(offer(worker, LEASE)).await.expect("answered")
}

async fn state(store: &Arc<dyn Store>, job: &Job) -> State {
    match store.get(job.id).await.expect("answered") {
        Found::Job(job) => job.state,
        other => panic!("{other:?}"),
    }
}

async fn jobs_run_by_priority_and_then_by_age(place: Place) {
    let store = place.store().await;
    let first = put(&store, "one").await;
    let second = put(&store, "two").await;
    let urgent = store.put(NewJob { priority: 1, ..new("three") }).await.expect("stored").job;
    assert_eq!(store.ahead(second.id).await.expect("answered"), Some(2));
    assert_eq!(store.ahead(urgent.id).await.expect("answered"), Some(0));
    let mut order = Vec::new();
    while let Some(job) = claim(&store, "w").await {
        order.push(job.id);
    }
    assert_eq!(order, [urgent.id, first.id, second.id]);
    assert_eq!(store.ahead(second.id).await.expect("answered"), None);
}

async fn jobs_of_the_model_in_memory_go_first_but_no_other_waits_for_ever(place: Place) {
    let store = place.store().await;
    let other = NewJob { model: Some("base".into()), ..new("other") };
    let other = store.put(other).await.expect("stored").job;
    let own = put(&store, "own").await;
    let resident = Claim { resident: Some("tiny".into()), ..offer("w", LEASE) };
    let taken = store.claim(resident.clone()).await.expect("answered").expect("a job");
    assert_eq!(taken.id, own.id);
    put(&store, "own again").await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    let impatient = Claim { patience: Duration::from_millis(10), ..resident };
    let taken = store.claim(impatient).await.expect("answered").expect("a job");
    assert_eq!(taken.id, other.id);
}

async fn the_same_idempotency_key_is_the_same_job_of_one_owner(place: Place) {
    let store = place.store().await;
    let keyed = |owner: &str| NewJob {
        idempotency_key: Some("k".into()),
        owner: owner.into(),
        ..new("song")
    };
    let first = store.put(keyed("a")).await.expect("stored");
    let again = store.put(keyed("a")).await.expect("stored");
    let other = store.put(keyed("b")).await.expect("stored");
    assert_eq!((first.existed, again.existed, other.existed), (false, true, false));
    assert_eq!(first.job.id, again.job.id);
    assert_ne!(first.job.id, other.job.id);
}

async fn a_lost_worker_gives_its_job_back_once_and_then_the_job_fails(place: Place) {
    let store = place.store().await;
    let job = put(&store, "heavy").await;
    let short = Duration::from_millis(1);
    for attempt in 1..=2 {
        let taken = store.claim(offer("w", short)).await.expect("answered").expect("a job");
        assert_eq!(taken.attempts, attempt);
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert_eq!(store.sweep().await.expect("answered"), [job.id]);
    }
    assert!(claim(&store, "w").await.is_none());
    let Found::Job(failed) = store.get(job.id).await.expect("answered") else { panic!("gone") };
    assert_eq!(failed.state, State::Failed);
    assert_eq!(failed.error.expect("a reason").code, "worker_lost");
}

async fn a_worker_without_its_lease_changes_nothing(place: Place) {
    let store = place.store().await;
    let job = put(&store, "song").await;
    let slow = store.claim(offer("slow", Duration::ZERO)).await.expect("answered").expect("a job");
    tokio::time::sleep(Duration::from_millis(10)).await;
    store.sweep().await.expect("answered");
    let quick = claim(&store, "quick").await.expect("the job again");
    assert_eq!(quick.id, job.id);
    let late = lease_of(&slow);
    let held = store.extend(late.clone(), LEASE, News::default()).await.expect("answered");
    assert_eq!(held, Held::Lost);
    assert!(!store.finish(late, End::Done(vec![])).await.expect("answered"));
    assert_eq!(state(&store, &job).await, State::Running);
    assert!(store.finish(lease_of(&quick), End::Done(vec![])).await.expect("answered"));
    assert_eq!(state(&store, &job).await, State::Done);
    // The end is the end.
    assert!(!store.finish(lease_of(&quick), End::Done(vec![])).await.expect("answered"));
}

async fn a_queued_job_is_cancelled_at_once_and_a_running_one_by_its_worker(place: Place) {
    let store = place.store().await;
    let waiting = put(&store, "waiting").await;
    assert_eq!(store.cancel(waiting.id).await.expect("answered"), Some(State::Cancelled));
    let running = put(&store, "running").await;
    let taken = claim(&store, "w").await.expect("a job");
    assert_eq!(taken.id, running.id);
    assert_eq!(store.cancel(running.id).await.expect("answered"), Some(State::Cancelling));
    let held = store.extend(lease_of(&taken), LEASE, News::default()).await.expect("answered");
    assert_eq!(held, Held::Cancel);
    store.finish(lease_of(&taken), End::Cancelled(vec![])).await.expect("answered");
    assert_eq!(state(&store, &running).await, State::Cancelled);
    assert_eq!(store.cancel(uuid::Uuid::now_v7()).await.expect("answered"), None);
}

async fn a_cancelled_job_of_a_lost_worker_is_cancelled_and_does_not_run_again(place: Place) {
    let store = place.store().await;
    let job = put(&store, "song").await;
    store.claim(offer("w", Duration::ZERO)).await.expect("answered");
    store.cancel(job.id).await.expect("answered");
    tokio::time::sleep(Duration::from_millis(10)).await;
    store.sweep().await.expect("answered");
    assert_eq!(state(&store, &job).await, State::Cancelled);
}

async fn a_released_job_waits_again_and_the_attempt_does_not_count(place: Place) {
    let store = place.store().await;
    let job = put(&store, "song").await;
    for _ in 0..5 {
        let taken = claim(&store, "w").await.expect("a job");
        assert_eq!(taken.attempts, 1);
        assert!(store.finish(lease_of(&taken), End::Released).await.expect("answered"));
    }
    assert_eq!(state(&store, &job).await, State::Queued);
}

async fn events_count_up_and_progress_is_removed_at_the_end(place: Place) {
    let store = place.store().await;
    let job = put(&store, "song").await;
    let lease = lease_of(&claim(&store, "w").await.expect("a job"));
    let progress = Progress { stage: "diffusion".into(), unit: "step".into(), done: 3, total: 8 };
    let news = News {
        progress: Some(progress.clone()),
        notices: vec!["the seed is 7".into()],
        resolved: Some(json!({ "seed": 7 })),
    };
    store.extend(lease.clone(), LEASE, news).await.expect("answered");
    let Found::Job(running) = store.get(job.id).await.expect("answered") else { panic!("gone") };
    assert_eq!((running.progress, running.notices), (progress, vec!["the seed is 7".to_owned()]));
    assert_eq!(running.resolved, Some(json!({ "seed": 7 })));
    let names = |events: Vec<acestep_serve::job::Event>| -> Vec<(u64, String)> {
        events.into_iter().map(|event| (event.n, event.name)).collect()
    };
    let before = names(store.events(job.id, 0).await.expect("answered"));
    let expected = [(1, "state"), (2, "state"), (3, "progress"), (4, "notice")];
    assert_eq!(before, expected.map(|(n, name)| (n, name.to_owned())));
    let error = JobError::new("out_of_memory", "no room");
    store.finish(lease, End::Failed(error, vec![])).await.expect("answered");
    let after = names(store.events(job.id, 2).await.expect("answered"));
    assert_eq!(after, [(4, "notice".to_owned()), (5, "end".to_owned())]);
}

async fn a_removed_id_is_forgotten_and_an_unknown_one_is_unknown(place: Place) {
    let store = place.store().await;
    let job = put(&store, "song").await;
    assert!(!store.forget(job.id).await.expect("answered"), "it waits");
    store.cancel(job.id).await.expect("answered");
    assert!(store.forget(job.id).await.expect("answered"));
    assert!(matches!(store.get(job.id).await, Ok(Found::Forgotten)));
    assert!(matches!(store.get(uuid::Uuid::now_v7()).await, Ok(Found::Unknown)));
}

async fn words_about_a_job_change_and_a_deleted_one_leaves_the_list(place: Place) {
    let store = place.store().await;
    let job = put(&store, "song").await;
    let marks = Marks {
        title: Some("Rain".into()),
        liked: Some(true),
        tags: Some(vec!["piano".into()]),
        deleted: None,
    };
    assert!(store.mark(job.id, marks).await.expect("answered"));
    let list = |deleted| Selection { deleted, limit: 10, ..Selection::default() };
    let listed = store.list(list(false)).await.expect("answered");
    let [one] = &listed[..] else { panic!("{listed:?}") };
    assert_eq!(
        (one.title.as_deref(), one.liked, &one.tags[..]),
        (Some("Rain"), true, &["piano".to_owned()][..])
    );
    let put_away = |deleted| Marks { deleted: Some(deleted), ..Marks::default() };
    store.mark(job.id, put_away(true)).await.expect("answered");
    assert!(store.list(list(false)).await.expect("answered").is_empty());
    assert_eq!(store.list(list(true)).await.expect("answered").len(), 1);
    store.mark(job.id, put_away(false)).await.expect("answered");
    assert_eq!(store.list(list(false)).await.expect("answered").len(), 1);
}

async fn jobs_expire_by_age_and_by_bytes_from_the_oldest(place: Place) {
    let store = place.store().await;
    let mut ids = Vec::new();
    for caption in ["one", "two", "three"] {
        let job = put(&store, caption).await;
        let lease = lease_of(&claim(&store, "w").await.expect("a job"));
        let output = acestep_serve::job::Output {
            track: 1,
            content: acestep_serve::job::Content::Audio,
            name: "1.wav".into(),
            media_type: "audio/wav".into(),
            bytes: 100,
            sha256: String::new(),
            seed: None,
            seconds: None,
            key: String::new(),
        };
        store.finish(lease, End::Done(vec![output])).await.expect("answered");
        ids.push(job.id);
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    let expired = |before, bytes| {
        let store = store.clone();
        async move {
            let jobs = store.expired(before, 0, bytes).await.expect("answered");
            jobs.into_iter().map(|job| job.id).collect::<Vec<_>>()
        }
    };
    assert!(expired(0, 300).await.is_empty());
    assert_eq!(expired(0, 250).await, [ids[0]]);
    assert_eq!(expired(i64::MAX, 300).await.len(), 3);
}

async fn a_crowd_of_workers_takes_each_job_once(place: Place) {
    let store = place.store().await;
    for i in 0..60 {
        put(&store, &i.to_string()).await;
    }
    // A second store over the same place is another process.
    let other = place.store().await;
    let mut workers = Vec::new();
    for w in 0..6 {
        let store = if w % 2 == 0 { store.clone() } else { other.clone() };
        workers.push(tokio::spawn(async move {
            let mut taken = Vec::new();
            while let Some(job) = claim(&store, &format!("w{w}")).await {
                assert!(store.finish(lease_of(&job), End::Done(vec![])).await.expect("answered"));
                taken.push(job.id);
            }
            taken
        }));
    }
    let mut all = Vec::new();
    for worker in workers {
        all.extend(worker.await.expect("no panic"));
    }
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 60);
    assert_eq!(store.counts(None).await.expect("answered").done, 60);
}

async fn a_change_by_another_process_is_heard(place: Place) {
    let store = place.store().await;
    let other = place.store().await;
    let mut changes = store.changes();
    let job = put(&other, "song").await;
    let heard = tokio::time::timeout(Duration::from_secs(5), changes.recv()).await;
    assert_eq!(heard.expect("in time").expect("a change"), job.id);
}

async fn a_large_request_comes_back_whole(place: Place) {
    let store = place.store().await;
    // Larger than a message of NATS may be.
    let large = NewJob { request: json!({ "lyrics": "la ".repeat(600_000) }), ..new("song") };
    let job = store.put(large.clone()).await.expect("stored").job;
    assert_eq!(job.request, large.request);
    let taken = claim(&store, "w").await.expect("a job");
    assert_eq!(taken.request, large.request);
    let news = News { resolved: Some(large.request.clone()), ..News::default() };
    store.extend(lease_of(&taken), LEASE, news).await.expect("answered");
    let other = place.store().await;
    let listed = other.list(Selection { limit: 1, ..Selection::default() }).await.expect("a list");
    assert_eq!(listed[0].resolved.as_ref(), Some(&large.request));
}

async fn files_and_settings_are_kept_until_they_are_removed(place: Place) {
    let store = place.store().await;
    let file = File {
        id: uuid::Uuid::now_v7(),
        owner: "a".into(),
        name: "song with spaces.wav".into(),
        bytes: 7,
        sha256: "00".into(),
        created: 1000,
    };
    store.put_file(file.clone()).await.expect("stored");
    assert_eq!(store.file(file.id).await.expect("answered").as_ref(), Some(&file));
    assert!(store.old_files(1000).await.expect("answered").is_empty());
    assert_eq!(store.old_files(1001).await.expect("answered"), [file.id]);
    store.forget_file(file.id).await.expect("answered");
    assert_eq!(store.file(file.id).await.expect("answered"), None);
    assert!(store.old_files(1001).await.expect("answered").is_empty());
    assert_eq!(store.setting("the model").await.expect("answered"), None);
    store.set("the model", json!({ "id": "tiny" })).await.expect("stored");
    let other = place.store().await;
    assert_eq!(other.setting("the model").await.expect("answered"), Some(json!({ "id": "tiny" })));
    store.set("the model", json!(null)).await.expect("stored");
    assert_eq!(other.setting("the model").await.expect("answered"), None);
}

async fn two_submissions_at_once_with_one_key_are_one_job(place: Place) {
    let (store, other) = (place.store().await, place.store().await);
    let mut puts = Vec::new();
    for n in 0..20 {
        let store = if n % 2 == 0 { store.clone() } else { other.clone() };
        let job = NewJob { idempotency_key: Some("k".into()), ..new("song") };
        puts.push(tokio::spawn(async move { store.put(job).await.expect("stored") }));
    }
    let mut ids = Vec::new();
    for put in puts {
        ids.push(put.await.expect("no panic").job.id);
    }
    ids.dedup();
    assert_eq!(ids.len(), 1, "{ids:?}");
    assert_eq!(store.counts(None).await.expect("answered").queued, 1);
    // After its removal the key is free again.
    store.cancel(ids[0]).await.expect("answered");
    assert!(store.forget(ids[0]).await.expect("answered"));
    let job = NewJob { idempotency_key: Some("k".into()), ..new("song") };
    let again = store.put(job).await.expect("stored");
    assert!(!again.existed && again.job.id != ids[0]);
}

async fn counts_and_lists_follow_each_change_by_client(place: Place) {
    let store = place.store().await;
    let of = |owner: &str| NewJob { owner: owner.into(), ..new("song") };
    let mut ids = Vec::new();
    for owner in ["a", "b", "a"] {
        ids.push(store.put(of(owner)).await.expect("stored").job.id);
    }
    let counts = async |owner: Option<&str>| {
        let counts = store.counts(owner.map(str::to_owned)).await.expect("answered");
        (counts.queued, counts.running, counts.done, counts.cancelled)
    };
    assert_eq!((counts(None).await, counts(Some("a")).await), ((3, 0, 0, 0), (2, 0, 0, 0)));
    let first = claim(&store, "w").await.expect("a job");
    assert_eq!(counts(Some("a")).await, (1, 1, 0, 0));
    store.finish(lease_of(&first), End::Done(vec![])).await.expect("answered");
    store.cancel(ids[1]).await.expect("answered");
    assert_eq!(counts(None).await, (1, 0, 1, 1));
    assert!(store.counts(None).await.expect("answered").mean_seconds.is_some());
    let list = async |owner: &str, states: &[State]| -> Vec<uuid::Uuid> {
        let (owner, states) = (Some(owner.to_owned()), states.to_vec());
        let selection = Selection { owner, states, limit: 10, ..Selection::default() };
        store.list(selection).await.expect("a list").into_iter().map(|job| job.id).collect()
    };
    assert_eq!(list("a", &[]).await, [ids[2], ids[0]]);
    assert_eq!(list("a", &[State::Done]).await, [ids[0]]);
    store.forget(ids[0]).await.expect("answered");
    assert_eq!((counts(None).await, list("a", &[]).await), ((1, 0, 0, 1), vec![ids[2]]));
    assert!(store.retry(ids[1]).await.expect("answered"));
    assert_eq!(counts(None).await, (2, 0, 0, 0));
}

#[test]
fn a_file_of_version_1_is_used_and_its_jobs_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("jobs.sqlite");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let store: Arc<dyn Store> = Arc::new(Sqlite::open(&path).expect("a new store"));
    let job = runtime.block_on(put(&store, "song"));
    drop(store);
    let file = rusqlite::Connection::open(&path).expect("a database");
    file.execute_batch(
        "DROP TRIGGER job_added; DROP TRIGGER job_moved; DROP TRIGGER job_removed;
         DROP TABLE tally; DROP INDEX job_owner; PRAGMA user_version = 1",
    )
    .expect("version 1");
    drop(file);
    let store: Arc<dyn Store> = Arc::new(Sqlite::open(&path).expect("the store"));
    let counts = runtime.block_on(store.counts(None)).expect("answered");
    assert_eq!(counts.queued, 1);
    assert_eq!(runtime.block_on(claim(&store, "w")).map(|job| job.id), Some(job.id));
}

#[test]
fn a_file_of_another_program_or_version_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("jobs.sqlite");
    std::fs::write(&path, "no database at all, but a text of some length").expect("written");
    let error = Sqlite::open(&path).expect_err("no database").to_string();
    assert!(error.contains("not a database"), "{error}");
    let path = folder.path().join("other.sqlite");
    let other = rusqlite::Connection::open(&path).expect("a database");
    other.execute_batch("CREATE TABLE song (name TEXT)").expect("a table");
    let error = Sqlite::open(&path).expect_err("foreign").to_string();
    assert_eq!(error, "the queue cannot be used: it is a database of another program");
    other.execute_batch("PRAGMA user_version = 99").expect("a version");
    let error = Sqlite::open(&path).expect_err("newer").to_string();
    assert!(error.contains("it has version 99"), "{error}");
}
