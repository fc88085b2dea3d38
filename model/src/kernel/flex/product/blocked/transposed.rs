//! Transposed matrices, for the products of the backward pass.

use std::arch::x86_64::*;

use rayon::prelude::*;

use super::{
    super::transpose::{LANES, transpose},
    OfBf16,
    dot::filled,
    memory::{halves, short, vector},
};

#[expect(unsafe_code, reason = "`Self` is the proof that the processor has these instructions")]
impl OfBf16 {
    /// Transposes `[rows, width]` to `[width, rows]`.
    pub(in super::super) fn transposed(self, x: &[f32], shape: [usize; 2]) -> Vec<f32> {
        transposed(x, shape, |x, length, to| {
            // SAFETY: see above.
            unsafe { as_it_is(x, length, to) }
        })
    }

    /// Transposes and rounds to bf16.
    pub(in super::super) fn transposed_and_rounded(self, x: &[f32], shape: [usize; 2]) -> Vec<u16> {
        transposed(x, shape, |x, length, to| {
            // SAFETY: see above.
            unsafe { rounded(x, length, to) }
        })
    }
}

/// A function that transposes a block. Its input is up to [`LANES`] rows of one length. It writes
/// their columns as parts of output rows of `length`, from the start of `to`.
type Block<T> = fn(&[&[f32]], usize, &mut [T]);

fn transposed<T: Copy + Default + Send>(
    x: &[f32],
    [rows, width]: [usize; 2],
    block: Block<T>,
) -> Vec<T> {
    let mut out = vec![T::default(); rows * width];
    out.par_chunks_mut(LANES * rows).enumerate().for_each(|(index, to)| {
        let columns = index * LANES..((index + 1) * LANES).min(width);
        for first in (0..rows).step_by(LANES) {
            let mut from = [&[][..]; LANES];
            let count = from
                .iter_mut()
                .zip(first..rows)
                .map(|(from, row)| *from = &x[row * width..][columns.clone()])
                .count();
            block(&from[..count], rows, &mut to[first..]);
        }
    });
    out
}

#[target_feature(enable = "avx512f")]
#[inline]
fn block(rows: &[&[f32]]) -> [__m512i; LANES] {
    let mut block = [_mm512_setzero_si512(); LANES];
    for (to, row) in block.iter_mut().zip(rows) {
        *to = _mm512_castps_si512(vector(&filled(row)));
    }
    transpose(&mut block);
    block
}

#[target_feature(enable = "avx512f")]
fn as_it_is(rows: &[&[f32]], length: usize, to: &mut [f32]) {
    for (to, column) in to.chunks_mut(length).zip(block(rows)) {
        put(to, rows.len(), halves(column).as_flattened().as_chunks().0[0]);
    }
}

#[target_feature(enable = "avx512f,avx512bf16")]
fn rounded(rows: &[&[f32]], length: usize, to: &mut [u16]) {
    for (to, column) in to.chunks_mut(length).zip(block(rows)) {
        put(to, rows.len(), short(_mm512_cvtneps_pbh(_mm512_castsi512_ps(column))));
    }
}

/// Writes the first `count` of a column. (A copy of unknown length would be a function call.)
#[inline(always)]
fn put<T: Copy>(to: &mut [T], count: usize, column: [T; LANES]) {
    match to.first_chunk_mut() {
        Some(to) if count == LANES => *to = column,
        _ => to[..count].copy_from_slice(&column[..count]),
    }
}
