//! Dynamic time warping: the cheapest monotonic path from one corner of a matrix to the other.
//!
//! Source: Sakoe & Chiba 1978. The order of comparisons, which decides between paths of equal cost,
//! is upstream's `dtw_cpu`. Its cost table is f64: numba, unlike numpy, widens f32 times infinity.

use super::Matrix;

/// Direction from which a path entered a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// From the previous row and the previous column.
    Both,
    /// From the previous row, in the same column.
    Row,
    /// From the previous column, in the same row.
    Column,
}

/// Returns the cells `(row, column)` of the cheapest path, from the first cell to the last.
///
/// The diagonal is taken only if it is cheaper than both other ways into a cell. Otherwise the row
/// above is taken only if it is cheaper than both; otherwise the column to the left.
///
/// # Panics
/// If the matrix has no cell.
pub fn cheapest_path(cost: &Matrix) -> Vec<(usize, usize)> {
    let (rows, columns) = (cost.rows, cost.columns);
    assert!(rows > 0 && columns > 0, "a path needs a cell");
    let mut came = vec![Step::Column; rows * columns];
    // ANCHOR: dtw
    // Costs of the row above and of this row; index 0 is the border, which no path leaves.
    let mut above = vec![f64::INFINITY; columns + 1];
    above[0] = 0.0;
    let mut here = vec![f64::INFINITY; columns + 1];
    for i in 0..rows {
        here[0] = f64::INFINITY;
        for (j, &cell) in cost.row(i).iter().enumerate() {
            let (both, row, column) = (above[j], above[j + 1], here[j]);
            let (least, step) = if both < row && both < column {
                (both, Step::Both)
            } else if row < both && row < column {
                (row, Step::Row)
            } else {
                (column, Step::Column)
            };
            here[j + 1] = cell + least;
            came[i * columns + j] = step;
        }
        std::mem::swap(&mut above, &mut here);
    }
    // ANCHOR_END: dtw
    let (mut i, mut j) = (rows - 1, columns - 1);
    let mut path = vec![(i, j)];
    while (i, j) != (0, 0) {
        match came[i * columns + j] {
            // NaN costs could lead to the border; along it there is only one way.
            _ if i == 0 => j -= 1,
            _ if j == 0 => i -= 1,
            Step::Both => (i, j) = (i - 1, j - 1),
            Step::Row => i -= 1,
            Step::Column => j -= 1,
        }
        path.push((i, j));
    }
    path.reverse();
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::align::expected::{cases, matrix, wholes};

    #[test]
    fn it_takes_the_same_path_as_the_description_also_among_equals() {
        let cases = cases("dtw");
        assert_eq!(cases.len(), 8);
        for case in &cases {
            let wanted: Vec<(usize, usize)> = case["out"]
                .as_array()
                .expect("a path")
                .iter()
                .map(wholes)
                .map(|cell| (cell[0], cell[1]))
                .collect();
            assert_eq!(cheapest_path(&matrix(case)), wanted, "{case}");
        }
    }

    #[test]
    fn the_path_follows_what_is_cheap() {
        let values = vec![0.0, 0.0, 9.0, 9.0, 9.0, 9.0, 0.0, 9.0, 9.0, 9.0, 9.0, 0.0];
        let path = cheapest_path(&Matrix { rows: 3, columns: 4, values });
        assert_eq!(path, [(0, 0), (0, 1), (1, 2), (2, 3)]);
    }
}
