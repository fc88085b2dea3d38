//! Linear maps fused with the operation after them: if the backend can, the result is written only
//! once.

use burn::tensor::Tensor;

use super::{Backend, Weight, keep_finite, primitive, rows, swiglu, tensor};

/// Returns `x W^T`.
///
/// # Shapes
/// - `x`: `[rows, in]`, `weight`: `[out, in]`, output: `[rows, out]`
pub(super) fn product<B: Backend>(x: Tensor<B, 2>, weight: Weight<B, 2>) -> Tensor<B, 2> {
    tensor(match weight {
        Weight::Plain(weight) => B::product(primitive(x), primitive(weight)),
        Weight::Packed(weight) => B::packed_product(primitive(x), weight),
    })
}

/// `silu(x G^T) (x U^T)`: two maps of one input, then [`super::swiglu`].
///
/// Source: Shazeer 2020, arXiv:2002.05202.
///
/// # Shapes
/// - `x`: `[.., in]`
/// - `gate`, `up`: `[out, in]`
/// - output: `[.., out]`
pub fn gated_linear<B: Backend, const D: usize>(
    x: Tensor<B, D>,
    gate: impl Into<Weight<B, 2>>,
    up: impl Into<Weight<B, 2>>,
) -> Tensor<B, D> {
    let (gate, up) = (gate.into(), up.into());
    let mut shape = x.dims();
    shape[D - 1] = gate.dims()[0];
    let x = rows(x);
    let y = match (gate, up) {
        (Weight::Plain(gate), Weight::Plain(up)) => {
            tensor(B::gated_product(primitive(x), primitive(gate), primitive(up)))
        }
        (gate, up) => reference_gated(x, gate, up),
    };
    y.reshape(shape)
}

/// Reference of [`gated_linear`], of rows.
pub(super) fn reference_gated<B: Backend>(
    x: Tensor<B, 2>,
    gate: Weight<B, 2>,
    up: Weight<B, 2>,
) -> Tensor<B, 2> {
    swiglu(product(x.clone(), gate), product(x, up))
}

/// Products of matrices, in the type of `left`. Burn's own product rounds f32 to tf32 on NVIDIA GPUs, to 11 bits.
///
/// # Shapes
/// - `left`: `[B, heads, M, K]`, `right`: `[B, heads, K, N]`, output: `[B, heads, M, N]`
pub fn batched_product<B: Backend>(left: Tensor<B, 4>, right: Tensor<B, 4>) -> Tensor<B, 4> {
    tensor(B::batched_product(primitive(left), primitive(right)))
}

/// `residual + gate (x W^T)`, or without a gate `residual + x W^T`: the map at the end of a
/// residual branch. The result is kept finite, see [`keep_finite`].
///
/// # Shapes
/// - `residual`, output: `[B, P, out]`
/// - `gate`: `[B, 1, out]`
/// - `x`: `[B, P, in]`, `weight`: `[out, in]`
pub fn linear_added<B: Backend>(
    residual: Tensor<B, 3>,
    gate: Option<Tensor<B, 3>>,
    x: Tensor<B, 3>,
    weight: impl Into<Weight<B, 2>>,
) -> Tensor<B, 3> {
    keep_finite(match weight.into() {
        Weight::Plain(weight) => {
            let gate = gate.map(primitive);
            tensor(B::product_added(primitive(residual), gate, primitive(x), primitive(weight)))
        }
        packed @ Weight::Packed(_) => reference_added(residual, gate, x, packed),
    })
}

/// Reference of [`linear_added`], of the same shapes, without [`keep_finite`].
pub(super) fn reference_added<B: Backend>(
    residual: Tensor<B, 3>,
    gate: Option<Tensor<B, 3>>,
    x: Tensor<B, 3>,
    weight: Weight<B, 2>,
) -> Tensor<B, 3> {
    let y = product(rows(x), weight).reshape(residual.dims());
    match gate {
        None => residual + y,
        Some(gate) => tensor(B::add_gated(primitive(residual), primitive(gate), primitive(y))),
    }
}
