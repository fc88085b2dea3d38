//! Fade in and fade out.
//!
//! Source: upstream `apply_fade` (`np.linspace`, both ends included).

use super::Audio;

/// Fades in over the first `seconds.0` and out over the last `seconds.1`, linearly. The outermost
/// sample becomes 0, and the innermost sample of each slope stays unchanged. A slope is at most as
/// long as the song.
pub fn fade(audio: &mut Audio, seconds: (f64, f64)) {
    let (rate, samples) = (f64::from(audio.sample_rate), audio.samples());
    // Halves are rounded to even, as in Python.
    let length = |s: f64| ((s * rate).round_ties_even() as usize).min(samples);
    let (inwards, outwards) = (length(seconds.0), length(seconds.1));
    for channel in &mut audio.channels {
        channel[..inwards].iter_mut().enumerate().for_each(|(i, x)| *x *= slope(i, inwards));
        let last = &mut channel[samples - outwards..];
        last.iter_mut().rev().enumerate().for_each(|(i, x)| *x *= slope(i, outwards));
    }
}

/// Returns value `i` of `n` values from 0 to 1; 0 if there is only one. (Upstream's fade out of a
/// single sample, `linspace(1, 0, 1)`, would keep it.)
fn slope(i: usize, n: usize) -> f32 {
    if n < 2 { 0.0 } else { (i as f64 / (n - 1) as f64) as f32 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_include_their_ends_and_end_with_the_song() {
        for (seconds, expected) in [
            // `linspace(0, 1, 5)` for the first five samples and `linspace(1, 0, 3)` for the last three.
            ((0.5, 0.3), &[0.0_f32, 0.25, 0.5, 0.75, 1.0, 1.0, 1.0, 1.0, 0.5, 0.0][..]),
            ((0.0, 0.0), &[1.0; 4]),
            ((9.0, 0.0), &[0.0, 0.5, 1.0]),
            // They meet.
            ((9.0, 9.0), &[0.0, 0.25, 0.0]),
            ((0.1, 0.0), &[0.0, 1.0, 1.0]),
            ((1.0, 1.0), &[]),
            // 0.25 s at 10 Hz are 2.5 samples, which Python rounds to 2.
            ((0.25, 0.0), &[0.0, 1.0, 1.0, 1.0]),
            ((0.35, 0.0), &[0.0, 1.0 / 3.0, 2.0 / 3.0, 1.0]),
        ] {
            let channels = vec![vec![1.0; expected.len()]; 2];
            let mut audio = Audio { channels, sample_rate: 10 };
            fade(&mut audio, seconds);
            assert_eq!(audio.channels, [expected, expected], "{seconds:?}");
        }
    }
}
