//! Weights in the order in which tiles read them.

use std::ops::Range;

use super::tile::{self, Panel, Window};

/// A filter, cut into panels of rows.
pub(super) struct Filter {
    /// Panel by panel, `[inputs, taps, rows of the panel]`.
    weights: Vec<f32>,
    /// Numbers of one row.
    depth: usize,
    rows: usize,
    /// Rows of a panel; of what is left at the end fewer.
    at_once: usize,
}

impl Filter {
    /// `weight(row, input, tap)` is where a weight comes from.
    pub(super) fn new(
        rows: usize,
        inputs: usize,
        taps: usize,
        at_once: usize,
        weight: impl Fn(usize, usize, usize) -> f32,
    ) -> Self {
        let depth = inputs * taps;
        let mut filter = Self { weights: Vec::with_capacity(rows * depth), depth, rows, at_once };
        let mut first = 0;
        while first < rows {
            let count = filter.panel_at(first);
            for input in 0..inputs {
                for tap in 0..taps {
                    let panel = (first..first + count).map(|row| weight(row, input, tap));
                    filter.weights.extend(panel);
                }
            }
            first += count;
        }
        filter
    }

    /// Rows of the panel that begins at row `first`.
    fn panel_at(&self, first: usize) -> usize {
        let left = (self.rows - first).min(self.at_once);
        // The largest power of two.
        1 << left.ilog2()
    }

    /// Sums of some rows, which begin and end with a panel, over `samples` samples of a window;
    /// `store` is given a row, where it begins, and some of its sums.
    pub(super) fn run(
        &self,
        rows: Range<usize>,
        window: Window<'_>,
        samples: usize,
        mut store: impl FnMut(usize, usize, &[f32]),
    ) {
        let mut first = rows.start;
        while first < rows.end {
            let count = self.panel_at(first);
            let weights = &self.weights[first * self.depth..(first + count) * self.depth];
            tile::run(Panel { rows: count, weights }, window, samples, |row, at, sums| {
                store(first + row, at, sums);
            });
            first += count;
        }
    }
}
