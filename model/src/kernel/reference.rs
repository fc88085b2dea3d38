//! Every operation in plain Burn operations: the definition of correctness on every backend.
//!
//! The functions of the same names in [`super`] document the computation and the shapes. Functions
//! without a kernel are their own fronts: `clamp`, `silu`, `soft_clamp` and `softplus`.

use burn::tensor::{
    DType, Int, Tensor, activation, module,
    ops::{ConvOptions, ConvTransposeOptions},
};

use super::{Backend, ConvGeometry};

pub use super::{
    attention::reference as attention,
    cache::reference as cache_write,
    codes::reference as code_tokens,
    draw::reference as draw,
    fused_conv::reference as fused_conv1d,
    gradient::{
        ada_norm_gradients, add_gated_gradients, attention_gradients, filter_gradient,
        product_gradients, rms_norm_gradients, snake_gradients, swiglu_gradients,
    },
    layers::reference as cached_layers,
    residual::reference as residual_units,
};

/// Up to this number of rows, the product is computed transposed, with the weight first.
///
/// A CPU's matrix product packs its right side, and packing a few rows is cheaper than packing a
/// weight. On two cores 70 rows of 1024 values take 2.8 instead of 6.4 ms, and 125 rows of 2048
/// values 17.8 instead of 37 ms, with the transposition of the result. From 750 rows on it saves
/// nothing.
const FEW_ROWS: usize = 512;

/// Reference of [`super::Backend::product`], with the same shapes.
pub fn product<B: Backend>(x: Tensor<B, 2>, weight: Tensor<B, 2>) -> Tensor<B, 2> {
    let weight = weight.cast(x.dtype());
    if x.dims()[0] <= FEW_ROWS {
        weight.matmul(x.transpose()).transpose()
    } else {
        x.matmul(weight.transpose())
    }
}

/// Reference of [`batched_product`](super::batched_product), of the same shapes.
pub fn batched_product<B: Backend>(left: Tensor<B, 4>, right: Tensor<B, 4>) -> Tensor<B, 4> {
    left.matmul(right)
}

/// Reference of [`super::conv1d`], with the same shapes.
pub fn conv1d<B: Backend>(
    x: Tensor<B, 3>,
    weight: Tensor<B, 3>,
    bias: Option<Tensor<B, 1>>,
    ConvGeometry { stride, padding: [left, right], dilation, groups }: ConvGeometry,
) -> Tensor<B, 3> {
    let weight = weight.cast(x.dtype());
    let both = left.min(right);
    let options = ConvOptions::new([stride], [both], [dilation], groups);
    module::conv1d(padded(x, [left - both, right - both]), weight, bias, options)
}

/// Puts zeros before and after the last axis. Burn's own padding of one side fails in other types
/// than its default.
fn padded<B: Backend>(x: Tensor<B, 3>, [left, right]: [usize; 2]) -> Tensor<B, 3> {
    let [batch, channels, _] = x.dims();
    let place = (&x.device(), x.dtype());
    let zeros = |count| Tensor::zeros([batch, channels, count], place);
    let parts =
        [(left > 0).then(|| zeros(left)), Some(x.clone()), (right > 0).then(|| zeros(right))];
    if left + right == 0 { x } else { Tensor::cat(parts.into_iter().flatten().collect(), 2) }
}

/// Reference of [`super::conv_transpose1d`], with the same shapes.
pub fn conv_transpose1d<B: Backend>(
    x: Tensor<B, 3>,
    weight: Tensor<B, 3>,
    bias: Option<Tensor<B, 1>>,
    geometry: ConvGeometry,
) -> Tensor<B, 3> {
    let ConvGeometry { stride, padding: [left, right], dilation, groups } = geometry;
    let length = geometry.transposed_outputs(x.dims()[2], weight.dims()[2]);
    // Burn removes the same number of samples from both ends.
    let both = left.min(right);
    let options = ConvTransposeOptions::new([stride], [both], [0], [dilation], groups);
    let weight = weight.cast(x.dtype());
    let y = module::conv_transpose1d(x, weight, bias, options);
    if left == right { y } else { y.narrow(2, left - both, length) }
}

/// Reference of [`super::embedding`], with the same shapes.
pub fn embedding<B: Backend>(weight: Tensor<B, 2>, ids: Tensor<B, 2, Int>) -> Tensor<B, 3> {
    let dtype = B::computes_in(weight.dtype());
    module::embedding(weight, ids).cast(dtype)
}

