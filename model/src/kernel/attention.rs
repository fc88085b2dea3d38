//! Grouped-query attention: `softmax(q k^T / sqrt(D)) v` over the visible keys of each query.
//!
//! Source: Vaswani et al. 2017, arXiv:1706.03762; grouped heads: Ainslie et al. 2023,
//! arXiv:2305.13245. The bidirectional window is upstream's: key `j` is visible to query `i` iff
//! `|i - j| <= window`, both ends included.

use std::ops::Range;

use burn::tensor::{Bool, DType, Tensor, TensorData, activation};

use super::{
    Backend, assert_applies, assert_same_dtype, batched_product, is_empty, primitive, tensor,
};

/// The keys that a query may see, by position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visibility {
    /// All keys.
    Full,
    /// Keys at or before the query's position; query 0 is at key position `first`.
    Causal {
        /// The number of keys before the position of query 0.
        first: usize,
    },
    /// Keys at most this many positions away, in both directions.
    Window(usize),
    /// The nearest keys at or before the query's position; query 0 is at key position `first`.
    CausalWindow {
        /// The number of keys before the position of query 0.
        first: usize,
        /// The number of keys, including the one at the query's position; at least 1.
        width: usize,
    },
}

impl Visibility {
    // ANCHOR: sees
    /// Returns the keys, out of `keys`, that query `i` sees. Both ends grow with `i`.
    pub fn seen(self, i: usize, keys: usize) -> Range<usize> {
        let range = match self {
            Self::Full => 0..keys,
            Self::Causal { first } => 0..first + i + 1,
            Self::Window(reach) => {
                i.saturating_sub(reach)..i.saturating_add(reach).saturating_add(1)
            }
            Self::CausalWindow { first, width } => {
                (first + i + 1).saturating_sub(width)..first + i + 1
            }
        };
        range.start.min(keys)..range.end.min(keys)
    }
    // ANCHOR_END: sees
}

/// The attention mask: a rule by position, and padding keys.
#[derive(Debug, Clone)]
pub struct Mask<B: Backend> {
    /// The rule by position.
    pub visibility: Visibility,
    /// `[B, keys]`, true = a real key; `None` if all are real.
    pub keys: Option<Tensor<B, 2, Bool>>,
}

impl<B: Backend> Mask<B> {
    /// Creates a mask with a rule by position and no padding.
    pub fn by_position(visibility: Visibility) -> Self {
        Self { visibility, keys: None }
    }
}

/// Rows of the score matrix that exist at the same time. It bounds memory: a ten-minute song has
/// 7500 positions, and its whole matrix over 16 heads would take 3.6 GB.
const QUERY_BLOCK: usize = 512;

/// Rounds keys or values as the matrix product rounds its input for weights of type `weights`.
/// Returns `x` unchanged if the backend has no instruction for that type.
///
/// # Shapes
/// - `x`, output: `[B, kv_heads, L, D]`
pub fn rounded_as<B: Backend>(x: Tensor<B, 4>, weights: DType) -> Tensor<B, 4> {
    tensor(B::rounded_as(primitive(x), weights))
}

/// Grouped-query attention. Keys and values may be results of [`rounded_as`]; attention weights are
/// then rounded in the same way.
///
/// A query that sees no key gets the mean of all values, as in the reference: there a hidden score
/// is the smallest float instead of minus infinity. The DiT later attends to such rows.
///
/// # Panics
/// If there are queries and no key.
///
/// # Shapes
/// - `q`: `[B, heads, Lq, D]`
/// - `k`, `v`: `[B, kv_heads, Lk, D]`, where query head `h` reads key head `h / (heads / kv_heads)`
/// - output: `[B, heads, Lq, D]`
pub fn attention<B: Backend>(
    q: Tensor<B, 4>,
    k: Tensor<B, 4>,
    v: Tensor<B, 4>,
    mask: &Mask<B>,
) -> Tensor<B, 4> {
    assert_same_dtype("attention", k.dtype(), [v.dtype()]);
    assert_applies::<B>("attention", q.dtype(), k.dtype(), []);
    if is_empty(&q) {
        return q;
    }
    assert!(!is_empty(&k), "attention to no key");
    let keys = mask.keys.clone().map(Tensor::into_primitive);
    tensor(<B as Backend>::attention(
        primitive(q),
        primitive(k),
        primitive(v),
        keys,
        mask.visibility,
    ))
}

