//! All jobs in memory, as this process last saw them.
//!
//! A watch of the bucket keeps it fresh. It may be behind by the time of a message; each change names the
//! revision that it is based on, so one that was based on an old state is refused by the server.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use async_nats::jetstream::kv;
use parking_lot::Mutex;
use tokio::sync::broadcast;
use uuid::Uuid;

use super::{
    follow::Follower,
    lost_updates::RecentChanges,
    parsed,
    record::{Record, Stored},
};
use crate::{
    job::{Millis, State, millis, now},
    store::{Claim, Counts, Selection},
};

/// Jobs whose mean time is reported.
const RECENT: usize = 20;

/// A job, its revision, and when this process first saw that revision.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) revision: u64,
    pub(super) stored: Arc<Stored>,
    at: Instant,
}

impl Seen {
    /// The job, if it was not removed.
    pub(super) fn record(&self) -> Option<&Record> {
        match &*self.stored {
            Stored::Job(record) => Some(record),
            Stored::Forgotten(_) => None,
        }
    }

    fn is_lost(&self, connected: Instant) -> bool {
        let lease = self.record().map_or(0, |record| record.lease);
        let end = self.at.max(connected).checked_add(Duration::from_millis(lease));
        end.is_some_and(|end| end < Instant::now())
    }
}

#[derive(Debug, Default)]
struct Jobs {
    all: BTreeMap<Uuid, Seen>,
    queue: BTreeSet<(Reverse<i64>, Uuid)>,
    running: BTreeSet<Uuid>,
    ended: BTreeSet<(Millis, Uuid)>,
    /// Numbers and sizes by client and state.
    tally: HashMap<(String, State), (u64, u64)>,
}

pub(super) struct Mirror {
    jobs: Mutex<Jobs>,
    /// Time of the last connection of this process: leases count from then at the earliest.
    connected: Mutex<Instant>,
    changes: broadcast::Sender<Uuid>,
    pub(super) own: RecentChanges,
}

impl Mirror {
    pub(super) fn new(changes: broadcast::Sender<Uuid>) -> Self {
        let connected = Mutex::new(Instant::now());
        Self { jobs: Mutex::default(), connected, changes, own: RecentChanges::default() }
    }

    /// The ids of jobs that change from now on.
    pub(super) fn subscribe(&self) -> broadcast::Receiver<Uuid> {
        self.changes.subscribe()
    }

    /// Begins all leases again: while the connection was lost, nobody could extend one.
    pub(super) fn connected(&self) {
        *self.connected.lock() = Instant::now();
    }

    /// Takes a state over if it is newer, and reports the change.
    pub(super) fn apply(&self, id: Uuid, revision: u64, stored: Stored) {
        if let Stored::Job(record) = &stored {
            self.own.compare(id, revision, record.from);
        }
        let seen = Seen { revision, stored: Arc::new(stored), at: Instant::now() };
        if self.jobs.lock().put(id, seen) {
            // Nobody may be listening.
            let _ = self.changes.send(id);
        }
    }

    pub(super) fn get(&self, id: Uuid) -> Option<Seen> {
        self.jobs.lock().all.get(&id).cloned()
    }

    /// The next job of a model that a worker has: by priority, then jobs of the resident model and jobs that waited too
    /// long, then by age.
    pub(super) fn next(&self, claim: &Claim) -> Option<Uuid> {
        let jobs = self.jobs.lock();
        let patient = now().saturating_sub(millis(claim.patience));
        let mut best: Option<(i64, Uuid)> = None;
        let mut has = claim.has.asked();
        for (Reverse(priority), id) in &jobs.queue {
            if best.is_some_and(|(of_best, _)| of_best != *priority) {
                break;
            }
            let Some(record) = jobs.all.get(id).and_then(Seen::record) else { continue };
            let is_left = claim.except.contains(id) || !claim.kinds.contains(&record.kind);
            if is_left || !has(record.model.as_deref()) {
                continue;
            }
            let is_other = claim.resident.is_some()
                && record.model != claim.resident
                && record.created > patient;
            if !is_other {
                return Some(*id);
            }
            best = best.or(Some((*priority, *id)));
        }
        best.map(|(_, id)| id)
    }

    /// Jobs whose lease ran out by the clock of this process, which counts from the last change that it
    /// saw, with the names of those changes. The clocks of workers do not matter.
    pub(super) fn lost(&self) -> Vec<(Uuid, Uuid)> {
        let (jobs, connected) = (self.jobs.lock(), *self.connected.lock());
        let running = jobs.running.iter().filter_map(|id| jobs.all.get(id));
        let lost = running.filter(|seen| seen.is_lost(connected)).filter_map(Seen::record);
        lost.map(|record| (record.id, record.write)).collect()
    }

    pub(super) fn of_worker(&self, worker: &str) -> Vec<Uuid> {
        let jobs = self.jobs.lock();
        let running = jobs.running.iter().filter_map(|id| jobs.all.get(id)?.record());
        let its = running.filter(|record| record.worker.as_deref() == Some(worker));
        its.map(|record| record.id).collect()
    }

