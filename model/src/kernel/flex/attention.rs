//! Attention that reads keys and values where they lie and never writes down its scores.
//!
//! ```text
//! keys in blocks -> scores -> e^(score - largest so far) -> weighted sums of the values
//! ```
//!
//! Of each query stay the largest score so far, the sum of the weights and the weighted values; a
//! larger score shrinks what was summed before. Blocks end where their number says, and what is hidden
//! weighs exactly nothing: a query's sums are the same whoever stands beside it, and however many keys
//! are hidden from it.
//!
//! Keys and values in bf16, as [`rounded_as`] makes them, are multiplied in pairs.
//!
//! Two busy cores: 375 positions that see 128 to each side take 9 ms where the reference takes 33, a
//! token of two songs after 4096 takes 4.3 where it takes 10.
//!
//! Source: Milakov & Gimelshein 2018, arXiv:1805.02867; Dao et al. 2022, arXiv:2205.14135.

#[cfg(target_arch = "x86_64")]
mod dots;
pub(super) mod few;
mod gradient;
mod many;
mod product;
mod rounded;
#[cfg(test)]
mod tests;
mod tile;

#[cfg(target_arch = "x86_64")]
use dots::{Dots, Pairs};
pub(super) use gradient::attention_gradients;
pub(super) use rounded::rounded_as;
use tile::Plain;

use std::ops::Range;

use burn::tensor::{DType, Element, Tensor, TensorMetadata, ops::BoolTensor};
use burn_flex::{Flex, FlexTensor};
use pulp::bytemuck::Pod;

use super::{
    super::{Mask, Visibility, primitive, reference, tensor},
    from_values, readable,
};

/// Queries up to which each goes through the keys on its own.
const FEW_QUERIES: usize = 4;

/// Products that are done before another core has woken up.
const WORTH_SHARING: usize = 1 << 18;

/// Kernel of [`super::super::Backend::attention`], for f32.
pub(super) fn attention(
    q: FlexTensor,
    k: FlexTensor,
    v: FlexTensor,
    keys: Option<BoolTensor<Flex>>,
    visibility: Visibility,
) -> FlexTensor {
    let is_known = q.dtype() == DType::F32
        && matches!(k.dtype(), DType::F32 | DType::BF16)
        && k.dtype() == v.dtype();
    if !is_known || [&q, &k, &v].iter().any(|x| x.shape().num_elements() == 0) {
        let mask = Mask { visibility, keys: keys.map(Tensor::from_primitive) };
        return primitive(reference::attention::<Flex>(tensor(q), tensor(k), tensor(v), &mask));
    }
    let [batch, heads, queries] = [q.shape()[0], q.shape()[1], q.shape()[2]];
    let width = k.shape()[3];
    let [q, k, v] = [q, k, v].map(readable);
    let keys = keys.map(|keys| keys.to_contiguous());
    let real = keys.as_ref().map(FlexTensor::storage::<u8>);
    // In the order in which the next product reads it.
    let mut mixed = vec![0.0; batch * queries * heads * width];
    let is_done = queries > FEW_QUERIES && in_pairs([&q, &k, &v], real, visibility, &mut mixed);
    if !is_done {
        let [k, v] = [k, v].map(widened);
        let problem = Problem::of([&q, &k, &v], real, visibility);
        if queries <= FEW_QUERIES {
            few::attend(&problem, &mut mixed);
        } else {
            many::attend(&Plain(problem), &mut mixed);
        }
    }
    let mixed: Tensor<Flex, 4> = tensor(from_values(mixed, [batch, queries, heads, width]));
    primitive(mixed.swap_dims(1, 2))
}

/// Fills `mixed` if keys and values are bf16 and the processor multiplies pairs of those; says whether.
#[cfg(target_arch = "x86_64")]
fn in_pairs(
    inputs: [&FlexTensor; 3],
    real: Option<&[u8]>,
    visibility: Visibility,
    mixed: &mut [f32],
) -> bool {
    let [_, k, _] = inputs;
    let Some(dots) = Dots::new(k.shape()[3]).filter(|_| k.dtype() == DType::BF16) else {
        return false;
    };
    let problem = Problem::of(inputs, real, visibility);
    many::attend(&Pairs::of(dots, problem, k.shape()[0]), mixed);
    true
}

#[cfg(not(target_arch = "x86_64"))]
fn in_pairs(_: [&FlexTensor; 3], _: Option<&[u8]>, _: Visibility, _: &mut [f32]) -> bool {
    false
}

/// In f32; of any shape.
fn widened(x: FlexTensor) -> FlexTensor {
    if x.dtype() == DType::F32 { x } else { primitive(tensor::<Flex, 4>(x).cast(DType::F32)) }
}

/// `[B, heads, L, D]` wherever it lies.
#[derive(Clone, Copy)]
pub(super) struct Heads<'a, T = f32> {
    pub(super) values: &'a [T],
    /// From one item, head and position to the next.
    pub(super) strides: [usize; 3],
    pub(super) width: usize,
}

