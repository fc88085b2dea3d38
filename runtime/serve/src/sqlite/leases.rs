//! The clock of leases.
//!
//! The file has the end of a lease by the clock of the machine. That clock may jump: a laptop sleeps, or
//! its time is corrected. So a process that looks reads the end of a lease once. Then it counts with the
//! steady clock, which stands still while the machine sleeps, as the worker does.
//! The end is within two bounds, which no jump moves. A lease that is new at this look was written after
//! the last look, so it lasts at least its length from then, and at most its length from now.

use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};

use uuid::Uuid;

use crate::job::Millis;

#[derive(Debug, Clone, Copy)]
pub(super) struct Written {
    pub(super) id: Uuid,
    /// Its end by the clock of the machine.
    pub(super) until: Millis,
    pub(super) length: Duration,
}

/// Leases that were seen, and when they end by the steady clock.
#[derive(Debug, Default)]
pub(super) struct Leases {
    ends: HashMap<Uuid, (Millis, Instant)>,
    last: Option<Instant>,
}

impl Leases {
    /// Looks at all leases of running jobs; returns the jobs whose lease is over. `wall` and `steady` are
    /// the present time on both clocks.
    pub(super) fn over(
        &mut self,
        running: &[Written],
        wall: Millis,
        steady: Instant,
    ) -> HashSet<Uuid> {
        let mut ends = HashMap::with_capacity(running.len());
        for lease in running {
            let known = self.ends.get(&lease.id).filter(|(until, _)| *until == lease.until);
            let end = known.map_or_else(|| self.end(lease, wall, steady), |(_, end)| *end);
            ends.insert(lease.id, (lease.until, end));
        }
        self.ends = ends;
        self.last = Some(steady);
        let over = self.ends.iter().filter(|(_, (_, end))| *end <= steady);
        over.map(|(id, _)| *id).collect()
    }

    /// The end of a lease that is new at this look.
    fn end(&self, lease: &Written, wall: Millis, steady: Instant) -> Instant {
        let rest = Duration::from_millis(u64::try_from(lease.until - wall).unwrap_or(0));
        let end = steady + rest.min(lease.length);
        self.last.map_or(end, |last| end.max(last + lease.length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lease of a minute that was written at a time of the machine's clock.
    fn written(id: Uuid, at: Millis) -> Written {
        Written { id, until: at + 60_000, length: Duration::from_secs(60) }
    }

    #[test]
    fn a_jump_of_the_machines_clock_ends_no_lease_and_makes_none_longer() {
        let (mut leases, id, start) = (Leases::default(), Uuid::now_v7(), Instant::now());
        let mut is_over = |written, wall, seconds| {
            !leases.over(&[written], wall, start + Duration::from_secs(seconds)).is_empty()
        };
        assert!(!is_over(written(id, 0), 0, 0));
        // Extended after the last look; then the machine slept for an hour.
        assert!(!is_over(written(id, 1000), 3_601_000, 2));
        assert!(!is_over(written(id, 3_605_000), 3_605_000, 6));
        // The clock goes back by an hour: the end comes all the same.
        assert!(!is_over(written(id, 3_605_000), 5_000, 65));
        assert!(is_over(written(id, 3_605_000), 6_000, 66));
    }

    #[test]
    fn a_job_that_was_claimed_just_before_the_machine_slept_stays_with_its_worker() {
        let (mut leases, start) = (Leases::default(), Instant::now());
        assert!(leases.over(&[], 0, start).is_empty());
        let job = written(Uuid::now_v7(), 1000);
        assert!(leases.over(&[job], 3_600_000, start + Duration::from_secs(2)).is_empty());
        assert_eq!(leases.over(&[job], 3_660_000, start + Duration::from_secs(60)).len(), 1);
    }

    #[test]
    fn a_lease_from_before_a_clock_that_went_back_is_no_longer_than_its_length() {
        let (mut leases, start) = (Leases::default(), Instant::now());
        let job = written(Uuid::now_v7(), 3_600_000);
        assert!(leases.over(&[job], 0, start).is_empty());
        assert_eq!(leases.over(&[job], 60_000, start + Duration::from_secs(60)).len(), 1);
    }

    #[test]
    fn a_lease_that_ended_before_it_was_seen_is_over_at_once() {
        let job = written(Uuid::now_v7(), 0);
        assert_eq!(Leases::default().over(&[job], 61_000, Instant::now()).len(), 1);
    }
}
