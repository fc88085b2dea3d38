//! Classification of songs by style, fitted to labelled examples.
//!
//! The method is linear discriminant analysis (Fisher 1936; Hastie, Tibshirani & Friedman, "The
//! elements of statistical learning", 4.3). Features are standardised and whitened by the
//! covariance within the styles; the nearest mean wins. The covariance is shrunk towards its
//! diagonal, so that a few examples of each style are enough (Friedman 1989, "Regularized
//! discriminant analysis").

use super::{Features, linear::Cholesky};

/// Bounds of the shrinkage, which is twice the number of features over the number of examples.
const SHRINKAGE: (f64, f64) = (0.1, 0.5);

/// Styles fitted to examples.
pub struct Styles {
    mean: Vec<f64>,
    spread: Vec<f64>,
    within: Cholesky,
    /// Label and whitened mean of each style.
    centres: Vec<(String, Vec<f64>)>,
}

impl Styles {
    /// Fits styles to labelled examples; `None` without examples.
    pub fn fit<L: AsRef<str>>(examples: &[(L, Features)]) -> Option<Self> {
        if examples.is_empty() {
            return None;
        }
        let raw: Vec<&[f64]> = examples.iter().map(|(_, f)| f.values().as_slice()).collect();
        let mean = mean_of(raw.iter().copied());
        let deviation = |i: usize| {
            let squares = raw.iter().map(|x| (x[i] - mean[i]).powi(2)).sum::<f64>();
            (squares / raw.len() as f64).sqrt().max(1e-9)
        };
        let spread: Vec<f64> = (0..mean.len()).map(deviation).collect();
        let points: Vec<Vec<f64>> = raw.iter().map(|x| standardised(x, &mean, &spread)).collect();
        let mut labels: Vec<&str> = examples.iter().map(|(label, _)| label.as_ref()).collect();
        let of_point = labels.clone();
        labels.sort_unstable();
        labels.dedup();
        let of = |label: &str| {
            let mine = points.iter().zip(&of_point).filter(|(_, l)| **l == label);
            mean_of(mine.map(|(point, _)| point.as_slice()))
        };
        let means: Vec<Vec<f64>> = labels.iter().map(|label| of(label)).collect();
        let within = Cholesky::new(&covariance(&points, |i| {
            // Every point's label is in `labels`, so the search always succeeds.
            &means[labels.binary_search(&of_point[i]).unwrap_or(0)]
        }));
        let centre = |(label, mean): (&&str, &Vec<f64>)| ((*label).into(), within.whitened(mean));
        let centres = labels.iter().zip(&means).map(centre).collect();
        Some(Self { mean, spread, within, centres })
    }

    /// Returns the nearest style.
    pub fn tell(&self, features: &Features) -> &str {
        self.ranked(features).first().map_or("", |&(label, _)| label)
    }

    /// Returns all styles with their distances in within-style standard deviations, nearest first.
    pub fn ranked(&self, features: &Features) -> Vec<(&str, f64)> {
        let point =
            self.within.whitened(&standardised(features.values(), &self.mean, &self.spread));
        let distance = |centre: &[f64]| {
            point.iter().zip(centre).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
        };
        let mut ranked: Vec<(&str, f64)> =
            self.centres.iter().map(|(label, centre)| (label.as_str(), distance(centre))).collect();
        ranked.sort_by(|a, b| a.1.total_cmp(&b.1));
        ranked
    }
}

fn standardised(x: &[f64], mean: &[f64], spread: &[f64]) -> Vec<f64> {
    x.iter().zip(mean).zip(spread).map(|((x, mean), spread)| (x - mean) / spread).collect()
}

fn mean_of<'a>(points: impl Iterator<Item = &'a [f64]>) -> Vec<f64> {
    let (mut sum, mut count) = (Vec::new(), 0usize);
    for point in points {
        sum.resize(point.len(), 0.0);
        sum.iter_mut().zip(point).for_each(|(sum, x)| *sum += x);
        count += 1;
    }
    sum.iter().map(|sum: &f64| sum / count.max(1) as f64).collect()
}

/// Computes the covariance of the points around their style's mean, shrunk towards its diagonal.
fn covariance<'a>(points: &[Vec<f64>], mean: impl Fn(usize) -> &'a Vec<f64>) -> Vec<Vec<f64>> {
    let size = points.first().map_or(0, Vec::len);
    let (least, most) = SHRINKAGE;
    let shrinkage = (2.0 * size as f64 / points.len().max(1) as f64).clamp(least, most);
    let mut sums = vec![vec![0.0; size]; size];
    for (index, point) in points.iter().enumerate() {
        let rest: Vec<f64> = point.iter().zip(mean(index)).map(|(x, mean)| x - mean).collect();
        for (row, a) in sums.iter_mut().zip(&rest) {
            row.iter_mut().zip(&rest).for_each(|(sum, b)| *sum += a * b);
        }
    }
    for (i, row) in sums.iter_mut().enumerate() {
        for (j, value) in row.iter_mut().enumerate() {
            *value /= points.len() as f64;
            // Avoids zero variance of a feature that is constant within each style.
            *value = if i == j { *value + 0.01 } else { *value * (1.0 - shrinkage) };
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listener::{features, synth::Beat, synth::TestSong};

    #[test]
    fn patterns_are_told_apart_by_their_sound() {
        let heard = |beat: Beat, bpm: f64| {
            let song =
                TestSong { bpm, beat, tonic: bpm as u8 % 12, seconds: 8.0, ..TestSong::default() };
            (format!("{beat:?}"), features(&song.render()))
        };
        let of = |tempi: [f64; 5]| {
            let each = |beat: Beat| tempi.map(|bpm| heard(beat, bpm));
            Beat::ALL.into_iter().flat_map(each).collect::<Vec<_>>()
        };
        let styles = Styles::fit(&of([80.0, 95.0, 107.0, 121.0, 140.0])).expect("examples");
        let others = of([85.0, 91.0, 110.0, 126.0, 133.0]);
        let right = others.iter().filter(|(label, f)| styles.tell(f) == label).count();
        assert!(right * 10 >= others.len() * 9, "{right} of {}", others.len());
    }
}
