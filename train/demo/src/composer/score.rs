//! Notes on a grid of ticks.

use super::instrument::Instrument;

/// Ticks per beat; 24 is divisible into sixteenths and triplets.
pub const TICKS_PER_BEAT: u32 = 24;

/// Ticks per sixteenth note, the grid of all patterns.
pub(super) const TICKS_PER_STEP: u32 = TICKS_PER_BEAT / 4;

/// One note of one part.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Note {
    /// Index of the part (stem) that plays it.
    pub part: usize,
    /// The instrument.
    pub instrument: Instrument,
    /// Start in ticks from the start of the piece.
    pub start: u32,
    /// Length in ticks; ignored for drums.
    pub length: u32,
    /// MIDI pitch, 69 = 440 Hz; 0 for drums.
    pub pitch: u8,
    /// Loudness; 1 on a full beat.
    pub velocity: f32,
}

/// Returns the sample of a tick, rounded.
///
/// `sample = tick * 60 * 48000 / (24 * bpm)`, in integers so that errors do not accumulate.
pub fn sample_from_tick(tick: u32, bpm: u32) -> usize {
    let numerator = u64::from(tick) * 60 * 48_000;
    let denominator = u64::from(TICKS_PER_BEAT) * u64::from(bpm);
    ((numerator + denominator / 2) / denominator) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beats_fall_on_their_samples() {
        assert_eq!(sample_from_tick(24, 60), 48_000);
        assert_eq!(sample_from_tick(24, 120), 24_000);
        // 10 beats at 174 bpm: 10 * 60 / 174 * 48000 = 165517.24.
        assert_eq!(sample_from_tick(240, 174), 165_517);
    }
}