/// Returns the attention weights of [`attention`] without a mask: the softmax of the scores, in
/// f32.
///
/// For inspection only; the networks never compute the whole matrix.
///
/// # Shapes
/// - `q`: `[B, heads, Lq, D]`
/// - `k`: `[B, heads, Lk, D]`, one key head per query head
/// - output: `[B, heads, Lq, Lk]`; each row sums to 1
pub fn attention_weights<B: Backend>(q: Tensor<B, 4>, k: Tensor<B, 4>) -> Tensor<B, 4> {
    assert_applies::<B>("attention_weights", q.dtype(), k.dtype(), []);
    let k = k.cast(q.dtype());
    let q = q.clone().mul_scalar((q.dims()[3] as f64).powf(-0.5));
    activation::softmax(batched_product(q, k.swap_dims(2, 3)).cast(DType::F32), 3)
}

/// Reference of [`attention`], of the same shapes. It works on blocks of queries, so a window also
/// saves the work outside it.
pub fn reference<B: Backend>(
    q: Tensor<B, 4>,
    k: Tensor<B, 4>,
    v: Tensor<B, 4>,
    mask: &Mask<B>,
) -> Tensor<B, 4> {
    let [k, v] = [k, v].map(|x| x.cast(q.dtype()));
    let queries = q.dims()[2];
    let blocks = (0..queries).step_by(QUERY_BLOCK).map(|start| {
        let rows = start..(start + QUERY_BLOCK).min(queries);
        block(q.clone().narrow(2, start, rows.len()), k.clone(), v.clone(), rows, mask)
    });
    let mut blocks: Vec<_> = blocks.collect();
    if blocks.len() == 1 { blocks.remove(0) } else { Tensor::cat(blocks, 2) }
}

/// Computes the queries at positions `rows`.
fn block<B: Backend>(
    q: Tensor<B, 4>,
    k: Tensor<B, 4>,
    v: Tensor<B, 4>,
    rows: Range<usize>,
    mask: &Mask<B>,
) -> Tensor<B, 4> {
    let [batch, heads, queries, width] = q.dims();
    let [_, kv_heads, all_keys, _] = k.dims();
    let group = heads / kv_heads;
    let dtype = q.dtype();

    let [first, last] = [rows.start, rows.end - 1].map(|i| mask.visibility.seen(i, all_keys));
    // With padding a row may see no key, and so may the last row; its mean then includes every key.
    let needs_all = mask.keys.is_some() || last.is_empty();
    let columns = if needs_all { 0..all_keys } else { first.start..last.end };
    let keys = columns.len();
    let k = k.narrow(2, columns.start, keys);
    let v = v.narrow(2, columns.start, keys);

    // The heads of a group become rows for the key head that they share.
    let q =
        q.mul_scalar((width as f64).powf(-0.5)).reshape([batch, kv_heads, group * queries, width]);
    let scores = q.matmul(k.swap_dims(2, 3)).cast(DType::F32);
    let scores = scores.reshape([batch, heads, queries, keys]);
    let scores = masked(scores, [&rows, &columns], mask, f32::MIN);
    let weights = activation::softmax(scores, 3).cast(dtype);
    weights
        .reshape([batch, kv_heads, group * queries, keys])
        .matmul(v)
        .reshape([batch, heads, queries, width])
}

/// Returns the scores of queries `rows` and keys `columns`, `[B, heads, rows, columns]`, with `value`
/// at every hidden one.
pub(super) fn masked<B: Backend>(
    scores: Tensor<B, 4>,
    [rows, columns]: [&Range<usize>; 2],
    mask: &Mask<B>,
    value: f32,
) -> Tensor<B, 4> {
    let shape = scores.dims();
    match hidden(rows, columns, mask, &scores.device()) {
        Some(hidden) => scores.mask_fill(hidden.expand(shape), value),
        None => scores,
    }
}

