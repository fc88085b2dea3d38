//! The product of many rows in bf16 and f32: sixteen rows of `x` side by side, and weights as
//! stored.
//!
//! ```text
//! x, in the weights' type -> words of sixteen rows, side by side  \
//! weights, as stored      -> panels of some rows                   -> sums in registers -> out
//! ```
//!
//! A panel of weights stays in a core's L1 cache while a part of `x`, which stays in the L2 cache,
//! is processed. Weights are read from the mapped checkpoint file and are never repacked.
//!
//! Source: Goto & van de Geijn 2008, "Anatomy of High-Performance Matrix Multiplication".

mod dot;
pub(in crate::kernel::flex) mod memory;
mod pack;
mod transposed;

use burn_flex::FlexTensor;
use pulp::bytemuck::cast_slice;

pub(in crate::kernel::flex) use super::transpose::LANES;
use super::{
    super::cleared,
    work_items::{Division, WorkItem, work_items_at_most},
};
use dot::Part;
pub(in crate::kernel::flex) use dot::{Dot, OfBf16, OfF32, Panel, filled, of_bf16};
use pack::Group;
pub(in crate::kernel::flex) use pack::Vector;

/// Rows of the weights in a panel.
pub(in crate::kernel::flex) const COLUMNS: usize = 8;

/// Groups of `x` in a part: with one stretch of their words they stay in a core's L2 cache.
const PART: usize = 3;

/// Words of a stretch of the sums: its panel stays in a core's L1 cache.
const STRETCH: usize = 1024;

/// Bytes of packed `x` that stay in the last cache of the CPU.
const KEPT: usize = 10 << 20;

/// Computes `x W^T`.
///
/// # Shapes
/// - `x`: `[rows, width]`, `weights`: `[out, width]`, output: `[rows, out]`
pub(super) fn product<D: Dot>(
    dot: D,
    x: &[f32],
    weights: &[D::Number],
    [rows, width, out]: [usize; 3],
) -> FlexTensor {
    let words = width.div_ceil(D::NUMBERS);
    let groups = Group::all(rows);
    let packed = packed(dot, x, &groups, [rows, width]);
    // Parts of equal size.
    let parts = groups.len().div_ceil(PART);
    let part = groups.len().div_ceil(parts);
    // A work item reads all rows of `x` and the weights of some columns, or some rows of `x` and the weights of many columns.
    // If `x` does not stay in the last cache, the way that reads fewer bytes in all is faster: with 3,000 rows of 6,144 the
    // second takes 8 % less time than the first.
    let size = size_of_val(&packed[..]);
    let is_divided =
        size > KEPT && size_of_val(&weights[..width * out]) * parts < size * work_items_at_most();
    let divided = groups.chunks(if is_divided { part } else { groups.len() });
    let ends = divided.clone().skip(1).map(|groups| groups[0].first_row()).chain([rows]);
    let heights = divided.clone().zip(ends).map(|(groups, end)| end - groups[0].first_row());
    let division = Division::of_parts(heights.collect(), out, COLUMNS);
    let compute = |(): &mut (), WorkItem { row, column: first, mut to }: WorkItem<'_>| {
        let groups = divided.clone().find(|groups| groups[0].first_row() == row);
        for groups in groups.expect("the groups of the item").chunks(part) {
            let to = &mut to[groups[0].first_row() - row..];
            of_item(dot, &packed, groups, &weights[first * width..], [width, words], to);
        }
    };
    division.computed(|| (), compute)
}

/// Packs all groups one after the other; within a group, each word of all its rows in turn.
fn packed<D: Dot>(dot: D, x: &[f32], groups: &[Group], [rows, width]: [usize; 2]) -> Vec<Vector> {
    let words = width.div_ceil(D::NUMBERS);
    let lengths = groups.iter().map(|group| group.vectors * words);
    cleared::in_parts(Vector::ZERO, lengths, |index, share| {
        let group = &groups[index];
        for vector in 0..group.vectors {
            let first = group.first_row() + vector * LANES;
            let chosen = &x[first * width..(first + LANES).min(rows) * width];
            for (block, start) in (0..width).step_by(LANES * D::NUMBERS).enumerate() {
                let mut parts = [&[][..]; LANES];
                let end = (start + LANES * D::NUMBERS).min(width);
                let count = chosen
                    .chunks(width)
                    .zip(&mut parts)
                    .map(|(x, part)| *part = &x[start..end])
                    .count();
                let to = share[block * LANES * group.vectors + vector..]
                    .iter_mut()
                    .step_by(group.vectors);
                to.zip(dot.pack(&parts[..count])).for_each(|(to, vector)| *to = vector);
            }
        }
    })
}

/// Computes the sums of every row of `to` with the first rows of `weights`, as many as it takes.
/// `to` begins at the first row of the groups.
fn of_item<D: Dot>(
    dot: D,
    packed: &[Vector],
    groups: &[Group],
    weights: &[D::Number],
    [width, words]: [usize; 2],
    to: &mut [&mut [f32]],
) {
    let stretch = words.div_ceil(words.div_ceil(STRETCH));
    let columns = to[0].len();
    // One stretch of `x` after the other, because all of it may not fit the L2 cache.
    for word in (0..words).step_by(stretch) {
        let numbers = word * D::NUMBERS..((word + stretch) * D::NUMBERS).min(width);
        for start in (0..columns).step_by(COLUMNS) {
            // The last row is repeated for missing ones.
            let panel = Panel::of(std::array::from_fn(|column| {
                let row = (start + column).min(columns - 1);
                cast_slice(&weights[row * width..][numbers.clone()])
            }));
            for group in groups {
                let x = &group.of(packed, words)[word * group.vectors..];
                let row = group.first_row() - groups[0].first_row();
                let to = Part { rows: &mut to[row..], start, is_first: word == 0 };
                match group.vectors {
                    1 => dot.run::<1>(x.as_chunks().0, &panel, to),
                    2 => dot.run::<2>(x.as_chunks().0, &panel, to),
                    _ => dot.run::<3>(x.as_chunks().0, &panel, to),
                }
            }
        }
    }
}
