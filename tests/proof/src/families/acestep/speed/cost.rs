//! Computed cost of a stage: floating-point operations and bytes of weights.
//!
//! A multiplication and an addition count as two. Norms, activations and softmax are omitted:
//! together they are below two per cent.

use acestep_model::{acestep, kernel::Visibility, nn::LayerShape, oobleck, qwen3};

use crate::measure::{Cost, conv, linear};

/// Returns the cost of attention for `queries` rows that each see `keys` keys.
fn attention(queries: f64, keys: f64, shape: &LayerShape) -> Cost {
    Cost { flop: 4.0 * queries * keys * (shape.heads * shape.head_dim) as f64, weights: 0.0 }
}

/// Returns the cost of attention's projections; with `own_keys`, also of keys and values.
fn projections(rows: f64, shape: &LayerShape, own_keys: bool) -> Cost {
    let &LayerShape { hidden, heads, kv_heads, head_dim, .. } = shape;
    let keys = linear(rows, hidden, 2 * kv_heads * head_dim);
    linear(rows, hidden, heads * head_dim)
        + linear(rows, heads * head_dim, hidden)
        + if own_keys { keys } else { Cost::default() }
}

fn mlp(rows: f64, shape: &LayerShape) -> Cost {
    linear(rows, shape.hidden, 3 * shape.intermediate)
}

/// Returns the average number of keys that a query sees.
fn seen(length: usize, visibility: Visibility) -> f64 {
    let keys = match visibility {
        Visibility::Full | Visibility::Window(_) => length,
        Visibility::Causal { first } | Visibility::CausalWindow { first, .. } => first + length,
    };
    let total: usize = (0..length).map(|i| visibility.seen(i, keys).len()).sum();
    total as f64 / length.max(1) as f64
}

/// Returns the cost of one layer over `batch` sequences of `length`.
fn layer(batch: usize, length: usize, shape: &LayerShape, visibility: Visibility) -> Cost {
    let rows = (batch * length) as f64;
    projections(rows, shape, true)
        + attention(rows, seen(length, visibility), shape)
        + mlp(rows, shape)
}

/// Returns the cost of the layers of the text encoder or of a language model over `length` tokens
/// of `batch` sequences, after `before` cached tokens.
pub(crate) fn qwen3(config: &qwen3::Config, batch: usize, length: usize, before: usize) -> Cost {
    layer(batch, length, &config.layer_shape(), Visibility::Causal { first: before })
        * config.num_hidden_layers as f64
}

/// Returns the cost of the logits of `tokens` tokens after each of `rows` positions.
pub(crate) fn head(config: &qwen3::Config, rows: usize, tokens: usize) -> Cost {
    linear(rows as f64, config.hidden_size, tokens)
}

/// Returns the cost of the condition encoder over text, lyrics and silence for timbre.
pub(crate) fn condition(config: &acestep::Config, text: usize, lyrics: usize) -> Cost {
    let shape = config.encoder_shape();
    let stack = |layers: usize, length: usize| -> Cost {
        shape.visibility[..layers].iter().map(|&v| layer(1, length, &shape.layer, v)).sum()
    };
    let (hidden, width) = (shape.hidden(), config.text_hidden_dim);
    let (frames, last) = (config.timbre_fix_frame, config.num_timbre_encoder_hidden_layers - 1);
    // Only the first position of the last layer is read: it has all keys and one query.
    let first = linear(frames as f64, hidden, 2 * shape.layer.kv_heads * shape.layer.head_dim)
        + projections(1.0, &shape.layer, false)
        + attention(1.0, shape.visibility[last].seen(0, frames).len() as f64, &shape.layer)
        + mlp(1.0, &shape.layer);
    linear(text as f64, width, hidden)
        + linear(lyrics as f64, width, hidden)
        + stack(config.num_lyric_encoder_hidden_layers, lyrics)
        + stack(last, frames)
        + first
}

/// Returns the cost of the detokenizer over `codes` codes.
pub(crate) fn codes(config: &acestep::Config, codes: usize) -> Cost {
    let shape = config.encoder_shape();
    let window = config.pool_window_size;
    let one = layer(codes, window, &shape.layer, Visibility::Full);
    linear(codes as f64, config.fsq_dim, shape.hidden())
        + one * config.num_attention_pooler_hidden_layers as f64
}

