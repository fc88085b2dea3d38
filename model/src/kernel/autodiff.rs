//! The operations for training, on the autodiff backend.
//!
//! The most expensive operations use the backend's own kernels, forward and backward. For the
//! others, Burn differentiates the reference.

/// Records that `$output` was computed from the `$count` inputs of `$nodes`; `$kept` goes to the
/// [`PassBack`].
macro_rules! tracked {
    ($count:literal, $nodes:expr, $kept:expr, $output:expr, $pass_back:expr) => {{
        use burn_autodiff::ops::{Backward, OpsKind};
        let kept = $kept;
        let operation = super::Operation::<B, _, $count>::new(&kept, $pass_back);
        match Backward::<B, $count>::prepare::<C>(operation, $nodes).compute_bound().stateful() {
            OpsKind::Tracked(prepared) => prepared.finish(kept, $output),
            OpsKind::UnTracked(prepared) => prepared.finish($output),
        }
    }};
}

mod sound;
#[cfg(all(test, feature = "cpu"))]
mod tests;
mod transformer;

use std::fmt::Debug;

use burn::tensor::{DType, ops::FloatTensor};
use burn_autodiff::{
    Autodiff,
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops},
};

use super::{Backend, ConvGeometry, Visibility};

impl<B: Backend, C: CheckpointStrategy> Backend for Autodiff<B, C> {
    const MOST_SEPARATE_ROWS: usize = B::MOST_SEPARATE_ROWS;

    fn computes_in(weights: DType) -> DType {
        B::computes_in(weights)
    }

    kernel! { product = transformer::product::<B, C> }
    kernel! { rms_norm = transformer::rms_norm::<B, C> }
    kernel! { ada_norm = transformer::ada_norm::<B, C> }
    kernel! { add_gated = transformer::add_gated::<B, C> }
    kernel! { rotate = transformer::rotate::<B, C> }
    kernel! { swiglu = transformer::swiglu::<B, C> }
    kernel! { attention = transformer::attention::<B, C> }
    kernel! { snake = sound::snake::<B, C> }
    kernel! { conv1d = sound::convolve::<B, C, false> }
    kernel! { conv_transpose1d = sound::convolve::<B, C, true> }
}

/// A tensor whose operations are recorded.
type Tracked<B, C> = FloatTensor<Autodiff<B, C>>;

/// The backward pass of an operation: from what it kept and the gradient of its output to the
/// gradients of its `N` inputs, at least of those that are wanted.
type PassBack<B, S, const N: usize> =
    fn(S, FloatTensor<B>, [bool; N]) -> [Option<FloatTensor<B>>; N];

/// An operation with `N` inputs that keeps an `S` for its backward pass.
#[derive(Debug)]
struct Operation<B: Backend, S, const N: usize>(PassBack<B, S, N>);

impl<B: Backend, S, const N: usize> Operation<B, S, N> {
    /// Creates an operation that keeps a value of the type of `_kept`.
    fn new(_kept: &S, pass_back: PassBack<B, S, N>) -> Self {
        Self(pass_back)
    }
}

impl<B: Backend, S: Clone + Debug + Send + 'static, const N: usize> Backward<B, N>
    for Operation<B, S, N>
{
    type State = S;

    fn backward(self, ops: Ops<S, N>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let gradient = gradients.consume::<B>(&ops.node);
        let parents = ops.parents.map(|parent| parent.map(|parent| parent.id));
        let passed = (self.0)(ops.state, gradient, parents.map(|parent| parent.is_some()));
        for (parent, gradient) in parents.into_iter().zip(passed) {
            if let (Some(parent), Some(gradient)) = (parent, gradient) {
                gradients.register::<B>(parent, gradient);
            }
        }
    }
}