    /// True if the lease of a job ran out.
    pub(super) fn is_lost(&self, id: Uuid) -> bool {
        let (jobs, connected) = (self.jobs.lock(), *self.connected.lock());
        jobs.all.get(&id).is_some_and(|seen| seen.is_lost(connected))
    }

    /// Jobs of a selection, newest first.
    pub(super) fn list(&self, selection: &Selection) -> Vec<Seen> {
        let jobs = self.jobs.lock();
        let before = selection.before.unwrap_or(Uuid::max());
        let fits = |record: &Record| {
            selection.owner.as_ref().is_none_or(|owner| *owner == record.owner)
                && (selection.states.is_empty() || selection.states.contains(&record.state))
                && (selection.kinds.is_empty() || selection.kinds.contains(&record.kind))
                && record.deleted.is_some() == selection.deleted
        };
        let newest = jobs.all.range(..before).rev().map(|(_, seen)| seen);
        let fit = newest.filter(|seen| seen.record().is_some_and(fits));
        fit.take(selection.limit as usize).cloned().collect()
    }

    /// The number of jobs before a queued one.
    pub(super) fn ahead(&self, id: Uuid) -> Option<u64> {
        let jobs = self.jobs.lock();
        let record = jobs.all.get(&id)?.record()?;
        (record.state == State::Queued)
            .then(|| jobs.queue.range(..(Reverse(record.priority), id)).count() as u64)
    }

    pub(super) fn counts(&self, owner: Option<&str>) -> Counts {
        let jobs = self.jobs.lock();
        let mut counts = Counts::default();
        for ((of, state), (number, bytes)) in &jobs.tally {
            if owner.is_some_and(|owner| owner != of) {
                continue;
            }
            *counts.number(*state) += number;
            counts.bytes += bytes;
        }
        let newest = jobs.ended.iter().rev().filter_map(|(_, id)| jobs.all.get(id)?.record());
        let times = newest
            .filter(|record| record.state == State::Done)
            .filter_map(|record| Some(record.ended? - record.started?))
            .take(RECENT);
        let times: Vec<Millis> = times.collect();
        if !times.is_empty() {
            let sum: Millis = times.iter().sum();
            counts.mean_seconds = Some(sum as f64 / 1000.0 / times.len() as f64);
        }
        counts
    }

    /// The numbers of jobs that wait, of all clients and of one.
    pub(super) fn waiting(&self, owner: &str) -> [u64; 2] {
        let jobs = self.jobs.lock();
        let queued = jobs.tally.iter().filter(|((_, state), _)| *state == State::Queued);
        queued.fold([0; 2], |[all, own], ((of, _), (number, _))| {
            [all + number, own + if of == owner { *number } else { 0 }]
        })
    }

    /// Ended jobs that may be removed.
    pub(super) fn expired(&self, before: Millis, deleted: Millis, bytes: u64) -> Vec<Seen> {
        let jobs = self.jobs.lock();
        let mut newer: u64 = 0;
        // From the newest down: those beyond the limit go.
        let ended = jobs.ended.iter().rev().filter_map(|(_, id)| jobs.all.get(id));
        let gone = ended.filter(|seen| {
            let Some(record) = seen.record() else { return false };
            newer = newer.saturating_add(record.bytes());
            record.ended.is_some_and(|ended| ended < before)
                || record.deleted.is_some_and(|at| at < deleted)
                || newer > bytes
        });
        gone.cloned().collect()
    }
}

impl Follower for Mirror {
    fn take(&self, entry: &kv::Entry) {
        match (Uuid::parse_str(&entry.key), parsed(&entry.value)) {
            (Ok(id), Ok(stored)) => self.apply(id, entry.revision, stored),
            // A newer version of the program may write what this one cannot read.
            _ => tracing::warn!(key = entry.key, "a job of the queue cannot be read"),
        }
    }
}

impl Jobs {
    /// False for a state that is not newer.
    fn put(&mut self, id: Uuid, seen: Seen) -> bool {
        let old = self.all.get(&id);
        if old.is_some_and(|old| old.revision >= seen.revision) {
            return false;
        }
        if let Some(old) = old.cloned() {
            self.index(&old, false);
        }
        self.index(&seen, true);
        self.all.insert(id, seen);
        true
    }

    /// Adds a job to the indices, or takes it out.
    fn index(&mut self, seen: &Seen, is_new: bool) {
        let Some(record) = seen.record() else { return };
        let slot = self.tally.entry((record.owner.clone(), record.state)).or_default();
        if is_new {
            *slot = (slot.0 + 1, slot.1 + record.bytes());
        } else {
            *slot = (slot.0.saturating_sub(1), slot.1.saturating_sub(record.bytes()));
        }
        set(&mut self.queue, (Reverse(record.priority), record.id), {
            is_new && record.state == State::Queued
        });
        let is_running = matches!(record.state, State::Running | State::Cancelling);
        set(&mut self.running, record.id, is_new && is_running);
        if let Some(ended) = record.ended {
            set(&mut self.ended, (ended, record.id), is_new && record.state.is_ended());
        }
    }
}

fn set<T: Ord>(set: &mut BTreeSet<T>, value: T, is_in: bool) {
    if is_in {
        set.insert(value);
    } else {
        set.remove(&value);
    }
}
