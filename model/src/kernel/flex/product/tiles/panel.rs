//! Panels of weights: some rows in bf16, block after block. Weights in int8 are rounded to bf16.
//!
//! ```text
//! block: 32 lines of 64 bytes, one of each row
//! ```

#![expect(unsafe_code, reason = "a CPU with AMX has AVX-512, and `Tiles` is the proof")]

use std::{arch::x86_64::*, ops::Range};

use super::{
    super::blocked::{
        Vector,
        memory::{bits, kept, words as word_vector},
    },
    BLOCK, COLUMNS, Tiles,
};
use crate::kernel::flex::eight::{self, Q8Rows};

const _: () = assert!(BLOCK == eight::BLOCK, "a line of a tile has one scale");

/// Blocks of the weights that are stored together: parts of a row begin at multiples of so many.
pub(super) const EVEN: usize = eight::BLOCKS;

/// Rows of the weights and blocks of each.
#[derive(Debug, Clone)]
pub(super) struct Stretch {
    /// The first row.
    pub(super) first: usize,
    /// The number of rows, at most [`COLUMNS`].
    pub(super) count: usize,
    /// The blocks.
    pub(super) blocks: Range<usize>,
}

impl Stretch {
    /// Returns the stretch after this one, of `all` blocks a row: of the next panel of these `rows`, or the next
    /// blocks of their first one. At the end it is of row `after`, and may lie beyond the weights.
    pub(super) fn next(&self, rows: Range<usize>, after: usize, all: usize) -> Self {
        let Self { first, count, ref blocks } = *self;
        let (first, blocks) = match (first + COLUMNS < rows.end, blocks.end < all) {
            (true, _) => (first + COLUMNS, blocks.clone()),
            (false, true) => (rows.start, blocks.end..blocks.end + blocks.len()),
            (false, false) => (after, 0..blocks.len()),
        };
        Self { first, count, blocks }
    }

    /// Writes the weights into `panel`; rows that are missing become zeros.
    pub(super) fn fill(&self, tiles: Tiles, weights: &impl Weights, panel: &mut [Vector]) {
        for row in 0..COLUMNS {
            let lines = panel[row..].iter_mut().step_by(COLUMNS);
            match row < self.count {
                true => weights.write(tiles, self.first + row, self.blocks.clone(), lines),
                false => lines.for_each(|line| *line = Vector::ZERO),
            }
        }
    }
}

/// Rows of weights that become lines of a panel.
pub(in super::super) trait Weights: Sync {
    /// Writes blocks `blocks` of row `row` to `lines`. The first block is a multiple of [`EVEN`]. Numbers that are
    /// missing become zeros.
    fn write<'a>(
        &self,
        tiles: Tiles,
        row: usize,
        blocks: Range<usize>,
        lines: impl Iterator<Item = &'a mut Vector>,
    );

    /// Returns the bytes of a block in memory.
    fn bytes(&self) -> usize;

    /// Returns the address of a block and the bytes between two rows, also for a row that does not exist.
    fn place(&self, row: usize, block: usize) -> (*const u8, usize);
}

/// Weights in bf16, as stored.
pub(in super::super) struct Bf16<'a> {
    /// `[out, width]`
    pub(in super::super) weights: &'a [u16],
    /// Weights per row.
    pub(in super::super) width: usize,
}

impl Weights for Bf16<'_> {
    fn write<'a>(
        &self,
        _: Tiles,
        row: usize,
        blocks: Range<usize>,
        lines: impl Iterator<Item = &'a mut Vector>,
    ) {
        let numbers = &self.weights[row * self.width..][..self.width];
        let numbers = &numbers[blocks.start * BLOCK..(blocks.end * BLOCK).min(self.width)];
        for (line, block) in lines.zip(numbers.chunks(BLOCK)) {
            *line = Vector::of(match block.first_chunk() {
                Some(full) => *full,
                None => {
                    let mut full = [0; BLOCK];
                    full[..block.len()].copy_from_slice(block);
                    full
                }
            });
        }
    }

    fn bytes(&self) -> usize {
        BLOCK * size_of::<u16>()
    }

    fn place(&self, row: usize, block: usize) -> (*const u8, usize) {
        let place = self.weights.as_ptr().wrapping_add(row * self.width + block * BLOCK);
        (place.cast(), self.width * size_of::<u16>())
    }
}

impl Weights for Q8Rows<'_> {
    fn write<'a>(
        &self,
        _: Tiles,
        row: usize,
        blocks: Range<usize>,
        mut lines: impl Iterator<Item = &'a mut Vector>,
    ) {
        let groups = &self.row(row)[blocks.start / eight::BLOCKS..];
        for (group, first) in groups.iter().zip(blocks.clone().step_by(eight::BLOCKS)) {
            // SAFETY: a CPU with AMX has these instructions.
            let narrow = unsafe { narrow(group) };
            let count = eight::BLOCKS.min(blocks.end - first);
            // In this order: the other one would take a line too many.
            narrow[..count].iter().zip(&mut lines).for_each(|(narrow, line)| *line = *narrow);
        }
    }

    fn bytes(&self) -> usize {
        size_of::<eight::Group>() / eight::BLOCKS
    }

    fn place(&self, row: usize, block: usize) -> (*const u8, usize) {
        let stride = size_of_val(self.row(0));
        let place = self.groups().as_ptr().cast::<u8>().wrapping_add(row * stride);
        (place.wrapping_add(block * self.bytes()), stride)
    }
}

/// Rounds the weights of a group to bf16, block by block.
#[target_feature(enable = "avx512f,avx512bf16")]
fn narrow(group: &eight::Group) -> [Vector; eight::BLOCKS] {
    let (words, scales) = eight::parts(group);
    let [low, high] = words.as_chunks().0 else { unreachable!("a block is two vectors") };
    let words = [word_vector(low), word_vector(high)];
    let mut blocks = [Vector::ZERO; eight::BLOCKS];
    for (block, to) in blocks.iter_mut().enumerate() {
        let shift = _mm_cvtsi32_si128(8 * block as i32);
        let scale = _mm512_set1_ps(scales[block]);
        let zero = _mm512_set1_ps(scales[block] * eight::ZERO as f32);
        let [low, high] = words.map(|words| {
            let bytes = _mm512_and_si512(_mm512_srl_epi32(words, shift), _mm512_set1_epi32(0xff));
            _mm512_fmsub_ps(_mm512_cvtepi32_ps(bytes), scale, zero)
        });
        *to = kept(bits(_mm512_cvtne2ps_pbh(high, low)));
    }
    blocks
}
