//! Padding of a signal before a causal convolution.

use burn::tensor::Tensor;

use crate::{
    Backend,
    kernel::ConvGeometry,
    nn::{Conv1d, ConvState},
};

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
    let samples = x.dims()[2];
    let right = samples.next_multiple_of(stride) - samples;
    let side = |width: usize, at: usize| padding.outside(&x, width, at);
    let mut parts = Vec::new();
    let left = taps - stride;
    parts.extend((left > 0).then(|| side(left, 0)));
    let end = (right > 0).then(|| side(right, samples - 1));
    parts.push(x);
    parts.extend(end);
    conv.enter(Tensor::cat(parts, 2))
}

/// Applies a convolution of `taps` taps with `stride` to the next samples of a signal, whose number
/// is a multiple of the stride. `is_first` says that they are the first ones, with padding on their
/// left.
///
/// # Shapes
/// - `x`: `[B, in, S]`
/// - output: `[B, out, S / stride]`
pub(super) fn next<B: Backend>(
    conv: &Conv1d<B>,
    x: Tensor<B, 3>,
    (taps, stride): (usize, usize),
    padding: Padding,
    (is_first, state): (bool, &mut ConvState<B>),
) -> Tensor<B, 3> {
    let left = taps - stride;
    let x = match is_first && left > 0 {
        true => Tensor::cat(vec![padding.outside(&x, left, 0), x], 2),
        false => x,
    };
    conv.enter_next(x, state)
}

impl Padding {
    /// Returns `width` values outside `x`; their nearest sample is number `at`.
    fn outside<B: Backend>(self, x: &Tensor<B, 3>, width: usize, at: usize) -> Tensor<B, 3> {
        let [batch, channels, _] = x.dims();
        match self {
            Self::Zeros => Tensor::zeros([batch, channels, width], (&x.device(), x.dtype())),
            Self::Replicate => x.clone().narrow(2, at, 1).repeat_dim(2, width),
        }
    }
}

/// Returns the geometry of a convolution for [`padded`] and [`next`].
pub(super) fn strided(stride: usize) -> ConvGeometry {
    ConvGeometry { stride, ..Default::default() }
}
