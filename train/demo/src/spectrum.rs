//! Distance between two sounds, from their spectra in windows of several lengths.
//!
//! `mean over windows of (mean |ln E - ln e| + |M - m| / (|m| + floor))`, where `m` are the
//! magnitudes of the target sound, `e` those of its bands, and `M` and `E` those of the other
//! sound. The compared signals are half the sum and half the difference of left and right. Phases
//! do not count.
//!
//! Bands get wider with frequency, as in hearing: two thirds of a semitone, if windows are long
//! enough for that. If bins were compared instead, nearly all of a sound would be above 5 kHz.
//! Noise could never match, because its bins are random.
//!
//! Source: Yamamoto et al. 2020, arXiv:1910.11480 (multi-resolution STFT loss); such bands as in
//! Kumar et al. 2023, arXiv:2306.06546; sums and differences as in Evans et al. 2024,
//! arXiv:2404.10301.

use std::{cell::RefCell, collections::HashMap, f32::consts::TAU, sync::Arc};

use acestep_engine::audio::fft::{self, Complex32, ComplexToReal, RealToComplex};
use rayon::prelude::*;

/// Window lengths in samples; the hop is a quarter of the length.
const WINDOWS: [usize; 6] = [8192, 4096, 2048, 1024, 512, 256];

/// Width of a band, relative to its frequency.
const WIDTH: f32 = 1.0 / 24.0;

/// Added to magnitudes, so that silence has a logarithm: about 70 dB below a full-scale tone.
const FLOOR: f32 = 3e-4;

/// The distance between two sounds, and its gradient for the first.
#[derive(Debug, Clone)]
pub struct Distance {
    /// 0 if they are equal.
    pub value: f32,
    /// The derivative for each sample, in the layout of the sounds.
    pub gradient: Vec<f32>,
}

/// Computes the distance of `sound` from `wanted`, both `items` times `[2, samples]`.
///
/// # Panics
/// If their lengths differ, or are not a multiple of `2 items`.
pub fn distance(sound: &[f32], wanted: &[f32], items: usize) -> Distance {
    assert_eq!(sound.len(), wanted.len(), "sounds of different length");
    let samples = sound.len() / (2 * items);
    assert_eq!(samples * 2 * items, sound.len(), "a whole number of samples");
    let mid_side = |of: &[f32]| -> Vec<Vec<f32>> {
        of.chunks_exact(2 * samples)
            .flat_map(|item| {
                let (left, right) = item.split_at(samples);
                let both = |sign: f32| {
                    left.iter().zip(right).map(|(l, r)| 0.5 * (l + sign * r)).collect::<Vec<f32>>()
                };
                [both(1.0), both(-1.0)]
            })
            .collect()
    };
    let (ours, theirs) = (mid_side(sound), mid_side(wanted));
    let lines = ours.len();
    let windows: Vec<usize> = WINDOWS.into_iter().filter(|&size| size <= samples).collect();
    let tasks: Vec<(usize, usize)> =
        (0..lines).flat_map(|line| windows.iter().map(move |&size| (line, size))).collect();
    let weight = 1.0 / (lines * windows.len().max(1)) as f32;
    let parts: Vec<(usize, f32, Vec<f32>)> = tasks
        .into_par_iter()
        .with_max_len(1)
        .map(|(line, size)| {
            let (value, gradient) = of_window(&ours[line], &theirs[line], size);
            (line, value, gradient)
        })
        .collect();
    let mut value = 0.0;
    let mut gradients = vec![vec![0.0; samples]; lines];
    for (line, of_line, gradient) in parts {
        value += weight * of_line;
        gradients[line].iter_mut().zip(gradient).for_each(|(to, of)| *to += weight * of);
    }
    let mut gradient = vec![0.0; sound.len()];
    for (item, both) in gradient.chunks_exact_mut(2 * samples).zip(gradients.chunks_exact(2)) {
        let (left, right) = item.split_at_mut(samples);
        for (index, (left, right)) in left.iter_mut().zip(right).enumerate() {
            let (mid, side) = (both[0][index], both[1][index]);
            (*left, *right) = (0.5 * (mid + side), 0.5 * (mid - side));
        }
    }
    Distance { value, gradient }
}

