//! Jobs that do not fit into the memory of this worker.
//!
//! Such a job goes back into the queue once, for a worker with more memory, and this one leaves it alone for
//! a while. If it finds the job again, no other worker took it, and the job fails. So a job without any worker
//! that is large enough ends, after one attempt for each worker and one more.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use uuid::Uuid;

use crate::{job::JobError, store::End};

/// The most jobs that are remembered. One that was forgotten may go back once more.
const MOST: usize = 4096;

/// The jobs that a worker gave back, oldest first.
#[derive(Debug, Default)]
pub(super) struct Refused(VecDeque<(Uuid, Instant)>);

impl Refused {
    /// Jobs that were given back less than `wait` ago.
    pub(super) fn recent(&self, wait: Duration) -> Vec<Uuid> {
        let newest = self.0.iter().rev().take_while(|(_, at)| at.elapsed() < wait);
        newest.map(|(id, _)| *id).collect()
    }

    /// The end of an attempt whose job does not fit.
    pub(super) fn end(&mut self, id: Uuid, error: JobError) -> End {
        if let Some(index) = self.0.iter().position(|(own, _)| *own == id) {
            self.0.remove(index);
            let nobody = "no worker with more memory took the job";
            let hint = match &error.hint {
                Some(hint) => format!("{nobody}; {hint}"),
                None => nobody.to_owned(),
            };
            return End::Failed(error.hint(hint), Vec::new());
        }
        tracing::warn!(reason = error.message, "the job waits for a worker with more memory");
        if self.0.len() >= MOST {
            self.0.pop_front();
        }
        self.0.push_back((id, Instant::now()));
        End::Released
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_goes_back_once_and_then_fails_with_both_hints() {
        let mut refused = Refused::default();
        let error = || JobError::new("out_of_memory", "too large").hint("make it shorter");
        let (one, other) = (Uuid::now_v7(), Uuid::now_v7());
        assert!(matches!(refused.end(one, error()), End::Released));
        assert!(matches!(refused.end(other, error()), End::Released));
        assert_eq!(refused.recent(Duration::from_secs(3600)), [other, one]);
        assert!(refused.recent(Duration::ZERO).is_empty());
        let End::Failed(failed, _) = refused.end(one, error()) else { panic!("again") };
        assert_eq!(failed.code, "out_of_memory");
        let hint = "no worker with more memory took the job; make it shorter";
        assert_eq!(failed.hint.as_deref(), Some(hint));
        assert_eq!(refused.recent(Duration::from_secs(3600)), [other]);
        // Its client sent it again.
        assert!(matches!(refused.end(one, error()), End::Released));
    }
}
