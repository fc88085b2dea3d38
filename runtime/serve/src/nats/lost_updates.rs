//! Changes of this process that another change overwrote.
//!
//! A cluster of NATS before 2.9.21 compares the expected revision only before it replicates a message. So
//! it can accept two changes that arrive within the same milliseconds (nats-server, issue 4320); newer
//! servers can do it while they choose a leader (issue 8469). Both writers read a yes, and the later
//! change overwrites the earlier one. Each record names the revision that it was made from, so a process
//! sees that its change is missing, and makes it again.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use uuid::Uuid;

use super::record::Record;

/// Time after which a change is not overwritten any more: longer than a cluster needs for a leader.
const SAFE: Duration = Duration::from_secs(120);

/// A change that can be made again.
pub(super) struct Work {
    /// Makes it; false if the job must stay as it is.
    pub(super) run: Box<dyn FnMut(&mut Record) -> bool + Send>,
    /// The rule for a job that it makes too large.
    pub(super) large: Large,
}

/// The rule for a job that a change makes too large for a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Large {
    /// The job fails: each later change would be too large again.
    Ends,
    /// The change is refused, and the job stays.
    Stays,
}

struct Made {
    revision: u64,
    at: Instant,
    work: Work,
    is_missing: bool,
}

/// The newest change of each job that this process made a short time ago.
#[derive(Default)]
pub(super) struct RecentChanges(Mutex<HashMap<Uuid, Made>>);

impl RecentChanges {
    /// Remembers the change that wrote `revision`.
    pub(super) fn made(&self, id: Uuid, revision: u64, work: Work) {
        let mut all = self.0.lock();
        all.retain(|_, made| made.is_missing || made.at.elapsed() < SAFE);
        all.insert(id, Made { revision, at: Instant::now(), work, is_missing: false });
    }

    /// Compares with a state of a job that was made from the revision `from`.
    pub(super) fn compare(&self, id: Uuid, revision: u64, from: u64) {
        if let Some(made) = self.0.lock().get_mut(&id)
            && revision > made.revision
            && from < made.revision
        {
            made.is_missing = true;
        }
    }

    /// Takes the changes out that are missing.
    pub(super) fn missing(&self) -> Vec<(Uuid, Work)> {
        let missing = self.0.lock().extract_if(|_, made| made.is_missing).collect::<Vec<_>>();
        missing.into_iter().map(|(id, made)| (id, made.work)).collect()
    }

    /// Puts a change back that could not be made again.
    pub(super) fn put_back(&self, id: Uuid, work: Work) {
        let made = Made { revision: 0, at: Instant::now(), work, is_missing: true };
        self.0.lock().entry(id).or_insert(made);
    }
}
