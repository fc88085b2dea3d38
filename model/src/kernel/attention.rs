//! Grouped-query attention: `softmax(q k^T / sqrt(D)) v` over the visible keys of each query.
//!
//! Source: Vaswani et al. 2017, arXiv:1706.03762; grouped heads: Ainslie et al. 2023,
//! arXiv:2305.13245. The bidirectional window is upstream's: key `j` is visible to query `i` iff
//! `|i - j| <= window`, both ends included.

use std::ops::Range;

use burn::tensor::{Bool, DType, Tensor, TensorData, activation};

use super::{Backend, debug_assert_applies, debug_assert_same_dtype, primitive, tensor};

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
    debug_assert_same_dtype("attention", k.dtype(), [v.dtype()]);
    debug_assert_applies::<B>("attention", q.dtype(), k.dtype(), []);
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
    debug_assert_applies::<B>("attention_weights", q.dtype(), k.dtype(), []);
    let k = k.cast(q.dtype());
    let q = q.clone().mul_scalar((q.dims()[3] as f64).powf(-0.5));
    activation::softmax(q.matmul(k.swap_dims(2, 3)).cast(DType::F32), 3)
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

    let columns = match (mask.visibility, &mask.keys) {
        // With padding a row may see no key; its mean then includes every key.
        (_, Some(_)) | (Visibility::Full, _) => 0..all_keys,
        (Visibility::Causal { first }, None) => 0..(first + rows.end).min(all_keys),
        (Visibility::Window(reach), None) => {
            rows.start.saturating_sub(reach)..rows.end.saturating_add(reach).min(all_keys)
        }
    };
    let keys = columns.len();
    let k = k.narrow(2, columns.start, keys);
    let v = v.narrow(2, columns.start, keys);

    // The heads of a group become rows for the key head that they share.
    let q =
        q.mul_scalar((width as f64).powf(-0.5)).reshape([batch, kv_heads, group * queries, width]);
    let scores = q.matmul(k.swap_dims(2, 3)).cast(DType::F32);
    let scores = scores.reshape([batch, kv_heads, group, queries, keys]);
    let scores = match hidden(&rows, &columns, mask, &scores.device()) {
        Some(hidden) => {
            scores.mask_fill(hidden.expand([batch, kv_heads, group, queries, keys]), f32::MIN)
        }
        None => scores,
    };
    let weights = activation::softmax(scores, 4).cast(dtype);
    weights
        .reshape([batch, kv_heads, group * queries, keys])
        .matmul(v)
        .reshape([batch, heads, queries, width])
}

/// Returns `[B, heads, Lq, Lk]` with `value` at every hidden score.
pub(super) fn masked<B: Backend>(scores: Tensor<B, 4>, mask: &Mask<B>, value: f32) -> Tensor<B, 4> {
    let [batch, heads, queries, keys] = scores.dims();
    match hidden(&(0..queries), &(0..keys), mask, &scores.device()) {
        Some(hidden) => {
            let scores = scores.reshape([batch, heads, 1, queries, keys]);
            let hidden = hidden.expand([batch, heads, 1, queries, keys]);
            scores.mask_fill(hidden, value).reshape([batch, heads, queries, keys])
        }
        None => scores,
    }
}

/// Returns true for every hidden score: `[1 or B, 1, 1, rows, columns]`, or `None` if no score is
/// hidden.
fn hidden<B: Backend>(
    rows: &Range<usize>,
    columns: &Range<usize>,
    mask: &Mask<B>,
    device: &B::Device,
) -> Option<Tensor<B, 5, Bool>> {
    // ANCHOR: sees
    let sees = |i: usize, j: usize| match mask.visibility {
        Visibility::Full => true,
        Visibility::Causal { first } => j <= first + i,
        Visibility::Window(reach) => i.abs_diff(j) <= reach,
    };
    // ANCHOR_END: sees
    // The corners see the fewest keys: if they see all, no mask is needed.
    let sees_all = mask.visibility == Visibility::Full
        || sees(rows.start, columns.end - 1) && sees(rows.end - 1, columns.start);
    let by_position = (!sees_all).then(|| {
        let row = |i: usize| columns.clone().map(move |j| !sees(i, j));
        let flags: Vec<bool> = rows.clone().flat_map(row).collect();
        let shape = [1, 1, 1, rows.len(), columns.len()];
        Tensor::<B, 5, Bool>::from_data(TensorData::new(flags, shape), device)
    });
    let padding = mask.keys.clone().map(|keys| {
        let [batch, all] = keys.dims();
        keys.bool_not()
            .reshape([batch, 1, 1, 1, all])
            .narrow(4, columns.start, columns.len())
            .expand([batch, 1, 1, rows.len(), columns.len()])
    });
    match (by_position, padding) {
        (Some(a), Some(b)) => {
            let shape = b.dims();
            Some(a.expand(shape).bool_or(b))
        }
        (a, b) => a.or(b),
    }
}
