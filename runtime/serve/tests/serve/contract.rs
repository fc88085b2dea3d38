//! The contract of the queue: the life of a job. Every store passes the same tests.

use std::{sync::Arc, time::Duration};

use acestep_serve::{
    job::{Job, JobError, Kind, NewJob, State},
    store::{Claim, End, Lease, LeaseState, Lookup, ModelFilter, News, Store},
};
use serde_json::json;
use uuid::Uuid;

use crate::place::SharedQueue;

/// Makes a module of tests for each kind of store.
macro_rules! of_each_store {
    ($($name:ident),* $(,)?) => {
        mod sqlite {
            use super::SharedQueue;
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                super::$name(SharedQueue::sqlite().expect("it is built in")).await;
            })*
        }
        #[cfg(feature = "nats")]
        mod nats {
            use super::SharedQueue;
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                if let Some(place) = SharedQueue::nats() {
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
    a_worker_takes_only_jobs_whose_model_it_has,
    a_worker_leaves_jobs_to_others,
    a_lost_worker_gives_its_job_back_once_and_then_the_job_fails,
    a_worker_without_its_lease_changes_nothing,
    a_queued_job_is_cancelled_at_once_and_a_running_one_by_its_worker,
    a_cancelled_job_of_a_lost_worker_is_cancelled_and_does_not_run_again,
    a_released_job_waits_again_and_no_loss_is_counted,
    an_attempt_of_before_a_retry_changes_nothing_and_its_end_is_forgotten,
    a_worker_that_ended_gives_its_jobs_back_at_once,
    a_crowd_of_workers_takes_each_job_once,
    a_change_by_another_process_is_heard,
);

pub(crate) const LEASE: Duration = Duration::from_secs(60);

pub(crate) fn new(caption: &str) -> NewJob {
    NewJob::new(Kind::Generate, Some("tiny".into()), json!({ "caption": caption }), "local")
}

pub(crate) fn offer(worker: &str, lease: Duration) -> Claim {
    Claim {
        worker: worker.into(),
        kinds: Kind::ALL.to_vec(),
        has: ModelFilter::all(),
        except: Vec::new(),
        resident: None,
        patience: Duration::from_secs(300),
        lease,
    }
}

pub(crate) fn lease_of(job: &Job) -> Lease {
    Lease { id: job.id, worker: job.worker.clone().expect("it was claimed"), attempt: job.attempts }
}

pub(crate) async fn put(store: &Arc<dyn Store>, caption: &str) -> Job {
    store.put(new(caption)).await.expect("stored").job
}

pub(crate) async fn claim(store: &Arc<dyn Store>, worker: &str) -> Option<Job> {
    store.claim(offer(worker, LEASE)).await.expect("answered")
}

pub(crate) async fn job(store: &Arc<dyn Store>, id: Uuid) -> Job {
    match store.get(id).await.expect("answered") {
        Lookup::Job(job) => job,
        other => panic!("{other:?}"),
    }
}

async fn state(store: &Arc<dyn Store>, of: &Job) -> State {
    job(store, of.id).await.state
}

/// Stores jobs until the disk is full; returns those that were taken.
pub(crate) async fn fill(store: &Arc<dyn Store>, new: &NewJob) -> Vec<Uuid> {
    let mut taken = Vec::new();
    loop {
        match store.put(new.clone()).await {
            Ok(put) => taken.push(put.job.id),
            Err(error) => {
                assert!(error.is_full, "{error}");
                return taken;
            }
        }
        assert!(taken.len() < 200, "it takes all");
    }
}

async fn jobs_run_by_priority_and_then_by_age(place: SharedQueue) {
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

async fn jobs_of_the_model_in_memory_go_first_but_no_other_waits_for_ever(place: SharedQueue) {
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

async fn a_worker_takes_only_jobs_whose_model_it_has(place: SharedQueue) {
    let store = place.store().await;
    let of = |model: Option<&str>| NewJob { model: model.map(str::to_owned), ..new("song") };
    let put = async |new| store.put(new).await.expect("stored").job.id;
    let urgent = put(NewJob { priority: 3, ..of(Some("base")) }).await;
    let (any, own) = (put(of(None)).await, put(of(Some("tiny"))).await);
    let has = ModelFilter::new(|name| name == "tiny");
    let small = Claim { has, resident: Some("tiny".into()), ..offer("small", LEASE) };
    let take =
        async |claim: &Claim| store.claim(claim.clone()).await.expect("answered").map(|job| job.id);
    // First the job of the model in memory, then the other one that it can run.
    assert_eq!(take(&small).await, Some(own));
    assert_eq!(take(&small).await, Some(any));
    assert_eq!(take(&small).await, None);
    assert_eq!(take(&offer("large", LEASE)).await, Some(urgent));
}

async fn a_worker_leaves_jobs_to_others(place: SharedQueue) {
    let store = place.store().await;
    let other = NewJob { model: Some("base".into()), ..new("other") };
    let put = async |new| store.put(new).await.expect("stored").job.id;
    let (first, second) = (put(other).await, put(new("one")).await);
    let (third, fourth) = (put(new("two")).await, put(new("three")).await);
    let take = async |except: &[Uuid], resident: Option<&str>| {
        let resident = resident.map(str::to_owned);
        let claim = Claim { except: except.to_vec(), resident, ..offer("small", LEASE) };
        store.claim(claim).await.expect("answered").map(|job| job.id)
    };
    // By age, and by the model in memory.
    assert_eq!(take(&[first], None).await, Some(second));
    assert_eq!(take(&[third], Some("tiny")).await, Some(fourth));
    assert_eq!(take(&[first, third], Some("tiny")).await, None);
    assert_eq!(take(&[first, third], None).await, None);
    assert_eq!(take(&[third], Some("tiny")).await, Some(first));
    assert_eq!(claim(&store, "large").await.expect("a job").id, third);
}

async fn a_lost_worker_gives_its_job_back_once_and_then_the_job_fails(place: SharedQueue) {
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
    let failed = self::job(&store, job.id).await;
    assert_eq!(failed.state, State::Failed);
    assert_eq!(failed.error.expect("a reason").code, "worker_lost");
}

async fn a_worker_without_its_lease_changes_nothing(place: SharedQueue) {
    let store = place.store().await;
    let job = put(&store, "song").await;
    let slow = store.claim(offer("slow", Duration::ZERO)).await.expect("answered").expect("a job");
    tokio::time::sleep(Duration::from_millis(10)).await;
    store.sweep().await.expect("answered");
    let quick = claim(&store, "quick").await.expect("the job again");
    assert_eq!(quick.id, job.id);
    let late = lease_of(&slow);
    let held = store.extend(late.clone(), LEASE, News::default()).await.expect("answered");
    assert_eq!(held, LeaseState::Lost);
    assert!(!store.finish(late, End::Done(vec![])).await.expect("answered"));
    assert_eq!(state(&store, &job).await, State::Running);
    assert!(store.finish(lease_of(&quick), End::Done(vec![])).await.expect("answered"));
    assert_eq!(state(&store, &job).await, State::Done);
    // The end is the end.
    assert!(!store.finish(lease_of(&quick), End::Done(vec![])).await.expect("answered"));
}

async fn a_queued_job_is_cancelled_at_once_and_a_running_one_by_its_worker(place: SharedQueue) {
    let store = place.store().await;
    let waiting = put(&store, "waiting").await;
    assert_eq!(store.cancel(waiting.id).await.expect("answered"), Some(State::Cancelled));
    let running = put(&store, "running").await;
    let taken = claim(&store, "w").await.expect("a job");
    assert_eq!(taken.id, running.id);
    assert_eq!(store.cancel(running.id).await.expect("answered"), Some(State::Cancelling));
    let held = store.extend(lease_of(&taken), LEASE, News::default()).await.expect("answered");
    assert_eq!(held, LeaseState::Cancel);
    store.finish(lease_of(&taken), End::Cancelled(vec![])).await.expect("answered");
    assert_eq!(state(&store, &running).await, State::Cancelled);
    assert_eq!(store.cancel(Uuid::now_v7()).await.expect("answered"), None);
}

async fn a_cancelled_job_of_a_lost_worker_is_cancelled_and_does_not_run_again(place: SharedQueue) {
    let store = place.store().await;
    let job = put(&store, "song").await;
    store.claim(offer("w", Duration::ZERO)).await.expect("answered");
    store.cancel(job.id).await.expect("answered");
    tokio::time::sleep(Duration::from_millis(10)).await;
    store.sweep().await.expect("answered");
    assert_eq!(state(&store, &job).await, State::Cancelled);
}

async fn a_released_job_waits_again_and_no_loss_is_counted(place: SharedQueue) {
    let store = place.store().await;
    let job = put(&store, "song").await;
    for attempt in 1..=5 {
        let taken = claim(&store, "w").await.expect("a job");
        // A number that returns would let an attempt of before write.
        assert_eq!(taken.attempts, attempt);
        assert!(store.finish(lease_of(&taken), End::Released).await.expect("answered"));
    }
    assert_eq!(state(&store, &job).await, State::Queued);
    store.claim(offer("w", Duration::ZERO)).await.expect("answered").expect("a job");
    tokio::time::sleep(Duration::from_millis(10)).await;
    store.sweep().await.expect("answered");
    assert_eq!(state(&store, &job).await, State::Queued, "it is the first loss");
}

async fn an_attempt_of_before_a_retry_changes_nothing_and_its_end_is_forgotten(place: SharedQueue) {
    let store = place.store().await;
    let job = put(&store, "song").await;
    let first = lease_of(&claim(&store, "w").await.expect("a job"));
    let error = JobError::new("failed", "a test");
    store.finish(first.clone(), End::Failed(error, vec![])).await.expect("answered");
    let last = store.events(job.id, 0).await.expect("events").last().map(|event| event.n);
    assert!(store.retry(job.id).await.expect("answered"));
    let second = lease_of(&claim(&store, "w").await.expect("a job"));
    assert_eq!(second.attempt, 2);
    assert!(!store.finish(first, End::Done(vec![])).await.expect("answered"));
    let events = store.events(job.id, 0).await.expect("events");
    assert!(events.iter().all(|event| event.name == "state"), "{events:?}");
    let later = store.events(job.id, last.expect("events")).await.expect("events");
    assert_eq!(later.len(), 2, "numbers count up: {events:?}");
    store.finish(second, End::Done(vec![])).await.expect("answered");
    assert_eq!(state(&store, &job).await, State::Done);
}

async fn a_worker_that_ended_gives_its_jobs_back_at_once(place: SharedQueue) {
    let store = place.store().await;
    let job = put(&store, "song").await;
    let abandon = async |worker: &str, is_loss| {
        store.abandon(worker.to_owned(), is_loss).await.expect("answered")
    };
    for _ in 0..3 {
        claim(&store, "w").await.expect("a job");
        assert!(abandon("other", true).await.is_empty());
        assert_eq!(abandon("w", false).await, [job.id], "no loss is counted");
    }
    claim(&store, "w").await.expect("a job");
    assert_eq!(abandon("w", true).await, [job.id]);
    assert_eq!(state(&store, &job).await, State::Queued);
    claim(&store, "w").await.expect("a job");
    assert_eq!(abandon("w", true).await, [job.id]);
    assert_eq!(state(&store, &job).await, State::Failed);
}

async fn a_crowd_of_workers_takes_each_job_once(place: SharedQueue) {
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

async fn a_change_by_another_process_is_heard(place: SharedQueue) {
    let store = place.store().await;
    let other = place.store().await;
    let mut changes = store.changes();
    let job = put(&other, "song").await;
    let heard = tokio::time::timeout(Duration::from_secs(300), changes.recv()).await;
    assert_eq!(heard.expect("in time").expect("a change"), job.id);
}
