//! The operations of the networks.
//!
//! Every matrix product, convolution, attention, norm and activation of the networks calls a
//! function of this module. The models themselves only add (residuals, learned embeddings) and, in
//! FSQ and in the VAE's distribution, scale and round. A function here is the *front*. It runs the
//! *reference* of the same name in [`mod@reference`], which consists of plain Burn operations and
//! defines correctness, unless [`Backend`] has a *kernel* for the current backend. A new kernel
//! changes no model file.

pub mod reference;

mod attention;
#[cfg(feature = "autodiff")]
mod autodiff;
mod cache;
mod codes;
#[cfg(feature = "cube")]
mod cube;
#[cfg(feature = "cpu")]
mod flex;
mod geometry;
mod gradient;
mod layers;
mod plain;
mod products;
mod residual;

pub use attention::{Mask, Visibility, attention, attention_weights, rounded_as};
pub(crate) use cache::cache_read;
pub use cache::{Slot, cache_write};
pub use codes::{Map, code_tokens};
pub use geometry::ConvGeometry;
pub use layers::{CachedLayer, CachingLayer, LayerWeights, Reading, cached_layers};
pub use plain::{gelu, gelu_tanh, layer_norm};
pub use products::{gated_linear, linear_added};
pub use residual::{Convolution, SnakeParams, UnitTensors, residual_units};

use burn::tensor::{
    Bool, DType, Int, Tensor, TensorPrimitive,
    ops::{BoolTensor, FloatTensor, IntTensor},
};

/// Burn's backend with this project's own operations.
///
/// Models are generic over this trait. An operation with a kernel on any backend is a method here,
/// and its default body is the reference.
pub trait Backend: burn::tensor::backend::Backend {
    /// Returns the computing type of a network with these weights. It is the type of the weights,
    /// unless the backend has kernels that read weights in a narrower type than their input.
    ///
    /// "Weights" means matrices, filters and embedding tables. Biases, norms and other parameters
    /// that are applied element by element have the computing type.
    fn computes_in(weights: DType) -> DType {
        weights
    }

    /// Runs `work` inside the thread pool, so that the consecutive operations of a token or a step
    /// do not wake it again.
    fn on_pool<R: Send>(work: impl FnOnce() -> R + Send) -> R {
        work()
    }

    /// See [`quantize_q8`]. Only backends that compute with int8 weights implement it.
    fn quantize_q8(weight: FloatTensor<Self>) -> FloatTensor<Self> {
        panic!("{} keeps no weights in eight bits", std::any::type_name_of_val(&weight));
    }

    /// See [`embedding`].
    fn embedding(weight: FloatTensor<Self>, ids: IntTensor<Self>) -> FloatTensor<Self> {
        let ids = Tensor::from_primitive(ids);
        primitive(reference::embedding::<Self>(tensor(weight), ids))
    }

    /// Returns `x W^T`, the matrix product of [`linear`], in the type of `x`.
    ///
    /// # Shapes
    /// - `x`: `[rows, in]`, `weight`: `[out, in]`, output: `[rows, out]`
    fn product(x: FloatTensor<Self>, weight: FloatTensor<Self>) -> FloatTensor<Self> {
        primitive(reference::product::<Self>(tensor(x), tensor(weight)))
    }

    /// [`gated_linear`] of rows.
    ///
    /// # Shapes
    /// - `x`: `[rows, in]`, `gate`, `up`: `[out, in]`, output: `[rows, out]`
    fn gated_product(
        x: FloatTensor<Self>,
        gate: FloatTensor<Self>,
        up: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        Self::swiglu(Self::product(x.clone(), gate), Self::product(x, up))
    }

    /// See [`linear_added`], which also keeps its result finite.
    fn product_added(
        residual: FloatTensor<Self>,
        gate: Option<FloatTensor<Self>>,
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let gate = gate.map(tensor);
        primitive(products::reference_added::<Self>(
            tensor(residual),
            gate,
            tensor(x),
            tensor(weight),
        ))
    }

