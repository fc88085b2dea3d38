//! The causal layers that talker and code predictor share, over vectors instead of ids.

use std::ops::Range;

use burn::tensor::Tensor;

use super::LayersConfig;
use crate::{
    Backend, Place, Tap,
    kernel::{Mask, Visibility},
    nn::{Cache, Context, Layer, LayerSpec, Positions, RmsNorm, Rope, forward_cached, place_of},
};

/// Creates the layers and their final norm.
pub(super) fn init<B: Backend>(
    config: &LayersConfig,
    device: &B::Device,
) -> (Vec<Layer<B>>, RmsNorm<B>) {
    let spec = LayerSpec::new(config.layer_shape());
    let layers = (0..config.num_hidden_layers).map(|_| Layer::init(&spec, device)).collect();
    (layers, RmsNorm::init(config.hidden_size, config.rms_norm_eps, device))
}

/// Creates an empty cache for `rows` sequences of at most `capacity` positions.
pub(super) fn cache<B: Backend>(
    config: &LayersConfig,
    rows: usize,
    capacity: usize,
    place: &Place<B>,
) -> Cache<B> {
    Cache::new(&config.layer_shape(), config.num_hidden_layers, rows, capacity, place)
}

/// Appends vectors to the cache and returns the last hidden state of each sequence, after the final
/// norm: several vectors of one sequence, or one for each of several.
///
/// # Shapes
/// - `x`: `[rows, t, H]`, in the type that the network computes in
/// - output: `[rows, 1, H]`
pub(super) fn forward<B: Backend>(
    (layers, norm): (&[Layer<B>], &RmsNorm<B>),
    rope_theta: f64,
    x: Tensor<B, 3>,
    rows: Range<usize>,
    cache: &mut Cache<B>,
) -> Tensor<B, 3> {
    let (slots, last) = (cache.next(rows), x.dims()[1] - 1);
    let positions = Positions { rope_theta: Some(rope_theta), window: None };
    let hidden = forward_cached(layers, x, &slots, positions, cache);
    norm.forward(hidden.narrow(1, last, 1))
}

/// Computes the hidden states of a whole sequence, after the final norm, without a cache; taps
/// `layer{i}.self_attn.out` and `layer{i}.out`.
///
/// # Shapes
/// - `x`, output: `[B, t, H]`, in the type that the network computes in
pub(super) fn forward_whole<B: Backend>(
    (layers, norm): (&[Layer<B>], &RmsNorm<B>),
    (head_dim, rope_theta): (usize, f64),
    x: Tensor<B, 3>,
    tap: &mut impl Tap<B>,
) -> Tensor<B, 3> {
    let rope = Rope::new(x.dims()[1], head_dim, rope_theta, &place_of(&x));
    let mask = Mask::by_position(Visibility::Causal { first: 0 });
    let context = Context { rope: Some(&rope), mask: &mask };
    let forward = |x, (i, layer): (usize, &Layer<B>)| {
        layer.forward_tapped(x, &context, None, format_args!("layer{i}"), tap)
    };
    norm.forward(layers.iter().enumerate().fold(x, forward))
}
