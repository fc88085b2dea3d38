//! Weights packed in the order in which tiles read them.

use std::{borrow::Cow, cell::Cell, ops::Range};

use burn::tensor::{Bytes, DType, Shape, Tensor, bf16};
use burn_flex::{Flex, FlexTensor, Layout};
use pulp::{Simd, WithSimd, bytemuck};
use rayon::prelude::*;

use super::{
    super::contiguous,
    amx::{self, LINES},
    pairs,
    tile::{self, MOST_ROWS, Panel, SAMPLES, Sums, Window, rows_at_once},
};
use crate::kernel::{self, Precision, flex::level, primitive, tensor};

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
pub(super) trait Weight: Copy + Sync {
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
    /// Returns the place of a tap.
    fn tap(&self, tap: usize) -> usize;
    /// Returns the number of panels to fill together: more than 1 if rows are closer in memory than
    /// lines.
    fn panels(&self) -> usize;
}

/// A panel that is filled line by line.
struct Unfilled<'a> {
    /// Index and place of each row.
    rows: [[usize; 2]; MOST_ROWS],
    count: usize,
    words: &'a mut [u32],
}

impl Unfilled<'_> {
    /// Fills all taps of one line, or of a pair of lines.
    fn fill<W: Weight>(&mut self, weights: &[W], order: &impl Order, form: Form, index: usize) {
        let [_, lines, taps] = order.shape();
        let size = taps * self.count;
        let line = if form == Form::Single { index } else { 2 * index };
        if line >= lines {
            return; // The words are zeros.
        }
        let low = order.line(line);
        let high = (line + 1 < lines).then(|| order.line(line + 1));
        // Words between two taps: in blocks each tap has all lines of the block.
        let (first, apart) = match form {
            Form::Single | Form::Pairs => (index * size, self.count),
            Form::Blocks | Form::Halves => {
                let (within, parts) = (index % LINES, form.parts());
                let first = (index - within) * size * parts + within * self.count;
                (first, LINES * self.count * parts)
            }
        };
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
                *to = match form {
                    Form::Single => weight(row, low).wide().to_bits(),
                    Form::Pairs | Form::Blocks | Form::Halves => word(pair(row).map(W::narrow)),
                };
            }
            for (to, &row) in rests.iter_mut().zip(&self.rows[..self.count]) {
                let rest = |of: W| bf16::from_f32(of.wide() - of.narrow().to_f32());
                *to = word(pair(row).map(rest));
            }
        }
    }
}

/// Words of weights that stay in a core's L2 cache while a window is processed.
const HELD: usize = 1 << 16;

thread_local! {
    /// Weights of some panels as f32, of [`Words::Narrow`].
    static WIDE: Cell<Vec<u32>> = const { Cell::new(Vec::new()) };
}

/// Weights, panel by panel, as [`Panel`] has them.
#[derive(Debug)]
enum Words<'a> {
    /// In the [`Form`] of the filter.
    Whole(Cow<'a, [u32]>),
    /// bf16 that are multiplied as f32. They are converted a few panels at a time, so that the
    /// filter takes half the memory and is packed only once.
    Narrow(&'a [u16]),
}

impl Words<'_> {
    /// Returns the words of a range of weights; `room` may hold them.
    fn at<'b>(&'b self, weights: Range<usize>, room: &'b mut Vec<u32>) -> &'b [u32] {
        match self {
            Self::Whole(words) => &words[weights],
            Self::Narrow(halves) => {
                let halves = &halves[weights];
                room.resize(room.len().max(halves.len()), 0);
                let words = &mut room[..halves.len()];
                level::arch().dispatch(Widening { halves, words });
                words
            }
        }
    }
}

/// Conversion of bf16 to f32.
struct Widening<'a> {
    halves: &'a [u16],
    words: &'a mut [u32],
}

impl WithSimd for Widening<'_> {
    type Output = ();

    // A loop: a closure given to an iterator would not be compiled for these instructions.
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for (word, &half) in self.words.iter_mut().zip(self.halves) {
            *word = u32::from(half) << 16;
        }
    }
}

/// A filter, cut into panels of rows.
#[derive(Debug)]
pub(super) struct Filter<'a> {
    words: Words<'a>,
    pub(super) form: Form,
    /// Words per row.
    depth: usize,
    pub(super) rows: usize,
    /// Rows per panel; the last panels may have fewer.
    pub(super) at_once: usize,
}

