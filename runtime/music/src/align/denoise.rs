//! Combines the attention maps of several heads into one map in which the words stand out.
//!
//! A head that follows the lyrics attends to one word at a time, and each word belongs to one time.
//! So the softmax over rows is multiplied by the softmax over columns. Twice the median of each row
//! and column is then subtracted, and the rest is squared.
//!
//! Source: upstream `MusicStampsAligner._apply_bidirectional_consensus`. Its input is a softmax
//! already; its median filter has width 1 and changes nothing.

use super::{AttentionMap, Matrix};

/// Multiple of the median that is subtracted from a row or a column.
const SUPPRESSION: f64 = 2.0;

/// Added to the standard deviation before the division.
const EPSILON: f64 = 1e-9;

/// Returns the mean over heads of their standardised, denoised maps, `[tokens, frames]`.
///
/// # Panics
/// If there is no map, or they differ in shape.
pub fn denoised(maps: &[AttentionMap]) -> Matrix {
    let (rows, columns) = (maps[0].rows, maps[0].columns);
    let mut mean_of_heads = vec![0.0; rows * columns];
    let (mut sum, mut squares) = (0.0, 0.0);
    // Only one head is in memory at a time. Mean and deviation over all heads are applied at the
    // end: the mean over heads of `(x - mean) / deviation` is the standardised mean over heads.
    for map in maps {
        assert_eq!((map.rows, map.columns), (rows, columns), "heads look at one picture");
        for (total, value) in mean_of_heads.iter_mut().zip(sharpened(map)) {
            *total += value / maps.len() as f64;
            sum += value;
            squares += value * value;
        }
    }
    let count = (maps.len() * rows * columns) as f64;
    let mean = sum / count;
    let deviation = (squares / count - mean * mean).max(0.0).sqrt();
    let values = mean_of_heads.iter().map(|x| (x - mean) / (deviation + EPSILON)).collect();
    Matrix { rows, columns, values }
}

/// Returns one head's map: product of both softmaxes, median-suppressed, squared.
fn sharpened(map: &AttentionMap) -> Vec<f64> {
    let (rows, columns) = (map.rows, map.columns);
    let raw: Vec<f64> = map.values.iter().map(|&x| f64::from(x)).collect();
    let mut x = raw.clone();
    for row in x.chunks_mut(columns) {
        softmax(row);
    }
    let mut column = vec![0.0; rows];
    for j in 0..columns {
        column.iter_mut().enumerate().for_each(|(i, value)| *value = raw[i * columns + j]);
        softmax(&mut column);
        column.iter().enumerate().for_each(|(i, value)| x[i * columns + j] *= value);
    }
    for row in x.chunks_mut(columns) {
        suppress(row);
    }
    for j in 0..columns {
        column.iter_mut().enumerate().for_each(|(i, value)| *value = x[i * columns + j]);
        suppress(&mut column);
        column.iter().enumerate().for_each(|(i, value)| x[i * columns + j] = value * value);
    }
    x
}

fn softmax(values: &mut [f64]) {
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    values.iter_mut().for_each(|x| *x = (*x - most).exp());
    let sum: f64 = values.iter().sum();
    values.iter_mut().for_each(|x| *x /= sum);
}

/// Subtracts twice the median and clamps at zero.
fn suppress(values: &mut [f64]) {
    let middle = SUPPRESSION * median(values);
    values.iter_mut().for_each(|x| *x = (*x - middle).max(0.0));
}

/// Returns the middle value, or the mean of the two middle values.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    let middle = sorted.len() / 2;
    let (below, upper, _) = sorted.select_nth_unstable_by(middle, f64::total_cmp);
    if values.len() % 2 == 1 {
        return *upper;
    }
    let lower = below.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    f64::midpoint(lower, *upper)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::align::expected::{cases, close, floats, maps};

    #[test]
    fn it_equals_the_description_on_small_maps() {
        let cases = cases("denoise");
        assert_eq!(cases.len(), 5);
        for case in &cases {
            // Inputs are exact in f32; both sides compute in f64.
            close(&denoised(&maps(case)).values, &floats(&case["out"]), 1e-6);
        }
    }

    #[test]
    fn a_median_of_an_even_number_lies_between_two() {
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), 2.5);
        assert_eq!(median(&[4.0, 1.0, 3.0]), 3.0);
        assert_eq!(median(&[7.0]), 7.0);
    }
}
