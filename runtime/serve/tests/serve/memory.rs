//! Promises for jobs that do not fit into the memory of a worker.

use std::time::Duration;

use acestep_serve::{
    job::{Job, State},
    worker::WorkerTimes,
};

use crate::{
    contract::of_each_store,
    killed::{is_ended, put, until},
    place::SharedQueue,
    support::quick,
};

of_each_store!(
    a_job_that_a_small_worker_cannot_hold_is_done_by_a_larger_one,
    a_job_that_no_worker_can_hold_fails_after_each_had_its_turn,
);

async fn a_job_that_a_small_worker_cannot_hold_is_done_by_a_larger_one(place: SharedQueue) {
    let queue = place.open().await;
    // It never looks at the job again.
    let refused = Duration::from_secs(3600);
    let _small = queue.work("small", WorkerTimes { refused, ..quick() });
    let large = put(&queue.store, "large").await;
    let is_back = |job: &Job| is_ended(job) || job.attempts > 0 && job.state == State::Queued;
    let job = until(&queue.store, large, is_back).await;
    assert_eq!((job.state, job.attempts), (State::Queued, 1), "{job:?}");
    // It goes on with others.
    let brief = put(&queue.store, "brief").await;
    let job = until(&queue.store, brief, is_ended).await;
    assert_eq!((job.state, job.worker.as_deref()), (State::Done, Some("small")), "{job:?}");
    let job = until(&queue.store, large, |_| true).await;
    assert_eq!((job.state, job.attempts), (State::Queued, 1), "{job:?}");
    let _wide = queue.work("wide", quick());
    let job = until(&queue.store, large, is_ended).await;
    assert_eq!((job.state, job.attempts), (State::Done, 2), "{job:?}");
    assert_eq!(job.worker.as_deref(), Some("wide"));
}

async fn a_job_that_no_worker_can_hold_fails_after_each_had_its_turn(place: SharedQueue) {
    let queue = place.open().await;
    let _first = queue.work("small-1", quick());
    let id = put(&queue.store, "large").await;
    for attempts in [2, 4] {
        let job = until(&queue.store, id, is_ended).await;
        assert_eq!((job.state, job.attempts), (State::Failed, attempts), "{job:?}");
        let error = job.error.expect("a reason");
        assert_eq!(error.code, "out_of_memory");
        let hint = "no worker with more memory took the job; make it shorter";
        assert_eq!(error.hint.as_deref(), Some(hint));
        assert!(queue.store.retry(id).await.expect("answered"));
    }
    let alone = until(&queue.store, id, is_ended).await;
    assert_eq!((alone.state, alone.attempts), (State::Failed, 6), "{alone:?}");
    // Two of them: each gives it back once, and then one of them fails it.
    let _second = queue.work("small-2", quick());
    let both = put(&queue.store, "large").await;
    let job = until(&queue.store, both, is_ended).await;
    assert_eq!(job.state, State::Failed, "{job:?}");
    assert!((2..=3).contains(&job.attempts), "{job:?}");
}