    /// [`rms_norm`] of rows.
    ///
    /// # Shapes
    /// - `x`, output: `[rows, H]`, `weight`: `[H]`
    fn rms_norm(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        epsilon: f64,
    ) -> FloatTensor<Self> {
        primitive(reference::rms_norm::<Self, 2>(tensor(x), tensor(weight), epsilon))
    }

    /// See [`ada_norm`].
    fn ada_norm(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        epsilon: f64,
        shift: FloatTensor<Self>,
        scale: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let [shift, scale] = [shift, scale].map(tensor);
        primitive(reference::ada_norm::<Self>(tensor(x), tensor(weight), epsilon, shift, scale))
    }

    /// See [`add_gated`], which also keeps its result finite.
    fn add_gated(
        x: FloatTensor<Self>,
        gate: FloatTensor<Self>,
        y: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        primitive(reference::add_gated::<Self>(tensor(x), tensor(gate), tensor(y)))
    }

    /// See [`norm_rotate`].
    fn norm_rotate(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        epsilon: f64,
        cos: FloatTensor<Self>,
        sin: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let [cos, sin] = [cos, sin].map(tensor);
        primitive(reference::norm_rotate::<Self>(tensor(x), tensor(weight), epsilon, cos, sin))
    }

    /// See [`rotate`].
    fn rotate(
        x: FloatTensor<Self>,
        cos: FloatTensor<Self>,
        sin: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        primitive(reference::rotate::<Self>(tensor(x), tensor(cos), tensor(sin)))
    }

    /// [`swiglu`] of rows.
    ///
    /// # Shapes
    /// - `gate`, `up`, output: `[rows, H]`
    fn swiglu(gate: FloatTensor<Self>, up: FloatTensor<Self>) -> FloatTensor<Self> {
        primitive(reference::swiglu::<Self, 2>(tensor(gate), tensor(up)))
    }

    /// See [`rounded_as`].
    fn rounded_as(x: FloatTensor<Self>, weights: DType) -> FloatTensor<Self> {
        let _ = weights;
        x
    }

    /// See [`attention`]; `keys` is [`Mask::keys`].
    fn attention(
        q: FloatTensor<Self>,
        k: FloatTensor<Self>,
        v: FloatTensor<Self>,
        keys: Option<BoolTensor<Self>>,
        visibility: Visibility,
    ) -> FloatTensor<Self> {
        let mask = Mask { visibility, keys: keys.map(Tensor::from_primitive) };
        primitive(reference::attention::<Self>(tensor(q), tensor(k), tensor(v), &mask))
    }

    /// See [`snake`].
    fn snake(
        x: FloatTensor<Self>,
        alpha: FloatTensor<Self>,
        beta: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        primitive(reference::snake::<Self>(tensor(x), tensor(alpha), tensor(beta)))
    }

    /// See [`add_snake`].
    fn add_snake(
        x: FloatTensor<Self>,
        y: FloatTensor<Self>,
        alpha: FloatTensor<Self>,
        beta: FloatTensor<Self>,
    ) -> [FloatTensor<Self>; 2] {
        let [alpha, beta] = [alpha, beta].map(tensor);
        reference::add_snake::<Self>(tensor(x), tensor(y), alpha, beta).map(primitive)
    }

    /// See [`code_tokens`]; the maps are (weight, bias).
    fn code_tokens(
        codes: IntTensor<Self>,
        levels: &[u32],
        project: (FloatTensor<Self>, Option<FloatTensor<Self>>),
        embed: (FloatTensor<Self>, Option<FloatTensor<Self>>),
        places: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let codes = Tensor::from_primitive(codes);
        let project = (tensor(project.0), project.1.map(tensor));
        let embed = (tensor(embed.0), embed.1.map(tensor));
        let places = tensor(places);
        primitive(reference::code_tokens::<Self>(codes, levels, project, embed, places))
    }

    /// See [`filter`].
    fn filter(weight: FloatTensor<Self>, stride: usize, is_transposed: bool) -> FloatTensor<Self> {
        let _ = (stride, is_transposed);
        weight
    }

    /// See [`conv1d`].
    fn conv1d(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: Option<FloatTensor<Self>>,
        geometry: ConvGeometry,
    ) -> FloatTensor<Self> {
        let bias = bias.map(tensor);
        primitive(reference::conv1d::<Self>(tensor(x), tensor(weight), bias, geometry))
    }

