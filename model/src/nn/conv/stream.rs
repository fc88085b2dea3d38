//! Causal convolutions of a signal that arrives in chunks.
//!
//! The state is the inputs that later outputs still need. So the chunks of a signal, of any sizes,
//! give the samples of the whole signal: every sum has the same terms in the same order.

use burn::tensor::Tensor;

use super::{
    super::{Archive, ForeignState},
    Conv1d, ConvTranspose1d,
};
use crate::{
    Backend,
    kernel::{self, ConvActivation, ConvGeometry, FusedLayers},
};

/// The past of a signal, for [`Conv1d::forward_next`] or [`ConvTranspose1d::forward_next`].
///
/// A plain value: a copy of it continues the same signal a second time.
#[derive(Debug, Clone)]
pub struct ConvState<B: Backend> {
    /// Inputs that later outputs still need, `[B, in, samples]`; `None` if there are none.
    past: Option<Tensor<B, 3>>,
    has_begun: bool,
}

impl<B: Backend> Default for ConvState<B> {
    /// Returns the state before the first sample.
    fn default() -> Self {
        Self { past: None, has_begun: false }
    }
}

impl<B: Backend> ConvState<B> {
    /// Returns the past with `x` after it. Before the first sample the past is `zeros` zeros.
    fn followed_by(&mut self, x: Tensor<B, 3>, zeros: usize) -> Tensor<B, 3> {
        let [batch, channels, _] = x.dims();
        if !self.has_begun && zeros > 0 {
            self.past = Some(Tensor::zeros([batch, channels, zeros], (&x.device(), x.dtype())));
        }
        self.has_begun = true;
        match self.past.take() {
            Some(past) => Tensor::cat(vec![past, x], 2),
            None => x,
        }
    }

    /// Keeps the samples of `known` from `first` on.
    fn keep(&mut self, known: &Tensor<B, 3>, first: usize) {
        let rest = known.dims()[2] - first;
        self.past = (rest > 0).then(|| known.clone().narrow(2, first, rest));
    }
}

/// Returns an output without samples.
fn nothing<B: Backend>(x: &Tensor<B, 3>, channels: usize) -> Tensor<B, 3> {
    Tensor::zeros([x.dims()[0], channels, 0], (&x.device(), x.dtype()))
}

impl<B: Backend> Conv1d<B> {
    /// Visits the state of one signal that has begun, of a convolution with a stride of 1.
    pub(crate) fn visit(
        &self,
        state: &mut ConvState<B>,
        archive: &mut Archive<'_, B>,
    ) -> Result<(), ForeignState> {
        let (weight, _, geometry) = self.parts();
        let [_, inputs, taps] = weight.dims();
        state.has_begun = true;
        archive.past(&mut state.past, [1, inputs * geometry.groups, geometry.reach(taps) - 1])
    }

    /// [`Self::forward_next`] for input of any float type, see [`Self::enter`].
    pub(crate) fn enter_next(&self, x: Tensor<B, 3>, state: &mut ConvState<B>) -> Tensor<B, 3> {
        self.forward_next(self.cast(x), state)
    }

    /// Computes the outputs that the next chunk of a signal completes. All chunks together give
    /// [`Self::forward`] of the whole signal.
    ///
    /// # Panics
    /// If the convolution is not causal (it pads on the right), or its stride skips samples.
    ///
    /// # Shapes
    /// - `x`: `[B, in, S]`; `S` may be 0
    /// - output: `[B, out, S']`; `S'` may be 0
    pub fn forward_next(&self, x: Tensor<B, 3>, state: &mut ConvState<B>) -> Tensor<B, 3> {
        let (weight, bias, geometry) = self.parts();
        let ConvGeometry { stride, padding: [left, right], .. } = geometry;
        let [channels, _, taps] = weight.dims();
        assert_eq!(right, 0, "a convolution with padding on the right is not causal");
        assert!(stride <= geometry.reach(taps), "a stride of {stride} skips samples");
        if x.dims()[2] == 0 {
            return nothing(&x, channels);
        }
        let known = state.followed_by(x, left);
        let geometry = ConvGeometry { padding: [0; 2], ..geometry };
        let outputs = geometry.outputs(known.dims()[2], taps);
        state.keep(&known, outputs * stride);
        if outputs == 0 {
            return nothing(&known, channels);
        }
        kernel::conv1d(known, weight, bias, geometry)
    }

