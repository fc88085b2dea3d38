//! Linear maps fused with the operation after them: if the backend can, the result is written only
//! once.

use burn::tensor::Tensor;

use super::{Backend, keep_finite, primitive, rows, tensor};

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
    gate: Tensor<B, 2>,
    up: Tensor<B, 2>,
) -> Tensor<B, D> {
    let mut shape = x.dims();
    shape[D - 1] = gate.dims()[0];
    let y = B::gated_product(primitive(rows(x)), primitive(gate), primitive(up));
    tensor::<B, 2>(y).reshape(shape)
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
    weight: Tensor<B, 2>,
) -> Tensor<B, 3> {
    let gate = gate.map(primitive);
    let y = B::product_added(primitive(residual), gate, primitive(x), primitive(weight));
    keep_finite(tensor(y))
}

/// Reference of [`linear_added`], of the same shapes, without [`keep_finite`].
pub(super) fn reference_added<B: Backend>(
    residual: Tensor<B, 3>,
    gate: Option<Tensor<B, 3>>,
    x: Tensor<B, 3>,
    weight: Tensor<B, 2>,
) -> Tensor<B, 3> {
    let product = tensor::<B, 2>(B::product(primitive(rows(x)), primitive(weight)));
    let y = product.reshape(residual.dims());
    match gate {
        None => residual + y,
        Some(gate) => tensor(B::add_gated(primitive(residual), primitive(gate), primitive(y))),
    }
}
