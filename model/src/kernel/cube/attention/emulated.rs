//! Loops that replace the matrix products of [`super::tensor_cores`], for tests on devices without
//! matrix units. Each does the work of one product, or of one move of a matrix, for a plane's
//! sixteen rows.

use cubecl::prelude::*;

use super::tensor_cores::{Cores, PLANE, SIDE};

/// Computes the scores of a plane's rows.
#[cube]
pub(super) fn looped_scores<T: Float, N: Size>(
    queries: &SharedMemory<Vector<T, N>>,
    tile: &SharedMemory<Vector<T, N>>,
    scores: &mut SharedMemory<f32>,
    plane: usize,
    unit: usize,
    #[comptime] cores: Cores,
) {
    let keys = comptime!(cores.plan.keys);
    let mut i = unit;
    while i < comptime!(SIDE * keys) {
        let (row, key) = (plane * SIDE + i / keys, i % keys);
        let mut score = 0.0f32;
        for column in 0..comptime!(cores.width() / cores.vector) {
            let terms = Vector::<f32, N>::cast_from(queries[row * cores.pitch() + column])
                * Vector::<f32, N>::cast_from(tile[key * cores.pitch() + column]);
            #[unroll]
            for c in 0..comptime!(cores.vector) {
                score += terms[c];
            }
        }
        scores[row * cores.score_pitch() + key] = score;
        i += PLANE;
    }
}

/// Adds the weighted values to a plane's rows.
#[cube]
pub(super) fn looped_mix<T: Float, N: Size>(
    weights: &SharedMemory<T>,
    tile: &SharedMemory<Vector<T, N>>,
    looped: &mut SharedMemory<f32>,
    plane: usize,
    unit: usize,
    #[comptime] cores: Cores,
) {
    let vectors = comptime!(cores.width() / cores.vector);
    let mut i = unit;
    while i < comptime!(SIDE * vectors) {
        let (row, column) = (plane * SIDE + i / vectors, i % vectors);
        let mut mix = Vector::<f32, N>::new(0.0f32);
        for key in 0..comptime!(cores.plan.keys) {
            let weight = f32::cast_from(weights[row * cores.score_pitch() + key]);
            mix += Vector::<f32, N>::cast_from(tile[key * cores.pitch() + column])
                * Vector::<f32, N>::new(weight);
        }
        #[unroll]
        for c in 0..comptime!(cores.vector) {
            looped[row * cores.width() + column * cores.vector + c] += mix[c];
        }
        i += PLANE;
    }
}

/// Copies sixteen columns of a plane's mixed values to the place of its scores.
#[cube]
pub(super) fn looped_out(
    looped: &SharedMemory<f32>,
    scores: &mut SharedMemory<f32>,
    plane: usize,
    unit: usize,
    side: usize,
    #[comptime] cores: Cores,
) {
    let mut i = unit;
    while i < comptime!(SIDE * SIDE) {
        let (row, column) = (plane * SIDE + i / SIDE, i % SIDE);
        scores[row * cores.score_pitch() + column] =
            looped[row * cores.width() + side * SIDE + column];
        i += PLANE;
    }
}

/// Copies sixteen columns from the place of the scores back to the mixed values.
#[cube]
pub(super) fn looped_in(
    looped: &mut SharedMemory<f32>,
    scores: &SharedMemory<f32>,
    plane: usize,
    unit: usize,
    side: usize,
    #[comptime] cores: Cores,
) {
    let mut i = unit;
    while i < comptime!(SIDE * SIDE) {
        let (row, column) = (plane * SIDE + i / SIDE, i % SIDE);
        looped[row * cores.width() + side * SIDE + column] =
            scores[row * cores.score_pitch() + column];
        i += PLANE;
    }
}