    /// [`conv1d`], then [`snake`].
    fn conv1d_snake(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: Option<FloatTensor<Self>>,
        geometry: ConvGeometry,
        [alpha, beta]: [FloatTensor<Self>; 2],
    ) -> FloatTensor<Self> {
        <Self as Backend>::snake(<Self as Backend>::conv1d(x, weight, bias, geometry), alpha, beta)
    }

    /// [`conv1d`], then [`add_snake`] with `residual`.
    fn conv1d_add_snake(
        residual: FloatTensor<Self>,
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: Option<FloatTensor<Self>>,
        geometry: ConvGeometry,
        [alpha, beta]: [FloatTensor<Self>; 2],
    ) -> [FloatTensor<Self>; 2] {
        let y = <Self as Backend>::conv1d(x, weight, bias, geometry);
        <Self as Backend>::add_snake(residual, y, alpha, beta)
    }

    /// See [`conv_transpose1d`].
    fn conv_transpose1d(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        bias: Option<FloatTensor<Self>>,
        geometry: ConvGeometry,
    ) -> FloatTensor<Self> {
        let bias = bias.map(tensor);
        primitive(reference::conv_transpose1d::<Self>(tensor(x), tensor(weight), bias, geometry))
    }

    /// See [`reference::product_gradients`].
    fn product_gradients(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        wanted: [bool; 2],
    ) -> [Option<FloatTensor<Self>>; 2] {
        let [x, weight, gradient] = [x, weight, gradient].map(tensor);
        let passed = reference::product_gradients::<Self>(x, weight, gradient, wanted);
        passed.map(|of| of.map(primitive))
    }

    /// See [`reference::rms_norm_gradients`].
    fn rms_norm_gradients(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        epsilon: f64,
        gradient: FloatTensor<Self>,
    ) -> [FloatTensor<Self>; 2] {
        let (weight, gradient) = (tensor(weight), tensor(gradient));
        let (of_x, of_weight) =
            reference::rms_norm_gradients::<Self>(tensor(x), weight, epsilon, gradient);
        [primitive(of_x), primitive(of_weight)]
    }

    /// See [`reference::ada_norm_gradients`]; returns the gradients of input, weight, shift and
    /// scale.
    fn ada_norm_gradients(
        x: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        epsilon: f64,
        scale: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
    ) -> [FloatTensor<Self>; 4] {
        let [x, scale, gradient] = [x, scale, gradient].map(tensor);
        let (of_x, of_weight, [of_shift, of_scale]) =
            reference::ada_norm_gradients::<Self>(x, tensor(weight), epsilon, scale, gradient);
        [primitive(of_x), primitive(of_weight), primitive(of_shift), primitive(of_scale)]
    }

    /// See [`reference::add_gated_gradients`].
    fn add_gated_gradients(
        gate: FloatTensor<Self>,
        y: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
    ) -> [FloatTensor<Self>; 2] {
        let (y, gradient) = (tensor(y), tensor(gradient));
        reference::add_gated_gradients::<Self>(tensor(gate), y, gradient).map(primitive)
    }

    /// See [`reference::swiglu_gradients`].
    fn swiglu_gradients(
        gate: FloatTensor<Self>,
        up: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
    ) -> [FloatTensor<Self>; 2] {
        let (up, gradient) = (tensor(up), tensor(gradient));
        reference::swiglu_gradients::<Self>(tensor(gate), up, gradient).map(primitive)
    }

    /// See [`reference::attention_gradients`].
    fn attention_gradients(
        inputs: [FloatTensor<Self>; 3],
        keys: Option<BoolTensor<Self>>,
        visibility: Visibility,
        gradient: FloatTensor<Self>,
    ) -> [FloatTensor<Self>; 3] {
        let mask = Mask { visibility, keys: keys.map(Tensor::from_primitive) };
        let inputs = inputs.map(tensor);
        reference::attention_gradients::<Self>(inputs, &mask, tensor(gradient)).map(primitive)
    }