/// Returns true for every hidden score: `[1 or B, 1, rows, columns]`, or `None` if no score is
/// hidden.
fn hidden<B: Backend>(
    rows: &Range<usize>,
    columns: &Range<usize>,
    mask: &Mask<B>,
    device: &B::Device,
) -> Option<Tensor<B, 4, Bool>> {
    let seen = |i: usize| mask.visibility.seen(i, columns.end);
    // The first and the last row see the fewest keys: if they see all, no mask is needed.
    let sees_all = seen(rows.start).end == columns.end && seen(rows.end - 1).start <= columns.start;
    let by_position = (!sees_all).then(|| {
        let row = |i: usize| {
            let seen = seen(i);
            columns.clone().map(move |j| !seen.contains(&j))
        };
        let flags: Vec<bool> = rows.clone().flat_map(row).collect();
        let shape = [1, 1, rows.len(), columns.len()];
        Tensor::<B, 4, Bool>::from_data(TensorData::new(flags, shape), device)
    });
    let padding = mask.keys.clone().map(|keys| {
        let [batch, all] = keys.dims();
        keys.bool_not()
            .reshape([batch, 1, 1, all])
            .narrow(3, columns.start, columns.len())
            .expand([batch, 1, rows.len(), columns.len()])
    });
    match (by_position, padding) {
        (Some(a), Some(b)) => {
            let shape = b.dims();
            Some(a.expand(shape).bool_or(b))
        }
        (a, b) => a.or(b),
    }
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    use burn_flex::Flex;

    use super::*;
    use crate::testing::{random, values};

    /// Each rule as a condition on the positions of a query and a key.
    fn is_seen(rule: Visibility, query: usize, key: usize) -> bool {
        match rule {
            Visibility::Full => true,
            Visibility::Causal { first } => key <= first + query,
            Visibility::Window(reach) => query.abs_diff(key) <= reach,
            Visibility::CausalWindow { first, width } => {
                key <= first + query && first + query - key < width
            }
        }
    }

    /// Attention of one head by its formula, in f64, with an explicit mask.
    fn by_formula(qkv: [&[f32]; 3], width: usize, sees: impl Fn(usize, usize) -> bool) -> Vec<f64> {
        let [q, k, v] = qkv.map(|x| x.chunks(width));
        let row = |(i, q): (usize, &[f32])| {
            let score = |k: &[f32]| -> f64 {
                let products = q.iter().zip(k).map(|(&a, &b)| f64::from(a) * f64::from(b));
                products.sum::<f64>() / (width as f64).sqrt()
            };
            let sees_none = (0..k.len()).all(|j| !sees(i, j));
            let weight = |(j, k): (usize, &[f32])| match sees_none {
                true => 1.0,
                false => f64::from(u8::from(sees(i, j))) * score(k).exp(),
            };
            let weights: Vec<f64> = k.clone().enumerate().map(weight).collect();
            let sum: f64 = weights.iter().sum();
            let mixed = |column: usize| -> f64 {
                weights.iter().zip(v.clone()).map(|(w, v)| w * f64::from(v[column]) / sum).sum()
            };
            (0..width).map(mixed).collect::<Vec<_>>()
        };
        q.enumerate().flat_map(row).collect()
    }

    /// The last queries of some cases see no key.
    #[test]
    fn every_rule_is_its_explicit_mask() {
        const WIDTH: usize = 8;
        for (queries, keys) in [(1, 1), (1, 90), (3, 40), (40, 40), (70, 33), (600, 610)] {
            let [q, k, v] = [queries, keys, keys].map(|length| random([1, 1, length, WIDTH]));
            for rule in [
                Visibility::Full,
                Visibility::Causal { first: keys.saturating_sub(queries) },
                Visibility::Window(5),
                Visibility::CausalWindow { first: 0, width: 1 },
                Visibility::CausalWindow { first: 0, width: 12 },
                Visibility::CausalWindow { first: keys.saturating_sub(queries), width: 72 },
                Visibility::CausalWindow { first: 4, width: 1000 },
            ] {
                let every_third: Vec<bool> = (0..keys).map(|key| key % 3 == 0).collect();
                for real in [vec![true; keys], every_third] {
                    let flags =
                        super::super::flags(std::slice::from_ref(&real), &Default::default());
                    let mask = Mask { visibility: rule, keys: flags };
                    let [a, b, c] = [&q, &k, &v].map(|x| values(x.clone()));
                    let expected =
                        by_formula([&a, &b, &c], WIDTH, |i, j| real[j] && is_seen(rule, i, j));
                    let call = |of: fn(_, _, _, &Mask<Flex>) -> Tensor<Flex, 4>| {
                        values(of(q.clone(), k.clone(), v.clone(), &mask))
                    };
                    for ours in [call(attention), call(reference)] {
                        for (ours, expected) in ours.into_iter().zip(&expected) {
                            let error = (f64::from(ours) - expected).abs();
                            assert!(error < 1e-5, "{rule:?} {queries} {keys}: {ours} {expected}");
                        }
                    }
                }
            }
        }
    }
}
