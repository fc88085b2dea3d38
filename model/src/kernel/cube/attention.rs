//! Attention without the score matrix: one pass over the keys, in tiles, with an online softmax.
//!
//! `y = softmax(q k^T / sqrt(D)) v`. For each row the pass keeps its largest score so far `m`, the
//! sum `l` of `exp(score - m)`, and the weighted values `a`. A tile with a larger score scales `l`
//! and `a` by `exp(m - m')`; the result is `a / l` (Milakov and Gimelshein 2018, arXiv:1805.02867;
//! Dao et al. 2022, arXiv:2205.14135). Tiles that no query of a cube sees are never read. The heads
//! that share a key head are rows of the same cube: row `r` is query `r / group` of head
//! `r % group`.
//!
//! Scores, exponentials and sums are f32. Limits: `D` is a multiple of 4, and small enough that
//! eight keys and sixteen queries in f32 fit into the shared memory of a cube (152 with 16 KiB, the
//! minimum). All three tensors have one type. The caller uses the reference for anything else.

mod decode;
mod emulated;
mod sight;
mod teams;
mod tensor_cores;
mod units;

use burn_cubecl::{CubeRuntime, kernel::into_contiguous, ops::permute, tensor::CubeTensor};
use cubecl::prelude::*;

use super::{super::Visibility, device::is_in_software, rows::empty};
use sight::{Bounds, Sight};

/// Values per read.
const VECTOR: usize = 4;
/// Units that share rows. Each holds the rows' sums for some of the columns.
const LANES: usize = 8;
/// Rows that the lanes of a team share: one vector of rows.
const TEAM_ROWS: usize = VECTOR;

/// True if the kernels of this file support these tensors.
pub(super) fn takes<R: CubeRuntime>(
    q: &CubeTensor<R>,
    k: &CubeTensor<R>,
    v: &CubeTensor<R>,
) -> bool {
    q.meta.shape()[3].is_multiple_of(VECTOR)
        && q.dtype == k.dtype
        && q.dtype == v.dtype
        && k.meta.num_elements() > 0
        && units::fits(q)
}

/// Implementation of a call, by the module that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Routine {
    /// `units`: supports every call that gets here.
    Units,
    /// `decode`: few rows.
    Decode,
    /// `cuda::attention`: bf16 on Hopper.
    #[cfg(feature = "cuda")]
    Hopper,
    /// `tensor_cores`: f16 or bf16, on a device that multiplies matrices of them.
    TensorCores,
    /// `tensor_cores` with loops instead of matrix products, for tests on devices without matrix
    /// units.
    #[cfg_attr(not(feature = "testing"), expect(dead_code, reason = "only tests ask for it"))]
    Emulated,
}

impl Routine {
    /// Returns the fastest routine that supports the call.
    fn of<R: CubeRuntime>(call: &Call<R>) -> Self {
        let order = [
            Self::Decode,
            #[cfg(feature = "cuda")]
            Self::Hopper,
            Self::TensorCores,
        ];
        // A driver in software compiles `Decode` for each number of rows, for seconds.
        let pays = |routine: &Self| *routine != Self::Decode || !is_in_software(&call.q.client);
        let mut order = order.into_iter().filter(pays);
        order.find(|routine| routine.takes(call)).unwrap_or(Self::Units)
    }

    fn takes<R: CubeRuntime>(self, call: &Call<R>) -> bool {
        match self {
            // Checked before: see the function of that name.
            Self::Units => true,
            Self::Decode => decode::takes(call),
            #[cfg(feature = "cuda")]
            Self::Hopper => {
                super::cuda::takes_attention(call.tensors(), call.keys.as_ref(), call.visibility)
            }
            Self::TensorCores => tensor_cores::takes(call, false),
            Self::Emulated => tensor_cores::takes(call, true),
        }
    }

    fn launch<R: CubeRuntime>(self, call: &Call<R>, output: &CubeTensor<R>) {
        match self {
            Self::Units => units::launch(call, output),
            Self::Decode => decode::launch(call, output),
            #[cfg(feature = "cuda")]
            Self::Hopper => {
                let tensors = call.tensors().map(CubeTensor::clone);
                super::cuda::attention(tensors, call.visibility, output);
            }
            Self::TensorCores => tensor_cores::launch(call, output, false),
            Self::Emulated => tensor_cores::launch(call, output, true),
        }
    }
}

/// # Shapes
/// - `q`, output: `[B, heads, Lq, D]`; the memory layout of the output is `[B, Lq, heads, D]`
/// - `k`, `v`: `[B, kv_heads, Lk, D]`, `keys`: `[B, Lk]`, true = a real key
pub(super) fn attention<R: CubeRuntime>(
    q: CubeTensor<R>,
    k: CubeTensor<R>,
    v: CubeTensor<R>,
    keys: Option<CubeTensor<R>>,
    visibility: Visibility,
) -> CubeTensor<R> {
    attention_by(None, q, k, v, keys, visibility).expect("some routine takes every call")
}

