//! Gradients of operations, for training.
//!
//! Operations that are not here are differentiated through their references.

use burn::tensor::{DType, Tensor, activation};

use super::{Backend, ConvGeometry, Mask, attention};

/// Gradients of a product with weights, `y = x W^T`, for its input and its weights: `dx = g W`,
/// `dW = g^T x`. Only the `wanted` ones are computed.
///
/// # Shapes
/// - `x`: `[rows, in]`, `weight`: `[out, in]`, possibly of a narrower type, `gradient`:
///   `[rows, out]`
/// - output: shapes of `x` and `weight`, both in the type of the gradient
pub fn product_gradients<B: Backend>(
    x: Tensor<B, 2>,
    weight: Tensor<B, 2>,
    gradient: Tensor<B, 2>,
    wanted: [bool; 2],
) -> [Option<Tensor<B, 2>>; 2] {
    let dtype = gradient.dtype();
    let of_x = wanted[0].then(|| gradient.clone().matmul(weight.cast(dtype)));
    let of_weight = wanted[1].then(|| gradient.transpose().matmul(x));
    [of_x, of_weight]
}

/// Gradients of [`rms_norm`](super::rms_norm) for its input and weight.
///
/// With `r = 1 / sqrt(mean(x^2) + epsilon)` and `h = g w`: `dx = r (h - x r^2 mean(h x))`,
/// `dw = sum g x r`.
///
/// # Shapes
/// - `x`, `gradient`: `[rows, H]`, `weight`: `[H]`
/// - output: shapes of `x` and `weight`
pub fn rms_norm_gradients<B: Backend>(
    x: Tensor<B, 2>,
    weight: Tensor<B, 1>,
    epsilon: f64,
    gradient: Tensor<B, 2>,
) -> (Tensor<B, 2>, Tensor<B, 1>) {
    let (dtype, wide) = (x.dtype(), DType::F32);
    let (x, weight, gradient) = (x.cast(wide), weight.cast(wide), gradient.cast(wide));
    let inverse = (x.clone().square().mean_dim(1) + epsilon).sqrt().recip();
    let normed = x * inverse.clone();
    let width = weight.dims()[0];
    let of_weight = (gradient.clone() * normed.clone()).sum_dim(0).reshape([width]);
    let heard = gradient * weight.unsqueeze();
    let along = (heard.clone() * normed.clone()).mean_dim(1);
    (((heard - normed * along) * inverse).cast(dtype), of_weight.cast(dtype))
}

/// Gradients of [`ada_norm`](super::ada_norm) for its input, its weight, and shift and scale.
///
/// With the normed rows `n`: the norm gets `g (1 + scale)`, `dshift = sum g`, `dscale = sum g n`,
/// summed over the rows of an item.
///
/// # Shapes
/// - `x`, `gradient`: `[B, P, H]`, `weight`: `[H]`, `scale`: `[B, 1, H]`
/// - output: shapes of `x`, `weight`, and twice `scale`
pub fn ada_norm_gradients<B: Backend>(
    x: Tensor<B, 3>,
    weight: Tensor<B, 1>,
    epsilon: f64,
    scale: Tensor<B, 3>,
    gradient: Tensor<B, 3>,
) -> (Tensor<B, 3>, Tensor<B, 1>, [Tensor<B, 3>; 2]) {
    let shape = x.dims();
    let rows = |x: Tensor<B, 3>| x.reshape([shape[0] * shape[1], shape[2]]);
    let normed = super::rms_norm(x.clone(), weight.clone(), epsilon);
    let of_shift = gradient.clone().sum_dim(1);
    let of_scale = (gradient.clone() * normed).sum_dim(1);
    let of_norm = gradient * (scale + 1.0);
    let (of_x, of_weight) = rms_norm_gradients(rows(x), weight, epsilon, rows(of_norm));
    (of_x.reshape(shape), of_weight, [of_shift, of_scale])
}

/// Gradients of [`add_gated`](super::add_gated) for its gate and its gated input `y`. The gradient
/// of the other input is `gradient` itself.
///
/// # Shapes
/// - `y`, `gradient`: `[B, P, H]`, `gate`: `[B, 1, H]`
/// - output: shapes of `gate` and `y`
pub fn add_gated_gradients<B: Backend>(
    gate: Tensor<B, 3>,
    y: Tensor<B, 3>,
    gradient: Tensor<B, 3>,
) -> [Tensor<B, 3>; 2] {
    [(gradient.clone() * y).sum_dim(1), gradient * gate]
}

/// Gradients of [`swiglu`](super::swiglu) for `gate` and `up`.
///
/// # Shapes
/// - all: `[rows, H]`
pub fn swiglu_gradients<B: Backend>(
    gate: Tensor<B, 2>,
    up: Tensor<B, 2>,
    gradient: Tensor<B, 2>,
) -> [Tensor<B, 2>; 2] {
    let open = activation::sigmoid(gate.clone());
    let silu = gate.clone() * open.clone();
    let slope = open.clone() + silu.clone() * (open * -1.0 + 1.0);
    [gradient.clone() * up * slope, gradient * silu]
}

