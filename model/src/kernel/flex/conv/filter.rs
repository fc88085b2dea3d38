//! Filters: the words of packed weights, and their sums with a window.

use std::{borrow::Cow, cell::Cell, ops::Range};

use burn::tensor::{Bytes, DType, Shape, Tensor};
use burn_flex::{Flex, FlexTensor, Layout};
use pulp::{Simd, WithSimd, bytemuck};

use super::{
    super::contiguous,
    amx::{self, LINES},
    pack::{Form, Order, Panels},
    pairs,
    tile::{self, MOST_ROWS, Panel, SAMPLES, Sums, Window},
};
use crate::kernel::{self, Precision, flex::level, primitive, tensor};

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
    pub(super) panels: Panels,
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
        let panels = Panels::of(order, form);
        let words = weight.values.storage::<u32>();
        let expected = panels.words().div_ceil(if is_narrow { 2 } else { 1 });
        let lead = words.len().checked_sub(expected).filter(|&lead| lead < LINES);
        let words = &words[lead.expect("the words of another filter")..];
        let words = match is_narrow {
            true => Words::Narrow(&bytemuck::cast_slice(words)[..panels.words()]),
            false => Words::Whole(Cow::Borrowed(words)),
        };
        Self { words, panels }
    }

    /// Packs contiguous weights.
    pub(super) fn plain(weight: &FlexTensor, order: &impl Order, precision: Precision) -> Self {
        let panels = Panels::of(order, Form::of(weight.dtype(), precision));
        let mut words = vec![0; panels.words()];
        panels.pack(weight, order, &mut words);
        Self { words: Words::Whole(Cow::Owned(words)), panels }
    }

    /// Packs contiguous weights into a tensor of words, which [`Self::of`] reads: `[1, words]`. bf16 that are
    /// multiplied as f32 stay bf16.
    ///
    /// Before them are as many words as it takes for them to begin with a line of the cache.
    pub(super) fn kept(
        weight: &FlexTensor,
        order: &impl Order,
        precision: Precision,
    ) -> FlexTensor {
        let panels = Panels::of(order, Form::of(weight.dtype(), precision));
        let is_narrow = weight.dtype() == DType::BF16 && panels.form == Form::Single;
        let weights = panels.words();
        let count = if is_narrow { weights.div_ceil(2) } else { weights };
        let mut kept = vec![0_u32; count + LINES];
        let lead = kept.as_ptr().align_offset(LINES * size_of::<u32>());
        kept.truncate(lead + count);
        let words = &mut kept[lead..];
        match is_narrow {
            true => {
                let words = &mut bytemuck::cast_slice_mut::<_, u16>(words)[..weights];
                panels.pack_narrow(weight.storage(), order, words);
            }
            false => panels.pack(weight, order, words),
        }
        let layout = Layout::contiguous(Shape::new([1, kept.len()]));
        FlexTensor::new(Bytes::from_elems(kept), layout, DType::U32)
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
        let Panels { form, depth, at_once, .. } = self.panels;
        let together = (HELD / depth / at_once).max(1) * at_once;
        let mut sums: Sums = [[0.0; SAMPLES]; MOST_ROWS];
        let mut tiles = amx::Tiles::default();
        let mut wide = WIDE.take();
        for first in rows.clone().step_by(together) {
            let last = (first + together).min(rows.end);
            let words = self.words.at(first * depth..last * depth, &mut wide);
            for at in (0..samples).step_by(SAMPLES) {
                let within = (at, SAMPLES.min(samples - at));
                let mut row = first;
                while row < last {
                    let count = self.panels.rows_at(row);
                    let words = &words[(row - first) * depth..][..count * depth];
                    let panel = Panel { rows: count, words };
                    match form {
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
