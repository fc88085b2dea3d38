//! Weights packed in the order in which tiles read them.

use burn::tensor::{DType, bf16};
use burn_flex::FlexTensor;
use rayon::prelude::*;

use super::{
    amx::{self, LINES},
    pairs,
    tile::{MOST_ROWS, rows_at_once},
};
use crate::kernel::Precision;

/// Format of windows and weights, in words of 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// One f32 per word.
    Single,
    /// One bf16 of each of two lines per word: see [`pairs`].
    Pairs,
    /// The same words, a whole number of blocks of lines, sample by sample: see [`amx`].
    Blocks,
    /// The same of f32, each the sum of two bf16.
    Halves,
}

impl Form {
    /// Returns the number of lines of words for `lines` lines of numbers.
    pub(super) fn lines(self, lines: usize) -> usize {
        match self {
            Self::Single => lines,
            Self::Pairs => lines.div_ceil(2),
            Self::Blocks | Self::Halves => lines.div_ceil(2 * LINES) * LINES,
        }
    }

    /// Returns the number of words that a number or pair of numbers takes.
    pub(super) fn parts(self) -> usize {
        if self == Self::Halves { 2 } else { 1 }
    }

    /// Returns the fastest form for weights of this type.
    pub(super) fn of(dtype: DType, precision: Precision) -> Self {
        // If the CPU cannot multiply pairs, weights and inputs are f32.
        let is_pairs = dtype == DType::BF16 && pairs::is_here();
        let in_order = if is_pairs { Self::Pairs } else { Self::Single };
        match (in_order, precision) {
            (Self::Pairs, Precision::Highest | Precision::High) if amx::is_here() => Self::Blocks,
            (Self::Single, Precision::High) if dtype == DType::F32 && amx::is_here() => {
                Self::Halves
            }
            _ => in_order,
        }
    }

    /// Returns the rows of a panel.
    fn at_once(self) -> usize {
        match self {
            Self::Single | Self::Pairs => rows_at_once(),
            Self::Blocks | Self::Halves => MOST_ROWS,
        }
    }
}

/// A filter weight in the checkpoint's type.
trait Weight: Copy + Sync {
    const ZERO: Self;
    fn wide(self) -> f32;
    fn narrow(self) -> bf16;
}

impl Weight for f32 {
    const ZERO: Self = 0.0;

    fn wide(self) -> f32 {
        self
    }

    fn narrow(self) -> bf16 {
        bf16::from_f32(self)
    }
}

impl Weight for bf16 {
    const ZERO: Self = Self::ZERO;

    fn wide(self) -> f32 {
        self.to_f32()
    }

    fn narrow(self) -> bf16 {
        self
    }
}

/// Index of each weight in the checkpoint's tensor.
///
/// Row, line and tap each add to the *place* of a weight, its tap in the checkpoint. Beyond the
/// last tap the weight is zero. The tensor index of a weight is its place plus the indices of row
/// and line.
pub(super) trait Order: Sync {
    /// Returns the numbers of rows, lines and taps.
    fn shape(&self) -> [usize; 3];
    /// Returns the number of taps in the checkpoint.
    fn taps(&self) -> usize;
    /// Returns index and place of a row.
    fn row(&self, row: usize) -> [usize; 2];
    /// Returns index and place of a line.
    fn line(&self, line: usize) -> [usize; 2];
    /// Returns the place of a tap. The places of all taps are equally far apart.
    fn tap(&self, tap: usize) -> usize;
    /// Returns the number of panels to fill together: more than 1 if rows are closer in memory than
    /// lines.
    fn panels(&self) -> usize;
}

/// A panel that is filled line by line, of zeros at first.
struct Unfilled<'a, T> {
    /// Index and place of each row.
    rows: [[usize; 2]; MOST_ROWS],
    count: usize,
    words: &'a mut [T],
}

impl<T> Unfilled<'_, T> {
    /// Fills all taps of one line in [`Form::Single`].
    fn fill_single<W: Weight>(
        &mut self,
        weights: &[W],
        order: &impl Order,
        index: usize,
        word: impl Fn(W) -> T,
    ) {
        let (taps, most) = (order.shape()[2], order.taps());
        let words = &mut self.words[index * taps * self.count..][..taps * self.count];
        let line = order.line(index);
        // Taps are equally far apart. Their places are added up: to ask for each would take most of the time.
        let first = order.tap(0);
        let step = if taps > 1 { order.tap(1).wrapping_sub(first) } else { 0 };
        // Row by row: the taps of a row lie together in the checkpoint.
        for (row, of) in self.rows[..self.count].iter().enumerate() {
            let index = of[0] + line[0];
            let mut place = of[1] + line[1] + first;
            for to in words[row..].iter_mut().step_by(self.count) {
                if place < most {
                    *to = word(weights[index + place]);
                }
                place = place.wrapping_add(step);
            }
        }
    }
}

