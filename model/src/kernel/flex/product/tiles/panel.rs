//! Panels of weights: some rows in bf16, block after block.
//!
//! ```text
//! block: 32 lines of 64 bytes, one of each row
//! ```

use std::{arch::x86_64::*, ops::Range};

use super::{
    super::{
        super::eight::{self, BLOCKS, Group, Q8Rows},
        blocked::{
            Vector,
            memory::{bits, kept, words},
        },
    },
    BLOCK, COLUMNS,
};

/// Rows of the weights and blocks of each.
#[derive(Debug, Clone)]
pub(in super::super) struct Stretch {
    /// The first row.
    pub(super) first: usize,
    /// The number of rows, at most [`COLUMNS`].
    pub(super) count: usize,
    /// The blocks.
    pub(super) blocks: Range<usize>,
}

impl Stretch {
    /// Returns the stretch after this one, of `all` blocks a row: of the same rows, or of the next panel. It
    /// may lie beyond the weights.
    pub(super) fn next(&self, all: usize) -> Self {
        let Self { first, count, ref blocks } = *self;
        match blocks.end < all {
            true => Self { blocks: blocks.end..blocks.end + blocks.len(), ..*self },
            false => Self { first: first + COLUMNS, count, blocks: 0..blocks.len() },
        }
    }

    /// Writes the weights into `panel`; rows that are missing become zeros.
    pub(super) fn fill<R: Rows>(&self, weights: &R, panel: &mut [Vector]) {
        for row in 0..COLUMNS {
            let lines = panel[row..].iter_mut().step_by(COLUMNS);
            match row < self.count {
                true => weights.write(self.first + row, self.blocks.clone(), lines),
                false => lines.for_each(|line| *line = Vector::ZERO),
            }
        }
    }
}

/// Weights that fill panels.
pub(in super::super) trait Rows: Sync {
    /// Writes blocks `blocks` of row `row` to `lines`, as bf16. Numbers that are missing become zeros.
    fn write<'a>(
        &self,
        row: usize,
        blocks: Range<usize>,
        lines: impl Iterator<Item = &'a mut Vector>,
    );

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

impl Rows for Bf16<'_> {
    fn write<'a>(
        &self,
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

    fn place(&self, row: usize, block: usize) -> (*const u8, usize) {
        let place = self.weights.as_ptr().wrapping_add(row * self.width + block * BLOCK);
        (place.cast(), self.width * size_of::<u16>())
    }
}

/// Weights in int8, with a scale for each block.
pub(in super::super) struct Bytes<'a>(pub(in super::super) Q8Rows<'a>);

impl Rows for Bytes<'_> {
    #[expect(unsafe_code, reason = "only `Tiles` calls it, and a CPU with AMX has AVX-512")]
    fn write<'a>(
        &self,
        row: usize,
        blocks: Range<usize>,
        lines: impl Iterator<Item = &'a mut Vector>,
    ) {
        let (group, first) = (blocks.start / BLOCKS, blocks.start % BLOCKS);
        // SAFETY: see above.
        unsafe { widen(&self.0.row(row)[group..], first, lines.take(blocks.len())) }
    }

    fn place(&self, row: usize, block: usize) -> (*const u8, usize) {
        let (groups, stride) = (self.0.groups(), self.0.stride());
        let place = groups.as_ptr().wrapping_add(row * stride + block / BLOCKS);
        (place.cast(), stride * size_of::<Group>())
    }
}

/// Writes the weights of blocks, from block `first` of the first group on, as bf16.
#[target_feature(enable = "avx512f,avx512bf16")]
fn widen<'a>(groups: &[Group], first: usize, lines: impl Iterator<Item = &'a mut Vector>) {
    let blocks = groups.iter().flat_map(|group| (0..BLOCKS).map(move |block| (group, block)));
    for (line, (group, block)) in lines.zip(blocks.skip(first)) {
        let (numbers, scales) = eight::parts(group);
        let shift = _mm_cvtsi32_si128(8 * block as i32);
        let scale = _mm512_set1_ps(scales[block]);
        let mut halves = [_mm512_setzero_ps(); 2];
        for (half, numbers) in halves.iter_mut().zip(numbers.as_chunks().0) {
            let bytes = _mm512_srl_epi32(words(numbers), shift);
            let bytes = _mm512_and_si512(bytes, _mm512_set1_epi32(0xff));
            let numbers = _mm512_sub_epi32(bytes, _mm512_set1_epi32(eight::ZERO as i32));
            *half = _mm512_mul_ps(_mm512_cvtepi32_ps(numbers), scale);
        }
        *line = kept(bits(_mm512_cvtne2ps_pbh(halves[1], halves[0])));
    }
}
