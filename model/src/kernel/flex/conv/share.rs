//! Division of the output among the cores.

use rayon::prelude::*;

/// Work items per core, so that no core waits long for the last one.
const SHARES: usize = 4;

/// A stretch of all rows of an item.
pub(super) type Stretch<'a> = Vec<&'a mut [f32]>;

/// Cuts every row of `out` into `parts` parts of `size(part)`; the last takes the rest. The result
/// is ordered by item, then by part.
pub(super) fn cut(
    out: &mut [f32],
    outputs: usize,
    length: usize,
    parts: usize,
    size: impl Fn(usize) -> usize,
) -> Vec<Stretch<'_>> {
    let mut stretches = Vec::new();
    for item in out.chunks_mut(outputs * length) {
        let of_part = || Vec::with_capacity(outputs);
        let mut of_item: Vec<Stretch<'_>> = (0..parts).map(|_| of_part()).collect();
        for mut row in item.chunks_mut(length) {
            for (index, stretch) in of_item.iter_mut().enumerate() {
                let is_last = index + 1 == parts;
                let here = if is_last { row.len() } else { size(index).min(row.len()) };
                let (piece, rest) = row.split_at_mut(here);
                stretch.push(piece);
                row = rest;
            }
        }
        stretches.extend(of_item);
    }
    stretches
}

/// Runs `work(stretch, first row, rows)` for all rows of all stretches, on all cores. `first row` is
/// a multiple of `at_once`.
pub(super) fn share(
    mut stretches: Vec<Stretch<'_>>,
    at_once: usize,
    work: impl Fn(usize, usize, &mut [&mut [f32]]) + Sync,
) {
    let rows = stretches.first().map_or(0, Vec::len);
    let together = together(stretches.len(), rows, at_once);
    let work = &work;
    let each = |(index, rows): (usize, &mut Stretch<'_>)| {
        rows.par_chunks_mut(together).enumerate().for_each(|(group, rows)| {
            work(index, group * together, rows);
        });
    };
    stretches.par_iter_mut().enumerate().for_each(each);
}

/// Returns the number of rows of a work item: whole panels.
pub(super) fn together(stretches: usize, rows: usize, at_once: usize) -> usize {
    let groups = pieces().div_ceil(stretches.max(1));
    rows.div_ceil(groups).next_multiple_of(at_once)
}

/// Runs `work(stretch, rows)` for all stretches, on all cores.
pub(super) fn share_whole(
    mut stretches: Vec<Stretch<'_>>,
    work: impl Fn(usize, &mut [&mut [f32]]) + Sync,
) {
    stretches.par_iter_mut().enumerate().for_each(|(index, rows)| work(index, rows));
}

/// Returns the desired number of work items.
pub(super) fn pieces() -> usize {
    rayon::current_num_threads() * SHARES
}