impl<'a, T: Element + Pod> Heads<'a, T> {
    fn of(x: &'a FlexTensor) -> Self {
        let strides = x.layout().strides();
        Self {
            values: &x.storage::<T>()[x.layout().start_offset()..],
            strides: [0, 1, 2].map(|axis| strides[axis].unsigned_abs()),
            width: x.shape()[3],
        }
    }
}

impl<'a, T> Heads<'a, T> {
    /// One head of an item.
    fn head(&self, item: usize, head: usize) -> Rows<'a, T> {
        let start = item * self.strides[0] + head * self.strides[1];
        Rows { values: &self.values[start..], stride: self.strides[2], width: self.width }
    }
}

/// `[L, D]`: one head.
#[derive(Clone, Copy)]
struct Rows<'a, T = f32> {
    values: &'a [T],
    stride: usize,
    width: usize,
}

impl<'a, T> Rows<'a, T> {
    #[inline(always)]
    fn row(&self, position: usize) -> &'a [T] {
        &self.values[position * self.stride..][..self.width]
    }
}

/// What is asked for, of keys and values in `T`.
pub(super) struct Problem<'a, T = f32> {
    pub(super) q: Heads<'a>,
    pub(super) k: Heads<'a, T>,
    pub(super) v: Heads<'a, T>,
    pub(super) kv_heads: usize,
    /// Query heads of a key head.
    pub(super) group: usize,
    pub(super) queries: usize,
    pub(super) keys: usize,
    /// `[B, keys]`, zero = padding.
    pub(super) real: Option<&'a [u8]>,
    pub(super) visibility: Visibility,
    pub(super) scale: f32,
}

impl<'a, T: Element + Pod> Problem<'a, T> {
    fn of([q, k, v]: [&'a FlexTensor; 3], real: Option<&'a [u8]>, visibility: Visibility) -> Self {
        let [kv_heads, keys, width] = [1, 2, 3].map(|axis| k.shape()[axis]);
        Self {
            q: Heads::of(q),
            k: Heads::of(k),
            v: Heads::of(v),
            kv_heads,
            group: q.shape()[1] / kv_heads,
            queries: q.shape()[2],
            keys,
            real,
            visibility,
            scale: scale_of(width),
        }
    }
}

impl<T: Copy + Into<f32>> Problem<'_, T> {
    /// Keys that query `i` may see by its position.
    fn seen(&self, i: usize) -> Range<usize> {
        match self.visibility {
            Visibility::Full => 0..self.keys,
            Visibility::Causal { first } => 0..self.keys.min(first + i + 1),
            Visibility::Window(reach) => {
                let end = self.keys.min(i.saturating_add(reach).saturating_add(1));
                i.saturating_sub(reach).min(end)..end
            }
        }
    }

    /// Queries that may see key `j` by its position, and those that do not exist.
    fn seeing(&self, j: usize) -> Range<usize> {
        match self.visibility {
            Visibility::Full => 0..usize::MAX,
            Visibility::Causal { first } => j.saturating_sub(first)..usize::MAX,
            Visibility::Window(reach) => {
                j.saturating_sub(reach)..j.saturating_add(reach).saturating_add(1)
            }
        }
    }

    /// Which keys of an item are real, if not all are.
    fn real(&self, item: usize) -> Option<&[u8]> {
        self.real.map(|real| &real[item * self.keys..][..self.keys])
    }

    /// Whether query `i` of an item sees no key at all.
    fn is_blind(&self, item: usize, i: usize) -> bool {
        let seen = self.seen(i);
        match self.real(item) {
            Some(real) => real[seen].iter().all(|&real| real == 0),
            None => seen.is_empty(),
        }
    }

    /// What such a query gets: the mean of all values.
    fn mean(&self, item: usize, head: usize) -> Vec<f32> {
        let values = self.v.head(item, head);
        let mut mean = vec![0.0; values.width];
        for j in 0..self.keys {
            mean.iter_mut().zip(values.row(j)).for_each(|(mean, &value)| *mean += value.into());
        }
        mean.iter_mut().for_each(|mean| *mean /= self.keys as f32);
        mean
    }

    /// Numbers that are multiplied.
    fn products(&self, items: usize) -> usize {
        items * self.group * self.queries * self.keys * self.k.width
    }
}

/// What scores of heads so wide are multiplied with.
pub(super) fn scale_of(width: usize) -> f32 {
    (width as f64).powf(-0.5) as f32
}

/// A score that is hidden.
const HIDDEN: f32 = f32::MIN;

/// The blocks of `size` keys that `range` touches, cut to it.
fn blocks(range: Range<usize>, size: usize) -> impl Iterator<Item = Range<usize>> {
    let first = range.start / size * size;
    (first..range.end)
        .step_by(size)
        .map(move |start| start.max(range.start)..(start + size).min(range.end))
}
