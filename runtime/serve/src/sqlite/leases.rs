//! The clock of leases.
//!
//! The file says until when a lease lasts, by the clock of the machine. That clock may jump: a laptop
//! sleeps, or its time is corrected. So a process that looks takes the rest of a lease from it once, and
//! then counts with the steady clock, which stands still while the machine sleeps, as the worker does.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use uuid::Uuid;

use crate::job::Millis;

/// Leases that were seen, and when they end by the steady clock.
#[derive(Debug, Default)]
pub(super) struct Leases {
    ends: HashMap<Uuid, (Millis, Instant)>,
}

impl Leases {
    /// True if a lease that lasts until `until` by the clock of the machine is over. `wall` and `steady`
    /// are the present time on both clocks.
    pub(super) fn is_over(
        &mut self,
        id: Uuid,
        until: Millis,
        wall: Millis,
        steady: Instant,
    ) -> bool {
        let rest = || Duration::from_millis(u64::try_from(until - wall).unwrap_or(0));
        let seen = self.ends.entry(id).or_insert_with(|| (until, steady + rest()));
        if seen.0 != until {
            // It was extended.
            *seen = (until, steady + rest());
        }
        seen.1 <= steady
    }

    /// Forgets leases of jobs that do not run.
    pub(super) fn keep(&mut self, is_running: impl Fn(Uuid) -> bool) {
        self.ends.retain(|id, _| is_running(*id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jump_of_the_machines_clock_ends_no_lease_and_makes_none_longer() {
        let (mut leases, id, start) = (Leases::default(), Uuid::now_v7(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(!leases.is_over(id, 60_000, 0, at(0)));
        // The machine slept for an hour; the worker extends a little later.
        assert!(!leases.is_over(id, 60_000, 3_600_000, at(1)));
        assert!(!leases.is_over(id, 3_660_000, 3_605_000, at(6)));
        // The clock goes back by an hour: the end comes all the same.
        assert!(!leases.is_over(id, 3_660_000, 5_000, at(60)));
        assert!(leases.is_over(id, 3_660_000, 6_000, at(61)));
    }

    #[test]
    fn a_lease_that_ended_before_it_was_seen_is_over_at_once() {
        let mut leases = Leases::default();
        assert!(leases.is_over(Uuid::now_v7(), 1000, 2000, Instant::now()));
    }
}
