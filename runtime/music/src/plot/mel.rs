//! The mel spectrogram: loudness of frequency bands over time.
//!
//! Bands have equal width in mel, the scale of perceived pitch. A band's energy is the sum of the
//! short-time Fourier transform between its edges.
//!
//! Source: Stevens, Volkmann & Newman 1937; the formula of O'Shaughnessy 1987.

use std::ops::Range;

use acestep_engine::audio::{Audio, fft};

/// Highest frequency of the plot.
pub(super) const TOP: f64 = 20_000.0;

/// Samples per window: 85 ms at 48 kHz, frequencies 12 Hz apart.
const WINDOW: usize = 4096;

/// Maximum number of windows per column; the columns of a long song skip the others evenly.
const MOST_WINDOWS: usize = 8;

/// Range in decibels, from the darkest to the brightest.
const RANGE: f32 = 80.0;

/// A song whose loudest value is below this is not brightened.
const QUIETEST: f32 = -50.0;

pub(super) fn from_hertz(hertz: f64) -> f64 {
    2595.0 * (1.0 + hertz / 700.0).log10()
}

pub(super) fn to_hertz(mel: f64) -> f64 {
    700.0 * (10f64.powf(mel / 2595.0) - 1.0)
}

/// Returns the loudness of each band for each column, 0 to 1; 1 is the loudest of the song.
///
/// `edges` are the band edges in Hz; `span` returns the samples of a column. Channels are averaged.
pub(super) fn spectrogram(
    audio: &Audio,
    edges: &[f64],
    columns: usize,
    span: impl Fn(usize) -> Range<usize>,
) -> Vec<Vec<f32>> {
    let fft = fft::forward(WINDOW);
    let (mut input, mut spectrum) = (fft.make_input_vec(), fft.make_output_vec());
    let hann = |i: usize| 0.5 - 0.5 * (std::f32::consts::TAU * i as f32 / WINDOW as f32).cos();
    let window: Vec<f32> = (0..WINDOW).map(hann).collect();
    // A full-scale sine has power 1, spread over its main lobe.
    let sum: f32 = window.iter().map(|w| w * w).sum();
    let scale = 4.0 / (sum * WINDOW as f32);
    let count = audio.samples();
    let sample = |i: isize| match usize::try_from(i) {
        Ok(i) if i < count => {
            audio.channels.iter().map(|channel| channel[i]).sum::<f32>()
                / audio.channels.len() as f32
        }
        _ => 0.0,
    };
    let hertz_of_bin = f64::from(audio.sample_rate) / WINDOW as f64;
    let mut picture = Vec::with_capacity(columns);
    for column in 0..columns {
        let span = span(column);
        let windows = (span.len() / (WINDOW / 2)).clamp(1, MOST_WINDOWS);
        let mut power = vec![0.0; spectrum.len()];
        for w in 0..windows {
            let middle = span.start + span.len() * (2 * w + 1) / (2 * windows);
            let first = middle as isize - WINDOW as isize / 2;
            for (i, value) in input.iter_mut().enumerate() {
                *value = sample(first + i as isize) * window[i];
            }
            fft.process(&mut input, &mut spectrum).expect("buffers of the plan's own size");
            for (sum, value) in power.iter_mut().zip(&spectrum) {
                *sum += f64::from(value.norm_sqr() * scale) / windows as f64;
            }
        }
        picture.push(banded(&power, edges, hertz_of_bin));
    }
    stretch(&mut picture);
    picture
}

/// Returns the energy of each band in decibels relative to a full-scale sine. A bin extends
/// half-way to its neighbours.
fn banded(power: &[f64], edges: &[f64], hertz_of_bin: f64) -> Vec<f32> {
    let mut up_to = vec![0.0; power.len() + 1];
    for (i, value) in power.iter().enumerate() {
        up_to[i + 1] = up_to[i] + value;
    }
    let below = |hertz: f64| {
        let at = (hertz / hertz_of_bin + 0.5).clamp(0.0, power.len() as f64);
        let index = (at as usize).min(power.len() - 1);
        up_to[index] + power[index] * (at - index as f64)
    };
    edges.windows(2).map(|e| 10.0 * (below(e[1]) - below(e[0])).max(1e-20).log10() as f32).collect()
}

/// Scales decibels to 0..1.
fn stretch(picture: &mut [Vec<f32>]) {
    let loudest = picture.iter().flatten().copied().fold(f32::NEG_INFINITY, f32::max);
    let top = loudest.max(QUIETEST);
    for value in picture.iter_mut().flatten() {
        *value = ((*value - top) / RANGE + 1.0).clamp(0.0, 1.0);
    }
}
