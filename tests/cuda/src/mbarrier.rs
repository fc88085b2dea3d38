//! Barriers in shared memory: they count arrivals and bytes.
//!
//! Source: NVIDIA, "Parallel Thread Execution ISA", "Parallel synchronization and communication: mbarrier".

/// The contents of a barrier, in 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mbarrier {
    phase: bool,
    expected: u32,
    pending: u32,
    /// Bytes that were announced and did not arrive.
    bytes: i64,
}

const COUNT: u32 = 20;
const BYTES: u32 = 22;

impl Mbarrier {
    pub(crate) fn new(expected: u32) -> Self {
        Self { phase: false, expected, pending: expected, bytes: 0 }
    }

    pub(crate) fn from_bits(bits: u64) -> Self {
        let count = |at: u32| (bits >> at) as u32 & ((1 << COUNT) - 1);
        // The sign is in the highest bit.
        let bytes = ((bits >> (2 * COUNT)) << (64 - BYTES)) as i64 >> (64 - BYTES);
        Self { phase: bits >> 63 == 1, expected: count(0), pending: count(COUNT), bytes }
    }

    pub(crate) fn bits(self) -> u64 {
        u64::from(self.phase) << 63
            | (self.bytes as u64 & ((1 << BYTES) - 1)) << (2 * COUNT)
            | u64::from(self.pending) << COUNT
            | u64::from(self.expected)
    }

    /// Arrives `count` times.
    ///
    /// # Errors
    /// More arrivals than the barrier expects.
    pub(crate) fn arrive(&mut self, count: u32) -> Result<(), String> {
        self.pending = self
            .pending
            .checked_sub(count)
            .ok_or("an mbarrier has more arrivals than it expects")?;
        self.end();
        Ok(())
    }

    pub(crate) fn expect(&mut self, bytes: u32) {
        self.bytes += i64::from(bytes);
    }

    pub(crate) fn complete(&mut self, bytes: u32) {
        self.bytes -= i64::from(bytes);
        self.end();
    }

    /// True if the phase of this parity has ended.
    pub(crate) fn has_ended(self, parity: bool) -> bool {
        self.phase != parity
    }

    /// The parity of the phase that has not ended.
    pub(crate) fn phase(self) -> bool {
        self.phase
    }

    fn end(&mut self) {
        if self.pending == 0 && self.bytes == 0 {
            self.phase = !self.phase;
            self.pending = self.expected;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_ends_after_all_arrivals_and_bytes() {
        let mut barrier = Mbarrier::new(2);
        assert!(barrier.has_ended(true) && !barrier.has_ended(false));
        barrier.expect(1000);
        barrier.arrive(2).expect("two are expected");
        assert!(!barrier.has_ended(false), "bytes are missing");
        barrier = Mbarrier::from_bits(barrier.bits());
        barrier.complete(400);
        barrier = Mbarrier::from_bits(barrier.bits());
        barrier.complete(600);
        assert!(barrier.has_ended(false) && !barrier.has_ended(true));
        // Bytes may arrive before they are announced.
        barrier.complete(16);
        barrier = Mbarrier::from_bits(barrier.bits());
        barrier.expect(16);
        barrier.arrive(2).expect("the next phase expects two again");
        assert!(barrier.has_ended(true));
        assert!(barrier.arrive(3).is_err());
    }
}