/// Computes the distance of one channel in windows of one size.
fn of_window(sound: &[f32], wanted: &[f32], size: usize) -> (f32, Vec<f32>) {
    TRANSFORMS.with_borrow_mut(|transforms| {
        let transform = transforms.entry(size).or_insert_with(|| Transform::new(size));
        transform.distance(sound, wanted)
    })
}

thread_local! {
    static TRANSFORMS: RefCell<HashMap<usize, Transform>> = RefCell::default();
}

/// Fourier transforms of one window size, with buffers.
struct Transform {
    forward: Arc<dyn RealToComplex<f32>>,
    inverse: Arc<dyn ComplexToReal<f32>>,
    /// A Hann window, scaled so that a full-scale tone has magnitude 1.
    window: Vec<f32>,
    /// Starts of the bands in bins, and the end of the last one.
    edges: Vec<usize>,
    room: Vec<f32>,
    scratch: Vec<Complex32>,
}

impl Transform {
    fn new(size: usize) -> Self {
        let (forward, inverse) = (fft::forward(size), fft::inverse(size));
        let turn = |i: usize| (TAU * i as f32 / size as f32).cos();
        let window = (0..size).map(|i| (0.5 - 0.5 * turn(i)) * 4.0 / size as f32).collect();
        let scratch = forward.get_scratch_len().max(inverse.get_scratch_len());
        Self {
            forward,
            inverse,
            window,
            edges: edges(size / 2 + 1),
            room: vec![0.0; size],
            scratch: vec![Complex32::ZERO; scratch],
        }
    }

    fn size(&self) -> usize {
        self.window.len()
    }

    /// Returns the spectra of all whole windows, one after the other.
    fn spectra(&mut self, sound: &[f32]) -> Vec<Complex32> {
        let (size, bins) = (self.size(), self.size() / 2 + 1);
        let count = (sound.len() - size) / (size / 4) + 1;
        let mut spectra = vec![Complex32::ZERO; count * bins];
        for (index, spectrum) in spectra.chunks_exact_mut(bins).enumerate() {
            let from = &sound[index * (size / 4)..][..size];
            let windowed = from.iter().zip(&self.window).map(|(x, w)| x * w);
            self.room.iter_mut().zip(windowed).for_each(|(to, x)| *to = x);
            let done =
                self.forward.process_with_scratch(&mut self.room, spectrum, &mut self.scratch);
            done.expect("room of the planned size");
        }
        spectra
    }

    fn distance(&mut self, sound: &[f32], wanted: &[f32]) -> (f32, Vec<f32>) {
        let (size, bins) = (self.size(), self.size() / 2 + 1);
        let mut spectra = self.spectra(sound);
        let theirs: Vec<f32> = self.spectra(wanted).iter().map(|x| x.norm()).collect();
        let (mut squares, mut wanted_squares) = (0.0f64, 0.0f64);
        for (x, m) in spectra.iter().zip(&theirs) {
            squares += f64::from((x.norm() - m).powi(2));
            wanted_squares += f64::from(m * m);
        }
        // A floor here too, otherwise every sound would be infinitely far from silence.
        let scale = (wanted_squares as f32).sqrt() + FLOOR * (spectra.len() as f32).sqrt();
        let apart = (squares as f32).sqrt();
        let per_difference = 1.0 / (apart * scale).max(1e-12);

        let bands = spectra.len() / bins * (self.edges.len() - 1);
        let mut logarithms = 0.0f64;
        for (ours, theirs) in spectra.chunks_exact_mut(bins).zip(theirs.chunks_exact(bins)) {
            for band in self.edges.windows(2).map(|edges| edges[0]..edges[1]) {
                let (ours, theirs) = (&mut ours[band.clone()], &theirs[band]);
                let square = ours.iter().map(|x| x.norm_sqr()).sum::<f32>() + FLOOR * FLOOR;
                let wanted = theirs.iter().map(|m| m * m).sum::<f32>() + FLOOR * FLOOR;
                let ratio = 0.5 * (square / wanted).ln();
                logarithms += f64::from(ratio.abs());
                // d ln E / dx = x / E^2
                let slope = ratio.signum() / (square * bands as f32);
                for (x, m) in ours.iter_mut().zip(theirs) {
                    let size = x.norm();
                    *x *= slope + (size - m) * per_difference / size.max(1e-9);
                }
            }
        }
        let value = logarithms as f32 / bands as f32 + apart / scale;

        let mut gradient = vec![0.0; sound.len()];
        for (index, spectrum) in spectra.chunks_exact_mut(bins).enumerate() {
            // The inverse transform counts all bins twice, except the first and the last.
            spectrum[1..bins - 1].iter_mut().for_each(|x| *x *= 0.5);
            spectrum[0].im = 0.0;
            spectrum[bins - 1].im = 0.0;
            let done =
                self.inverse.process_with_scratch(spectrum, &mut self.room, &mut self.scratch);
            done.expect("room of the planned size");
            let to = &mut gradient[index * (size / 4)..][..size];
            for ((to, x), w) in to.iter_mut().zip(&self.room).zip(&self.window) {
                *to += x * w;
            }
        }
        (value, gradient)
    }
}

