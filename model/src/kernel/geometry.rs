//! Geometry of a convolution.
//!
//! Source: `torch.nn.Conv1d` and `torch.nn.ConvTranspose1d`, as PyTorch's documentation defines them.

/// Stride, padding, dilation and groups of a convolution; lengths in samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConvGeometry {
    /// Samples between two outputs (in a transposed convolution: between two inputs).
    pub stride: usize,
    /// Zeros added before and after the input (in a transposed convolution: samples removed from
    /// the start and the end of the output).
    pub padding: [usize; 2],
    /// Samples between two taps of the filter.
    pub dilation: usize,
    /// Number of equal parts of the channels; an output part depends only on the same input part.
    pub groups: usize,
}

impl Default for ConvGeometry {
    /// Returns stride 1, no padding, dilation 1 and one group.
    fn default() -> Self {
        Self { stride: 1, padding: [0; 2], dilation: 1, groups: 1 }
    }
}

impl ConvGeometry {
    /// Returns the geometry of a causal convolution of `taps` taps: zeros on the left.
    pub(crate) fn causal(taps: usize, dilation: usize) -> Self {
        Self { padding: [dilation * (taps - 1), 0], dilation, ..Self::default() }
    }

    /// Returns the geometry of a causal transposed convolution of `taps` taps, at least `stride`: the
    /// last samples are removed, so that the output has `stride` samples for each input.
    pub(crate) fn causal_transposed(taps: usize, stride: usize) -> Self {
        Self { stride, padding: [0, taps - stride], ..Self::default() }
    }

    /// Returns the number of samples from the first tap to the last.
    pub(crate) fn reach(self, taps: usize) -> usize {
        self.dilation * (taps - 1) + 1
    }

    /// Returns the number of outputs of a convolution over `samples` samples: `(samples + padding -
    /// reach) / stride + 1`, or 0 if the filter does not fit.
    pub(crate) fn outputs(self, samples: usize, taps: usize) -> usize {
        let [left, right] = self.padding;
        (samples + left + right + 1).saturating_sub(self.reach(taps)).div_ceil(self.stride)
    }

    /// Returns the number of outputs of a transposed convolution over `samples` samples, of at least
    /// one.
    pub(crate) fn transposed_outputs(self, samples: usize, taps: usize) -> usize {
        let [left, right] = self.padding;
        ((samples.max(1) - 1) * self.stride + self.reach(taps)).saturating_sub(left + right)
    }
}
