//! Converts any sound to the input of a network: for songs two channels at the VAE's rate, within
//! `[-1, 1]`; for speech one channel.
//!
//! Two channels: one channel is doubled; of more than two the first two are kept, as upstream does. One
//! channel: the mean of all, in any range, as speech models read their recordings. The
//! resampling filter is torchaudio's with its defaults, because the networks were trained on its
//! output. It is a sinc of six zero crossings on each side under a Hann window, with a cutoff at
//! 0.99 of the lower rate's Nyquist frequency,
//!
//! ```text
//! y[n] = sum over i of x[i] h((i / from - n / to) b)     b = 0.99 min(from, to)
//! h(t) = (b / from) sinc(t) cos^2(pi t / 12)             for |t| < 6, else 0
//! ```
//!
//! with the rates divided by their greatest common divisor. This code equals that sum to 4.5e-8.
//! torchaudio's `Resample` rounds `n / to` to f32, so its own samples differ by up to 4.4e-6 at the
//! usual rates; see the tests. (A flatter filter would differ more: at 44.1 kHz this one reduces a
//! sine of 10 kHz by 1e-3, and one of 20 kHz by half.)
//!
//! Source: `torchaudio.functional.resample` (`_get_sinc_resample_kernel`); upstream
//! `_normalize_audio_to_stereo_48k`.

mod stream;

use std::{f64::consts::PI, ops::RangeInclusive};

pub(super) use self::stream::Stream;
use super::Audio;
use crate::{Error, Observe, Unobserved};

/// The plausible sample rates. A file with another one has a damaged header, and the filter of such a rate can
/// fill any memory.
pub(super) const RATES: RangeInclusive<u32> = 1_000..=768_000;

/// Zero crossings of the filter on each side (torchaudio's `lowpass_filter_width`).
const CROSSINGS: f64 = 6.0;

/// Cutoff of the filter, relative to the lower rate's Nyquist frequency.
const ROLLOFF: f64 = 0.99;

/// Converts `audio` to two channels at `rate`, within `[-1, 1]`.
///
/// `S` samples become `ceil(S rate / audio.sample_rate)`; at the same rate they stay unchanged.
///
/// # Errors
/// [`Error::Conflict`] if the audio has no channels, channels of different lengths, or an implausible
/// rate; [`Error::Cancelled`].
pub fn to_stereo(audio: &Audio, rate: u32, observe: &dyn Observe) -> Result<Audio, Error> {
    let input = &audio.channels[..audio.channels.len().min(2)];
    check(input)?;
    let stream = Stream::new(input.len(), [audio.sample_rate, rate], true)?;
    Ok(Audio { channels: stream.whole(input.to_vec(), observe)?, sample_rate: rate })
}

/// Returns the mean of all channels of `audio` at `rate`. Samples beyond `[-1, 1]` stay.
///
/// The length is as in [`to_stereo`].
///
/// # Errors
/// [`Error::Conflict`], as in [`to_stereo`].
pub fn to_mono(audio: &Audio, rate: u32) -> Result<Vec<f32>, Error> {
    check(&audio.channels)?;
    let count = audio.channels.len() as f32;
    let mean = |i: usize| audio.channels.iter().map(|channel| channel[i]).sum::<f32>() / count;
    let mean = (0..audio.samples()).map(mean).collect();
    let stream = Stream::new(1, [audio.sample_rate, rate], false)?;
    Ok(stream.whole(vec![mean], &Unobserved)?.swap_remove(0))
}

/// Returns an error unless there are channels of one length.
fn check(channels: &[Vec<f32>]) -> Result<(), Error> {
    let Some(first) = channels.first() else { return Err(problem("it has no channels")) };
    match channels.iter().all(|channel| channel.len() == first.len()) {
        true => Ok(()),
        false => Err(problem("its channels have different lengths")),
    }
}

fn problem(why: &str) -> Error {
    Error::Conflict(format!("this audio cannot be resampled: {why}"))
}

/// Two rates, divided by their greatest common divisor.
#[derive(Debug, Clone, Copy)]
pub struct Ratio {
    /// Input samples of one period.
    pub from: usize,
    /// Output samples of one period.
    pub to: usize,
}

impl Ratio {
    /// The ratio of two rates, which are above 0.
    pub fn new(from: u32, to: u32) -> Self {
        let divisor = greatest_common_divisor(from, to);
        Self { from: (from / divisor) as usize, to: (to / divisor) as usize }
    }

