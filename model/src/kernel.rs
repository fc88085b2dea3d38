//! The operations of the networks.
//!
//! Every matrix product, convolution, attention, norm and activation of the networks calls a
//! function of this module. The models themselves only add (residuals, learned embeddings) and, in
//! FSQ and in the VAE's distribution, scale and round. A function here is the *front*. It runs the
//! *reference* of the same name in [`mod@reference`], which consists of plain Burn operations and
//! defines correctness, unless [`Backend`] has a *kernel* for the current backend. A new kernel
//! changes no model file. An operation that no backend has a kernel for is its own reference.
//!
//! A front returns an empty tensor if its output has no values: not every backend computes with such
//! tensors.
//!
//! A new operation is a front here, a row in `kernel/operations.rs` with its reference, and a test.
//! A kernel of it is a function, and one line in the implementation of [`Backend`] that has it.

#[macro_use]
mod operations;

pub mod reference;

mod attention;
#[cfg(feature = "autodiff")]
mod autodiff;
mod backend;
mod cache;
mod codes;
mod convolutions;
#[cfg(feature = "cube")]
#[cfg_attr(
    not(feature = "testing"),
    expect(unreachable_pub, reason = "public only where tests ask for variants by name")
)]
mod cube;
mod draw;
#[cfg(all(test, feature = "cpu"))]
pub(crate) mod exact;
#[cfg(feature = "cpu")]
mod flex;
mod fused_conv;
mod geometry;
mod gradient;
mod layers;
mod norms;
mod pointwise;
mod products;
mod residual;
#[cfg(all(test, feature = "cpu"))]
mod tests;
mod weight;

pub use attention::{Mask, Visibility, attention, attention_weights, rounded_as};
pub use backend::Backend;
pub use cache::{Slot, cache_write};
pub(crate) use cache::{cache_read, empty_cache};
pub use codes::{Map, code_tokens};
pub use convolutions::{conv_transpose1d, conv1d};
#[cfg(feature = "testing")]
#[doc(hidden)]
pub use cube::variants;
pub use draw::draw;
#[cfg(feature = "cpu")]
pub use flex::level::{CpuLevel, NoSuchLevel, cpu_level, lower_cpu_level};
pub use fused_conv::{ConvActivation, FusedLayers, fused_conv1d};
pub use geometry::ConvGeometry;
pub use layers::{CachedLayer, CachingLayer, LayerWeights, NewTokens, cached_layers};
pub use norms::{ada_norm, modulate, norm_rotate, rms_norm, rotate};
pub use pointwise::{elu, gelu, gelu_tanh, half_snake, layer_norm};
pub use products::{batched_product, gated_linear, linear_added};
pub use reference::{clamp, silu, soft_clamp, softplus};
pub use residual::{Convolution, SnakeParams, UnitTensors, residual_units};
pub use weight::{Packed, Packing, Precision, Weight, pack_filter, q8_from_words, quantize_q8};

use burn::tensor::{Bool, DType, Int, Tensor, TensorPrimitive, f16, ops::FloatTensor};

/// Checks that all tensors of an operation have the same type. Otherwise a backend panics deep inside,
/// or a GPU reads the bytes of one type as another.
#[track_caller]
fn assert_same_dtype(operation: &str, first: DType, others: impl IntoIterator<Item = DType>) {
    for other in others {
        assert!(first == other, "{operation} of {first:?} and {other:?}");
    }
}

/// The same check for an operation with a matrix or filter, which may be narrower: see
/// [`Backend::computes_in`].
#[track_caller]
fn assert_applies<B: Backend>(
    operation: &str,
    x: DType,
    weight: DType,
    others: impl IntoIterator<Item = DType>,
) {
    assert_same_dtype(operation, x, others);
    let fits = x == weight || x == B::computes_in(weight);
    assert!(fits, "{operation} of {x:?} and {weight:?}");
}

/// Flattens all axes except the last.
fn rows<B: Backend, const D: usize>(x: Tensor<B, D>) -> Tensor<B, 2> {
    let width = x.dims()[D - 1];
    let rows = x.shape().num_elements() / width.max(1);
    x.reshape([rows, width])
}

/// Returns an output of this shape in the type of `x`, if the output has no values.
fn nothing<B: Backend, const D: usize>(
    x: &Tensor<B, D>,
    shape: [usize; D],
) -> Option<Tensor<B, D>> {
    shape.contains(&0).then(|| Tensor::zeros(shape, (&x.device(), x.dtype())))
}

/// True for a tensor without values.
fn is_empty<B: Backend, const D: usize>(x: &Tensor<B, D>) -> bool {
    x.dims().contains(&0)
}

/// Wraps a backend's tensor as Burn's.
fn tensor<B: Backend, const D: usize>(x: FloatTensor<B>) -> Tensor<B, D> {
    Tensor::from_primitive(TensorPrimitive::Float(x))
}

/// Unwraps Burn's tensor to the backend's.
fn primitive<B: Backend, const D: usize>(x: Tensor<B, D>) -> FloatTensor<B> {
    x.into_primitive().tensor()
}

/// Returns `x W^T + b`.
///
/// # Shapes
/// - `x`: `[.., in]`
/// - `weight`: `[out, in]`, `bias`: `[out]`
/// - output: `[.., out]`
pub fn linear<B: Backend, const D: usize>(
    x: Tensor<B, D>,
    weight: impl Into<Weight<B, 2>>,
    bias: Option<Tensor<B, 1>>,
) -> Tensor<B, D> {
    let weight = weight.into();
    let others = bias.as_ref().map(Tensor::dtype);
    assert_applies::<B>("linear", x.dtype(), weight.dtype(), others);
    let mut shape = x.dims();
    shape[D - 1] = weight.dims()[0];
    if let Some(nothing) = nothing(&x, shape) {
        return nothing;
    }
    // One matrix product for any rank: a broadcast weight would become a batch of small ones.
    let y = products::product(rows(x), weight);
    match bias {
        Some(bias) => y + bias.unsqueeze(),
        None => y,
    }
    .reshape(shape)
}

