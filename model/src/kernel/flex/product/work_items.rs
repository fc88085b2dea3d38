//! Division of a product among the cores: each work item is some columns of the output.

/// Work items per core, so that no core waits long for the last one.
const SHARES: usize = 12;

/// Maximum number of row parts over all work items. With many rows there are fewer work items,
/// because every part is listed.
const MOST_PARTS: usize = 1 << 20;

/// A work item: its first column, and its part of each output row.
pub(super) type WorkItem<'a> = (usize, Vec<&'a mut [f32]>);

/// Cuts every row of `values`, `[rows, out]`, into work items of whole panels of `columns`.
pub(super) fn work_items(values: &mut [f32], out: usize, columns: usize) -> Vec<WorkItem<'_>> {
    let panels = out.div_ceil(columns);
    let (rows, threads) = (values.len() / out, rayon::current_num_threads());
    let count = (threads * SHARES).min((MOST_PARTS / rows).max(threads));
    let size = panels.div_ceil(count) * columns;
    let starts = (0..out).step_by(size);
    let mut items: Vec<WorkItem<'_>> =
        starts.map(|first| (first, Vec::with_capacity(rows))).collect();
    for row in values.chunks_mut(out) {
        for ((_, item), part) in items.iter_mut().zip(row.chunks_mut(size)) {
            item.push(part);
        }
    }
    items
}