    /// Returns the number of output samples of `inputs` input samples.
    pub fn samples(self, inputs: usize) -> usize {
        (inputs as u128 * self.to as u128).div_ceil(self.from as u128) as usize
    }
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// Returns the sum of `taps` times the input samples from sample `start` on. `input` begins at sample
/// `passed`; before the first sample and after the last one is silence.
pub fn filtered<T: Copy + Into<f64>>(
    taps: &[T],
    start: isize,
    input: &[f32],
    passed: usize,
) -> f32 {
    // Skip the taps before the first sample.
    let before = usize::try_from(-start).unwrap_or(0).min(taps.len());
    let input = &input[input.len().min(start.max(0) as usize - passed)..];
    let products = taps[before..].iter().zip(input);
    products.map(|(&tap, &x)| Into::<f64>::into(tap) * f64::from(x)).sum::<f64>() as f32
}

/// Returns `sin(pi t) / (pi t)`, 1 at 0.
pub fn sinc(t: f64) -> f64 {
    if t == 0.0 { 1.0 } else { (PI * t).sin() / (PI * t) }
}

/// The filter, sampled at every phase of an output sample between two input samples.
struct Filter {
    ratio: Ratio,
    /// One set of taps for each output sample of a period.
    phases: Vec<Phase>,
}

/// The taps of one output sample.
struct Phase {
    /// Index of the first input sample, relative to the start of the period.
    first: isize,
    taps: Vec<f32>,
}

impl Filter {
    fn new(from: u32, to: u32) -> Self {
        let ratio = Ratio::new(from, to);
        let Ratio { from, to } = ratio;
        let cutoff = ROLLOFF * from.min(to) as f64;
        // Six zero crossings, in input samples.
        let reach = CROSSINGS / cutoff * from as f64;
        let phase = |n: usize| {
            let place = n as f64 / to as f64 * from as f64;
            let (first, last) = ((place - reach).ceil() as isize, (place + reach).floor() as isize);
            let tap = |i: isize| {
                let t = (i as f64 / from as f64 - n as f64 / to as f64) * cutoff;
                (cutoff / from as f64 * windowed_sinc(t)) as f32
            };
            Phase { first, taps: (first..=last).map(tap).collect() }
        };
        Self { ratio, phases: (0..to).map(phase).collect() }
    }

    /// Returns the first input sample of output sample `n`, and its taps.
    fn taps(&self, n: usize) -> (isize, &[f32]) {
        let Ratio { from, to } = self.ratio;
        let Phase { first, taps } = &self.phases[n % to];
        ((n / to * from) as isize + first, taps)
    }

    /// Returns output sample `n` of a channel; `input` are its samples from `passed` on.
    fn sample(&self, n: usize, input: &[f32], passed: usize) -> f32 {
        let (start, taps) = self.taps(n);
        filtered(taps, start, input, passed)
    }
}

/// Returns `sinc(t) cos^2(pi t / 12)`, 0 from six zero crossings on.
fn windowed_sinc(t: f64) -> f64 {
    if t.abs() >= CROSSINGS {
        return 0.0;
    }
    sinc(t) * (PI * t / (2.0 * CROSSINGS)).cos().powi(2)
}

#[cfg(test)]
pub(super) mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::CancelIf;

    pub(super) fn to_stereo(audio: &Audio, rate: u32) -> Result<Audio, Error> {
        super::to_stereo(audio, rate, &Unobserved)
    }

    fn mono(rate: u32, samples: Vec<f32>) -> Audio {
        Audio { channels: vec![samples], sample_rate: rate }
    }

