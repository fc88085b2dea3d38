//! Weights in int8: one byte each, and a scale for every [`BLOCK`] of a row.
//!
//! ```text
//! row:    group, group, ..            groups of four blocks, the last padded with zeros
//! group:  32 words, then 4 scales     scales in f32
//! word j: number j of each block      as byte q + 128; a weight is q times its block's scale
//! ```
//!
//! A shift and a mask of a vector of words give neighbours of one block, for any vector length. The
//! other operand keeps its plain order. A row is read from its first byte to its last.
//!
//! Rounding is as in ggml's Q8_0, with the scale in f32: the largest of a block is 127 times it.
//! Values from a Q8_0 block are not rounded a second time.
//!
//! Source: ggml `ggml-quants.c` (`quantize_row_q8_0_ref`).

use burn::tensor::{Bytes, DType, Shape, TensorMetadata, bf16};
use burn_flex::{Flex, FlexTensor, Layout};
use pulp::{
    Simd, WithSimd,
    bytemuck::{self, Pod},
};
use rayon::prelude::*;

use super::{
    super::weight::{Form, Packed},
    from_values,
};
use crate::kernel::flex::level;

/// Numbers per scale.
pub(super) const BLOCK: usize = 32;
/// Blocks whose numbers share words.
pub(super) const BLOCKS: usize = 4;
/// Numbers of a group.
pub(super) const GROUP: usize = BLOCK * BLOCKS;
/// Words of a group, with its scales.
const WORDS: usize = BLOCK + BLOCKS;

/// A group of a row.
pub(super) type Group = [u32; WORDS];

/// The byte for zero.
pub(super) const ZERO: u32 = 128;

/// 1.5 times 2^23. Adding it to a number of at most 2^22 in size rounds the number to an integer, ties to even. The bits of
/// the sum are the bits of this plus that integer, because floats between 2^23 and 2^24 are one apart.
pub(super) const WHOLE: f32 = 12_582_912.0;

/// A matrix in int8.
#[derive(Debug, Clone)]
pub(super) struct Q8 {
    /// `[rows, words]`
    words: FlexTensor,
    /// Weights per row.
    width: usize,
}

impl Q8 {
    /// Takes the words of a packed matrix.
    ///
    /// # Panics
    /// If they are not from [`quantize_q8`].
    pub(super) fn of(weight: Packed<Flex, 2>) -> Self {
        let Packed { words, shape: [_, width], form } = weight;
        let words = words.into_primitive();
        let is_ours =
            form == Form::Q8 && words.shape()[1] == words_of(width) && words.is_contiguous();
        assert!(is_ours, "int8 weights have no other layout than their own");
        Self { words, width }
    }

    /// Returns rows and weights per row.
    pub(super) fn dims(&self) -> [usize; 2] {
        [self.words.shape()[0], self.width]
    }

    pub(super) fn rows(&self) -> Q8Rows<'_> {
        let stride = groups_of(self.width);
        let first = self.words.layout().start_offset() / WORDS;
        let groups = self.words.storage::<u32>().as_chunks().0;
        Q8Rows { groups: &groups[first..][..self.words.shape()[0] * stride], stride }
    }

    /// Returns rows `rows` in f32, `[rows, width]`.
    pub(super) fn widened(&self, rows: impl Iterator<Item = usize>) -> FlexTensor {
        let rows: Vec<usize> = rows.collect();
        let (all, width, arch) = (self.rows(), self.width, level::arch());
        let mut values = vec![0.0; rows.len() * width];
        for (&row, to) in rows.iter().zip(values.chunks_mut(width.max(1))) {
            arch.dispatch(Widening { row: all.row(row), to });
        }
        from_values(values, [rows.len(), width])
    }
}

/// Contiguous rows in int8.
#[derive(Clone, Copy)]
pub(super) struct Q8Rows<'a> {
    groups: &'a [Group],
    /// Groups per row.
    stride: usize,
}

/// Returns the number of groups of a row of `width` numbers.
pub(super) fn groups_of(width: usize) -> usize {
    width.div_ceil(GROUP)
}

/// Returns the number of words of a row of `width` numbers.
pub(super) fn words_of(width: usize) -> usize {
    groups_of(width) * WORDS
}

impl<'a> Q8Rows<'a> {
    /// Returns the groups of all rows.
    pub(super) fn groups(self) -> &'a [Group] {
        self.groups
    }

    /// Returns the groups of row `row`.
    pub(super) fn row(self, row: usize) -> &'a [Group] {
        &self.groups[row * self.stride..][..self.stride]
    }
}

/// Returns words and scales of a group.
#[inline(always)]
pub(super) fn parts(group: &Group) -> (&[u32; BLOCK], &[f32; BLOCKS]) {
    let (words, scales) = group.split_first_chunk().expect("a block");
    let scales: &[f32] = bytemuck::cast_slice(scales);
    (words, scales.try_into().expect("as many"))
}

