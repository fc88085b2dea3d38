//! Times of each line of the lyrics, from the attention of the song's own network.
//!
//! ```text
//! latents -> a little noise -> cross attention to the lyrics -> denoise -> cheapest path
//!         -> a time for each token -> lines -> LRC, WebVTT
//! ```
//!
//! A few heads of the transformer attend to the words that are being sung. One more pass over the
//! finished latents gives a map of words against time. The cheapest monotonic path through that map
//! gives the start and the end of each word.
//!
//! Source: upstream `get_lyric_timestamp` and `dit_alignment_score.py`.

pub mod attention_maps;
pub mod denoise;
pub mod dtw;
pub mod lrc;
pub mod score;
pub mod times;

pub use attention_maps::{Aligned, Extras};
pub use times::Line;

/// Attention between each token and each frame, `[tokens, frames]`.
pub type AttentionMap = Matrix<f32>;

/// A row-major matrix.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix<T = f64> {
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub columns: usize,
    /// The values, row by row.
    pub values: Vec<T>,
}

impl Matrix {
    /// Returns the values of one row.
    pub fn row(&self, row: usize) -> &[f64] {
        &self.values[row * self.columns..(row + 1) * self.columns]
    }

    /// Returns the mean of several maps of equal shape.
    ///
    /// # Panics
    /// If there is no map.
    pub fn mean(maps: &[AttentionMap]) -> Self {
        let (rows, columns) = (maps[0].rows, maps[0].columns);
        let mut values = vec![0.0; rows * columns];
        for map in maps {
            for (sum, &value) in values.iter_mut().zip(&map.values) {
                *sum += f64::from(value) / maps.len() as f64;
            }
        }
        Self { rows, columns, values }
    }
}

#[cfg(test)]
pub(crate) mod expected {
    //! Expected values that `tests/fixtures/align/make.py` computed from the algorithms'
    //! description.

    use serde_json::Value;

    use super::{AttentionMap, Matrix};

    /// Reads the cases of one algorithm.
    pub(crate) fn cases(name: &str) -> Vec<Value> {
        let text = include_str!("../../../tests/fixtures/align/expected.json");
        let all: Value = serde_json::from_str(text).expect("JSON");
        all[name].as_array().expect("cases").clone()
    }

    pub(crate) fn floats(value: &Value) -> Vec<f64> {
        value.as_array().into_iter().flatten().map(|x| x.as_f64().expect("a number")).collect()
    }

    pub(crate) fn wholes(value: &Value) -> Vec<usize> {
        floats(value).into_iter().map(|x| x as usize).collect()
    }

    pub(crate) fn matrix(case: &Value) -> Matrix {
        let shape = wholes(&case["shape"]);
        // Written as f32, with as many digits as it needs.
        let values = floats(&case["in"]).into_iter().map(|x| f64::from(x as f32)).collect();
        Matrix { rows: shape[0], columns: shape[1], values }
    }

    /// Reads the maps of several heads, or one map.
    pub(crate) fn maps(case: &Value) -> Vec<AttentionMap> {
        let shape = wholes(&case["shape"]);
        let [rows, columns] = [shape[shape.len() - 2], shape[shape.len() - 1]];
        let values: Vec<f32> = floats(&case["in"]).into_iter().map(|x| x as f32).collect();
        let map = |values: &[f32]| AttentionMap { rows, columns, values: values.to_vec() };
        values.chunks(rows * columns).map(map).collect()
    }

    pub(crate) fn close(found: &[f64], wanted: &[f64], most: f64) {
        assert_eq!(found.len(), wanted.len());
        for (i, (a, b)) in found.iter().zip(wanted).enumerate() {
            assert!((a - b).abs() <= most, "at {i}: {a} is not {b}");
        }
    }
}
