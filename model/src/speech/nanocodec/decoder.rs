//! The decoder: frames of codes to samples, in chunks of any sizes.
//!
//! Checkpoint: `audio_decoder.*`; each convolution lies in a wrapper.

use burn::{
    module::Module,
    tensor::{DType, Int, Tensor},
};

use super::{
    Config, DecoderConfig, OutputActivation, ScalarQuantizer,
    residual::{Chains, ChainsState},
};
use crate::{
    Backend, NoTap, Tap,
    kernel::{self, ConvGeometry, Precision},
    nn::{Conv1d, ConvState, ConvTranspose1d, HalfSnake},
};

/// The decoder.
#[derive(Module, Debug)]
pub struct Decoder<B: Backend> {
    pre_conv: Conv1d<B>,
    activations: Vec<HalfSnake<B>>,
    up_sample_conv_layers: Vec<ConvTranspose1d<B>>,
    res_layers: Vec<Chains<B>>,
    post_activation: HalfSnake<B>,
    post_conv: Conv1d<B>,
    #[module(skip)]
    quantizer: ScalarQuantizer,
    #[module(skip)]
    output_activation: OutputActivation,
}

/// The past of a signal. A copy continues the same signal a second time.
#[derive(Debug, Clone, Default)]
pub struct DecoderState<B: Backend> {
    pre_conv: ConvState<B>,
    stages: Vec<(ConvState<B>, ChainsState<B>)>,
    post_conv: ConvState<B>,
}

impl<B: Backend> Decoder<B> {
    /// Creates a decoder of the configured size.
    pub fn init(config: &Config, device: &B::Device) -> Self {
        let own = &config.audio_decoder;
        let &DecoderConfig { input_dim, base_channels, in_kernel_size, out_kernel_size, .. } = own;
        let conv = |channels, taps| {
            Conv1d::init_with_bias(channels, taps, ConvGeometry::causal(taps, 1), device)
        };
        let stages = || own.up_sample_rates.iter().enumerate();
        let up = |(stage, &rate): (usize, &usize)| {
            let (input, output) = (base_channels >> stage, base_channels >> (stage + 1));
            // Output channel j reads input channels 2 j and 2 j + 1.
            let whole = ConvGeometry::causal_transposed(2 * rate, rate);
            let geometry = ConvGeometry { groups: output, ..whole };
            ConvTranspose1d::init_with_bias([input, output], 2 * rate, geometry, device)
        };
        let last = base_channels >> own.up_sample_rates.len();
        Self {
            pre_conv: conv([input_dim, base_channels], in_kernel_size),
            activations: stages()
                .map(|(stage, _)| HalfSnake::init(base_channels >> stage, device))
                .collect(),
            up_sample_conv_layers: stages().map(up).collect(),
            res_layers: stages()
                .map(|(stage, _)| Chains::init(own, base_channels >> (stage + 1), device))
                .collect(),
            post_activation: HalfSnake::init(last, device),
            post_conv: conv([last, 1], out_kernel_size),
            quantizer: config.quantizer(),
            output_activation: own.output_activation,
        }
    }

    /// Returns the decoder with filters prepacked by
    /// [`kernel::pack_filter`](crate::kernel::pack_filter) for this precision. The result cannot be cast or
    /// saved.
    pub fn prepacked(self, precision: Precision) -> Self {
        let chains = |chains: Chains<B>| chains.prepacked(precision);
        Self {
            pre_conv: self.pre_conv.prepacked_for(precision),
            res_layers: self.res_layers.into_iter().map(chains).collect(),
            post_conv: self.post_conv.prepacked_for(precision),
            ..self
        }
    }

    /// Decodes the next frames of a signal. Frames in chunks of any sizes give the samples of all
    /// frames at once, up to rounding.
    ///
    /// # Panics
    /// If there is no frame.
    ///
    /// # Shapes
    /// - `codes`: `[G, F]`, less than the size of a codebook each
    /// - output: `[samples]`, f32, from -1 to 1
    pub fn forward(&self, codes: Tensor<B, 2, Int>, state: &mut DecoderState<B>) -> Tensor<B, 1> {
        self.forward_tapped(codes, state, &mut NoTap)
    }

    /// [`Self::forward`] that taps `latent`, `pre_conv`, of each stage `stage{i}.activation`,
    /// `stage{i}.up`, `stage{i}.res` and its parts, then `post_activation` and `post_conv`.
    pub fn forward_tapped(
        &self,
        codes: Tensor<B, 2, Int>,
        state: &mut DecoderState<B>,
        tap: &mut impl Tap<B>,
    ) -> Tensor<B, 1> {
        assert!(codes.dims()[1] > 0, "no frame to decode");
        let latent = self.quantizer.latent(codes);
        tap.tap(format_args!("latent"), &latent);
        state.stages.resize_with(self.res_layers.len(), Default::default);
        let latent = latent.cast(B::computes_in(self.pre_conv.dtype()));
        let mut x = self.pre_conv.forward_next(latent, &mut state.pre_conv);
        tap.tap(format_args!("pre_conv"), &x);
        for (stage, (of_up, of_chains)) in state.stages.iter_mut().enumerate() {
            let active = self.activations[stage].forward(x);
            tap.tap(format_args!("stage{stage}.activation"), &active);
            let up = self.up_sample_conv_layers[stage].forward_next(active, of_up);
            tap.tap(format_args!("stage{stage}.up"), &up);
            let name = format_args!("stage{stage}.res");
            x = self.res_layers[stage].forward(up, of_chains, name, tap);
        }
        let active = self.post_activation.forward(x);
        tap.tap(format_args!("post_activation"), &active);
        let x = self.post_conv.forward_next(active, &mut state.post_conv);
        tap.tap(format_args!("post_conv"), &x);
        let samples = x.dims()[2];
        let x = x.cast(DType::F32).reshape([samples]);
        match self.output_activation {
            OutputActivation::Clamp => kernel::clamp(x, -1.0, 1.0),
            OutputActivation::Tanh => x.tanh(),
        }
    }
}