/// Returns the starts of the bands among `bins` bins, each at least one bin wide, and the last end.
fn edges(bins: usize) -> Vec<usize> {
    let mut edges = vec![0];
    let mut edge = 0;
    while edge < bins {
        edge = bins.min(edge + 1.max((edge as f32 * WIDTH).round() as usize));
        edges.push(edge);
    }
    edges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_are_a_bin_wide_and_then_two_thirds_of_a_semitone() {
        let edges = edges(4097);
        assert_eq!((edges[0], edges[1], edges.last()), (0, 1, Some(&4097)));
        let first_wider = edges.windows(2).position(|pair| pair[1] - pair[0] > 1);
        // From 36 bins on, 211 Hz in the longest window.
        assert_eq!(first_wider, Some(36));
        let at = edges.partition_point(|&edge| edge < 1000);
        let width = (edges[at + 1] - edges[at]) as f32 / edges[at] as f32;
        assert!((width - WIDTH).abs() < 0.002, "{width}");
    }

    /// Tones in noise: without noise, only rounding would remain far from the tones.
    fn sounds() -> (Vec<f32>, Vec<f32>) {
        let tone = |i: usize, pitch: f32| (TAU * pitch * i as f32 / 48_000.0).sin();
        let mut state = 1u32;
        let mut noise = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state as f32 / u32::MAX as f32 - 0.5
        };
        let mut sound = |pitch: f32| -> Vec<f32> {
            (0..4 * 6000).map(|i| 0.3 * tone(i, pitch) + 0.5 * noise()).collect()
        };
        (sound(440.0), sound(443.0))
    }

    #[test]
    fn a_sound_is_no_distance_from_itself_and_some_from_another() {
        let (ours, theirs) = sounds();
        assert!(distance(&ours, &ours, 2).value < 1e-6);
        let apart = distance(&ours, &theirs, 2).value;
        assert!((0.2..5.0).contains(&apart), "{apart}");
        // Phases do not count, loudness does.
        let turned: Vec<f32> = ours.iter().map(|x| -x).collect();
        assert!(distance(&turned, &ours, 2).value < 1e-6);
        let louder: Vec<f32> = ours.iter().map(|x| 2.0 * x).collect();
        assert!(distance(&louder, &ours, 2).value > 0.8);
    }

    /// Checked against finite differences.
    #[test]
    fn the_gradient_is_the_slope() {
        let (ours, theirs) = sounds();
        let all = distance(&ours, &theirs, 2).gradient;
        // Along the gradient itself, where the slope is steepest.
        let square: f32 = all.iter().map(|g| g * g).sum();
        let step = 1e-2 / square.sqrt();
        let moved = |sign: f32| -> Vec<f32> {
            ours.iter().zip(&all).map(|(x, g)| x + sign * step * g).collect()
        };
        let slope = |sign: f32| distance(&moved(sign), &theirs, 2).value;
        let measured = (slope(1.0) - slope(-1.0)) / (2.0 * step);
        assert!((measured / square - 1.0).abs() < 0.02, "{measured} {square}");
    }
}