/// The weights of a filter in the checkpoint's order, or its words.
#[derive(Debug, Clone)]
pub(super) struct Taps {
    /// Shape in the checkpoint.
    pub(super) shape: [usize; 3],
    values: FlexTensor,
    packed: Option<Kept>,
}

/// The kind of prepacked words.
#[derive(Debug, Clone, Copy)]
struct Kept {
    form: Form,
    /// True for bf16 that are multiplied as f32: two weights per word.
    is_narrow: bool,
}

impl Taps {
    /// Takes the weights of a convolution of this kind.
    ///
    /// # Panics
    /// If they are packed for another convolution.
    pub(super) fn of(weight: kernel::Weight<Flex, 3>, stride: usize, is_transposed: bool) -> Self {
        match weight {
            kernel::Weight::Plain(weight) => {
                Self { shape: weight.dims(), values: primitive(weight), packed: None }
            }
            kernel::Weight::Packed(kernel::Packed { words, shape, form }) => {
                let form = match form {
                    kernel::weight::Form::Filter { dtype, packing }
                        if (packing.stride, packing.is_transposed) == (stride, is_transposed) =>
                    {
                        let form = Form::of(dtype, packing.precision);
                        Kept { form, is_narrow: dtype == DType::BF16 && form == Form::Single }
                    }
                    other => panic!("{other:?} for stride {stride}, transposed: {is_transposed}"),
                };
                Self { shape, values: words.into_primitive(), packed: Some(form) }
            }
        }
    }

    /// True if the kernel reads such weights.
    pub(super) fn is_read(&self) -> bool {
        self.packed.is_some() || matches!(self.values.dtype(), DType::F32 | DType::BF16)
    }

    pub(super) fn is_packed(&self) -> bool {
        self.packed.is_some()
    }

    /// Returns the form in which the weights are multiplied.
    pub(super) fn form(&self) -> Form {
        match self.packed {
            Some(kept) => kept.form,
            None => Form::of(self.values.dtype(), Precision::InOrder),
        }
    }

    /// Returns the weights as a tensor, for the reference.
    ///
    /// # Panics
    /// If they are packed.
    pub(super) fn plain(self) -> Tensor<Flex, 3> {
        assert!(self.packed.is_none(), "only the kernel reads packed filters");
        tensor(self.values)
    }

    /// Makes plain weights contiguous, as [`Filter::of`] reads them. Words always are.
    pub(super) fn contiguous(self) -> Self {
        match self.packed {
            None => Self { values: contiguous(self.values), ..self },
            Some(_) => self,
        }
    }
}

impl<'a> Filter<'a> {
    /// Returns the filter of contiguous weights, or of prepacked ones.
    pub(super) fn of(weight: &'a Taps, order: &impl Order) -> Self {
        let Some(Kept { form, is_narrow }) = weight.packed else {
            return Self::plain(&weight.values, order, Precision::InOrder);
        };
        let [rows, lines, taps] = order.shape();
        let words = weight.values.storage::<u32>();
        let depth = form.lines(lines) * form.parts() * taps;
        let (weights, per_word) = (rows * depth, if is_narrow { 2 } else { 1 });
        let expected = weights.div_ceil(per_word);
        let lead = words.len().checked_sub(expected).filter(|&lead| lead < LINES);
        let words = &words[lead.expect("the words of another filter")..];
        let words = match is_narrow {
            true => Words::Narrow(&bytemuck::cast_slice(words)[..weights]),
            false => Words::Whole(Cow::Borrowed(words)),
        };
        Self { words, form, depth, rows, at_once: form.at_once() }
    }

    /// Packs contiguous weights.
    pub(super) fn plain(weight: &FlexTensor, order: &impl Order, precision: Precision) -> Self {
        let form = Form::of(weight.dtype(), precision);
        match weight.dtype() {
            DType::BF16 => Self::new(weight.storage::<bf16>(), order, form),
            _ => Self::new(weight.storage::<f32>(), order, form),
        }
    }

