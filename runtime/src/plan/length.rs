//! Seconds to latent frames, exactly.
//!
//! `frames = floor(seconds x sample rate / hop)`, 25 a second for the released models.

/// Latent frames in `seconds`, cut: whole frames only.
///
/// Seconds are taken to the nearest microsecond first, because 1.16 x 25 is
/// 28.999999999999996 in f64 although 29 frames were asked for.
///
/// `hop` is the number of samples of one frame.
// ANCHOR: frames
pub fn frames_from_seconds(seconds: f64, sample_rate: u32, hop: usize) -> usize {
    let microseconds = (seconds * 1e6).round() as u128;
    let frames = microseconds * u128::from(sample_rate) / (hop as u128 * 1_000_000);
    usize::try_from(frames).unwrap_or(usize::MAX)
}
// ANCHOR_END: frames

/// Samples of the silent song that upstream makes for a duration: tenths of a second, at least
/// one, and Python's arithmetic (33.33 s gives 1 598 399).
///
/// Upstream's own lengths come from here; ours from [`frames_from_seconds`].
pub fn upstream_target_samples(seconds: f64, sample_rate: u32) -> usize {
    // Rust rounds decimals half to even on the exact value, as Python's `round` does.
    let tenths: f64 = format!("{seconds:.1}").parse().expect("a formatted number");
    (tenths.max(0.1) * f64::from(sample_rate)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_goldens::golden_json;

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
        assert_eq!(frames_from_seconds(1.159_999, 48_000, 1920), 28);
    }

    /// Golden: `dit_prompts.json`, `create_target_wavs`.
    #[test]
    fn upstreams_own_lengths_are_reproduced() {
        let golden = golden_json("a/logic/dit_prompts.json");
        for case in golden["create_target_wavs_frames"].as_array().expect("cases") {
            let seconds = case["sec"].as_f64().expect("seconds");
            let expected = case["frames"].as_u64().expect("frames") as usize;
            assert_eq!(upstream_target_samples(seconds, 48_000), expected, "{seconds}");
        }
    }
}
