//! A job as it lies in the bucket, and the changes of its life. Nothing here talks to the server.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    job::{Content, Job, JobError, JobEvent, Kind, Millis, NewJob, Output, Progress, State, now},
    store::{Claim, End, Lease, LeaseState, MOST_LOSSES, Marks, News},
};

/// The reason of a job whose record does not fit into a message.
pub(super) const TOO_LARGE: &str = "the job is too large for a message of NATS";

/// The value of a key: a job, or the time at which it was removed. A removed job keeps its key, so its
/// id is never used again.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Stored {
    Job(Box<Record>),
    Forgotten(Millis),
}

/// JSON that is here, or too large for a message: then it is an object with this name.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Text {
    Here(Value),
    Far(String),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) id: Uuid,
    pub(super) kind: Kind,
    pub(super) model: Option<String>,
    pub(super) state: State,
    pub(super) request: Text,
    pub(super) resolved: Option<Text>,
    pub(super) owner: String,
    /// The key of the idempotency key, if there is one.
    pub(super) only: Option<String>,
    #[serde(default)]
    fingerprints: Vec<String>,
    pub(super) priority: i64,
    pub(super) created: Millis,
    pub(super) started: Option<Millis>,
    pub(super) ended: Option<Millis>,
    pub(super) attempts: u32,
    /// Workers that it lost.
    #[serde(default)]
    losses: u32,
    pub(super) worker: Option<String>,
    /// Length of the lease, in milliseconds. It begins with each change of the record.
    pub(super) lease: u64,
    pub(super) progress: Progress,
    pub(super) notices: Vec<String>,
    pub(super) error: Option<JobError>,
    pub(super) outputs: Vec<Output>,
    pub(super) title: Option<String>,
    pub(super) liked: bool,
    pub(super) tags: Vec<String>,
    pub(super) deleted: Option<Millis>,
    /// Events; of progress only the newest.
    events: Vec<JobEvent>,
    /// The number of the last event.
    last: u64,
    /// Names the change that wrote this, so that a writer whose answer was lost knows it.
    pub(super) write: Uuid,
    /// The revision that the change was made from; 0 for a new job.
    #[serde(default)]
    pub(super) from: u64,
}

fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

impl Record {
    pub(super) fn new(id: Uuid, new: NewJob, request: Text, only: Option<String>) -> Self {
        let mut record = Self {
            id,
            kind: new.kind,
            model: new.model,
            state: State::Queued,
            request,
            resolved: None,
            owner: new.owner,
            only,
            fingerprints: new.fingerprints,
            priority: new.priority,
            created: now(),
            started: None,
            ended: None,
            attempts: 0,
            losses: 0,
            worker: None,
            lease: 0,
            progress: Progress::default(),
            notices: new.notices,
            error: None,
            outputs: Vec::new(),
            title: new.title,
            liked: false,
            tags: Vec::new(),
            deleted: None,
            events: Vec::new(),
            last: 0,
            write: Uuid::now_v7(),
            from: 0,
        };
        record.enter(State::Queued);
        for notice in record.notices.clone() {
            record.event("notice", json!({ "text": notice }));
        }
        record
    }

    pub(super) fn job(&self, request: Value, resolved: Option<Value>) -> Job {
        let record = self.clone();
        Job {
            id: record.id,
            kind: record.kind,
            model: record.model,
            state: record.state,
            request,
            resolved,
            owner: record.owner,
            fingerprints: record.fingerprints,
            priority: record.priority,
            created: record.created,
            started: record.started,
            ended: record.ended,
            attempts: record.attempts,
            worker: record.worker,
            // No clock that is written down decides over a lease.
            lease_until: None,
            progress: record.progress,
            notices: record.notices,
            error: record.error,
            outputs: record.outputs,
            title: record.title,
            liked: record.liked,
            tags: record.tags,
            deleted: record.deleted,
        }
    }

    /// The size of the results.
    pub(super) fn bytes(&self) -> u64 {
        self.outputs.iter().map(|output| output.bytes).sum()
    }

    pub(super) fn events(&self, after: u64) -> Vec<JobEvent> {
        self.events.iter().filter(|event| event.n > after).cloned().collect()
    }

    fn event(&mut self, name: &str, data: Value) {
        if name == "progress" {
            self.forget_progress();
        }
        self.last += 1;
        self.events.push(JobEvent { n: self.last, name: name.to_owned(), data });
    }

    fn forget_progress(&mut self) {
        self.events.retain(|event| event.name != "progress");
    }

    fn enter(&mut self, state: State) {
        self.state = state;
        self.event("state", json!({ "state": state, "at": now() }));
    }

    /// Begins an attempt; false if the job does not wait.
    pub(super) fn claim(&mut self, claim: &Claim) -> bool {
        if self.state != State::Queued {
            return false;
        }
        self.worker = Some(claim.worker.clone());
        self.attempts += 1;
        self.started = Some(now());
        self.lease = millis(claim.lease);
        self.progress = Progress::default();
        self.error = None;
        self.enter(State::Running);
        true
    }

    /// True if `lease` is still valid.
    fn is_held(&self, lease: &Lease) -> bool {
        matches!(self.state, State::Running | State::Cancelling)
            && self.worker.as_ref() == Some(&lease.worker)
            && self.attempts == lease.attempt
    }

