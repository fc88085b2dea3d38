//! The contract of the queue: one table is queue and state.
//!
//! - A job is in the store before its client gets the id, and survives a power cut.
//! - A worker claims a job with a lease, and extends it while it works. A lease that ran out puts the
//!   job back into the queue once; the second time the job fails with `worker_lost`.
//! - A worker changes a job only while it holds its lease: [`Lease`] names the attempt. Numbers of
//!   attempts only grow, so no other attempt of a job has the same one.
//! - A lease is decided by one clock, the steady one of the process that looks ([`Store::sweep`]): it
//!   counts from the last extension that it saw. Clocks of workers do not matter.
//! - A queued job is cancelled at once; a running one when its worker sees the wish.
//!
//! [`Sqlite`](crate::sqlite::Sqlite) is the embedded store; `Nats`, of the feature `nats`, is the one of
//! many machines. Someone must sweep again and again: each server does.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::IntoStaticStr;
use tokio::sync::broadcast;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::job::{Job, JobError, JobEvent, Kind, Millis, NewJob, Output, Progress, State};

/// Lost workers after which a job fails.
pub const MOST_LOSSES: u32 = 2;

/// A failure of the store itself.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the queue cannot be used: {why}")]
pub struct StoreError {
    /// The reason.
    pub why: String,
    /// True if the disk is full.
    pub is_full: bool,
    /// True if a change would make a job larger than the queue can store. The job is as before.
    pub is_too_large: bool,
}

impl StoreError {
    /// A failure of another kind.
    pub(crate) fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), is_full: false, is_too_large: false }
    }
}

/// An answer of the store.
pub type StoreFuture<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// A change of a stored setting: from its value, null without one, to the new one. It is called again if another
/// process was faster.
pub type SettingUpdate = Box<dyn FnMut(Value) -> Value + Send>;

/// A stored job, and whether it was there before.
#[derive(Debug, Clone)]
pub struct Put {
    /// The job.
    pub job: Job,
    /// True if the idempotency key named a job that was there already.
    pub existed: bool,
}

/// The right of a worker to one attempt of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The job.
    pub id: Uuid,
    /// The worker's name.
    pub worker: String,
    /// The number of the attempt.
    pub attempt: u32,
}

impl Lease {
    /// True if this attempt of `job` will not go on, although the job has not ended.
    pub(crate) fn is_over(&self, job: &Job) -> bool {
        job.attempts != self.attempt || job.state == State::Queued
    }
}

/// The offer of a worker.
#[derive(Debug, Clone)]
pub struct Claim {
    /// The worker's name, unique among those that run.
    pub worker: String,
    /// The tasks that it can run.
    pub kinds: Vec<Kind>,
    /// The models that it can load. Jobs of others wait for another worker.
    pub has: ModelFilter,
    /// Jobs that it leaves to others.
    pub except: Vec<Uuid>,
    /// The model in memory, whose jobs are preferred.
    pub resident: Option<String>,
    /// No job waits longer than this behind jobs of the resident model.
    pub patience: Duration,
    /// Length of the lease.
    pub lease: Duration,
}

/// The models that a worker can load.
#[derive(Clone)]
pub struct ModelFilter(Arc<dyn Fn(&str) -> bool + Send + Sync>);

impl fmt::Debug for ModelFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ModelFilter(..)")
    }
}

impl ModelFilter {
    /// Models for which `has` says so.
    pub fn new(has: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(has))
    }

    /// All models.
    pub fn all() -> Self {
        Self::new(|_| true)
    }

    /// Answers for many jobs; few have another model.
    pub(crate) fn asked(&self) -> impl FnMut(Option<&str>) -> bool {
        let mut known = HashMap::new();
        move |model| {
            // A job without a model runs anywhere.
            let Some(model) = model else { return true };
            match known.get(model) {
                Some(has) => *has,
                None => {
                    let has = (self.0)(model);
                    known.insert(model.to_owned(), has);
                    has
                }
            }
        }
    }
}

/// The state of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseState {
    /// The worker goes on.
    Yes,
    /// The client wants the job to stop.
    Cancel,
    /// Another worker has the job, or it is over.
    Lost,
}

/// News of a running job.
#[derive(Debug, Clone, Default)]
pub struct News {
    /// The newest progress, if it changed.
    pub progress: Option<Progress>,
    /// Notices since the last news.
    pub notices: Vec<String>,
    /// The request with all decisions.
    pub resolved: Option<Value>,
}

