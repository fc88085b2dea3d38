//! Any sound to the sound the VAE hears: two channels at its rate, within `[-1, 1]`.
//!
//! One channel is doubled; of more than two the first two are kept, as upstream does. The rate is
//! changed by rubato's FFT resampler, whose output is neither late nor longer than its input.
//!
//! Upstream: `_normalize_audio_to_stereo_48k`. Its filter (torchaudio's default, six zero crossings)
//! is shorter, so above some 15 kHz its samples differ from these.

use rubato::{
    Fft, FixedSync, Resampler, WindowFunction, audioadapter_buffers::direct::SequentialSliceOfVecs,
};

use super::Audio;
use crate::Error;

/// Samples of the input that one block of the FFT takes in, at least. The filter is as long: from
/// 44.1 kHz all below 21.5 kHz passes unchanged, and to 48 kHz nothing above 24 kHz folds back.
const BLOCK: usize = 1024;

/// Two channels at `rate`, within `[-1, 1]`.
///
/// `S` samples become `ceil(S rate / audio.sample_rate)`; at the same rate they stay as they are.
///
/// # Errors
/// [`Error::Conflict`] if the audio has no channels, channels of different lengths, or a rate of 0.
pub fn to_stereo(audio: &Audio, rate: u32) -> Result<Audio, Error> {
    let problem = |why: &str| Error::Conflict(format!("this audio cannot be resampled: {why}"));
    let heard = &audio.channels[..audio.channels.len().min(2)];
    if heard.is_empty() {
        return Err(problem("it has no channels"));
    }
    if heard.iter().any(|channel| channel.len() != audio.samples()) {
        return Err(problem("its channels have different lengths"));
    }
    if audio.sample_rate == 0 || rate == 0 {
        return Err(problem("a rate of 0"));
    }
    let mut channels = if audio.sample_rate == rate {
        heard.to_vec()
    } else {
        resampled(heard, audio.sample_rate, rate).map_err(|why| problem(&why))?
    };
    for sample in channels.iter_mut().flatten() {
        *sample = sample.clamp(-1.0, 1.0);
    }
    if let [only] = &channels[..] {
        channels = vec![only.clone(), only.clone()];
    }
    Ok(Audio { channels, sample_rate: rate })
}

/// Channels of one length at another rate.
fn resampled(channels: &[Vec<f32>], from: u32, to: u32) -> Result<Vec<Vec<f32>>, String> {
    let (samples, count) = (channels[0].len(), channels.len());
    if samples == 0 {
        return Ok(channels.to_vec());
    }
    let (from, to) = (from as usize, to as usize);
    // A block is a whole number of samples on both sides. An even one, because the middle of the
    // filter would lie between two samples otherwise, and the sound come half a sample late.
    let unit = from / greatest_common_divisor(from, to);
    let block = 2 * unit * BLOCK.div_ceil(2 * unit);
    let window = WindowFunction::BlackmanHarris2;
    let mut resampler = Fft::<f32>::new_custom(from, to, block, 1, count, window, FixedSync::Both)
        .map_err(|e| e.to_string())?;
    let room = resampler.process_all_needed_output_len(samples);
    let mut output = vec![vec![0.0; room]; count];
    let source = SequentialSliceOfVecs::new(channels, count, samples).map_err(|e| e.to_string())?;
    let mut sink =
        SequentialSliceOfVecs::new_mut(&mut output, count, room).map_err(|e| e.to_string())?;
    // This trims the filter's delay from the start.
    resampler
        .process_all_into_buffer(&source, &mut sink, samples, None)
        .map_err(|e| e.to_string())?;
    // The resampler multiplies by a rounded ratio, which may give one sample too many.
    let wanted = (samples as u128 * to as u128).div_ceil(from as u128) as usize;
    output.iter_mut().for_each(|channel| channel.truncate(wanted));
    Ok(output)
}