/// Returns the cost of one step of the diffusion transformer, without values that are cached for a
/// song.
pub(crate) fn dit(config: &acestep::Config, batch: usize, frames: usize, heard: usize) -> Cost {
    let shape = config.dit_shape();
    let positions = frames.div_ceil(config.patch_size);
    let rows = (batch * positions) as f64;
    let layers = 0..config.num_hidden_layers;
    let ends = config.patch_size * (config.in_channels + config.audio_acoustic_hidden_dim);
    let layers: Cost = layers
        .map(|index| {
            layer(batch, positions, &shape, config.visibility(index))
                + projections(rows, &shape, false)
                + attention(rows, heard as f64, &shape)
        })
        .sum();
    layers + linear(rows, shape.hidden, ends)
}

/// Returns the cost of decoding `frames` latent frames.
pub(crate) fn vae(config: &oobleck::Config, frames: usize) -> Cost {
    let base = config.decoder_channels;
    let widths = widths(config, base);
    let stages = config.downsampling_ratios.iter().enumerate().rev();
    let mut samples = frames as f64;
    let mut total = conv(samples, config.decoder_input_channels, widths[widths.len() - 1], 7);
    for (index, &ratio) in stages {
        let (narrow, wide) = (widths[index], widths[index + 1]);
        // A transposed filter of 2 s taps contributes to every output sample twice.
        let upsampling = conv(samples, wide, narrow, 2 * ratio);
        samples *= ratio as f64;
        total = total + upsampling + units(samples, narrow);
    }
    total + conv(samples, base, config.audio_channels, 7)
}

/// Returns the cost of encoding the sound of `frames` latent frames.
pub(crate) fn vae_encode(config: &oobleck::Config, frames: usize) -> Cost {
    let base = config.encoder_hidden_size;
    let widths = widths(config, base);
    let mut samples = (frames * config.hop()) as f64;
    let mut total = conv(samples, config.audio_channels, base, 7);
    for (index, &ratio) in config.downsampling_ratios.iter().enumerate() {
        let (narrow, wide) = (widths[index], widths[index + 1]);
        total = total + units(samples, narrow);
        samples /= ratio as f64;
        total = total + conv(samples, narrow, wide, 2 * ratio);
    }
    // Means and scales.
    total + conv(samples, widths[widths.len() - 1], config.encoder_hidden_size, 3)
}

/// Returns the cost of the three residual units of a stage.
fn units(samples: f64, channels: usize) -> Cost {
    (conv(samples, channels, channels, 7) + conv(samples, channels, channels, 1)) * 3.0
}

/// Returns the autoencoder's channels at the sound's end, then after each stage.
fn widths(config: &oobleck::Config, base: usize) -> Vec<usize> {
    std::iter::once(base).chain(config.channel_multiples.iter().map(|m| m * base)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::acestep::speed::sizes::{Sizes, vae_config};

    /// Values of acestep.cpp's benchmark of 30 s: 1.13 TFLOP a step and 3.65 TFLOP in the VAE.
    #[test]
    fn costs_agree_with_published_ones() {
        let config = Sizes::Turbo.config().expect("the released sizes");
        let step = dit(&config, 1, 750, 238);
        assert!((step.flop / 1e12 - 1.13).abs() < 0.06, "{step:?}");
        let decode = vae(&vae_config().expect("the released sizes"), 750);
        assert!((decode.flop / 1e12 - 3.65).abs() < 0.1, "{decode:?}");
    }

    /// The sum over the released encoder's layers for five frames, computed by hand elsewhere.
    #[test]
    fn encoding_is_a_little_less_work_than_decoding() {
        let config = vae_config().expect("the released sizes");
        let encode = vae_encode(&config, 5);
        assert_eq!(encode.flop, 24_369_233_920.0);
        assert!(encode.flop < vae(&config, 5).flop);
    }

    #[test]
    fn a_window_is_cut_at_both_ends() {
        assert_eq!(seen(4, Visibility::Window(1)), 10.0 / 4.0);
        assert_eq!(seen(4, Visibility::Causal { first: 0 }), 10.0 / 4.0);
        assert_eq!(seen(4, Visibility::Full), 4.0);
    }
}
