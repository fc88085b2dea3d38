//! Norms, and the rotation that follows the norm of queries and keys.

use burn::tensor::Tensor;

use super::{Backend, assert_same_dtype, is_empty, primitive, reference, rows, tensor};

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
    assert_same_dtype("rms_norm", x.dtype(), [weight.dtype()]);
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
    assert_same_dtype("modulate", x.dtype(), [shift.dtype(), scale.dtype()]);
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
    assert_same_dtype("ada_norm", x.dtype(), others);
    if is_empty(&x) {
        return x;
    }
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
    assert_same_dtype("norm_rotate", x.dtype(), others);
    let [cos, sin] = [cos, sin].map(primitive);
    tensor(B::norm_rotate(primitive(x), primitive(weight), epsilon, cos, sin))
}

/// Rotary position embedding; rotates the two halves against each other (not adjacent pairs).
///
/// # Shapes
/// - `x`, output: `[B, heads, L, D]`
/// - `cos`, `sin`: `[L, D / 2]`, or `[B, D / 2]` if `L` is 1 and each item has its own position
pub fn rotate<B: Backend>(x: Tensor<B, 4>, cos: Tensor<B, 2>, sin: Tensor<B, 2>) -> Tensor<B, 4> {
    assert_same_dtype("rotate", x.dtype(), [cos.dtype(), sin.dtype()]);
    if is_empty(&x) {
        return x;
    }
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
