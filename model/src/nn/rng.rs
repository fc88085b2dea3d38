//! Reproducible choices for tests.

/// The generator xorshift64*; the seed is not 0.
pub(super) struct Rng(pub(super) u64);

impl Rng {
    /// Returns one of `choices`.
    pub(super) fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        choices[(self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % choices.len()]
    }
}