/// Reference of [`super::rms_norm`], with the same shapes.
pub fn rms_norm<B: Backend, const D: usize>(
    x: Tensor<B, D>,
    weight: Tensor<B, 1>,
    epsilon: f64,
) -> Tensor<B, D> {
    // The upstream code reduces in f32 and casts back before it multiplies by the weight.
    let dtype = x.dtype();
    let x = x.cast(DType::F32);
    let inverse_rms = (x.clone().square().mean_dim(D - 1) + epsilon).sqrt().recip();
    (x * inverse_rms).cast(dtype) * weight.unsqueeze()
}

/// Reference of [`super::layer_norm`], with the same shapes.
pub fn layer_norm<B: Backend, const D: usize>(
    x: Tensor<B, D>,
    weight: Tensor<B, 1>,
    bias: Option<Tensor<B, 1>>,
    epsilon: f64,
) -> Tensor<B, D> {
    let (dtype, wide) = (x.dtype(), DType::F32);
    let x = x.cast(wide);
    let centred = x.clone() - x.mean_dim(D - 1);
    let variance = centred.clone().square().mean_dim(D - 1);
    let y = centred * (variance + epsilon).sqrt().recip() * weight.cast(wide).unsqueeze();
    match bias {
        Some(bias) => y + bias.cast(wide).unsqueeze(),
        None => y,
    }
    .cast(dtype)
}

/// Reference of [`super::ada_norm`], with the same shapes.
pub fn ada_norm<B: Backend>(
    x: Tensor<B, 3>,
    weight: Tensor<B, 1>,
    epsilon: f64,
    shift: Tensor<B, 3>,
    scale: Tensor<B, 3>,
) -> Tensor<B, 3> {
    modulate(super::rms_norm(x, weight, epsilon), shift, scale)
}

/// Reference of [`super::norm_rotate`], with the same shapes.
pub fn norm_rotate<B: Backend>(
    x: Tensor<B, 4>,
    weight: Tensor<B, 1>,
    epsilon: f64,
    cos: Tensor<B, 2>,
    sin: Tensor<B, 2>,
) -> Tensor<B, 4> {
    let x = super::rms_norm(x, weight, epsilon).swap_dims(1, 2); // [B, heads, L, D]
    super::rotate(x, cos, sin)
}

/// Reference of [`super::modulate`], with the same shapes.
pub fn modulate<B: Backend>(
    x: Tensor<B, 3>,
    shift: Tensor<B, 3>,
    scale: Tensor<B, 3>,
) -> Tensor<B, 3> {
    x * (scale + 1.0) + shift
}

/// Reference of [`super::add_gated`], with the same shapes.
pub fn add_gated<B: Backend>(x: Tensor<B, 3>, gate: Tensor<B, 3>, y: Tensor<B, 3>) -> Tensor<B, 3> {
    x + y * gate
}

/// Clamps `x`, of any shape, to `least` and `most`. NaN stays NaN.
///
/// It replaces Burn's `clamp`, which fails on GPUs in two ways (Burn 0.21). Some GPUs return a
/// bound for NaN. If it is fused with a product that repeats `x` along its last axis, the kernel
/// compares vectors of bounds with scalars of `x`, which a driver may reject.
pub fn clamp<B: Backend, const D: usize>(x: Tensor<B, D>, least: f32, most: f32) -> Tensor<B, D> {
    let (below, above) = (x.clone().lower_elem(least), x.clone().greater_elem(most));
    x.mask_fill(below, least).mask_fill(above, most)
}

/// Reference of [`super::rotate`], with the same shapes.
pub fn rotate<B: Backend>(x: Tensor<B, 4>, cos: Tensor<B, 2>, sin: Tensor<B, 2>) -> Tensor<B, 4> {
    let half = cos.dims()[1];
    let (cos, sin) = (cos.unsqueeze::<4>(), sin.unsqueeze::<4>());
    let first = x.clone().narrow(3, 0, half);
    let second = x.narrow(3, half, half);
    let rotated = first.clone() * cos.clone() - second.clone() * sin.clone();
    Tensor::cat(vec![rotated, second * cos + first * sin], 3)
}

