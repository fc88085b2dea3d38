//! Measures the alignment between words and song: coverage, order and clarity.
//!
//! Source: upstream `MusicLyricScorer`.

use serde::Serialize;

use super::{Matrix, dtw::cheapest_path};

/// A word counts as sung if its attention exceeds this in some frame.
const COVERED: f64 = 0.1;

/// Attention up to this is ignored for a word's centre.
const FAINT: f64 = 0.01;

/// Frames by which a word may precede the word before it, because words overlap.
const OVERLAP: f64 = 9.0;

/// Three measures from 0 to 1, and their total.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Alignment {
    /// `coverage^2 monotonicity^2 confidence`, rounded to four decimals.
    pub score: f64,
    /// Share of the words with enough attention in some frame.
    pub coverage: f64,
    /// Share of the words that follow the word before them.
    pub monotonicity: f64,
    /// Mean attention along the best path through the song.
    pub confidence: f64,
}

/// Returns one flag per token: true if it is sung, false inside `[brackets]`.
///
/// # Errors
/// The errors of `text_of`.
pub fn sung<E>(ids: &[u32], text_of: impl Fn(&[u32]) -> Result<String, E>) -> Result<Vec<bool>, E> {
    let mut in_tag = false;
    let mut sung = Vec::with_capacity(ids.len());
    for &id in ids {
        let text = text_of(&[id])?;
        in_tag |= text.contains('[');
        let closes = text.contains(']');
        sung.push(!in_tag && !closes);
        in_tag &= !closes;
    }
    Ok(sung)
}

/// Computes the measures of a mean attention, `[tokens, frames]`; `sung` flags the rows of words.
///
/// # Panics
/// If the matrix is empty, or `sung` has another length.
pub fn of(attention: &Matrix, sung: &[bool]) -> Alignment {
    assert_eq!(attention.rows, sung.len(), "one flag a token");
    let energy = stretched(attention);
    let squared = energy.values.iter().map(|x| -x * x).collect();
    let path = cheapest_path(&Matrix { values: squared, ..energy });

    let words = || (0..energy.rows).filter(|&row| sung[row]).map(|row| energy.row(row));
    let covered = words().filter(|row| row.iter().any(|&x| x > COVERED)).count();
    let coverage = share(covered, words().count());
    let centres: Vec<f64> = words().filter_map(centre).collect();
    let in_order = centres.windows(2).filter(|pair| pair[1] >= pair[0] - OVERLAP).count();
    let monotonicity = share(in_order, centres.len().saturating_sub(1));
    let along: f64 = path.iter().map(|&(row, column)| energy.row(row)[column]).sum();
    let confidence = along / path.len() as f64;

    let score = (coverage.powi(2) * monotonicity.powi(2) * confidence).clamp(0.0, 1.0);
    Alignment {
        coverage,
        monotonicity,
        confidence,
        score: format!("{score:.4}").parse().expect("a number just written"),
    }
}

/// Scales the matrix to 0..1; all zeros if it is constant.
fn stretched(x: &Matrix) -> Matrix {
    let low = x.values.iter().copied().fold(f64::INFINITY, f64::min);
    let range = x.values.iter().copied().fold(f64::NEG_INFINITY, f64::max) - low;
    let stretch = |value: &f64| if range > 1e-9 { (value - low) / range } else { 0.0 };
    Matrix { values: x.values.iter().map(stretch).collect(), ..*x }
}

/// Returns the attention-weighted centre frame of a word, or `None` without attention.
fn centre(row: &[f64]) -> Option<f64> {
    let clear = || row.iter().enumerate().filter(|(_, weight)| **weight > FAINT);
    let sum: f64 = clear().map(|(_, weight)| weight).sum();
    (sum > 1e-9).then(|| clear().map(|(at, weight)| at as f64 * weight).sum::<f64>() / sum)
}

/// Returns `part / whole`, or 1 if `whole` is 0.
fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 1.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;
    use crate::align::expected::{cases, close, floats, matrix, wholes};

    #[test]
    fn the_measures_are_those_of_the_description() {
        let cases = cases("alignment");
        assert_eq!(cases.len(), 10);
        for case in &cases {
            let sung: Vec<bool> = wholes(&case["sung"]).into_iter().map(|x| x == 1).collect();
            let Alignment { coverage, monotonicity, confidence, score } = of(&matrix(case), &sung);
            close(&[coverage, monotonicity, confidence, score], &floats(&case["out"]), 1e-9);
        }
    }

    #[test]
    fn tags_are_not_sung() {
        let texts = ["[", "Verse", "]", "\n", "la", " [x]", "la", "[y", "]"];
        let text = |ids: &[u32]| Ok::<_, Infallible>(texts[ids[0] as usize].to_owned());
        let ids: Vec<u32> = (0..9).collect();
        let found = sung(&ids, text).expect("flags");
        assert_eq!(found, [false, false, false, true, true, false, true, false, false]);
    }
}