fn greatest_common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use std::f64::consts::TAU;

    use super::*;

    fn sine(rate: u32, hertz: f64, samples: usize) -> Vec<f32> {
        let step = TAU * hertz / f64::from(rate);
        (0..samples).map(|i| (0.5 * (step * i as f64).sin()) as f32).collect()
    }

    fn mono(rate: u32, samples: Vec<f32>) -> Audio {
        Audio { channels: vec![samples], sample_rate: rate }
    }

    /// The largest difference from a sine, leaving out `edge` samples at both ends, where the
    /// filter sees the silence around the sound.
    fn error(audio: &Audio, hertz: f64, edge: usize) -> f32 {
        let ideal = sine(audio.sample_rate, hertz, audio.samples());
        let middle = edge..audio.samples() - edge;
        let pairs = audio.channels[0][middle.clone()].iter().zip(&ideal[middle]);
        pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
    }

    /// In phase and of the same height: a delay of a hundredth of a sample would be 6e-4 off.
    #[test]
    fn a_sine_stays_the_same_sine() {
        for rate in [8_000, 11_025, 22_050, 32_000, 44_100, 47_999, 96_000, 192_000] {
            let samples = rate as usize / 2 + 7;
            let audio = to_stereo(&mono(rate, sine(rate, 1000.0, samples)), 48_000).expect("sound");
            assert_eq!(audio.samples(), (samples * 48_000).div_ceil(rate as usize), "{rate}");
            // 47 999 Hz has blocks of a second, the filter of which reaches further.
            let edge = if rate == 47_999 { 11_000 } else { 4_000 };
            let error = error(&audio, 1000.0, edge);
            assert!(error < 2e-5, "{rate} Hz: {error}");
        }
    }

    #[test]
    fn a_second_is_a_second() {
        for rate in [8_000, 22_050, 44_100, 88_200, 96_000] {
            let second = mono(rate, vec![0.1; rate as usize]);
            assert_eq!(to_stereo(&second, 48_000).expect("sound").samples(), 48_000, "{rate}");
        }
        assert_eq!(to_stereo(&mono(44_100, vec![]), 48_000).expect("sound").samples(), 0);
        assert_eq!(to_stereo(&mono(44_100, vec![0.5]), 48_000).expect("sound").samples(), 2);
    }

    #[test]
    fn a_constant_keeps_its_height() {
        let audio = to_stereo(&mono(44_100, vec![0.25; 20_000]), 48_000).expect("sound");
        let middle = &audio.channels[0][4_000..16_000];
        let off = middle.iter().map(|x| (x - 0.25).abs()).fold(0.0, f32::max);
        assert!(off < 1e-6, "{off}");
    }

    #[test]
    fn what_the_lower_rate_cannot_hold_is_gone() {
        let audio =
            to_stereo(&mono(96_000, sine(96_000, 24_100.0, 48_000)), 48_000).expect("sound");
        let middle = &audio.channels[0][4_000..20_000];
        assert!(middle.iter().all(|x| x.abs() < 1e-6));
        let audio =
            to_stereo(&mono(44_100, sine(44_100, 21_500.0, 44_100)), 48_000).expect("sound");
        assert!(error(&audio, 21_500.0, 4_000) < 2e-6);
    }

    #[test]
    fn at_the_same_rate_nothing_but_the_range_changes() {
        let channels = vec![vec![0.1, -1.5, 1e-30], vec![1.0, 2.0, -0.0]];
        let audio = to_stereo(&Audio { channels, sample_rate: 48_000 }, 48_000).expect("sound");
        assert_eq!(audio.channels, [[0.1, -1.0, 1e-30], [1.0, 1.0, 0.0]]);
    }

    #[test]
    fn one_channel_is_doubled_and_of_six_two_are_kept() {
        let one = to_stereo(&mono(48_000, vec![0.5, 0.25]), 48_000).expect("sound");
        assert_eq!(one.channels, [[0.5, 0.25], [0.5, 0.25]]);
        let channels = (0..6).map(|i| vec![i as f32 / 10.0]).collect();
        let six = to_stereo(&Audio { channels, sample_rate: 48_000 }, 48_000).expect("sound");
        assert_eq!(six.channels, [[0.0], [0.1]]);
    }

    #[test]
    fn what_is_no_sound_is_an_error() {
        for (channels, rate) in
            [(vec![], 44_100), (vec![vec![0.0; 2], vec![0.0; 3]], 44_100), (vec![vec![0.0]], 0)]
        {
            let audio = Audio { channels, sample_rate: rate };
            assert!(matches!(to_stereo(&audio, 48_000), Err(Error::Conflict(_))));
        }
    }
}
