//! The mel spectrogram of a voice.
//!
//! Frames of 1024 samples every 256, Hann window, magnitudes, 128 triangles of Slaney's scale and
//! norm from 0 Hz to 12 kHz, logarithm. The signal is reflected at its ends.
//!
//! Source: upstream `mel_spectrogram`; librosa's `filters.mel`; Slaney 1998, "Auditory Toolbox".

use std::f64::consts::PI;

use acestep_engine::audio::fft;

/// Samples per second of the signal.
pub const SAMPLE_RATE: u32 = 24_000;
/// Samples of a window.
const WINDOW: usize = 1024;
/// Samples between two frames.
const HOP: usize = 256;
/// Samples that are reflected at each end.
const REFLECTED: usize = (WINDOW - HOP) / 2;
/// The smallest energy of a band.
const LEAST: f32 = 1e-5;
/// Added to the squared magnitude.
const EPSILON: f32 = 1e-9;

/// The fewest samples that can be reflected at both ends.
pub const LEAST_SAMPLES: usize = REFLECTED + 1;

/// Returns the number of frames of a signal.
pub fn frames_of(samples: usize) -> usize {
    (samples + 2 * REFLECTED).saturating_sub(WINDOW - HOP) / HOP
}

/// Returns the logarithm of the energy of each band over time, `[bands][frames]` row-major.
///
/// # Panics
/// If there are fewer than [`LEAST_SAMPLES`] samples.
pub fn spectrogram(samples: &[f32], bands: usize) -> Vec<f32> {
    assert!(samples.len() >= LEAST_SAMPLES, "{} samples are too few", samples.len());
    let last = samples.len() - 1;
    let before = (1..=REFLECTED).rev().map(|back| samples[back]);
    let after = (1..=REFLECTED).map(|back| samples[last - back]);
    let signal: Vec<f32> = before.chain(samples.iter().copied()).chain(after).collect();
    let window: Vec<f32> = (0..WINDOW)
        .map(|i| (0.5 - 0.5 * (2.0 * PI * i as f64 / WINDOW as f64).cos()) as f32)
        .collect();
    let filters = filters(bands);
    let transform = fft::forward(WINDOW);
    let (mut input, mut output) = (transform.make_input_vec(), transform.make_output_vec());
    let frames = frames_of(samples.len());
    let mut mel = vec![0.0; bands * frames];
    for frame in 0..frames {
        let part = &signal[frame * HOP..][..WINDOW];
        for ((to, sample), weight) in input.iter_mut().zip(part).zip(&window) {
            *to = sample * weight;
        }
        transform.process(&mut input, &mut output).expect("the buffers have the plan's lengths");
        let magnitudes: Vec<f32> =
            output.iter().map(|bin| (bin.norm_sqr() + EPSILON).sqrt()).collect();
        for (band, (first, weights)) in filters.iter().enumerate() {
            let bins = magnitudes[*first..].iter().zip(weights);
            let energy: f32 = bins.map(|(magnitude, weight)| magnitude * weight).sum();
            mel[band * frames + frame] = energy.max(LEAST).ln();
        }
    }
    mel
}

/// Returns the first bin of each band and the weights from there on.
fn filters(bands: usize) -> Vec<(usize, Vec<f32>)> {
    // Linear up to 1 kHz (15 mel), logarithmic above.
    let step = 6.4f64.ln() / 27.0;
    let hertz = |mel: f64| match mel < 15.0 {
        true => mel * 200.0 / 3.0,
        false => 1000.0 * ((mel - 15.0) * step).exp(),
    };
    let highest = f64::from(SAMPLE_RATE) / 2.0;
    let top = 15.0 + (highest / 1000.0).ln() / step;
    let edge = |index: usize| hertz(top * index as f64 / (bands + 1) as f64);
    let bins = WINDOW / 2;
    let band = |band: usize| {
        let [low, centre, high] = [0, 1, 2].map(|side| edge(band + side));
        let weight = |bin: usize| {
            let at = highest * bin as f64 / bins as f64;
            let triangle = ((at - low) / (centre - low)).min((high - at) / (high - centre));
            (triangle.max(0.0) * 2.0 / (high - low)) as f32
        };
        let weights: Vec<f32> = (0..=bins).map(weight).collect();
        let first = weights.iter().position(|&weight| weight > 0.0).unwrap_or(0);
        let end = weights.iter().rposition(|&weight| weight > 0.0).map_or(0, |last| last + 1);
        (first, weights[first..end.max(first)].to_vec())
    };
    (0..bands).map(band).collect()
}

/// Returns the weights of each band for all bins, `[bands][bins]` row-major.
pub fn filterbank(bands: usize) -> Vec<f32> {
    let bins = WINDOW / 2 + 1;
    let mut all = vec![0.0; bands * bins];
    for (band, (first, weights)) in filters(bands).into_iter().enumerate() {
        all[band * bins + first..][..weights.len()].copy_from_slice(&weights);
    }
    all
}