/// Gradients of [`attention`](super::attention()) for queries, keys and values. The output of a
/// query that sees no key is the mean of all values. Only these values get its gradient, in equal
/// parts.
///
/// With the weights `P = softmax(s q k^T)`: `dv = P^T g`, `dP = g v^T`, `dS = P (dP - sum P dP)`,
/// `dq = s dS k`, `dk = s dS^T q`; the query heads of a group add up.
///
/// # Shapes
/// - `q`, `gradient`: `[B, heads, Lq, D]`
/// - `k`, `v`: `[B, kv_heads, Lk, D]`
/// - output: shapes of `q`, `k` and `v`
///
/// Source: Dao et al. 2022, arXiv:2205.14135, appendix B.2.
pub fn attention_gradients<B: Backend>(
    [q, k, v]: [Tensor<B, 4>; 3],
    mask: &Mask<B>,
    gradient: Tensor<B, 4>,
) -> [Tensor<B, 4>; 3] {
    let [batch, heads, queries, width] = q.dims();
    let [_, kv_heads, keys, _] = k.dims();
    let (dtype, wide) = (q.dtype(), DType::F32);
    let (q, k, v, gradient) = (q.cast(wide), k.cast(wide), v.cast(wide), gradient.cast(wide));
    let scale = (width as f64).powf(-0.5);
    let together =
        |x: Tensor<B, 4>| x.reshape([batch, kv_heads, heads / kv_heads * queries, width]);
    let (q, gradient) = (together(q), together(gradient));
    let scores = q.clone().mul_scalar(scale).matmul(k.clone().swap_dims(2, 3));
    let scores = scores.reshape([batch, heads, queries, keys]);
    let weights = activation::softmax(
        attention::masked(scores, [&(0..queries), &(0..keys)], mask, f32::MIN),
        3,
    );
    let weights = weights.reshape([batch, kv_heads, heads / kv_heads * queries, keys]);
    let of_v = weights.clone().swap_dims(2, 3).matmul(gradient.clone());
    let of_weights = gradient.matmul(v.swap_dims(2, 3));
    let along = (weights.clone() * of_weights.clone()).sum_dim(3);
    let of_scores = weights * (of_weights - along) * scale;
    // Hidden scores have no gradient, not even in a row where all are hidden.
    let of_scores = of_scores.reshape([batch, heads, queries, keys]);
    let of_scores = attention::masked(of_scores, [&(0..queries), &(0..keys)], mask, 0.0);
    let of_scores = of_scores.reshape([batch, kv_heads, heads / kv_heads * queries, keys]);
    let of_q = of_scores.clone().matmul(k).reshape([batch, heads, queries, width]);
    let of_k = of_scores.swap_dims(2, 3).matmul(q);
    [of_q, of_k, of_v].map(|of| of.cast(dtype))
}

/// Gradients of [`snake`](super::snake) for its input, `alpha` and `beta`.
///
/// With `a = e^alpha`, `b = e^beta` and `c = 1 / (b + 1e-9)`: `dx = g (1 + a c sin(2 a x))`,
/// `dalpha = sum g a c x sin(2 a x)`, `dbeta = -sum g b c^2 sin^2(a x)`.
///
/// # Shapes
/// - `x`, `gradient`: `[B, channels, S]`
/// - `alpha`, `beta`: `[1, channels, 1]`
/// - output: shapes of `x`, `alpha` and `beta`
pub fn snake_gradients<B: Backend>(
    x: Tensor<B, 3>,
    alpha: Tensor<B, 3>,
    beta: Tensor<B, 3>,
    gradient: Tensor<B, 3>,
) -> [Tensor<B, 3>; 3] {
    let (a, b) = (alpha.exp(), beta.exp());
    let c = (b.clone() + 1e-9).recip();
    let angle = x.clone() * a.clone();
    let slope = (angle.clone() * 2.0).sin() * a * c.clone();
    let sum = |x: Tensor<B, 3>| x.sum_dim(2).sum_dim(0);
    let of_alpha = sum(gradient.clone() * x * slope.clone());
    let of_beta = sum(gradient.clone() * angle.sin().square()) * b * c.square() * -1.0;
    [gradient * (slope + 1.0), of_alpha, of_beta]
}

/// The gradient of a convolution's weight:
/// `dw[o, i, k] = sum g[o, s] x[i, s stride + k dilation - left]`, summed over all items and
/// samples; `left` is the padding before the input.
///
/// # Panics
/// If the convolution has groups: Burn differentiates these.
///
/// # Shapes
/// - `x`: `[B, in, S]`
/// - `gradient`: `[B, out, S']`
/// - output: `[out, in, taps]`
pub fn filter_gradient<B: Backend>(
    x: Tensor<B, 3>,
    gradient: Tensor<B, 3>,
    taps: usize,
    ConvGeometry { stride, padding: [left, _], dilation, groups }: ConvGeometry,
) -> Tensor<B, 3> {
    assert_eq!(groups, 1, "the gradient of a filter with groups");
    let [batch, channels, samples] = x.dims();
    let [_, outputs, length] = gradient.dims();
    // Zeros before and after, so that every tap finds a sample for every output.
    let reached = (length - 1) * stride + (taps - 1) * dilation + 1;
    let behind = reached.saturating_sub(samples + left);
    let zeros = |count| Tensor::zeros([batch, channels, count], (&x.device(), x.dtype()));
    let padded = Tensor::cat(vec![zeros(left), x.clone(), zeros(behind)], 2);
    let gradient = gradient.swap_dims(0, 1).reshape([outputs, batch * length]);
    let of_tap = |tap: usize| {
        let first = tap * dilation;
        let last = first + (length - 1) * stride + 1;
        let read = padded.clone().slice(burn::tensor::s![.., .., first..last;stride]);
        let read = read.swap_dims(0, 1).reshape([channels, batch * length]);
        gradient.clone().matmul(read.transpose()).unsqueeze_dim::<3>(2)
    };
    Tensor::cat((0..taps).map(of_tap).collect(), 2)
}