    /// Deterministic noise of full amplitude.
    pub(in crate::audio) fn noise(samples: usize) -> Vec<f32> {
        let mut state = 7u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state as f32 / 2f32.powi(31) - 1.0
        };
        (0..samples).map(|_| next()).collect()
    }

    /// torchaudio's own steps and names: a kernel of `[new, 2 width + orig]` taps, then a
    /// convolution with stride `orig` over the padded sound. `phase` gives the times of a period,
    /// which its `Resample` computes in f32.
    fn torchaudio(x: &[f32], from: u32, to: u32, phase: impl Fn(usize, usize) -> f64) -> Vec<f64> {
        let Ratio { from: orig, to: new } = Ratio::new(from, to);
        let base = orig.min(new) as f64 * 0.99;
        let width = (6.0 * orig as f64 / base).ceil() as usize;
        let kernel = |j: usize, i: usize| {
            let index = (i as f64 - width as f64) / orig as f64;
            let t = ((phase(j, new) + index) * base).clamp(-6.0, 6.0);
            let window = (t * PI / 6.0 / 2.0).cos().powi(2);
            let t = t * PI;
            (if t == 0.0 { 1.0 } else { t.sin() / t }) * window * base / orig as f64
        };
        let padded: Vec<f64> = std::iter::repeat_n(0.0, width)
            .chain(x.iter().map(|&x| f64::from(x)))
            .chain(std::iter::repeat_n(0.0, width + orig))
            .collect();
        let kernels: Vec<Vec<f64>> =
            (0..new).map(|j| (0..2 * width + orig).map(|i| kernel(j, i)).collect()).collect();
        let mut output = Vec::new();
        for start in (0..=padded.len() - 2 * width - orig).step_by(orig) {
            output.extend(kernels.iter().map(|kernel| {
                kernel.iter().zip(&padded[start..]).map(|(a, b)| a * b).sum::<f64>()
            }));
        }
        output.truncate((new * x.len()).div_ceil(orig));
        output
    }

    fn largest_difference(ours: &[f32], theirs: &[f64]) -> f64 {
        assert_eq!(ours.len(), theirs.len());
        let pairs = ours.iter().zip(theirs);
        pairs.map(|(&a, b)| (f64::from(a) - b).abs()).fold(0.0, f64::max)
    }

    /// Noise, which is the hardest input, including its ends. The second difference comes from
    /// torchaudio's f32 times.
    #[test]
    fn every_rate_is_torchaudios_sum() {
        for rate in [8_000, 11_025, 16_000, 22_050, 32_000, 44_100, 88_200, 96_000, 192_000] {
            // Below full amplitude, so that nothing is clamped.
            let x: Vec<f32> = noise(2_000).iter().map(|x| 0.45 * x).collect();
            let ours = to_stereo(&mono(rate, x.clone()), 48_000).expect("sound");
            let exact = torchaudio(&x, rate, 48_000, |j, new| -(j as f64) / new as f64);
            let rounded = |j: usize, new: usize| f64::from(-(j as f32) / new as f32);
            let rounded = torchaudio(&x, rate, 48_000, rounded);
            let (exact, rounded) = (
                largest_difference(&ours.channels[0], &exact),
                largest_difference(&ours.channels[0], &rounded),
            );
            assert!(exact < 6e-8, "{rate} Hz: {exact:e}");
            assert!(rounded < 5e-6, "{rate} Hz: {rounded:e}");
        }
    }

    #[test]
    fn a_second_is_a_second() {
        for rate in [8_000, 22_050, 44_100, 47_999, 88_200, 96_000] {
            let second = mono(rate, vec![0.1; rate as usize]);
            assert_eq!(to_stereo(&second, 48_000).expect("sound").samples(), 48_000, "{rate}");
        }
        assert_eq!(to_stereo(&mono(44_100, vec![]), 48_000).expect("sound").samples(), 0);
        assert_eq!(to_stereo(&mono(44_100, vec![0.5]), 48_000).expect("sound").samples(), 2);
    }

    #[test]
    fn at_the_same_rate_nothing_but_the_range_changes() {
        let channels = vec![vec![0.1, -1.5, 1e-30], vec![1.0, 2.0, -0.0]];
        let audio = to_stereo(&Audio { channels, sample_rate: 48_000 }, 48_000).expect("sound");
        assert_eq!(audio.channels, [[0.1, -1.0, 1e-30], [1.0, 1.0, 0.0]]);
    }

    /// Four channels whose first sample is beyond full scale: (1.5 + 2.5 + 1 + 3) / 4 = 2, and
    /// (1 - 1 + 0.5 - 2.5) / 4 = -0.5. At another rate the mean of the resampled channels is the same.
    #[test]
    fn one_channel_is_the_mean_of_all_and_is_not_clipped() {
        let channels = vec![vec![1.5, 1.0], vec![2.5, -1.0], vec![1.0, 0.5], vec![3.0, -2.5]];
        let audio = Audio { channels, sample_rate: 24_000 };
        assert_eq!(to_mono(&audio, 24_000).expect("sound"), [2.0, -0.5]);
        assert_eq!(to_mono(&mono(24_000, vec![-1.25]), 24_000).expect("sound"), [-1.25]);

        let channels: Vec<Vec<f32>> =
            (1..=4).map(|k| noise(900).iter().map(|x| k as f32 * x).collect()).collect();
        let audio = Audio { channels, sample_rate: 16_000 };
        let ours = to_mono(&audio, 24_000).expect("sound");
        // (1 + 2 + 3 + 4) / 4.
        let times: Vec<f32> = noise(900).iter().map(|x| 2.5 * x).collect();
        let exact = torchaudio(&times, 16_000, 24_000, |j, new| -(j as f64) / new as f64);
        assert!(largest_difference(&ours, &exact) < 1e-6);
        assert!(exact.iter().any(|x| x.abs() > 1.5), "the sound is beyond full scale");
    }

    /// 600,000 samples of each channel are three times 2^18 or less.
    #[test]
    fn a_long_song_is_cancelled_while_it_is_resampled() {
        let song = Audio { channels: vec![vec![0.5; 300_000]; 2], sample_rate: 24_000 };
        let run = |last| {
            let checks = Cell::new(0);
            super::to_stereo(&song, 48_000, &CancelIf(|| checks.replace(checks.get() + 1) == last))
        };
        assert!(matches!(run(5), Err(Error::Cancelled)));
        assert_eq!(run(6).expect("six checks").samples(), 600_000);
    }

    #[test]
    fn what_is_no_sound_is_an_error() {
        let one = vec![vec![0.0]];
        for (channels, rate) in [
            (vec![], 44_100),
            (vec![vec![0.0; 2], vec![0.0; 3]], 44_100),
            (one.clone(), 0),
            (one.clone(), 999),
            (one, 4_000_000_007),
        ] {
            let audio = Audio { channels, sample_rate: rate };
            assert!(matches!(to_stereo(&audio, 48_000), Err(Error::Conflict(_))));
            assert!(matches!(to_mono(&audio, 48_000), Err(Error::Conflict(_))));
        }
    }
}
