//! Input of the listener: two borrowed channels of 48 kHz samples.

/// Sample rate of all input, in Hz.
pub const RATE: f64 = 48_000.0;

/// A stereo song, borrowed; full scale is `-1..=1`.
#[derive(Debug, Clone, Copy)]
pub struct Sound<'a> {
    /// Samples of the left channel.
    pub left: &'a [f32],
    /// Samples of the right channel. If the lengths differ, only the common part is used.
    pub right: &'a [f32],
}

impl<'a> Sound<'a> {
    /// Borrows the channels of a song.
    pub fn new(left: &'a [f32], right: &'a [f32]) -> Self {
        Self { left, right }
    }

    /// Returns the length in seconds.
    pub fn seconds(&self) -> f64 {
        self.left.len().min(self.right.len()) as f64 / RATE
    }

    /// Returns the mid channel, the mean of both. NaN and infinity become 0.
    pub(super) fn mid(&self) -> Vec<f32> {
        self.mixed(|left, right| 0.5 * (left + right))
    }

    /// Returns the side channel, half the difference. NaN and infinity become 0.
    pub(super) fn side(&self) -> Vec<f32> {
        self.mixed(|left, right| 0.5 * (left - right))
    }

    fn mixed(&self, mix: impl Fn(f32, f32) -> f32) -> Vec<f32> {
        let finite = |sample: f32| if sample.is_finite() { sample } else { 0.0 };
        self.left.iter().zip(self.right).map(|(&l, &r)| mix(finite(l), finite(r))).collect()
    }
}

impl<'a> From<&'a [Vec<f32>; 2]> for Sound<'a> {
    fn from([left, right]: &'a [Vec<f32>; 2]) -> Self {
        Self { left, right }
    }
}
