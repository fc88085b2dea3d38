//! Gradients of attention. The weights are recomputed for a few queries at a time, and stay in the
//! cache of their core.
//!
//! Source: Dao et al. 2022, arXiv:2205.14135, appendix B.2.

use burn::tensor::{TensorMetadata, ops::BoolTensor};
use burn_flex::{Flex, FlexTensor};
use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::{
    super::{super::Visibility, exp::exp, from_values, level, readable},
    HIDDEN, Head, Heads, Problem,
    product::{Left, add_product},
    scale_of,
};

/// Queries whose weights are held at the same time.
const BLOCK: usize = 64;

/// Lanes of the widest vector; rows are padded to a multiple of it.
const LANES: usize = 16;

/// Kernel of [`super::super::super::Backend::attention_gradients`], for f32.
pub(in super::super) fn attention_gradients(
    inputs: [FlexTensor; 3],
    keys: Option<BoolTensor<Flex>>,
    visibility: Visibility,
    gradient: FlexTensor,
) -> [FlexTensor; 3] {
    let [q, k, v] = inputs.map(readable);
    let gradient = readable(gradient);
    let keys = keys.map(|keys| keys.to_contiguous());
    let [batch, heads, queries, width] = [0, 1, 2, 3].map(|axis| q.shape()[axis]);
    let (kv_heads, key_count) = (k.shape()[1], k.shape()[2]);
    let problem = Problem {
        q: Heads::of(&q),
        k: Heads::of(&k),
        v: Heads::of(&v),
        kv_heads,
        group: heads / kv_heads,
        queries,
        keys: key_count,
        real: keys.as_ref().map(FlexTensor::storage::<u8>),
        visibility,
        scale: scale_of(width),
    };
    let slopes = Heads::of(&gradient);
    let mut of_q = vec![0.0; batch * heads * queries * width];
    let mut of_k = vec![0.0; batch * kv_heads * key_count * width];
    let mut of_v = of_k.clone();
    let parts = of_q
        .par_chunks_mut(problem.group * queries * width)
        .zip(of_k.par_chunks_mut(key_count * width))
        .zip(of_v.par_chunks_mut(key_count * width))
        .enumerate();
    parts.for_each(|(index, ((of_q, of_k), of_v))| {
        let (item, kv_head) = (index / kv_heads, index % kv_heads);
        let group = Group { problem: &problem, slopes, item, kv_head, of_q, of_k, of_v };
        level::arch().dispatch(group);
    });
    let of_kv = |values| from_values(values, [batch, kv_heads, key_count, width]);
    [from_values(of_q, [batch, heads, queries, width]), of_kv(of_k), of_kv(of_v)]
}

/// The query heads that share one key head.
struct Group<'a> {
    problem: &'a Problem<'a>,
    slopes: Heads<'a>,
    item: usize,
    kv_head: usize,
    /// `[group, Lq, D]`
    of_q: &'a mut [f32],
    /// `[Lk, D]`
    of_k: &'a mut [f32],
    /// `[Lk, D]`
    of_v: &'a mut [f32],
}

impl WithSimd for Group<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { problem, slopes, item, kv_head, of_q, of_k, of_v } = self;
        let &Problem { group, queries, keys, scale, .. } = problem;
        let width = problem.k.width;
        let wide = width.next_multiple_of(LANES);
        let long = keys.next_multiple_of(LANES);
        let (k, v) = (problem.k.head(item, kv_head), problem.v.head(item, kv_head));
        let k_rows = padded(k, 0, keys, wide);
        let (k_transposed, v_transposed) = (transposed(k, keys, long), transposed(v, keys, long));
        let mut sum_k = vec![0.0; keys * wide];
        let mut sum_v = vec![0.0; keys * wide];
        let mut weights = vec![0.0; BLOCK * long];
        let mut of_weights = vec![0.0; BLOCK * long];
        let mut block_q = vec![0.0; BLOCK * wide];
        for member in 0..group {
            let head = kv_head * group + member;
            let (q, slope) = (problem.q.head(item, head), slopes.head(item, head));
            for first in (0..queries).step_by(BLOCK) {
                let count = BLOCK.min(queries - first);
                let (q, slope) = (padded(q, first, count, wide), padded(slope, first, count, wide));
                let rows = [count, width, long];
                weights.fill(0.0);
                add_product(simd, Left::Head(&q, wide), &k_transposed, &mut weights, rows);
                of_weights.fill(0.0);
                add_product(simd, Left::Head(&slope, wide), &v_transposed, &mut of_weights, rows);
                for i in 0..count {
                    let weights = &mut weights[i * long..][..long];
                    let of_weights = &mut of_weights[i * long..][..long];
                    hide(problem, item, first + i, weights);
                    soften(simd, weights, of_weights, scale);
                    if problem.is_blind(item, first + i) {
                        // A query that sees no key gives no gradient to scores.
                        of_weights.fill(0.0);
                    }
                }
                let columns = [keys, count, wide];
                add_product(simd, Left::Columns(&weights, long), &slope, &mut sum_v, columns);
                add_product(simd, Left::Columns(&of_weights, long), &q, &mut sum_k, columns);
                block_q.fill(0.0);
                let rows = [count, keys, wide];
                add_product(simd, Left::Head(&of_weights, long), &k_rows, &mut block_q, rows);
                let to = &mut of_q[(member * queries + first) * width..][..count * width];
                for (to, from) in to.chunks_exact_mut(width).zip(block_q.chunks_exact(wide)) {
                    to.copy_from_slice(&from[..width]);
                }
            }
        }
        for (to, from) in [(of_k, sum_k), (of_v, sum_v)] {
            for (to, from) in to.chunks_exact_mut(width).zip(from.chunks_exact(wide)) {
                to.copy_from_slice(&from[..width]);
            }
        }
    }
}