    /// See [`reference::snake_gradients`].
    fn snake_gradients(
        x: FloatTensor<Self>,
        alpha: FloatTensor<Self>,
        beta: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
    ) -> [FloatTensor<Self>; 3] {
        let [alpha, beta, gradient] = [alpha, beta, gradient].map(tensor);
        reference::snake_gradients::<Self>(tensor(x), alpha, beta, gradient).map(primitive)
    }

    /// See [`reference::filter_gradient`].
    fn filter_gradient(
        x: FloatTensor<Self>,
        gradient: FloatTensor<Self>,
        taps: usize,
        geometry: ConvGeometry,
    ) -> FloatTensor<Self> {
        primitive(reference::filter_gradient::<Self>(tensor(x), tensor(gradient), taps, geometry))
    }

    /// See [`residual_units`].
    fn residual_units(
        x: Tensor<Self, 3>,
        units: Vec<UnitTensors<Self>>,
        next: SnakeParams<Self>,
        seen: &mut dyn FnMut(usize, &Tensor<Self, 3>),
    ) -> Tensor<Self, 3> {
        reference::residual_units(x, units, next, seen)
    }

    /// See [`cached_layers`].
    fn cached_layers(
        x: Tensor<Self, 3>,
        layers: &mut dyn Iterator<Item = CachedLayer<'_, Self>>,
        reading: &Reading<'_, Self>,
    ) -> Tensor<Self, 3> {
        reference::cached_layers(x, layers, reading)
    }

    /// See [`cache_write`].
    fn cache_write(
        cache: FloatTensor<Self>,
        new: FloatTensor<Self>,
        slots: &[Slot],
    ) -> FloatTensor<Self> {
        primitive(reference::cache_write::<Self>(tensor(cache), tensor(new), slots))
    }
}

/// Checks in debug builds that all tensors of an operation have the same type. Otherwise a backend
/// panics deep inside, or a GPU reads the bytes of one type as another.
#[track_caller]
fn debug_assert_same_dtype(operation: &str, first: DType, others: impl IntoIterator<Item = DType>) {
    if cfg!(debug_assertions) {
        for other in others {
            assert!(first == other, "{operation} of {first:?} and {other:?}");
        }
    }
}

/// The same check for an operation with a matrix or filter, which may be narrower: see
/// [`Backend::computes_in`].
#[track_caller]
fn debug_assert_applies<B: Backend>(
    operation: &str,
    x: DType,
    weight: DType,
    others: impl IntoIterator<Item = DType>,
) {
    debug_assert_same_dtype(operation, x, others);
    if cfg!(debug_assertions) {
        let fits = x == weight || x == B::computes_in(weight);
        assert!(fits, "{operation} of {x:?} and {weight:?}");
    }
}

/// Flattens all axes except the last.
fn rows<B: Backend, const D: usize>(x: Tensor<B, D>) -> Tensor<B, 2> {
    let width = x.dims()[D - 1];
    let rows = x.shape().num_elements() / width.max(1);
    x.reshape([rows, width])
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
    weight: Tensor<B, 2>,
    bias: Option<Tensor<B, 1>>,
) -> Tensor<B, D> {
    let others = bias.as_ref().map(Tensor::dtype);
    debug_assert_applies::<B>("linear", x.dtype(), weight.dtype(), others);
    let mut shape = x.dims();
    shape[D - 1] = weight.dims()[0];
    // One matrix product for any rank: a broadcast weight would become a batch of small ones.
    let y: Tensor<B, 2> = tensor(B::product(primitive(rows(x)), primitive(weight)));
    match bias {
        Some(bias) => y + bias.unsqueeze(),
        None => y,
    }
    .reshape(shape)
}

/// Prepacks the weights of a convolution for this backend's kernel, if it has one, once and not in
/// every call. Afterwards only [`conv1d`] and [`residual_units`] can read them, or
/// [`conv_transpose1d`] if `is_transposed`, with the same stride, without groups, and without both a
/// stride and dilation. The packing is not checked beyond the number of elements.
///
/// # Shapes
/// - `weight`, output: `[out, in, k]`, or `[in, out, k]`
pub fn filter<B: Backend>(
    weight: Tensor<B, 3>,
    stride: usize,
    is_transposed: bool,
) -> Tensor<B, 3> {
    tensor(B::filter(primitive(weight), stride, is_transposed))
}