/// Kernel of [`super::super::Backend::quantize_q8`].
pub(super) fn quantize_q8(weight: FlexTensor) -> FlexTensor {
    let weight = if weight.is_contiguous() { weight } else { weight.to_contiguous() };
    let shape = weight.shape();
    let [rows, width] = [0, 1].map(|axis| shape[axis]);
    let words = match weight.dtype() {
        DType::F32 => rounded::<f32>(numbers(&weight, rows * width), width),
        DType::BF16 => rounded::<bf16>(numbers(&weight, rows * width), width),
        other => panic!("weights of {other:?} cannot be quantised to int8"),
    };
    let layout = Layout::contiguous(Shape::new([rows, words_of(width)]));
    FlexTensor::new(Bytes::from_elems(words), layout, DType::U32)
}

fn numbers<E: burn::tensor::Element + Pod>(x: &FlexTensor, count: usize) -> &[E] {
    &x.storage::<E>()[x.layout().start_offset()..][..count]
}

/// A float type of weights.
trait Number: Pod + Sync {
    fn wide(self) -> f32;
}

impl Number for f32 {
    #[inline(always)]
    fn wide(self) -> f32 {
        self
    }
}

impl Number for bf16 {
    #[inline(always)]
    fn wide(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }
}

fn rounded<N: Number>(numbers: &[N], width: usize) -> Vec<u32> {
    let stride = words_of(width);
    let arch = level::arch();
    let mut words = vec![0; numbers.len() / width.max(1) * stride];
    let rows = words.par_chunks_mut(stride.max(1)).zip(numbers.par_chunks(width.max(1)));
    rows.for_each(|(words, numbers)| arch.dispatch(Rounding { numbers, words }));
    words
}

/// Rounds rows of `x` like weights; each row begins with a group of its own.
pub(super) fn rounded_rows(x: &[f32], width: usize) -> Vec<Group> {
    let (stride, arch) = (groups_of(width), level::arch());
    let mut groups = vec![[0; WORDS]; x.len() / width * stride];
    for (words, numbers) in groups.chunks_mut(stride).zip(x.chunks(width)) {
        arch.dispatch(Rounding { numbers, words: words.as_flattened_mut() });
    }
    groups
}

/// One row.
struct Rounding<'a, N> {
    numbers: &'a [N],
    words: &'a mut [u32],
}

impl<N: Number> WithSimd for Rounding<'_, N> {
    type Output = ();

    // Plain loops: closures given to iterators would not be compiled for the dispatched CPU. The compiler uses no
    // vectors if input and output may overlap, so both are arrays on the stack.
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let groups = self.words.as_chunks_mut::<WORDS>().0;
        for (group, numbers) in groups.iter_mut().zip(self.numbers.chunks(GROUP)) {
            let mut wide = [0.0f32; GROUP];
            match numbers.first_chunk::<GROUP>() {
                Some(numbers) => {
                    for i in 0..GROUP {
                        wide[i] = numbers[i].wide();
                    }
                }
                None => {
                    for i in 0..numbers.len() {
                        wide[i] = numbers[i].wide();
                    }
                }
            }
            let (mut words, mut scales) = ([0; BLOCK], [0; BLOCKS]);
            for (block, wide) in wide.as_chunks::<BLOCK>().0.iter().enumerate() {
                // NaN stays NaN, so that a broken network is detected.
                let most = largest(wide);
                let scale = if most.is_finite() { most / 127.0 } else { f32::NAN };
                scales[block] = scale.to_bits();
                let step = if scale > 0.0 { scale } else { 1.0 };
                for i in 0..BLOCK {
                    let q = (wide[i] / step + WHOLE).to_bits();
                    words[i] |= (q.wrapping_add(ZERO) & 0xff) << (8 * block);
                }
            }
            group[..BLOCK].copy_from_slice(&words);
            group[BLOCK..].copy_from_slice(&scales);
        }
    }
}

/// Returns the largest absolute value of a block, NaN if one is NaN. Without the sign, floats are ordered like
/// their bits.
#[inline(always)]
pub(super) fn largest(numbers: &[f32; BLOCK]) -> f32 {
    /// Numbers compared at a time.
    const LANES: usize = 8;
    let mut most = [0; LANES];
    for numbers in numbers.as_chunks::<LANES>().0 {
        for lane in 0..LANES {
            most[lane] = most[lane].max(numbers[lane].abs().to_bits());
        }
    }
    let mut largest = 0;
    for most in most {
        largest = largest.max(most);
    }
    f32::from_bits(largest)
}

/// Converts groups to f32, up to the length of `to`.
pub(super) struct Widening<'a> {
    pub(super) row: &'a [Group],
    pub(super) to: &'a mut [f32],
}

impl WithSimd for Widening<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for (group, to) in self.row.iter().zip(self.to.chunks_mut(GROUP)) {
            let (words, scales) = parts(group);
            for (block, to) in to.chunks_mut(BLOCK).enumerate() {
                let mut wide = [0.0; BLOCK];
                for i in 0..BLOCK {
                    let byte = words[i] >> (8 * block) & 0xff;
                    wide[i] = (byte as i32 - ZERO as i32) as f32 * scales[block];
                }
                to.copy_from_slice(&wide[..to.len()]);
            }
        }
    }
}

#[cfg(test)]
mod tests;
