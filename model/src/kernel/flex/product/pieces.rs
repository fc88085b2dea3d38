//! How many cores share one product: each takes some columns of the output.

/// Pieces of work for each core, so that none waits long for the last.
const SHARES: usize = 12;

/// Parts of rows of all pieces: of many rows there are fewer pieces, as each is put down.
const MOST_PARTS: usize = 1 << 20;

/// A piece: its first column, and of each row of the output its part.
pub(super) type Piece<'a> = (usize, Vec<&'a mut [f32]>);

/// Cuts every row of `values`, `[rows, out]`, into pieces of whole panels of `columns`.
pub(super) fn pieces(values: &mut [f32], out: usize, columns: usize) -> Vec<Piece<'_>> {
    let panels = out.div_ceil(columns);
    let (rows, threads) = (values.len() / out, rayon::current_num_threads());
    let count = (threads * SHARES).min((MOST_PARTS / rows).max(threads));
    let size = panels.div_ceil(count) * columns;
    let starts = (0..out).step_by(size);
    let mut pieces: Vec<Piece<'_>> =
        starts.map(|first| (first, Vec::with_capacity(rows))).collect();
    for row in values.chunks_mut(out) {
        for ((_, piece), part) in pieces.iter_mut().zip(row.chunks_mut(size)) {
            piece.push(part);
        }
    }
    pieces
}