/// Convolution over the last axis.
///
/// # Shapes
/// - `x`: `[B, in, S]`
/// - `weight`: `[out, in / groups, k]`, `bias`: `[out]`
/// - output: `[B, out, (S + left + right - dilation (k - 1) - 1) / stride + 1]` for the padding
///   `[left, right]`
pub fn conv1d<B: Backend>(
    x: Tensor<B, 3>,
    weight: Tensor<B, 3>,
    bias: Option<Tensor<B, 1>>,
    geometry: ConvGeometry,
) -> Tensor<B, 3> {
    let others = bias.as_ref().map(Tensor::dtype);
    debug_assert_applies::<B>("conv1d", x.dtype(), weight.dtype(), others);
    let bias = bias.map(primitive);
    tensor(<B as Backend>::conv1d(primitive(x), primitive(weight), bias, geometry))
}

/// Transposed convolution over the last axis: `out[s stride + k dilation - left] += x[s] w[k]`.
///
/// # Shapes
/// - `x`: `[B, in, S]`
/// - `weight`: `[in, out / groups, k]`, `bias`: `[out]`
/// - output: `[B, out, (S - 1) stride + dilation (k - 1) + 1 - left - right]` for the padding
///   `[left, right]`
pub fn conv_transpose1d<B: Backend>(
    x: Tensor<B, 3>,
    weight: Tensor<B, 3>,
    bias: Option<Tensor<B, 1>>,
    geometry: ConvGeometry,
) -> Tensor<B, 3> {
    let others = bias.as_ref().map(Tensor::dtype);
    debug_assert_applies::<B>("conv_transpose1d", x.dtype(), weight.dtype(), others);
    let bias = bias.map(primitive);
    tensor(<B as Backend>::conv_transpose1d(primitive(x), primitive(weight), bias, geometry))
}

/// Looks up rows of a table: `weight[ids]`.
///
/// # Shapes
/// - `weight`: `[V, H]`
/// - `ids`: `[B, L]`
/// - output: `[B, L, H]`
pub fn embedding<B: Backend>(weight: Tensor<B, 2>, ids: Tensor<B, 2, Int>) -> Tensor<B, 3> {
    tensor(<B as Backend>::embedding(primitive(weight), ids.into_primitive()))
}

/// Quantises a matrix or table to int8: 32 adjacent values of a row share a scale, which maps the
/// largest magnitude to 127. The result has the type `I8`, and only this module's functions can
/// read it.
///
/// # Panics
/// If `B` does not compute with int8 weights, or `weight` is not a matrix.
///
/// # Shapes
/// - `weight`, output: `[out, in]`
pub fn quantize_q8<B: Backend, const D: usize>(weight: Tensor<B, D>) -> Tensor<B, D> {
    tensor(B::quantize_q8(primitive(weight)))
}

/// Root-mean-square norm over the last axis: `w x / sqrt(mean(x^2) + epsilon)`.
///
/// # Shapes
/// - `x`, output: `[.., H]`
/// - `weight`: `[H]`
pub fn rms_norm<B: Backend, const D: usize>(
    x: Tensor<B, D>,
    weight: Tensor<B, 1>,
    epsilon: f64,
) -> Tensor<B, D> {
    debug_assert_same_dtype("rms_norm", x.dtype(), [weight.dtype()]);
    let shape = x.dims();
    let y: Tensor<B, 2> = tensor(B::rms_norm(primitive(rows(x)), primitive(weight), epsilon));
    y.reshape(shape)
}

/// Second half of the adaptive norm: `x (1 + scale) + shift`.
///
/// # Shapes
/// - `x`, output: `[B, P, H]`
/// - `shift`, `scale`: `[B, 1, H]`
pub fn modulate<B: Backend>(
    x: Tensor<B, 3>,
    shift: Tensor<B, 3>,
    scale: Tensor<B, 3>,
) -> Tensor<B, 3> {
    debug_assert_same_dtype("modulate", x.dtype(), [shift.dtype(), scale.dtype()]);
    reference::modulate(x, shift, scale)
}