/// Hides the scores of keys that query `i` does not see. Padding beyond the last key gets weight 0
/// even if the query sees no key.
#[inline(always)]
fn hide(problem: &Problem<'_>, item: usize, i: usize, scores: &mut [f32]) {
    let (scores, beyond) = scores.split_at_mut(problem.keys);
    beyond.fill(f32::NEG_INFINITY);
    let seen = problem.seen(i);
    scores[..seen.start].fill(HIDDEN);
    scores[seen.end..].fill(HIDDEN);
    if let Some(real) = problem.real(item) {
        for (score, _) in scores.iter_mut().zip(real).filter(|(_, real)| **real == 0) {
            *score = HIDDEN;
        }
    }
}

/// Turns the scores of a query into weights, and the gradient of the weights into the one of the
/// scores.
#[inline(always)]
fn soften<S: Simd>(simd: S, scores: &mut [f32], slopes: &mut [f32], scale: f32) {
    let (scores, slopes) = (S::as_mut_simd_f32s(scores).0, S::as_mut_simd_f32s(slopes).0);
    let scale = simd.splat_f32s(scale);
    let mut largest = simd.splat_f32s(f32::MIN);
    for score in &mut *scores {
        *score = simd.mul_f32s(*score, scale);
        largest = simd.max_f32s(largest, *score);
    }
    let largest = simd.splat_f32s(simd.reduce_max_f32s(largest));
    let mut sum = simd.splat_f32s(0.0);
    let mut along = simd.splat_f32s(0.0);
    for (score, &slope) in scores.iter_mut().zip(&*slopes) {
        *score = exp(simd, simd.sub_f32s(*score, largest));
        sum = simd.add_f32s(sum, *score);
        along = simd.mul_add_f32s(*score, slope, along);
    }
    let inverse = simd.reduce_sum_f32s(sum).recip();
    let along = simd.splat_f32s(simd.reduce_sum_f32s(along) * inverse);
    let inverse = simd.splat_f32s(inverse);
    for (score, slope) in scores.iter_mut().zip(slopes) {
        *score = simd.mul_f32s(*score, inverse);
        *slope = simd.mul_f32s(simd.mul_f32s(*score, scale), simd.sub_f32s(*slope, along));
    }
}

/// Returns rows `first..` of a head, each padded with zeros.
fn padded(rows: Head<'_>, first: usize, count: usize, wide: usize) -> Vec<f32> {
    let mut values = vec![0.0; count * wide];
    for (index, to) in values.chunks_exact_mut(wide).enumerate() {
        to[..rows.width].copy_from_slice(rows.row(first + index));
    }
    values
}

/// Returns the transposed head, `[D, long]`.
fn transposed(rows: Head<'_>, count: usize, long: usize) -> Vec<f32> {
    let mut values = vec![0.0; rows.width * long];
    for j in 0..count {
        for (d, value) in rows.row(j).iter().enumerate() {
            values[d * long + j] = *value;
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use burn::tensor::{Tensor, TensorData};

    use super::{
        super::super::tests::{assert_close, at_every_level, random},
        *,
    };
    use crate::kernel::{Mask, primitive, reference, tensor};

    #[test]
    fn it_is_the_reference_with_padding_too() {
        at_every_level(|| {
            for (visibility, [heads, kv_heads], [queries, keys], width) in [
                (Visibility::Full, [1, 1], [1, 1], 2),
                (Visibility::Full, [4, 2], [130, 77], 32),
                (Visibility::Causal { first: 0 }, [2, 1], [70, 70], 16),
                (Visibility::Window(5), [2, 2], [90, 90], 20),
                (Visibility::CausalWindow { first: 3, width: 9 }, [2, 1], [90, 93], 20),
            ] {
                let batch = 2;
                let real: Vec<bool> = (0..batch * keys).map(|index| index % 7 != 6).collect();
                for padding in [false, true] {
                    let data = TensorData::new(real.clone(), [batch, keys]);
                    let keys_real = padding.then(|| Tensor::from_data(data, &Default::default()));
                    let mask = Mask { visibility, keys: keys_real };
                    let q = random([batch, heads, queries, width]);
                    let [k, v] = [0, 1].map(|_| random([batch, kv_heads, keys, width]));
                    let gradient = random([batch, heads, queries, width]);
                    let inputs = [&q, &k, &v].map(|of| of.clone());
                    let expected =
                        reference::attention_gradients::<Flex>(inputs, &mask, gradient.clone());
                    let inputs = [q, k, v].map(primitive);
                    let keys_real = mask.keys.map(Tensor::into_primitive);
                    let ours =
                        attention_gradients(inputs, keys_real, visibility, primitive(gradient));
                    for (ours, expected) in ours.into_iter().zip(expected) {
                        assert_close::<4>(tensor(ours), expected, 1e-4);
                    }
                }
            }
        });
    }
}
