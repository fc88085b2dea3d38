//! The contract of the queue. Every store passes the same tests.

use std::{sync::Arc, time::Duration};

use acestep_serve::{
    job::{Job, JobError, Kind, NewJob, Progress, State},
    sqlite::Sqlite,
    store::{Claim, End, Found, Held, Lease, Marks, News, Selection, Store},
};
use serde_json::json;
use tempfile::TempDir;

const LEASE: Duration = Duration::from_secs(60);

/// A store, and what must live as long.
pub(crate) fn sqlite() -> (Arc<dyn Store>, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Sqlite::open(&folder.path().join("jobs.sqlite")).expect("a new store");
    (Arc::new(store), folder)
}

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

#[tokio::test]
async fn jobs_run_by_priority_and_then_by_age() {
    let (store, _folder) = sqlite();
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

#[tokio::test]
async fn jobs_of_the_model_in_memory_go_first_but_no_other_waits_for_ever() {
    let (store, _folder) = sqlite();
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

#[tokio::test]
async fn the_same_idempotency_key_is_the_same_job_of_one_owner() {
    let (store, _folder) = sqlite();
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

#[tokio::test]
async fn a_lost_worker_gives_its_job_back_once_and_then_the_job_fails() {
    let (store, _folder) = sqlite();
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

#[tokio::test]
async fn a_worker_without_its_lease_changes_nothing() {
    let (store, _folder) = sqlite();
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

#[tokio::test]
async fn a_queued_job_is_cancelled_at_once_and_a_running_one_by_its_worker() {
    let (store, _folder) = sqlite();
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

#[tokio::test]
async fn a_cancelled_job_of_a_lost_worker_is_cancelled_and_does_not_run_again() {
    let (store, _folder) = sqlite();
    let job = put(&store, "song").await;
    store.claim(offer("w", Duration::ZERO)).await.expect("answered");
    store.cancel(job.id).await.expect("answered");
    tokio::time::sleep(Duration::from_millis(10)).await;
    store.sweep().await.expect("answered");
    assert_eq!(state(&store, &job).await, State::Cancelled);
}

#[tokio::test]
async fn a_released_job_waits_again_and_the_attempt_does_not_count() {
    let (store, _folder) = sqlite();
    let job = put(&store, "song").await;
    for _ in 0..5 {
        let taken = claim(&store, "w").await.expect("a job");
        assert_eq!(taken.attempts, 1);
        assert!(store.finish(lease_of(&taken), End::Released).await.expect("answered"));
    }
    assert_eq!(state(&store, &job).await, State::Queued);
}

#[tokio::test]
async fn events_count_up_and_progress_is_removed_at_the_end() {
    let (store, _folder) = sqlite();
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

#[tokio::test]
async fn a_removed_id_is_forgotten_and_an_unknown_one_is_unknown() {
    let (store, _folder) = sqlite();
    let job = put(&store, "song").await;
    assert!(!store.forget(job.id).await.expect("answered"), "it waits");
    store.cancel(job.id).await.expect("answered");
    assert!(store.forget(job.id).await.expect("answered"));
    assert!(matches!(store.get(job.id).await, Ok(Found::Forgotten)));
    assert!(matches!(store.get(uuid::Uuid::now_v7()).await, Ok(Found::Unknown)));
}

#[tokio::test]
async fn words_about_a_job_change_and_a_deleted_one_leaves_the_list() {
    let (store, _folder) = sqlite();
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

#[tokio::test]
async fn jobs_expire_by_age_and_by_bytes_from_the_oldest() {
    let (store, _folder) = sqlite();
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

#[tokio::test]
async fn a_crowd_of_workers_takes_each_job_once() {
    let (store, folder) = sqlite();
    for i in 0..60 {
        put(&store, &i.to_string()).await;
    }
    // A second store over the same file is another process.
    let path = folder.path().join("jobs.sqlite");
    let other: Arc<dyn Store> = Arc::new(Sqlite::open(&path).expect("the same store"));
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

#[tokio::test]
async fn a_change_by_another_process_is_heard() {
    let (store, folder) = sqlite();
    let path = folder.path().join("jobs.sqlite");
    let other: Arc<dyn Store> = Arc::new(Sqlite::open(&path).expect("the same store"));
    let mut changes = store.changes();
    let job = put(&other, "song").await;
    let heard = tokio::time::timeout(Duration::from_secs(5), changes.recv()).await;
    assert_eq!(heard.expect("in time").expect("a change"), job.id);
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