impl Unfilled<'_, u32> {
    /// Fills all taps of one line, or of a pair of lines.
    fn fill<W: Weight>(&mut self, weights: &[W], order: &impl Order, form: Form, index: usize) {
        let [_, lines, taps] = order.shape();
        let size = taps * self.count;
        // Words between two taps: in blocks each tap has all lines of the block.
        let (first, apart) = match form {
            Form::Single => {
                return self.fill_single(weights, order, index, |weight| weight.wide().to_bits());
            }
            Form::Pairs => (index * size, self.count),
            Form::Blocks | Form::Halves => {
                let (within, parts) = (index % LINES, form.parts());
                let first = (index - within) * size * parts + within * self.count;
                (first, LINES * self.count * parts)
            }
        };
        let line = 2 * index;
        if line >= lines {
            return; // The words are zeros.
        }
        let low = order.line(line);
        let high = (line + 1 < lines).then(|| order.line(line + 1));
        for tap in 0..taps {
            let (to, rests) = self.words[first + tap * apart..].split_at_mut(self.count);
            let rests =
                if form == Form::Halves { &mut rests[(LINES - 1) * self.count..] } else { &mut [] };
            let tap = order.tap(tap);
            let weight = |row: [usize; 2], line: [usize; 2]| {
                let place = row[1] + line[1] + tap;
                if place < order.taps() { weights[row[0] + line[0] + place] } else { W::ZERO }
            };
            let pair = |row: [usize; 2]| {
                [weight(row, low), high.map_or(W::ZERO, |high| weight(row, high))]
            };
            let word = |pair: [bf16; 2]| {
                let [low, high] = pair.map(|of| u32::from(of.to_bits()));
                low | high << 16
            };
            for (to, &row) in to.iter_mut().zip(&self.rows) {
                *to = word(pair(row).map(W::narrow));
            }
            for (to, &row) in rests.iter_mut().zip(&self.rows[..self.count]) {
                let rest = |of: W| bf16::from_f32(of.wide() - of.narrow().to_f32());
                *to = word(pair(row).map(rest));
            }
        }
    }
}

/// The rows of a filter, cut into panels.
#[derive(Debug, Clone, Copy)]
pub(super) struct Panels {
    pub(super) form: Form,
    /// Words per row.
    pub(super) depth: usize,
    rows: usize,
    /// Rows per panel; the last panels may have fewer.
    pub(super) at_once: usize,
}

impl Panels {
    pub(super) fn of(order: &impl Order, form: Form) -> Self {
        let [rows, lines, taps] = order.shape();
        let depth = form.lines(lines) * form.parts() * taps;
        Self { form, depth, rows, at_once: form.at_once() }
    }

    /// Returns the number of words of all rows.
    pub(super) fn words(&self) -> usize {
        self.rows * self.depth
    }

    /// Packs contiguous weights to words, which are zeros.
    pub(super) fn pack(&self, weight: &FlexTensor, order: &impl Order, words: &mut [u32]) {
        match weight.dtype() {
            DType::BF16 => self.pack_of(weight.storage::<bf16>(), order, words),
            _ => self.pack_of(weight.storage::<f32>(), order, words),
        }
    }

    fn pack_of<W: Weight>(&self, weights: &[W], order: &impl Order, words: &mut [u32]) {
        self.fill(order, words, |panel, line| panel.fill(weights, order, self.form, line));
    }

    /// Packs contiguous bf16 in [`Form::Single`], as they are, to zeros.
    pub(super) fn pack_narrow(&self, weights: &[bf16], order: &impl Order, words: &mut [u16]) {
        self.fill(order, words, |panel, line| {
            panel.fill_single(weights, order, line, bf16::to_bits);
        });
    }

    /// Fills all panels, on all cores; `fill` fills a line of one.
    fn fill<T: Send>(
        &self,
        order: &impl Order,
        words: &mut [T],
        fill: impl Fn(&mut Unfilled<'_, T>, usize) + Sync,
    ) {
        let [_, lines, _] = order.shape();
        let together = order.panels() * self.at_once;
        words.par_chunks_mut(together * self.depth).enumerate().for_each(|(index, mut words)| {
            let mut first = index * together;
            let mut panels = Vec::with_capacity(order.panels());
            while !words.is_empty() {
                let count = self.rows_at(first);
                let (panel, rest) = words.split_at_mut(count * self.depth);
                let mut rows = [[0; 2]; MOST_ROWS];
                rows.iter_mut().zip(first..).for_each(|(of, row)| *of = order.row(row));
                panels.push(Unfilled { rows, count, words: panel });
                first += count;
                words = rest;
            }
            for line in 0..self.form.lines(lines) {
                panels.iter_mut().for_each(|panel| fill(panel, line));
            }
        });
    }

    /// Returns the number of rows of the panel that begins at row `first`.
    pub(super) fn rows_at(&self, first: usize) -> usize {
        let left = self.rows - first;
        match self.form {
            Form::Blocks | Form::Halves => left.min(self.at_once),
            _ if left >= self.at_once => self.at_once,
            // The largest power of two.
            _ => 1 << left.ilog2(),
        }
    }
}
