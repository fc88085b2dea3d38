//! Exact conversion of seconds to latent frames.
//!
//! `frames = floor(seconds x sample rate / hop)`, 25 per second for the released models.

/// Returns the number of whole latent frames in `seconds`.
///
/// A frame that lacks a tenth of a sample or less is counted: 1.16 x 25 is 28.999999999999996 in
/// f64 although the user means 29 frames, and other programs write only six digits.
///
/// `hop` is the number of samples of one frame.
// ANCHOR: frames
pub fn frames_from_seconds(seconds: f64, sample_rate: u32, hop: usize) -> usize {
    let tenths = (seconds * f64::from(sample_rate) * 10.0).round() as u128;
    let frames = (tenths + 1) / (hop as u128 * 10);
    usize::try_from(frames).unwrap_or(usize::MAX)
}
// ANCHOR_END: frames

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_odd_length_up_to_a_minute_has_floor_of_25_a_second() {
        // In milliseconds, so that the expectation is exact.
        for ms in (1000u64..=60_000).step_by(7).chain((1000..=60_000).step_by(40)) {
            let expected = (ms * 25 / 1000) as usize;
            assert_eq!(frames_from_seconds(ms as f64 / 1000.0, 48_000, 1920), expected, "{ms} ms");
        }
    }

    #[test]
    fn floating_point_dust_costs_no_frame() {
        assert_eq!(1.16 * 25.0, 28.999999999999996);
        assert_eq!(frames_from_seconds(1.16, 48_000, 1920), 29);
        assert_eq!(frames_from_seconds(0.1 + 0.2 + 0.74, 48_000, 1920), 26);
        // A twentieth of a sample is missing, then half a sample.
        assert_eq!(frames_from_seconds(1.159_999, 48_000, 1920), 29);
        assert_eq!(frames_from_seconds(1.159_99, 48_000, 1920), 28);
    }
}