impl News {
    /// Puts news that could not be stored before these.
    pub(crate) fn restore(&mut self, older: Self) {
        self.progress = self.progress.take().or(older.progress);
        self.resolved = self.resolved.take().or(older.resolved);
        self.notices.splice(0..0, older.notices);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.progress.is_none() && self.resolved.is_none() && self.notices.is_empty()
    }
}

/// The end of an attempt.
#[derive(Debug, Clone, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum End {
    /// The results are written.
    Done(Vec<Output>),
    /// It failed; a retry would fail in the same way.
    Failed(JobError, Vec<Output>),
    /// It stopped because its client wished so.
    Cancelled(Vec<Output>),
    /// The worker shuts down, or cannot run it: the job goes back into the queue, and no loss is counted.
    Released,
}

/// The answer for an id.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "a job is the usual answer")]
pub enum Lookup {
    /// The job.
    Job(Job),
    /// It existed, and was removed.
    Forgotten,
    /// It never existed.
    Unknown,
}

/// A selection of jobs.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Only jobs of this client.
    pub owner: Option<String>,
    /// Only these states; empty for all.
    pub states: Vec<State>,
    /// Only these tasks; empty for all.
    pub kinds: Vec<Kind>,
    /// Only jobs before this one.
    pub before: Option<Uuid>,
    /// True: only deleted jobs. False: only others.
    pub deleted: bool,
    /// The most jobs.
    pub limit: u32,
}

/// Changes of the words about a job. `None` leaves a value.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Marks {
    /// A title; empty for none.
    pub title: Option<String>,
    /// True if someone likes it.
    pub liked: Option<bool>,
    /// Words to find it by.
    pub tags: Option<Vec<String>>,
    /// True puts it away, false takes it back.
    pub deleted: Option<bool>,
}

/// Numbers of jobs by state, and their sizes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, ToSchema)]
pub struct Counts {
    /// Jobs that wait.
    pub queued: u64,
    /// Jobs that run.
    pub running: u64,
    /// Jobs that are done.
    pub done: u64,
    /// Jobs that failed.
    pub failed: u64,
    /// Jobs that were cancelled.
    pub cancelled: u64,
    /// Mean time of the last jobs that were done, in seconds.
    pub mean_seconds: Option<f64>,
    /// Size of all results in bytes.
    pub bytes: u64,
}

impl Counts {
    /// The number of jobs that are shown as jobs in `state`.
    pub(crate) fn number(&mut self, state: State) -> &mut u64 {
        match state {
            State::Queued => &mut self.queued,
            State::Running | State::Cancelling => &mut self.running,
            State::Done => &mut self.done,
            State::Failed => &mut self.failed,
            State::Cancelled => &mut self.cancelled,
        }
    }
}

/// A file that a client sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct File {
    /// Its id.
    pub id: Uuid,
    /// The client.
    #[serde(skip)]
    pub owner: String,
    /// The name that the client gave.
    pub name: String,
    /// The size in bytes.
    pub bytes: u64,
    /// The SHA-256 in hexadecimal.
    pub sha256: String,
    /// When it arrived, in milliseconds since 1970.
    pub created: Millis,
}

/// The files that clients sent, in numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileCounts {
    /// Bytes of all clients.
    pub bytes: u64,
    /// Bytes of one client.
    pub own_bytes: u64,
    /// Files of this client.
    pub own_files: u64,
}