    /// [`Self::forward_next`] of the activated input, plus `residual`.
    ///
    /// # Panics
    /// If the convolution does not pad all that its taps reach on the left, or its stride is not 1.
    ///
    /// # Shapes
    /// - `x`: `[B, in, S]`; `S` may be 0
    /// - `residual`, output: `[B, out, S]`
    pub fn forward_next_fused(
        &self,
        x: Tensor<B, 3>,
        activation: ConvActivation<B>,
        residual: Option<Tensor<B, 3>>,
        state: &mut ConvState<B>,
    ) -> Tensor<B, 3> {
        let (weight, bias, geometry) = self.parts();
        let [channels, _, taps] = weight.dims();
        let before = geometry.reach(taps) - 1;
        let is_causal = geometry.padding == [before, 0] && geometry.stride == 1;
        assert!(is_causal, "a convolution with {geometry:?} is not causal");
        let [batch, inputs, samples] = x.dims();
        if samples == 0 {
            return nothing(&x, channels);
        }
        // Zeros before the first sample are padding.
        let past = state.past.take();
        let geometry = match state.has_begun {
            true => ConvGeometry { padding: [0; 2], ..geometry },
            false => geometry,
        };
        state.has_begun = true;
        if before > 0 {
            let count = samples.min(before);
            let last = x.clone().narrow(2, samples - count, count);
            let last = activation.clone().forward(last);
            state.past = Some(match before - count {
                0 => last,
                missing => {
                    let zeros = || Tensor::zeros([batch, inputs, before], (&x.device(), x.dtype()));
                    let known = past.clone().unwrap_or_else(zeros);
                    Tensor::cat(vec![known.narrow(2, before - missing, missing), last], 2)
                }
            });
        }
        let layers = FusedLayers { past, activation: Some(activation), residual };
        kernel::fused_conv1d(x, (weight, bias, geometry), layers)
    }
}

impl<B: Backend> ConvTranspose1d<B> {
    /// Visits the state of one signal that has begun.
    pub(crate) fn visit(
        &self,
        state: &mut ConvState<B>,
        archive: &mut Archive<'_, B>,
    ) -> Result<(), ForeignState> {
        let (weight, _, geometry) = self.parts();
        let [inputs, _, taps] = weight.dims();
        state.has_begun = true;
        let before = (geometry.reach(taps) - 1) / geometry.stride;
        archive.past(&mut state.past, [1, inputs, before])
    }

    /// Computes the outputs of the next chunk of a signal. All chunks together give
    /// [`Self::forward`] of the whole signal.
    ///
    /// # Panics
    /// If the convolution is not causal: its padding must be `[0, dilation (k - 1) + 1 - stride]`,
    /// so that input `s` affects no output before `s stride`.
    ///
    /// # Shapes
    /// - `x`: `[B, in, S]`; `S` may be 0
    /// - output: `[B, out, S stride]`
    pub fn forward_next(&self, x: Tensor<B, 3>, state: &mut ConvState<B>) -> Tensor<B, 3> {
        let (weight, bias, geometry) = self.parts();
        let ConvGeometry { stride, padding: [left, right], groups, .. } = geometry;
        let [_, channels, taps] = weight.dims();
        let reach = geometry.reach(taps);
        let is_causal = left == 0 && right + stride == reach;
        assert!(is_causal, "a transposed convolution with {geometry:?} is not causal");
        if x.dims()[2] == 0 {
            return nothing(&x, channels * groups);
        }
        // Number of earlier inputs that an output may depend on.
        let before = (reach - 1) / stride;
        let known = state.followed_by(x, before);
        state.keep(&known, known.dims()[2] - before);
        let geometry = ConvGeometry { padding: [before * stride, right], ..geometry };
        kernel::conv_transpose1d(known, weight, bias, geometry)
    }
}
