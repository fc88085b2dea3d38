//! Panels of weights: some rows in bf16, block after block.
//!
//! ```text
//! block: 32 lines of 64 bytes, one of each row
//! ```

use std::ops::Range;

use super::{super::blocked::Vector, BLOCK, COLUMNS};

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
    pub(super) fn fill(&self, weights: &Bf16<'_>, panel: &mut [Vector]) {
        for row in 0..COLUMNS {
            let lines = panel[row..].iter_mut().step_by(COLUMNS);
            match row < self.count {
                true => weights.write(self.first + row, self.blocks.clone(), lines),
                false => lines.for_each(|line| *line = Vector::ZERO),
            }
        }
    }
}

/// Weights in bf16, as stored.
pub(in super::super) struct Bf16<'a> {
    /// `[out, width]`
    pub(in super::super) weights: &'a [u16],
    /// Weights per row.
    pub(in super::super) width: usize,
}

impl Bf16<'_> {
    /// Writes blocks `blocks` of row `row` to `lines`. Numbers that are missing become zeros.
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

    /// Returns the address of a block and the bytes between two rows, also for a row that does not exist.
    pub(super) fn place(&self, row: usize, block: usize) -> (*const u8, usize) {
        let place = self.weights.as_ptr().wrapping_add(row * self.width + block * BLOCK);
        (place.cast(), self.width * size_of::<u16>())
    }
}
