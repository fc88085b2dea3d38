//! The transformers of encoder and decoder: causal layers with layer norms, GELU and factors per
//! channel, without a final norm. The third user is the codec of Qwen3-TTS: its decoder has other
//! layers, and the same settings and cache.
//!
//! Source: transformers `MimiTransformerModel`.
//! Checkpoint: `{encoder,decoder}_transformer.layers.*`.

use burn::tensor::Tensor;

use super::Config;
use crate::{
    Backend, Place, Tap,
    kernel::{Mask, Visibility},
    nn::{
        Activation, Archive, Cache, Context, ForeignState, Layer, LayerShape, LayerSpec, NormKind,
        Positions, Rope, forward_cached, place_of,
    },
};

/// Positions of the first cache without a window.
const FIRST: usize = 256;

/// Sizes and positions of a transformer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::speech) struct Settings {
    pub(in crate::speech) shape: LayerShape,
    pub(in crate::speech) rope_theta: f64,
    /// Number of last positions that a position sees, its own included; `None` for all.
    pub(in crate::speech) window: Option<usize>,
}

impl Settings {
    pub(super) fn of(config: &Config, window: Option<usize>) -> Self {
        Self { shape: config.layer_shape(), rope_theta: config.rope_theta, window }
    }

    /// Returns a cache with room for `count` more positions, without those that no later position
    /// sees.
    fn room<'a, B: Backend>(
        &self,
        past: &'a mut Option<Cache<B>>,
        (layers, count): (usize, usize),
        place: &Place<B>,
    ) -> &'a mut Cache<B> {
        let capacity = self
            .window
            .map_or(FIRST, |window| Cache::<B>::capacity_of_window(window, B::MOST_SEPARATE_ROWS));
        let empty = || Cache::new(&self.shape, layers, 1, capacity, place);
        let cache = past.get_or_insert_with(empty);
        let needed = cache.length(0) + count;
        match self.window {
            Some(window) => cache.keep_window(0, window),
            None if needed > cache.capacity() => cache.grow(needed.max(2 * cache.capacity())),
            None => (),
        }
        cache
    }

    /// Visits the tensors of `past`, which has begun.
    pub(in crate::speech) fn visit<B: Backend>(
        &self,
        past: &mut Option<Cache<B>>,
        (layers, place): (usize, &Place<B>),
        archive: &mut Archive<'_, B>,
    ) -> Result<(), ForeignState> {
        archive.cache(self.room(past, (layers, 0), place), self.window.is_none())
    }

    /// Computes the next positions of a signal. `enter` and `leave` are the maps before the layers and
    /// after them.
    ///
    /// # Shapes
    /// - `x`, output: `[1, T, H]`, outside the maps
    pub(in crate::speech) fn forward_next<B: Backend>(
        &self,
        layers: &[Layer<B>],
        x: Tensor<B, 3>,
        past: &mut Option<Cache<B>>,
        enter: impl Fn(Tensor<B, 3>) -> Tensor<B, 3>,
        leave: impl Fn(Tensor<B, 3>) -> Tensor<B, 3>,
    ) -> Tensor<B, 3> {
        let (length, place) = (x.dims()[1], place_of(&x));
        let positions = Positions { rope_theta: Some(self.rope_theta), window: self.window };
        // The result of a position must not depend on the number of positions that arrived with it.
        let chunks = (0..length).step_by(B::MOST_SEPARATE_ROWS).map(|first| {
            let count = B::MOST_SEPARATE_ROWS.min(length - first);
            let cache = self.room(past, (layers.len(), count), &place);
            let slots = cache.next(0..1);
            let chunk = enter(x.clone().narrow(1, first, count));
            leave(forward_cached(layers, chunk, &slots, positions, cache))
        });
        Tensor::cat(chunks.collect(), 1)
    }
}

/// Creates the layers.
pub(super) fn init<B: Backend>(config: &Config, device: &B::Device) -> Vec<Layer<B>> {
    let spec = LayerSpec {
        norm: NormKind::Layer { bias: true },
        head_norms: false,
        activation: Activation::Gelu,
        layer_scale: true,
        ..LayerSpec::new(config.layer_shape())
    };
    (0..config.num_hidden_layers).map(|_| Layer::init(&spec, device)).collect()
}

/// Computes a whole signal; taps `tfm.layer{i}`.
///
/// # Shapes
/// - `x`, output: `[1, T, H]`
pub(super) fn forward_whole<B: Backend>(
    layers: &[Layer<B>],
    settings: &Settings,
    mut x: Tensor<B, 3>,
    tap: &mut impl Tap<B>,
) -> Tensor<B, 3> {
    let (length, head_dim) = (x.dims()[1], settings.shape.head_dim);
    let rope = Rope::new(length, head_dim, settings.rope_theta, &place_of(&x));
    let mask = Mask::by_position(match settings.window {
        Some(width) => Visibility::CausalWindow { first: 0, width },
        None => Visibility::Causal { first: 0 },
    });
    let context = Context { rope: Some(&rope), mask: &mask };
    for (index, layer) in layers.iter().enumerate() {
        x = layer.forward(x, &context, None);
        tap.tap(format_args!("tfm.layer{index}"), &x);
    }
    x
}