/// Returns `x sigmoid(x)`, for any shape.
pub fn silu<B: Backend, const D: usize>(x: Tensor<B, D>) -> Tensor<B, D> {
    activation::silu(x)
}

/// Reference of [`super::swiglu`], with the same shapes.
pub fn swiglu<B: Backend, const D: usize>(gate: Tensor<B, D>, up: Tensor<B, D>) -> Tensor<B, D> {
    activation::silu(gate) * up
}

/// Reference of [`super::gelu`], with the same shapes.
pub fn gelu<B: Backend, const D: usize>(x: Tensor<B, D>) -> Tensor<B, D> {
    activation::gelu(x)
}

/// Reference of [`super::gelu_tanh`], with the same shapes.
pub fn gelu_tanh<B: Backend, const D: usize>(x: Tensor<B, D>) -> Tensor<B, D> {
    // Not as a power: some GPUs return NaN for one of a negative number.
    let cube = x.clone() * x.clone() * x.clone();
    let inner = (x.clone() + cube * 0.044_715) * (2.0 / std::f64::consts::PI).sqrt();
    x * (inner.tanh() + 1.0) * 0.5
}

/// Reference of [`super::elu`], with the same shapes.
pub fn elu<B: Backend, const D: usize>(x: Tensor<B, D>) -> Tensor<B, D> {
    // The exponential of a large value is infinite, so only the negative part's is taken.
    x.clone().clamp_min(0.0) + x.clamp_max(0.0).exp().sub_scalar(1.0)
}

/// Reference of [`super::half_snake`], with the same shapes.
pub fn half_snake<B: Backend>(x: Tensor<B, 3>, alpha: Tensor<B, 3>) -> Tensor<B, 3> {
    let (channels, all) = (alpha.dims()[1], x.dims()[1]);
    let wave = x.clone().narrow(1, 0, channels);
    let sine = (wave.clone() * alpha.clone()).sin();
    let wave = wave + sine.square() * (alpha + 1e-9).recip();
    let rest = activation::leaky_relu(x.narrow(1, channels, all - channels), 0.01);
    Tensor::cat(vec![wave, rest], 1)
}

/// Reference of [`super::snake`], with the same shapes.
// ANCHOR: snake
pub fn snake<B: Backend>(x: Tensor<B, 3>, alpha: Tensor<B, 3>, beta: Tensor<B, 3>) -> Tensor<B, 3> {
    let sine = (x.clone() * alpha.exp()).sin();
    x + sine.square() * (beta.exp() + 1e-9).recip()
}
// ANCHOR_END: snake

/// Reference of [`super::add_snake`], with the same shapes.
pub fn add_snake<B: Backend>(
    x: Tensor<B, 3>,
    y: Tensor<B, 3>,
    alpha: Tensor<B, 3>,
    beta: Tensor<B, 3>,
) -> [Tensor<B, 3>; 2] {
    let sum = super::add(x, y);
    [sum.clone(), super::snake(sum, alpha, beta)]
}

/// Reference of [`super::moments`], with the same shapes.
pub fn moments<B: Backend>(
    x: Tensor<B, 3>,
    weights: Tensor<B, 3>,
    least: f32,
) -> [Tensor<B, 3>; 2] {
    let mean = (weights.clone() * x.clone()).sum_dim(2);
    let variance = (weights * (x - mean.clone()).square()).sum_dim(2);
    [mean, variance.clamp_min(least).sqrt()]
}

/// Returns `bound tanh(x / bound)`: the soft limit of FSQ beyond the outermost level.
///
/// # Shapes
/// - `x`, output: `[.., levels]`
/// - `bound`: `[levels]`
pub fn soft_clamp<B: Backend, const D: usize>(
    x: Tensor<B, D>,
    bound: Tensor<B, 1>,
) -> Tensor<B, D> {
    let bound = bound.unsqueeze::<D>();
    (x / bound.clone()).tanh() * bound
}

/// Returns `ln(1 + e^x)` for any shape, and `x` itself above 20, as PyTorch does.
pub fn softplus<B: Backend, const D: usize>(x: Tensor<B, D>) -> Tensor<B, D> {
    // PyTorch's threshold: above 20 `softplus(x)` equals `x` in f32, and `exp` may overflow.
    let large = x.clone().greater_elem(20.0);
    let small = x.clone().clamp_max(20.0).exp().log1p();
    small.mask_where(large, x)
}
