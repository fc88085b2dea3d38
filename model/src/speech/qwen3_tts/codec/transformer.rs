//! The decoder's transformer: causal layers with a window and factors per channel.
//!
//! Source: upstream `Qwen3TTSTokenizerV2DecoderTransformerModel`.
//! Checkpoint: `decoder.pre_transformer.*`.

use burn::{module::Module, tensor::Tensor};

use super::DecoderConfig;
use crate::{
    Backend, Place,
    nn::{
        Archive, Cache, ForeignState, Layer, LayerShape, LayerSpec, Linear, Positions, RmsNorm,
        forward_cached, place_of,
    },
};

/// The transformer.
#[derive(Module, Debug)]
pub(super) struct Transformer<B: Backend> {
    input_proj: Linear<B>,
    layers: Vec<Layer<B>>,
    norm: RmsNorm<B>,
    output_proj: Linear<B>,
    #[module(skip)]
    shape: LayerShape,
    window: usize,
    rope_theta: f64,
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
            shape,
            window: config.sliding_window,
            rope_theta: config.rope_theta,
        }
    }

    /// Computes the next frames of a signal.
    ///
    /// # Shapes
    /// - `x`, output: `[1, latent_dim, F]`
    pub(super) fn forward(&self, x: Tensor<B, 3>, past: &mut Past<B>) -> Tensor<B, 3> {
        let frames = x.dims()[2];
        let cache = past.get_or_insert_with(|| self.cache(&place_of(&x)));
        let x = x.swap_dims(1, 2);
        // The result of a frame must not depend on the number of frames that arrived with it.
        let chunks = (0..frames).step_by(B::MOST_SEPARATE_ROWS).map(|first| {
            let chunk = x.clone().narrow(1, first, B::MOST_SEPARATE_ROWS.min(frames - first));
            let chunk = self.input_proj.forward(chunk);
            cache.keep_window(0, self.window);
            let positions =
                Positions { rope_theta: Some(self.rope_theta), window: Some(self.window) };
            let slots = cache.next(0..1);
            let hidden = forward_cached(&self.layers, chunk, &slots, positions, cache);
            self.output_proj.forward(self.norm.forward(hidden))
        });
        Tensor::cat(chunks.collect(), 1).swap_dims(1, 2)
    }

    /// Visits the tensors of `past`, which has begun.
    pub(super) fn visit(
        &self,
        past: &mut Past<B>,
        place: &Place<B>,
        archive: &mut Archive<'_, B>,
    ) -> Result<(), ForeignState> {
        archive.cache(past.get_or_insert_with(|| self.cache(place)), false)
    }

    fn cache(&self, place: &Place<B>) -> Cache<B> {
        let capacity = Cache::<B>::capacity_of_window(self.window, B::MOST_SEPARATE_ROWS);
        Cache::new(&self.shape, self.layers.len(), 1, capacity, place)
    }
}
