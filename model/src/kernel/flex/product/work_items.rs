//! Division of a product among the cores: each work item is some columns of some rows of the output.

use std::iter;

/// Work items per core, so that no core waits long for the last one.
const SHARES: usize = 12;

/// Work items per core from which on rows are not divided: every part of them may convert all weights again.
const ENOUGH: usize = 4;

/// Maximum number of row parts over all work items. With many rows there are fewer work items,
/// because every part is listed.
const MOST_PARTS: usize = 1 << 20;

/// A rectangle of the output.
pub(super) struct WorkItem<'a> {
    /// The first row.
    pub(super) row: usize,
    /// The first column, of a whole panel.
    pub(super) column: usize,
    /// The part of each row.
    pub(super) to: Vec<&'a mut [f32]>,
}

/// Returns the number of work items of a product, unless it is small or has many rows.
pub(super) fn work_items_at_most() -> usize {
    rayon::current_num_threads() * SHARES
}

/// Cuts `values`, `[rows, out]`, into work items of whole panels of `columns`, and of all rows; of `together` rows or a multiple
/// of it if there would be fewer than [`ENOUGH`] for each core.
pub(super) fn work_items(
    values: &mut [f32],
    out: usize,
    columns: usize,
    together: usize,
) -> Vec<WorkItem<'_>> {
    let panels = out.div_ceil(columns);
    let (rows, threads) = (values.len() / out, rayon::current_num_threads());
    let count = work_items_at_most().min((MOST_PARTS / rows).max(threads));
    let width = panels.div_ceil(count) * columns;
    let parts = (threads * ENOUGH).div_ceil(out.div_ceil(width));
    let height = rows.div_ceil(parts).div_ceil(together) * together;
    cut(values, out, width, iter::repeat_n(height, rows.div_ceil(height)))
}

/// Cuts `values`, `[rows, out]`, into work items of whole panels of `columns`, for each of these parts of the rows, which
/// are `heights` rows each.
///
/// An item has as many columns as leave enough items: it reads its rows once.
#[cfg(target_arch = "x86_64")]
pub(super) fn work_items_of_parts(
    values: &mut [f32],
    out: usize,
    columns: usize,
    heights: Vec<usize>,
) -> Vec<WorkItem<'_>> {
    let (rows, threads) = (values.len() / out, rayon::current_num_threads());
    let count = work_items_at_most().min((MOST_PARTS / rows).max(threads));
    let width = out.div_ceil(columns).div_ceil(count.div_ceil(heights.len())) * columns;
    cut(values, out, width, heights)
}

/// Cuts `values` into rectangles, those of the first rows first.
fn cut(
    mut values: &mut [f32],
    out: usize,
    width: usize,
    heights: impl IntoIterator<Item = usize>,
) -> Vec<WorkItem<'_>> {
    let mut all = Vec::new();
    let mut row = 0;
    for height in heights {
        let part;
        (part, values) = values.split_at_mut((height * out).min(values.len()));
        let of_column = |column| WorkItem { row, column, to: Vec::with_capacity(height) };
        let mut items: Vec<_> = (0..out).step_by(width).map(of_column).collect();
        for values in part.chunks_mut(out) {
            for (item, part) in items.iter_mut().zip(values.chunks_mut(width)) {
                item.to.push(part);
            }
        }
        all.extend(items);
        row += height;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asserts that every value is in one work item, at its place, and that items begin at whole panels.
    fn assert_whole(items: Vec<WorkItem<'_>>, columns: usize, [rows, out]: [usize; 2]) {
        let mut seen = vec![false; rows * out];
        for WorkItem { row, column, to } in items {
            assert!(column.is_multiple_of(columns));
            for (row, part) in (row..).zip(to) {
                for (column, value) in (column..).zip(part) {
                    let index = row * out + column;
                    assert!(*value == index as f32 && !seen[index]);
                    seen[index] = true;
                }
            }
        }
        assert!(seen.iter().all(|&seen| seen));
    }

    fn on_threads(threads: usize, test: impl FnOnce() + Send) {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        pool.expect("a pool").install(test);
    }

    /// However many cores there are.
    #[test]
    fn work_items_are_the_whole_output() {
        for (threads, [rows, out], columns, together, count) in [
            (2, [125, 2048], 48, 128, 22),      // two panels each
            (64, [125, 2048], 48, 128, 43),     // one part of the rows
            (64, [750, 2048], 48, 128, 43 * 6), // six parts of 128 rows
            (64, [750, 2048], 48, 750, 43),     // rows that are never divided
            (3, [5, 7], 2, 2, 4 * 3),
        ] {
            on_threads(threads, || {
                let mut values: Vec<f32> = (0..rows * out).map(|index| index as f32).collect();
                let items = work_items(&mut values, out, columns, together);
                assert_eq!(items.len(), count, "{threads} threads, {rows} rows");
                assert!(items.iter().all(|item| item.row.is_multiple_of(together)));
                assert_whole(items, columns, [rows, out]);
            });
        }
    }

    /// On two cores there are 24 items of all rows; of three parts each has 8, of six panels.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn work_items_of_given_rows_are_the_whole_output() {
        for (heights, count) in [(vec![7], 22), (vec![3, 3, 1], 3 * 8)] {
            on_threads(2, || {
                let mut values: Vec<f32> = (0..7 * 2048).map(|index| index as f32).collect();
                let items = work_items_of_parts(&mut values, 2048, 48, heights);
                assert_eq!(items.len(), count);
                assert_whole(items, 48, [7, 2048]);
            });
        }
    }
}
