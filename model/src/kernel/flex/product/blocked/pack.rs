//! Packed rows of `x`: a vector holds one word of each of sixteen rows.

use super::super::transpose::LANES;

/// One word of each of [`LANES`] rows, aligned to a cache line.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(in crate::kernel::flex) struct Vector(pub(super) [u32; LANES]);

impl Vector {
    pub(in crate::kernel::flex) const ZERO: Self = Self([0; LANES]);

    /// Two numbers of bf16 a word.
    pub(in crate::kernel::flex) fn of(numbers: [u16; 2 * LANES]) -> Self {
        Self(pulp::bytemuck::cast(numbers))
    }
}

/// Maximum number of vectors of a group: with this many sums for each of
/// [`COLUMNS`](super::COLUMNS) weights, all fit in registers.
pub(super) const VECTORS: usize = 3;

/// Rows that are multiplied together: `vectors` times [`LANES`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Group {
    /// Vectors of the groups before it, per word.
    pub(super) first: usize,
    pub(super) vectors: usize,
}

impl Group {
    /// Returns as few groups as possible, of sizes as equal as possible: with fewer vectors the
    /// instruction waits for its own sums.
    pub(super) fn all(rows: usize) -> Vec<Self> {
        let vectors = rows.div_ceil(LANES);
        let count = vectors.div_ceil(VECTORS);
        let start = |group: usize| group * vectors / count;
        let group = |index| Self { first: start(index), vectors: start(index + 1) - start(index) };
        (0..count).map(group).collect()
    }

    /// Returns its part of the packed rows, with `words` words per row.
    pub(super) fn of(self, packed: &[Vector], words: usize) -> &[Vector] {
        &packed[self.first * words..][..self.vectors * words]
    }

    /// Returns its first row.
    pub(super) fn first_row(self) -> usize {
        self.first * LANES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_even_and_leave_nothing_out() {
        let sizes = |rows| Group::all(rows).iter().map(|group| group.vectors).collect::<Vec<_>>();
        assert_eq!(sizes(17), [2]);
        assert_eq!(sizes(48), [3]);
        assert_eq!(sizes(49), [2, 2]);
        assert_eq!(sizes(125), [2, 3, 3]);
        assert_eq!(sizes(375), [3; 8]);
        let groups = Group::all(2000);
        let ends = groups.iter().map(|group| group.first + group.vectors);
        let starts = groups.iter().skip(1).map(|group| group.first).chain([125]);
        assert!(ends.eq(starts));
    }
}