// ANCHOR: store
/// The queue and the state of all jobs.
pub trait Store: Send + Sync + 'static {
    /// Stores a job. The answer comes when it is safe on disk.
    fn put(&self, job: NewJob) -> StoreFuture<'_, Put>;
    /// Returns the job of an idempotency key of a client.
    fn keyed(&self, owner: String, key: String) -> StoreFuture<'_, Option<Job>>;
    /// Takes the next job for a worker.
    fn claim(&self, claim: Claim) -> StoreFuture<'_, Option<Job>>;
    /// Extends a lease to `until` from now, and stores news.
    fn extend(&self, lease: Lease, length: Duration, news: News) -> StoreFuture<'_, LeaseState>;
    /// Ends an attempt; false if the lease was lost, then nothing is stored.
    fn finish(&self, lease: Lease, end: End) -> StoreFuture<'_, bool>;
    /// Asks for the end of a job; returns the new state, `None` for an unknown id.
    fn cancel(&self, id: Uuid) -> StoreFuture<'_, Option<State>>;
    // ANCHOR_END: store
    /// Puts a job that failed or was cancelled back into the queue, also one that was put away; false if it
    /// is in another state.
    fn retry(&self, id: Uuid) -> StoreFuture<'_, bool>;
    /// Returns a job.
    fn get(&self, id: Uuid) -> StoreFuture<'_, Lookup>;
    /// Returns jobs, newest first. Everything that was answered before is in the list.
    fn list(&self, selection: Selection) -> StoreFuture<'_, Vec<Job>>;
    /// Returns the number of queued jobs that come before a queued one.
    fn ahead(&self, id: Uuid) -> StoreFuture<'_, Option<u64>>;
    /// Returns the numbers of jobs, of all clients or of one. Everything that was answered before is in them.
    fn counts(&self, owner: Option<String>) -> StoreFuture<'_, Counts>;
    /// Returns the numbers of jobs that wait, of all clients and of one, as exact as [`Store::counts`].
    fn waiting(&self, owner: String) -> StoreFuture<'_, [u64; 2]>;
    /// Returns the events of a job after number `after`.
    fn events(&self, id: Uuid, after: u64) -> StoreFuture<'_, Vec<JobEvent>>;
    /// Changes the words about a job; false for an unknown id. A change that makes the job too large is refused.
    fn mark(&self, id: Uuid, marks: Marks) -> StoreFuture<'_, bool>;
    /// Returns jobs of lost workers to the queue or ends them; returns their ids.
    fn sweep(&self) -> StoreFuture<'_, Vec<Uuid>>;
    /// Takes all jobs from a worker whose process ended; returns their ids. With `is_loss` it counts as for
    /// a lease that ran out; without it, as for a job that was released.
    fn abandon(&self, worker: String, is_loss: bool) -> StoreFuture<'_, Vec<Uuid>>;
    /// Returns ended jobs that may be removed: older than `before`, put away before `deleted_before`,
    /// or the oldest while all results are larger than `bytes`.
    fn expired(
        &self,
        before: Millis,
        deleted_before: Millis,
        bytes: u64,
    ) -> StoreFuture<'_, Vec<Job>>;
    /// Removes a job; its id stays known as forgotten. The results must be removed before.
    fn forget(&self, id: Uuid) -> StoreFuture<'_, bool>;
    /// Stores the description of a file that a client sent.
    fn put_file(&self, file: File) -> StoreFuture<'_, ()>;
    /// Returns the description of a file.
    fn file(&self, id: Uuid) -> StoreFuture<'_, Option<File>>;
    /// Returns at most `limit` files of a client after file `after`, oldest first.
    fn files(&self, owner: String, after: Option<Uuid>, limit: u32) -> StoreFuture<'_, Vec<File>>;
    /// Returns the numbers of files of all clients and of one.
    fn stored(&self, owner: String) -> StoreFuture<'_, FileCounts>;
    /// Returns files that are older than `before`.
    fn old_files(&self, before: Millis) -> StoreFuture<'_, Vec<File>>;
    /// Removes the description of a file.
    fn forget_file(&self, id: Uuid) -> StoreFuture<'_, ()>;
    /// Returns a stored setting; null for none.
    fn setting(&self, name: &'static str) -> StoreFuture<'_, Value>;
    /// Changes a stored setting in one step, whichever process changes it besides, and returns the new value.
    fn change_setting(&self, name: &'static str, change: SettingUpdate) -> StoreFuture<'_, Value>;
    /// Returns a receiver of the ids of jobs that changed, by this process or another.
    fn changes(&self) -> broadcast::Receiver<Uuid>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_that_could_not_be_stored_comes_before_later_news() {
        let progress = |done| Some(Progress { done, ..Progress::default() });
        let news = |text: &str, progress, resolved: Option<&str>| News {
            progress,
            notices: vec![text.to_owned()],
            resolved: resolved.map(Value::from),
        };
        let mut later = news("b", progress(2), None);
        later.restore(news("a", progress(1), Some("r")));
        assert_eq!(later.notices, ["a", "b"]);
        assert_eq!((later.progress, later.resolved), (progress(2), Some(Value::from("r"))));
    }
}
