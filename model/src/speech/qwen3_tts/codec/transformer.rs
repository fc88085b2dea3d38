//! The decoder's transformer: causal layers with a window and factors per channel.
//!
//! Source: upstream `Qwen3TTSTokenizerV2DecoderTransformerModel`.
//! Checkpoint: `decoder.pre_transformer.*`.

use burn::{module::Module, tensor::Tensor};

use super::DecoderConfig;
use crate::{
    Backend, Place,
    nn::{Archive, Cache, ForeignState, Layer, LayerSpec, Linear, RmsNorm},
    speech::mimi::TransformerSettings,
};

/// The transformer.
#[derive(Module, Debug)]
pub(super) struct Transformer<B: Backend> {
    input_proj: Linear<B>,
    layers: Vec<Layer<B>>,
    norm: RmsNorm<B>,
    output_proj: Linear<B>,
    #[module(skip)]
    settings: TransformerSettings,
}

/// Keys and values of the last frames.
pub(super) type Past<B> = Option<Cache<B>>;

impl<B: Backend> Transformer<B> {
    pub(super) fn init(config: &DecoderConfig, device: &B::Device) -> Self {
        let shape = config.layer_shape();
        let spec = LayerSpec { head_norms: false, layer_scale: true, ..LayerSpec::new(shape) };
        Self {
            input_proj: Linear::init_with_bias(config.latent_dim, config.hidden_size, device),
            layers: (0..config.num_hidden_layers).map(|_| Layer::init(&spec, device)).collect(),
            norm: RmsNorm::init(config.hidden_size, config.rms_norm_eps, device),
            output_proj: Linear::init_with_bias(config.hidden_size, config.latent_dim, device),
            settings: TransformerSettings {
                shape,
                rope_theta: config.rope_theta,
                window: Some(config.sliding_window),
            },
        }
    }

    /// Computes the next frames of a signal.
    ///
    /// # Shapes
    /// - `x`, output: `[1, latent_dim, F]`
    pub(super) fn forward(&self, x: Tensor<B, 3>, past: &mut Past<B>) -> Tensor<B, 3> {
        let enter = |x: Tensor<B, 3>| self.input_proj.forward(x);
        let leave = |x: Tensor<B, 3>| self.output_proj.forward(self.norm.forward(x));
        let x = x.swap_dims(1, 2);
        self.settings.forward_next(&self.layers, x, past, enter, leave).swap_dims(1, 2)
    }

    /// Visits the tensors of `past`, which has begun.
    pub(super) fn visit(
        &self,
        past: &mut Past<B>,
        place: &Place<B>,
        archive: &mut Archive<'_, B>,
    ) -> Result<(), ForeignState> {
        self.settings.visit(past, (self.layers.len(), place), archive)
    }
}