    /// Returns the words as a tensor, which [`Self::of`] reads: `[1, words]`. If `is_narrow`, the weights are
    /// bf16, and the form has them as f32.
    ///
    /// Before them are as many words as it takes for them to begin with a line of the cache.
    pub(super) fn kept(self, is_narrow: bool) -> FlexTensor {
        let words = match self.words {
            Words::Whole(words) => words,
            Words::Narrow(_) => unreachable!("a new filter has whole words"),
        };
        let mut kept: Vec<u32> = Vec::with_capacity(words.len() + LINES);
        kept.resize(kept.as_ptr().align_offset(LINES * size_of::<u32>()), 0);
        match is_narrow {
            true => {
                // The upper half of an f32 is its bf16.
                let high = |word: Option<&u32>| word.map_or(0, |word| (word >> 16) as u16);
                let pair = |pair: &[u32]| {
                    bytemuck::cast::<_, u32>([high(pair.first()), high(pair.get(1))])
                };
                kept.extend(words.chunks(2).map(pair));
            }
            false => kept.extend_from_slice(&words),
        }
        let layout = Layout::contiguous(Shape::new([1, kept.len()]));
        FlexTensor::new(Bytes::from_elems(kept), layout, DType::U32)
    }

    /// Packs weights, on all cores.
    fn new<W: Weight>(weights: &[W], order: &impl Order, form: Form) -> Self {
        let [rows, lines, taps] = order.shape();
        let at_once = form.at_once();
        let depth = form.lines(lines) * form.parts() * taps;
        let empty = Words::Whole(Cow::Borrowed(&[]));
        let mut filter = Self { words: empty, form, depth, rows, at_once };
        let mut words = vec![0; rows * depth];
        let together = order.panels() * at_once;
        words.par_chunks_mut(together * depth).enumerate().for_each(|(index, mut words)| {
            let mut first = index * together;
            let mut panels = Vec::with_capacity(order.panels());
            while !words.is_empty() {
                let count = filter.panel_at(first);
                let (panel, rest) = words.split_at_mut(count * depth);
                let mut rows = [[0; 2]; MOST_ROWS];
                rows.iter_mut().zip(first..).for_each(|(of, row)| *of = order.row(row));
                panels.push(Unfilled { rows, count, words: panel });
                first += count;
                words = rest;
            }
            for line in 0..form.lines(lines) {
                panels.iter_mut().for_each(|panel| panel.fill(weights, order, form, line));
            }
        });
        filter.words = Words::Whole(Cow::Owned(words));
        filter
    }

    /// Returns the number of rows of the panel that begins at row `first`.
    fn panel_at(&self, first: usize) -> usize {
        let left = self.rows - first;
        match self.form {
            Form::Blocks | Form::Halves => left.min(self.at_once),
            _ if left >= self.at_once => self.at_once,
            // The largest power of two.
            _ => 1 << left.ilog2(),
        }
    }

    /// Computes the sums of `rows`, whole panels, for the first `samples` samples of a window.
    /// `store` receives a row, its first sample, and the sums of this row and the rows after it,
    /// which it may change. It must skip samples beyond the last.
    pub(super) fn run(
        &self,
        rows: Range<usize>,
        window: Window<'_>,
        samples: usize,
        mut store: impl FnMut(usize, usize, &mut [[f32; SAMPLES]]),
    ) {
        let together = (HELD / self.depth / self.at_once).max(1) * self.at_once;
        let mut sums: Sums = [[0.0; SAMPLES]; MOST_ROWS];
        let mut tiles = amx::Tiles::default();
        let mut wide = WIDE.take();
        for first in rows.clone().step_by(together) {
            let last = (first + together).min(rows.end);
            let words = self.words.at(first * self.depth..last * self.depth, &mut wide);
            for at in (0..samples).step_by(SAMPLES) {
                let within = (at, SAMPLES.min(samples - at));
                let mut row = first;
                while row < last {
                    let count = self.panel_at(row);
                    let words = &words[(row - first) * self.depth..][..count * self.depth];
                    let panel = Panel { rows: count, words };
                    match self.form {
                        Form::Single => tile::sums(panel, window, within, &mut sums),
                        Form::Pairs => pairs::sums(panel, window, at, &mut sums),
                        Form::Blocks => tiles.sums(panel, window, within, &mut sums),
                        Form::Halves => tiles.sums_of_halves(panel, window, within, &mut sums),
                    }
                    store(row, at, &mut sums[..count]);
                    row += count;
                }
            }
        }
        WIDE.set(wide);
    }
}
