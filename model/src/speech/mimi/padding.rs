//! Padding of a whole signal before a causal convolution.

use burn::tensor::Tensor;

use crate::{Backend, kernel::ConvGeometry, nn::Conv1d};

/// The values outside a signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Padding {
    /// Zeros.
    Zeros,
    /// The first and the last value.
    Replicate,
}

/// Applies a convolution of `taps` taps with `stride`, after padding `taps - stride` samples on the
/// left, and on the right as many as make the last window whole: `S` samples become
/// `ceil(S / stride)`.
///
/// # Shapes
/// - `x`: `[B, in, S]`
/// - output: `[B, out, S']`
pub(super) fn padded<B: Backend>(
    conv: &Conv1d<B>,
    x: Tensor<B, 3>,
    (taps, stride): (usize, usize),
    padding: Padding,
) -> Tensor<B, 3> {
    let [batch, channels, samples] = x.dims();
    let right = samples.next_multiple_of(stride) - samples;
    let side = |width: usize, at: usize| match padding {
        Padding::Zeros => Tensor::zeros([batch, channels, width], (&x.device(), x.dtype())),
        Padding::Replicate => x.clone().narrow(2, at, 1).repeat_dim(2, width),
    };
    let mut parts = Vec::new();
    let left = taps - stride;
    parts.extend((left > 0).then(|| side(left, 0)));
    let end = (right > 0).then(|| side(right, samples - 1));
    parts.push(x);
    parts.extend(end);
    conv.enter(Tensor::cat(parts, 2))
}

/// Returns the geometry of a convolution for [`padded`].
pub(super) fn strided(stride: usize) -> ConvGeometry {
    ConvGeometry { stride, ..Default::default() }
}