/// [`attention`] by the given routine or the fastest; `None` if it does not support the call.
pub(super) fn attention_by<R: CubeRuntime>(
    routine: Option<Routine>,
    q: CubeTensor<R>,
    k: CubeTensor<R>,
    v: CubeTensor<R>,
    keys: Option<CubeTensor<R>>,
    visibility: Visibility,
) -> Option<CubeTensor<R>> {
    let [batch, heads, queries, width] = q.meta.shape().dims();
    let output = empty(&q, [batch, queries, heads, width]);
    if output.meta.num_elements() > 0 {
        let [q, k, v] = [q, k, v].map(readable);
        let sight = Sight::of(visibility);
        let call = Call { q, k, v, keys: keys.map(flags), visibility, sight };
        let routine = routine.unwrap_or_else(|| Routine::of(&call));
        if !routine.takes(&call) {
            return None;
        }
        routine.launch(&call, &output);
    }
    Some(permute(output, &[0, 2, 1, 3]))
}

/// The tensors of one call, in a layout that the kernels can read.
struct Call<R: CubeRuntime> {
    q: CubeTensor<R>,
    k: CubeTensor<R>,
    v: CubeTensor<R>,
    keys: Option<CubeTensor<R>>,
    #[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "for kernels in CUDA C++"))]
    visibility: Visibility,
    /// The rule by position and its numbers.
    sight: (Sight, Bounds),
}

impl<R: CubeRuntime> Call<R> {
    /// Returns queries, keys and values.
    #[cfg(feature = "cuda")]
    fn tensors(&self) -> [&CubeTensor<R>; 3] {
        [&self.q, &self.k, &self.v]
    }

    /// Returns the number of (batch item, key head) pairs, which cubes never share.
    fn items(&self) -> usize {
        self.k.meta.shape()[0] * self.k.meta.shape()[1]
    }

    /// Returns the number of query heads per key head.
    fn group(&self) -> usize {
        self.q.meta.shape()[1] / self.k.meta.shape()[1]
    }

    /// Returns the number of rows per key head.
    fn rows(&self) -> usize {
        self.q.meta.shape()[2] * self.group()
    }

    /// Returns the number of keys from the first to the last that any query sees by position.
    fn visible_keys(&self) -> usize {
        let [queries, keys] = [&self.q, &self.k].map(|x| x.meta.shape()[2]);
        match self.sight {
            (Sight::Full, _) => keys,
            (Sight::Causal, Bounds { near, .. }) => keys.min(queries + near as usize),
            (Sight::Window, Bounds { near, shift, width }) => {
                // The first query sees this many keys before its own position.
                let before = shift.min(width - 1);
                keys.min(queries + (near - shift + before) as usize)
            }
        }
    }

    fn width(&self) -> usize {
        self.q.meta.shape()[3]
    }

    /// Returns the flags of real keys. Without flags it returns a tensor that is never read.
    fn flags(&self) -> &CubeTensor<R> {
        self.keys.as_ref().unwrap_or(&self.k)
    }

    fn scale(&self) -> f32 {
        (self.width() as f32).powf(-0.5)
    }
}

/// Returns flags of real keys with a contiguous last axis. Rows may be padded, as a GPU runtime
/// does; a copy would be one more launch in every layer.
fn flags<R: CubeRuntime>(keys: CubeTensor<R>) -> CubeTensor<R> {
    if keys.meta.strides()[1] == 1 { keys } else { into_contiguous(keys) }
}

/// Returns a tensor with a contiguous last axis and rows aligned for vector reads.
fn readable<R: CubeRuntime>(x: CubeTensor<R>) -> CubeTensor<R> {
    let strides = x.meta.strides();
    let aligned = strides[..3].iter().all(|stride| stride.is_multiple_of(VECTOR));
    if strides[3] == 1 && aligned { x } else { into_contiguous(x) }
}

/// Returns the score of a hidden key, whose weight is 0.
#[cube]
fn hidden_score() -> f32 {
    f32::MIN.runtime()
}

/// Returns the mean of one column's vectors over all keys, for a query that sees none.
#[cube]
fn mean_value<T: Float, N: Size>(
    v: &Tensor<Vector<T, N>>,
    start: usize,
    keys: usize,
) -> Vector<f32, N> {
    let stride = v.stride(2) / v.vector_size();
    let mut sum = Vector::<f32, N>::new(0.0f32);
    for key in 0..keys {
        sum += Vector::<f32, N>::cast_from(v[start + key * stride]);
    }
    sum / Vector::<f32, N>::new(keys as f32)
}

/// Returns the index in the output, `[B, Lq, heads, D]`, of row `row` of a key head.
#[cube]
fn place<T: Float, N: Size>(
    q: &Tensor<Vector<T, N>>,
    batch: usize,
    kv_head: usize,
    row: usize,
    #[comptime] group: usize,
) -> usize {
    let head = kv_head * group + row % group;
    (batch * q.shape(2) + row / group) * q.shape(1) + head
}