/// [`rms_norm`], then [`modulate`]: the norm with a scale and shift that depend on the timestep.
///
/// # Shapes
/// - `x`, output: `[B, P, H]`
/// - `weight`: `[H]`
/// - `shift`, `scale`: `[B, 1, H]`
pub fn ada_norm<B: Backend>(
    x: Tensor<B, 3>,
    weight: Tensor<B, 1>,
    epsilon: f64,
    shift: Tensor<B, 3>,
    scale: Tensor<B, 3>,
) -> Tensor<B, 3> {
    let others = [weight.dtype(), shift.dtype(), scale.dtype()];
    debug_assert_same_dtype("ada_norm", x.dtype(), others);
    let [shift, scale] = [shift, scale].map(primitive);
    tensor(B::ada_norm(primitive(x), primitive(weight), epsilon, shift, scale))
}

/// [`rms_norm`] of every head, then [`rotate`]: queries and keys in the layout that attention
/// reads.
///
/// # Shapes
/// - `x`: `[B, L, heads, D]`
/// - `weight`: `[D]`
/// - `cos`, `sin`: `[L, D / 2]`, or `[B, D / 2]` if `L` is 1 and each item has its own position
/// - output: `[B, heads, L, D]`
pub fn norm_rotate<B: Backend>(
    x: Tensor<B, 4>,
    weight: Tensor<B, 1>,
    epsilon: f64,
    cos: Tensor<B, 2>,
    sin: Tensor<B, 2>,
) -> Tensor<B, 4> {
    let others = [weight.dtype(), cos.dtype(), sin.dtype()];
    debug_assert_same_dtype("norm_rotate", x.dtype(), others);
    let [cos, sin] = [cos, sin].map(primitive);
    tensor(B::norm_rotate(primitive(x), primitive(weight), epsilon, cos, sin))
}

/// Adds a residual branch: `x + y`, kept finite by [`keep_finite`].
///
/// # Shapes
/// - `x`, `y`, output: any, equal
pub fn add<B: Backend, const D: usize>(x: Tensor<B, D>, y: Tensor<B, D>) -> Tensor<B, D> {
    debug_assert_same_dtype("add", x.dtype(), [y.dtype()]);
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
    if x.dtype() == DType::F16 { reference::keep_finite(x) } else { x }
}

/// Adds a gated residual branch: `x + gate y`, kept finite by [`keep_finite`].
///
/// # Shapes
/// - `x`, `y`, output: `[B, P, H]`
/// - `gate`: `[B, 1, H]`
pub fn add_gated<B: Backend>(x: Tensor<B, 3>, gate: Tensor<B, 3>, y: Tensor<B, 3>) -> Tensor<B, 3> {
    debug_assert_same_dtype("add_gated", x.dtype(), [gate.dtype(), y.dtype()]);
    keep_finite(tensor(B::add_gated(primitive(x), primitive(gate), primitive(y))))
}

/// Rotary position embedding; rotates the two halves against each other (not adjacent pairs).
///
/// # Shapes
/// - `x`, output: `[B, heads, L, D]`
/// - `cos`, `sin`: `[L, D / 2]`, or `[B, D / 2]` if `L` is 1 and each item has its own position
pub fn rotate<B: Backend>(x: Tensor<B, 4>, cos: Tensor<B, 2>, sin: Tensor<B, 2>) -> Tensor<B, 4> {
    debug_assert_same_dtype("rotate", x.dtype(), [cos.dtype(), sin.dtype()]);
    let [batch, _, length, _] = x.dims();
    let has_own = length == 1 && batch > 1 && cos.dims()[0] == batch;
    let rotated = |x| tensor::<B, 4>(B::rotate(primitive(x), primitive(cos), primitive(sin)));
    if has_own {
        // The batch axis takes the place of the length.
        rotated(x.swap_dims(0, 2)).swap_dims(0, 2)
    } else {
        rotated(x)
    }
}

