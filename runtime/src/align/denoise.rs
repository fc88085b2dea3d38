//! From what several heads look at to one picture in which the words stand out.
//!
//! A head that follows the lyrics looks at one word at a time, and a word is looked at in one place.
//! So both views are multiplied, each as a softmax; what is spread along a row or a column is
//! subtracted, and what is left is squared.
//!
//! Source: upstream `MusicStampsAligner._apply_bidirectional_consensus`. The softmax is taken of
//! what is a softmax already; its median filter has width 1 and changes nothing.

use super::{Map, Matrix};

/// How many times its median is subtracted from a row or a column.
const SUPPRESSION: f64 = 2.0;

/// Added under the division by the standard deviation.
const EPSILON: f64 = 1e-9;

/// The mean over heads of their standardised, denoised maps, `[tokens, frames]`.
///
/// # Panics
/// If there is no map, or they differ in shape.
pub fn denoised(maps: &[Map]) -> Matrix {
    let (rows, columns) = (maps[0].tokens, maps[0].frames);
    let mut mean_of_heads = vec![0.0; rows * columns];
    let (mut sum, mut squares) = (0.0, 0.0);
    // One head in memory at a time: the mean and the deviation are taken over all of them at the
    // end, and the mean over heads of `(x - mean) / deviation` is that of the mean.
    for map in maps {
        assert_eq!((map.tokens, map.frames), (rows, columns), "heads look at one picture");
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

/// One head's map: consensus of both views, suppressed, squared.
fn sharpened(map: &Map) -> Vec<f64> {
    let (rows, columns) = (map.tokens, map.frames);
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

/// Subtracts twice the median, and nothing falls below zero.
fn suppress(values: &mut [f64]) {
    let middle = SUPPRESSION * median(values);
    values.iter_mut().for_each(|x| *x = (*x - middle).max(0.0));
}

/// The value in the middle, or the mean of the two there.
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
