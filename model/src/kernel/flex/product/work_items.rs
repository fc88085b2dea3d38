//! Division of a product among the cores: each work item is some columns of some rows of the output.

use std::{mem::MaybeUninit, slice};

use burn_flex::FlexTensor;
use rayon::prelude::*;

use super::super::{cleared::cleared, from_values};

/// Work items per core, so that no core waits long for the last one.
const SHARES: usize = 12;

/// Work items per core from which on rows are not divided: every part of them may convert all weights again.
const ENOUGH: usize = 4;

/// Maximum number of row parts over all work items. With many rows there are fewer work items,
/// because every part is listed.
const MOST_PARTS: usize = 1 << 20;

/// Start of an output in memory. Threads take parts from it.
struct Start(*mut MaybeUninit<f32>);

#[expect(unsafe_code, reason = "a pointer that threads share")]
// SAFETY: `part` leaves it to the caller that no two parts overlap.
unsafe impl Sync for Start {}

impl Start {
    /// Returns the `length` values after the first `offset`.
    ///
    /// # Safety
    /// They exist, they live as long as the part, and nothing else refers to them.
    #[expect(unsafe_code, reason = "see above")]
    unsafe fn part<'a>(&self, offset: usize, length: usize) -> &'a mut [MaybeUninit<f32>] {
        // SAFETY: see above.
        unsafe { slice::from_raw_parts_mut(self.0.add(offset), length) }
    }
}

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

/// An output, `[rows, out]`, cut into rectangles.
#[derive(Debug)]
pub(super) struct Division {
    out: usize,
    /// Columns of a rectangle, at most.
    width: usize,
    /// Rows of the rectangles, from the first row of the output to the last.
    heights: Vec<usize>,
}

impl Division {
    /// Cuts an output into work items of whole panels of `columns`, and of all rows; of `together` rows or a multiple of it if
    /// there would be fewer than [`ENOUGH`] for each core.
    pub(super) fn of_columns([rows, out]: [usize; 2], columns: usize, together: usize) -> Self {
        let panels = out.div_ceil(columns);
        let threads = rayon::current_num_threads();
        let count = work_items_at_most().min((MOST_PARTS / rows).max(threads));
        let width = panels.div_ceil(count) * columns;
        let parts = (threads * ENOUGH).div_ceil(out.div_ceil(width));
        let height = rows.div_ceil(parts).div_ceil(together) * together;
        let heights = (0..rows).step_by(height).map(|row| height.min(rows - row)).collect();
        Self { out, width, heights }
    }

    /// Cuts an output into work items of whole panels of `columns`, for each of these parts of the rows.
    ///
    /// An item has as many columns as leave enough items: it reads its rows once.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn of_parts(heights: Vec<usize>, out: usize, columns: usize) -> Self {
        let (rows, threads) = (heights.iter().sum::<usize>(), rayon::current_num_threads());
        let count = work_items_at_most().min((MOST_PARTS / rows).max(threads));
        let width = out.div_ceil(columns).div_ceil(count.div_ceil(heights.len())) * columns;
        Self { out, width, heights }
    }

    /// Computes the output. `compute` gets every work item once, with zeros, and room of `init`, which items of one core
    /// share.
    ///
    /// The core of an item clears it and lists its rows: one core alone would take a twentieth of the time of a product, for
    /// which all others would wait.
    #[expect(unsafe_code, reason = "no safe function cuts the rows of a vector into columns")]
    pub(super) fn computed<T>(
        &self,
        init: impl Fn() -> T + Send + Sync,
        compute: impl Fn(&mut T, WorkItem<'_>) + Send + Sync,
    ) -> FlexTensor {
        let &Self { out, width, ref heights } = self;
        let rows = heights.iter().sum();
        let mut values: Vec<f32> = Vec::with_capacity(rows * out);
        let start = Start(values.spare_capacity_mut().as_mut_ptr());
        self.rectangles().into_par_iter().for_each_init(init, |room, [row, height, column]| {
            let columns = width.min(out - column);
            let to = (row..row + height).map(|row| {
                // SAFETY: the vector has room for `rows` rows of `out` values, it outlives the loop, and no other
                // rectangle has these values.
                let part = unsafe { start.part(row * out + column, columns) };
                cleared(part, &0.0)
            });
            compute(room, WorkItem { row, column, to: to.collect() });
        });
        // SAFETY: the rectangles are the whole output, and all of them were cleared.
        unsafe { values.set_len(rows * out) };
        from_values(values, [rows, out])
    }

    /// Returns first row, number of rows and first column of every rectangle, those of the first rows first.
    fn rectangles(&self) -> Vec<[usize; 3]> {
        let mut row = 0;
        let mut all = Vec::new();
        for &height in &self.heights {
            all.extend((0..self.out).step_by(self.width).map(|column| [row, height, column]));
            row += height;
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Asserts that every value is computed once, at its place, and that items begin at whole panels. Returns the rows at which
    /// items begin.
    fn assert_whole(division: &Division, columns: usize, [rows, out]: [usize; 2]) -> Vec<usize> {
        let starts = Mutex::new(Vec::new());
        let values = division.computed(
            || (),
            |(), WorkItem { row, column, to }| {
                assert!(column.is_multiple_of(columns));
                starts.lock().expect("no panic").push(row);
                for (row, part) in (row..).zip(to) {
                    for (column, value) in (column..).zip(part) {
                        *value += (row * out + column) as f32;
                    }
                }
            },
        );
        assert!(values.storage::<f32>().iter().enumerate().all(|(at, &value)| value == at as f32));
        assert_eq!(values.storage::<f32>().len(), rows * out);
        starts.into_inner().expect("no panic")
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
                let division = Division::of_columns([rows, out], columns, together);
                let starts = assert_whole(&division, columns, [rows, out]);
                assert_eq!(starts.len(), count, "{threads} threads, {rows} rows");
                assert!(starts.iter().all(|row| row.is_multiple_of(together)));
            });
        }
    }

    /// On two cores there are 24 items of all rows; of three parts each has 8, of six panels.
    #[cfg(target_arch = "x86_64")]
    #[test]
    fn work_items_of_given_rows_are_the_whole_output() {
        for (heights, count) in [(vec![7], 22), (vec![3, 3, 1], 3 * 8)] {
            on_threads(2, || {
                let division = Division::of_parts(heights, 2048, 48);
                assert_eq!(assert_whole(&division, 48, [7, 2048]).len(), count);
            });
        }
    }
}