/// Returns `x sigmoid(x)`, for any shape.
pub fn silu<B: Backend, const D: usize>(x: Tensor<B, D>) -> Tensor<B, D> {
    reference::silu(x)
}

/// Returns `silu(gate) up`; all three have the same shape.
pub fn swiglu<B: Backend, const D: usize>(gate: Tensor<B, D>, up: Tensor<B, D>) -> Tensor<B, D> {
    debug_assert_same_dtype("swiglu", gate.dtype(), [up.dtype()]);
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
    debug_assert_same_dtype("snake", x.dtype(), [alpha.dtype(), beta.dtype()]);
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
    debug_assert_same_dtype("add_snake", x.dtype(), [y.dtype(), alpha.dtype(), beta.dtype()]);
    let [alpha, beta] = [alpha, beta].map(primitive);
    B::add_snake(primitive(x), primitive(y), alpha, beta).map(tensor)
}

/// Clamps `x`, of any shape, to `least` and `most`. NaN stays NaN.
///
/// It replaces Burn's `clamp`, which fails on GPUs in two ways (Burn 0.21). Some GPUs return a
/// bound for NaN. If it is fused with a product that repeats `x` along its last axis, the kernel
/// compares vectors of bounds with scalars of `x`, which a driver may reject.
pub fn clamp<B: Backend, const D: usize>(x: Tensor<B, D>, least: f32, most: f32) -> Tensor<B, D> {
    reference::clamp(x, least, most)
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
    reference::soft_clamp(x, bound)
}

/// Returns `ln(1 + e^x)` for any shape, and `x` itself above 20, as PyTorch does.
pub fn softplus<B: Backend, const D: usize>(x: Tensor<B, D>) -> Tensor<B, D> {
    reference::softplus(x)
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

#[cfg(all(test, feature = "cpu"))]
mod tests {
    use burn_flex::Flex;

    use super::*;

    fn of(values: [f32; 4], dtype: DType) -> Tensor<Flex, 1> {
        Tensor::from_data(values, (&Default::default(), dtype))
    }

    fn values(x: Tensor<Flex, 1>) -> Vec<f32> {
        x.into_data().convert::<f32>().to_vec().expect("f32")
    }

    /// The maximum of f16 is 65504 = 2047 * 32; NaN stays NaN.
    #[test]
    fn a_residual_stream_ends_where_f16_does_and_not_in_infinity() {
        let x = || [60_000.0, -60_000.0, 1.0, f32::NAN];
        let sum = |dtype| values(add(of(x(), dtype), of(x(), dtype)));
        let f16 = sum(DType::F16);
        assert_eq!(f16[..3], [65_504.0, -65_504.0, 2.0]);
        assert!(f16[3].is_nan());
        assert_eq!(sum(DType::F32)[..3], [120_000.0, -120_000.0, 2.0]);
        // bf16 has steps of 512 there.
        assert_eq!(sum(DType::BF16)[..2], [119_808.0, -119_808.0]);

        let rows = |x: Tensor<Flex, 1>| x.reshape([1, 4, 1]);
        let two = Tensor::full([1, 1, 1], 2.0, (&Default::default(), DType::F16));
        let gated = add_gated(rows(of(x(), DType::F16)), two, rows(of(x(), DType::F16)));
        assert_eq!(values(gated.reshape([4]))[..3], [65_504.0, -65_504.0, 3.0]);
    }

    #[test]
    fn what_is_beyond_a_bound_becomes_it_and_nan_stays_nan() {
        let of = |x: [f32; 4]| values(clamp(of(x, DType::F32), -0.5, 0.75));
        assert_eq!(of([-2.0, 3.0, -0.5, 0.25]), [-0.5, 0.75, -0.5, 0.25]);
        let odd = of([f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0]);
        assert!(odd[0].is_nan());
        assert_eq!(odd[1..], [0.75, -0.5, 0.0]);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "linear of F32 and F16")]
    fn an_operation_of_two_types_says_which() {
        let device = Default::default();
        let weight = Tensor::<Flex, 2>::zeros([3, 4], (&device, DType::F16));
        linear(Tensor::<Flex, 2>::zeros([1, 4], &device), weight, None);
    }
}