    /// Extends a lease, and stores news; none if it was lost.
    pub(super) fn extend(
        &mut self,
        lease: &Lease,
        length: Duration,
        news: &News,
        resolved: Option<&Text>,
    ) -> Option<LeaseState> {
        if !self.is_held(lease) {
            return None;
        }
        self.lease = millis(length);
        if let Some(progress) = &news.progress {
            self.progress = progress.clone();
            self.event("progress", json!(progress));
        }
        if let Some(resolved) = resolved {
            self.resolved = Some(resolved.clone());
        }
        for notice in &news.notices {
            // An attempt of before may have told it.
            if self.notices.contains(notice) {
                continue;
            }
            self.notices.push(notice.clone());
            self.event("notice", json!({ "text": notice }));
        }
        Some(if self.state == State::Cancelling { LeaseState::Cancel } else { LeaseState::Yes })
    }

    /// Ends an attempt; false if its lease was lost.
    pub(super) fn finish(&mut self, lease: &Lease, end: End) -> bool {
        if !self.is_held(lease) {
            return false;
        }
        match end {
            End::Done(outputs) => self.end(State::Done, None, outputs),
            End::Failed(error, outputs) => self.end(State::Failed, Some(error), outputs),
            End::Cancelled(outputs) => self.end(State::Cancelled, None, outputs),
            End::Released => return self.release(),
        }
        true
    }

    /// Takes the job from a worker that shuts down; false if none has it.
    fn release(&mut self) -> bool {
        match self.state {
            State::Cancelling => self.end(State::Cancelled, None, Vec::new()),
            State::Running => self.back(),
            _ => return false,
        }
        true
    }

    /// Takes the job from a worker whose process ended; false if it does not have it.
    pub(super) fn abandon(&mut self, worker: &str, is_loss: bool) -> bool {
        let is_its = self.worker.as_deref() == Some(worker);
        is_its && if is_loss { self.lose() } else { self.release() }
    }

    /// Puts the job back into the queue. Its attempts stay counted: a number that returns would let a
    /// worker of before change the job.
    fn back(&mut self) {
        self.worker = None;
        self.started = None;
        self.ended = None;
        self.error = None;
        self.enter(State::Queued);
    }

    fn end(&mut self, state: State, error: Option<JobError>, outputs: Vec<Output>) {
        self.state = state;
        self.ended = Some(now());
        let sounds = outputs.iter().filter(|output| output.content == Content::Audio);
        let tracks: Vec<Value> = sounds
            .map(|out| json!({ "track": out.track, "name": out.name, "seed": out.seed }))
            .collect();
        for track in tracks {
            self.event("track", track);
        }
        self.event("end", json!({ "state": state, "error": error }));
        self.forget_progress();
        self.error = error;
        self.outputs = outputs;
    }

    /// The record of a job that ends because no change of it fits into a message; none if it has ended. It
    /// is small, because only the words about a job make a record large.
    pub(super) fn refused(&self) -> Option<Self> {
        if self.state.is_ended() {
            return None;
        }
        let (title, tags, notices, events) = (None, Vec::new(), Vec::new(), Vec::new());
        let mut refused = Self { title, tags, notices, events, ..self.clone() };
        let hint = "its title, tags and notices were removed: it may run again without them";
        let error = JobError::new("too_large", TOO_LARGE).hint(hint);
        refused.end(State::Failed, Some(error), Vec::new());
        Some(refused)
    }

    /// Asks for the end; false if nothing changes.
    pub(super) fn cancel(&mut self) -> bool {
        match self.state {
            State::Queued => self.end(State::Cancelled, None, Vec::new()),
            State::Running => self.enter(State::Cancelling),
            _ => return false,
        }
        true
    }

    /// Puts a job that failed or was cancelled back into the queue; false for another one.
    pub(super) fn retry(&mut self) -> bool {
        let may = matches!(self.state, State::Failed | State::Cancelled) && self.outputs.is_empty();
        if may {
            // They would end the stream of events.
            self.events.retain(|event| event.name != "end" && event.name != "track");
            self.losses = 0;
            // A job that was put away and runs again is looked at again.
            self.deleted = None;
            self.back();
        }
        may
    }

    /// Takes the job from a worker that was lost; false if none has it.
    pub(super) fn lose(&mut self) -> bool {
        match self.state {
            State::Cancelling => self.end(State::Cancelled, None, Vec::new()),
            State::Running => {
                self.losses += 1;
                if self.losses >= MOST_LOSSES {
                    let error = JobError::worker_lost(self.losses);
                    self.end(State::Failed, Some(error), Vec::new());
                } else {
                    self.back();
                }
            }
            _ => return false,
        }
        true
    }

    /// Changes the words about the job.
    pub(super) fn mark(&mut self, marks: &Marks) {
        if let Some(title) = &marks.title {
            self.title = Some(title.clone()).filter(|title| !title.is_empty());
        }
        self.liked = marks.liked.unwrap_or(self.liked);
        if let Some(tags) = &marks.tags {
            self.tags.clone_from(tags);
        }
        if let Some(deleted) = marks.deleted {
            self.deleted = deleted.then(now);
        }
    }
}
