//! The encoder: sound to frames of codes.
//!
//! Source: transformers `MimiModel._encode_frame`. Its transformer is causal without a window: the
//! configured window is not applied there.
//! Checkpoint: `encoder.*` of the speech tokenizer.

use burn::{
    module::Module,
    tensor::{Int, Tensor},
};

use super::{
    Config,
    padding::{Padding, padded, strided},
    quantizer::Quantizer,
    seanet::SeaNet,
};
use crate::{
    Backend, NoTap, Tap,
    kernel::{Mask, Visibility},
    nn::{Activation, Context, Conv1d, Layer, LayerSpec, NormKind, Rope, place_of},
};

/// Taps and stride of the last down-sampling, from 25 Hz to 12.5 Hz.
const DOWNSAMPLE: (usize, usize) = (4, 2);

/// The encoder.
#[derive(Module, Debug)]
pub struct Encoder<B: Backend> {
    encoder: SeaNet<B>,
    encoder_transformer: Vec<Layer<B>>,
    downsample: Conv1d<B>,
    quantizer: Quantizer<B>,
    head_dim: usize,
    rope_theta: f64,
}

impl<B: Backend> Encoder<B> {
    /// Creates an encoder of the configured size, with the first `codebooks` codebooks.
    pub fn init(config: &Config, codebooks: usize, device: &B::Device) -> Self {
        let spec = LayerSpec {
            norm: NormKind::Layer { bias: true },
            head_norms: false,
            activation: Activation::Gelu,
            layer_scale: true,
            ..LayerSpec::new(config.layer_shape())
        };
        let (taps, stride) = DOWNSAMPLE;
        let layer = |_| Layer::init(&spec, device);
        Self {
            encoder: SeaNet::init(config, device),
            encoder_transformer: (0..config.num_hidden_layers).map(layer).collect(),
            downsample: Conv1d::init([config.hidden_size; 2], taps, strided(stride), device),
            quantizer: Quantizer::init(config, codebooks, device),
            head_dim: config.head_dim,
            rope_theta: config.rope_theta,
        }
    }

    /// Encodes a whole signal.
    ///
    /// # Panics
    /// If there is no sample.
    ///
    /// # Shapes
    /// - `samples`: `[S]`, mono
    /// - output: `[G, ceil(S / samples per frame)]`
    pub fn forward(&self, samples: Tensor<B, 1>) -> Tensor<B, 2, Int> {
        self.forward_tapped(samples, &mut NoTap)
    }

    /// [`Self::forward`] that taps `seanet{i}`, `tfm.layer{i}`, `downsample`, `semantic_in` and
    /// `acoustic_in`.
    pub fn forward_tapped(
        &self,
        samples: Tensor<B, 1>,
        tap: &mut impl Tap<B>,
    ) -> Tensor<B, 2, Int> {
        let x = self.encoder.forward(samples.unsqueeze_dims(&[0, 0]), tap);
        let mut x = x.swap_dims(1, 2);
        let rope = Rope::new(x.dims()[1], self.head_dim, self.rope_theta, &place_of(&x));
        let mask = Mask::by_position(Visibility::Causal { first: 0 });
        let context = Context::new(Some(&rope), &mask);
        for (index, layer) in self.encoder_transformer.iter().enumerate() {
            x = layer.forward(x, &context, None);
            tap.tap(format_args!("tfm.layer{index}"), &x);
        }
        let x = padded(&self.downsample, x.swap_dims(1, 2), DOWNSAMPLE, Padding::Replicate);
        tap.tap(format_args!("downsample"), &x);
        self.quantizer.forward(x, tap)
    }
}