/// Looks up rows of a table: `weight[ids]`.
///
/// # Shapes
/// - `weight`: `[V, H]`
/// - `ids`: `[B, L]`
/// - output: `[B, L, H]`
pub fn embedding<B: Backend>(
    weight: impl Into<Weight<B, 2>>,
    ids: Tensor<B, 2, Int>,
) -> Tensor<B, 3> {
    match weight.into() {
        Weight::Plain(weight) => reference::embedding(weight, ids),
        Weight::Packed(weight) => tensor(B::packed_embedding(weight, ids.into_primitive())),
    }
}

/// Adds a residual branch: `x + y`, kept finite by [`keep_finite`].
///
/// # Shapes
/// - `x`, `y`, output: any, equal
pub fn add<B: Backend, const D: usize>(x: Tensor<B, D>, y: Tensor<B, D>) -> Tensor<B, D> {
    assert_same_dtype("add", x.dtype(), [y.dtype()]);
    keep_finite(x + y)
}

/// Replaces infinity in f16 by the largest f16 value; returns other types unchanged, in any shape.
///
/// The residual stream of weights trained in bf16 may exceed 65504, the maximum of f16. A norm
/// follows every use of the stream, so only the direction matters. A clipped value keeps it better
/// than infinity, which turns the next sum into NaN. NaN stays NaN, so that a broken network is
/// detected.
///
/// Source: Hugging Face `modeling_t5.py`, which does the same after each block.
pub fn keep_finite<B: Backend, const D: usize>(x: Tensor<B, D>) -> Tensor<B, D> {
    let most = f16::MAX.to_f32();
    if x.dtype() == DType::F16 { clamp(x, -most, most) } else { x }
}

/// Adds a gated residual branch: `x + gate y`, kept finite by [`keep_finite`].
///
/// # Shapes
/// - `x`, `y`, output: `[B, P, H]`
/// - `gate`: `[B, 1, H]`
pub fn add_gated<B: Backend>(x: Tensor<B, 3>, gate: Tensor<B, 3>, y: Tensor<B, 3>) -> Tensor<B, 3> {
    assert_same_dtype("add_gated", x.dtype(), [gate.dtype(), y.dtype()]);
    if is_empty(&x) {
        return x;
    }
    keep_finite(tensor(B::add_gated(primitive(x), primitive(gate), primitive(y))))
}

/// Returns `silu(gate) up`; all three have the same shape.
pub fn swiglu<B: Backend, const D: usize>(gate: Tensor<B, D>, up: Tensor<B, D>) -> Tensor<B, D> {
    assert_same_dtype("swiglu", gate.dtype(), [up.dtype()]);
    let shape = gate.dims();
    let y: Tensor<B, 2> = tensor(B::swiglu(primitive(rows(gate)), primitive(rows(up))));
    y.reshape(shape)
}

/// Snake: `x + sin^2(e^alpha x) / (e^beta + 1e-9)` per channel.
///
/// # Shapes
/// - `x`, output: `[B, channels, S]`
/// - `alpha`, `beta`: `[1, channels, 1]`, on a log scale
pub fn snake<B: Backend>(x: Tensor<B, 3>, alpha: Tensor<B, 3>, beta: Tensor<B, 3>) -> Tensor<B, 3> {
    assert_same_dtype("snake", x.dtype(), [alpha.dtype(), beta.dtype()]);
    tensor(B::snake(primitive(x), primitive(alpha), primitive(beta)))
}

/// [`add`], then [`snake`] of the sum; returns both.
///
/// # Shapes
/// - `x`, `y`, outputs: `[B, channels, S]`
/// - `alpha`, `beta`: `[1, channels, 1]`, on a log scale
pub fn add_snake<B: Backend>(
    x: Tensor<B, 3>,
    y: Tensor<B, 3>,
    alpha: Tensor<B, 3>,
    beta: Tensor<B, 3>,
) -> [Tensor<B, 3>; 2] {
    assert_same_dtype("add_snake", x.dtype(), [y.dtype(), alpha.dtype(), beta.dtype()]);
    let [alpha, beta] = [alpha, beta].map(primitive);
    B::add_snake(primitive(x), primitive(y), alpha, beta).map(tensor)
}

/// Weighted mean and standard deviation over time: `m = sum(w x)` and
/// `sqrt(max(sum(w (x - m)^2), least))`.
///
/// # Shapes
/// - `x`, `weights`: `[B, channels, S]`; the weights of a channel sum to 1
/// - outputs: `[B, channels, 1]`
pub fn moments<B: Backend>(
    x: Tensor<B, 3>,
    weights: Tensor<B, 3>,
    least: f32,
) -> [Tensor<B, 3>; 2] {
    assert_same_dtype("moments", x.dtype(), [weights.dtype()]);
    B::moments(primitive(x), primitive(weights), least).map(tensor)
}

/// Returns the flags `[B, L]` as a tensor; `None` if every flag is set, because no mask is needed.
pub fn flags<B: Backend>(rows: &[Vec<bool>], device: &B::Device) -> Option<Tensor<B, 2, Bool>> {
    if rows.iter().flatten().all(|&set| set) {
        return None;
    }
    let shape = [rows.len(), rows.first().map_or(0, Vec::len)];
    let data = burn::tensor::TensorData::new(rows.concat(), shape);
    Some(Tensor::from_data(data, device))
}
