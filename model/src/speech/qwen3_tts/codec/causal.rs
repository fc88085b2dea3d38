//! The geometry of causal convolutions.

use crate::kernel::ConvGeometry;

/// Returns the geometry of a causal convolution of `taps` taps: zeros on the left.
pub(super) fn causal(taps: usize, dilation: usize) -> ConvGeometry {
    ConvGeometry { padding: [dilation * (taps - 1), 0], dilation, ..Default::default() }
}

/// Returns the geometry of a causal transposed convolution of `taps` taps, at least `stride`: the
/// last samples are removed, so that the output has `stride` samples for each input.
pub(super) fn causal_transposed(taps: usize, stride: usize) -> ConvGeometry {
    ConvGeometry { stride, padding: [0, taps - stride], ..Default::default() }
}
