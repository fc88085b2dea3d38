//! Division of a product among the cores: each work item is some columns of some rows of the output.

/// Work items per core, so that no core waits long for the last one.
const SHARES: usize = 12;

/// Work items per core from which on rows are not divided: every part of them may convert all weights again.
const ENOUGH: usize = 4;

/// Maximum number of row parts over all work items. With many rows there are fewer work items,
/// because every part is listed.
const MOST_PARTS: usize = 1 << 20;

/// A rectangle of the output.
pub(super) struct WorkItem<'a> {
    /// The first row, a multiple of `together`.
    pub(super) row: usize,
    /// The first column, a multiple of `columns`.
    pub(super) column: usize,
    /// The part of each row.
    pub(super) to: Vec<&'a mut [f32]>,
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
    let count = (threads * SHARES).min((MOST_PARTS / rows).max(threads));
    let width = panels.div_ceil(count) * columns;
    let parts = (threads * ENOUGH).div_ceil(out.div_ceil(width));
    let height = rows.div_ceil(parts).div_ceil(together) * together;
    let mut all = Vec::new();
    for (part, values) in values.chunks_mut(height * out).enumerate() {
        let row = part * height;
        let of_column = |column| WorkItem { row, column, to: Vec::with_capacity(height.min(rows)) };
        let mut items: Vec<_> = (0..out).step_by(width).map(of_column).collect();
        for values in values.chunks_mut(out) {
            for (item, part) in items.iter_mut().zip(values.chunks_mut(width)) {
                item.to.push(part);
            }
        }
        all.extend(items);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every value is in one work item, at its place, however many cores there are.
    #[test]
    fn work_items_are_the_whole_output() {
        for (threads, [rows, out], columns, together, count) in [
            (2, [125, 2048], 48, 128, 22),      // two panels each
            (64, [125, 2048], 48, 128, 43),     // one part of the rows
            (64, [750, 2048], 48, 128, 43 * 6), // six parts of 128 rows
            (64, [750, 2048], 48, 750, 43),     // rows that are never divided
            (3, [5, 7], 2, 2, 4 * 3),
        ] {
            let pool =
                rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
            pool.install(|| {
                let mut values: Vec<f32> = (0..rows * out).map(|index| index as f32).collect();
                let items = work_items(&mut values, out, columns, together);
                assert_eq!(items.len(), count, "{threads} threads, {rows} rows");
                let mut seen = vec![false; rows * out];
                for WorkItem { row, column, to } in items {
                    assert!(row.is_multiple_of(together) && column.is_multiple_of(columns));
                    for (row, part) in (row..).zip(to) {
                        for (column, value) in (column..).zip(part) {
                            let index = row * out + column;
                            assert!(*value == index as f32 && !seen[index]);
                            seen[index] = true;
                        }
                    }
                }
                assert!(seen.iter().all(|&seen| seen));
            });
        }
    }
}
