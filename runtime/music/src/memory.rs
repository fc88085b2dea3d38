//! Memory needs of each stage of a song: computed before anything is loaded.
//!
//! Weights and caches are exact. Work memory is an estimate: the tensors that are alive at a
//! stage's widest point, with attention that stores no score matrix.

use acestep_engine::{
    Device, Stage,
    device::memory::{LayerSizes, Lifetime, MemoryNeed, Widths, product},
    tiling::Tiling,
};
use acestep_model::{
    acestep::{self, Heads},
    oobleck, qwen3,
};

use crate::{stage, vae::slice};

/// Tokens of an answer that are scored at once; each has one score per token of the vocabulary.
pub(crate) const SCORED_AT_ONCE: usize = 32;

/// Computes the needs of a Qwen3 trunk that reads `tokens` at once.
pub(crate) fn text_encoder(
    config: &qwen3::Config,
    parameters: u64,
    tokens: usize,
    widths: Widths,
) -> MemoryNeed {
    MemoryNeed {
        work: trunk(config).work(tokens, widths.number),
        largest: widths.weights_of_others(table(config)),
        ..network(stage::TEXT_ENCODER, widths.weights_of_others(parameters))
    }
}

/// Computes the needs of the condition encoders for `tokens` tokens in total.
pub(crate) fn conditioner(
    config: &acestep::Config,
    parameters: u64,
    tokens: usize,
    widths: Widths,
) -> MemoryNeed {
    let sizes = sizes_of(config, config.encoder_hidden_size, config.encoder_intermediate_size);
    MemoryNeed {
        work: sizes.work(tokens, widths.number),
        largest: sizes.widest(tokens, widths.number),
        ..network(stage::CONDITION, widths.weights_of_others(parameters))
    }
}

/// Computes the needs of the diffusion transformer for `frames` latent frames and `rows` rows
/// (songs, doubled by guidance). Keys and values of `tokens` tokens, those of all conditions, are
/// cached for every layer.
pub(crate) fn diffusion(
    config: &acestep::Config,
    parameters: u64,
    rows: usize,
    frames: usize,
    tokens: usize,
    widths: Widths,
) -> MemoryNeed {
    let sizes = sizes_of(config, None, None);
    let patches = rows * frames.div_ceil(config.patch_size.max(1));
    let keys = config.num_key_value_heads * config.head_dim;
    let cache = 2 * product(&[config.num_hidden_layers, keys, tokens]) * widths.number;
    MemoryNeed {
        work: sizes.work(patches, widths.number),
        cache,
        largest: sizes.widest(patches, widths.number),
        ..network(stage::DIFFUSION, widths.weights(parameters))
    }
}

/// Computes the needs of the attention maps of some `heads` of the diffusion transformer, for a
/// condition of `tokens` and a finished song of `frames` latent frames.
pub(crate) fn alignment(
    config: &acestep::Config,
    parameters: u64,
    heads: &[Heads],
    frames: usize,
    tokens: usize,
    widths: Widths,
) -> MemoryNeed {
    let song = diffusion(config, parameters, 1, frames, tokens, widths);
    let patches = frames.div_ceil(config.patch_size.max(1));
    // An f32 map of each head and its transposed copy; before that, the scores of one layer.
    let look = product(&[patches, tokens]) * 4;
    let all: usize = heads.iter().map(|of| of.heads.len()).sum();
    let most = heads.iter().map(|of| of.heads.len()).max().unwrap_or(0);
    // Inputs of all layers up to the last one with maps.
    let layers = heads.iter().map(|of| of.layer + 1).max().unwrap_or(0);
    let entering = product(&[layers, patches, config.hidden_size]) * widths.number;
    MemoryNeed {
        stage: stage::ALIGNMENT,
        lifetime: Lifetime::Shared,
        work: song.work + entering + (2 * all + most) as u64 * look,
        largest: song.largest.max(most as u64 * look),
        ..song
    }
}

/// Computes the needs of a language model for `rows` rows of at most `positions` tokens.
pub(crate) fn language_model(
    config: &qwen3::Config,
    parameters: u64,
    rows: usize,
    positions: usize,
    widths: Widths,
) -> MemoryNeed {
    /// A prompt is read in pieces of about this many tokens.
    const PIECE: usize = 512;
    let sizes = trunk(config);
    let keys = config.num_key_value_heads * config.head_dim;
    let one = product(&[keys, positions, rows]) * widths.number;
    let scores = product(&[config.vocab_size, rows]) * 4;
    MemoryNeed {
        lifetime: Lifetime::Stage,
        work: sizes.work(PIECE.min(positions), widths.number) + 2 * scores,
        cache: 2 * config.num_hidden_layers as u64 * one,
        largest: widths.weights(table(config)).max(one),
        ..network(stage::LM_CODES, widths.weights(parameters))
    }
}

/// Computes the needs of a language model that scores songs, with at most `positions` tokens of
/// prompt and answer.
pub(crate) fn judge(
    config: &qwen3::Config,
    parameters: u64,
    positions: usize,
    widths: Widths,
) -> MemoryNeed {
    let reader = language_model(config, parameters, 1, positions, widths);
    let scores = product(&[config.vocab_size, SCORED_AT_ONCE]) * 4;
    MemoryNeed { stage: stage::SCORE, work: reader.work + 2 * scores, ..reader }
}

/// Computes the needs of the VAE encoder for `frames` frames in tiles on `device`.
pub(crate) fn vae_encoder(
    config: &oobleck::Config,
    parameters: u64,
    frames: usize,
    tiling: Tiling,
    device: Device,
    widths: Widths,
) -> MemoryNeed {
    // The first stage is the widest: every sample with the encoder's first width.
    let samples = tiling.window_limit(frames, config.encoder_reach()) * config.hop();
    let widest = product(&[config.encoder_hidden_size, samples]) * widths.number;
    let sound = product(&[config.audio_channels, frames * config.hop()]) * 4;
    MemoryNeed {
        work: match device.is_gpu() {
            // As the decoder; the sound is there in one piece.
            true => 4 * widest + sound,
            // A residual unit has an input and a sum; the sound was read into a first piece. 60 s: 664 frames
            // are 653 MB, a sound 23 MB; together 1.35 GB, and 1.38 were measured.
            false => 2 * widest + 2 * sound,
        },
        largest: (2 * widest).max(sound),
        ..network(stage::VAE_ENCODER, widths.weights_of_others(parameters))
    }
}

/// Computes the needs of the VAE decoder for `batch` songs of `frames` in tiles on `device`.
pub(crate) fn vae(
    config: &oobleck::Config,
    parameters: u64,
    batch: usize,
    frames: usize,
    tiling: Tiling,
    device: Device,
    widths: Widths,
) -> MemoryNeed {
    let window = tiling.window_limit(frames, config.decoder_reach());
    let bytes =
        |[channels, samples]: [usize; 2]| product(&[channels, samples, batch]) * widths.number;
    let (activations, widest) = match slice(device) {
        // The last stage is the widest: every sample with the decoder's last width. Its input, its sum, and
        // two temporaries.
        None => {
            let widest = bytes([config.decoder_channels, window * config.hop()]);
            (4 * widest, widest)
        }
        // The tensor that is cut into slices stays. A slice holds the input and the sum of a residual unit, and
        // at most as much of earlier blocks. The released VAE: 10 s are 61 MB and three times 123 MB, tiles of
        // 402 frames 99 MB and three times 99 MB. With the sounds 438 MB for 10 s, 442 for 60 s and 580 for
        // 240 s; 484, 443 and 590 MB were measured. Whole blocks need more in tiles above 768 frames.
        Some(frames) => {
            let [whole, slice] = config.sliced(window, frames).map(bytes);
            ((whole + 3 * slice).max(3 * whole), slice)
        }
    };
    let sound = product(&[config.audio_channels, frames * config.hop(), batch]) * 4;
    MemoryNeed {
        // The sound in tiles and in one piece.
        work: activations + 2 * sound,
        // A transposed convolution's products before their sum.
        largest: (2 * widest).max(sound),
        ..network(stage::VAE, widths.weights_of_others(parameters))
    }
}

/// Returns the need of a network that stays in memory and does not compute.
fn network(stage: Stage, weights: u64) -> MemoryNeed {
    MemoryNeed { stage, lifetime: Lifetime::Run, weights, work: 0, cache: 0, largest: 0 }
}

fn sizes_of(
    config: &acestep::Config,
    hidden: Option<usize>,
    intermediate: Option<usize>,
) -> LayerSizes {
    LayerSizes {
        hidden: hidden.unwrap_or(config.hidden_size),
        intermediate: intermediate.unwrap_or(config.intermediate_size),
        heads: config.num_attention_heads * config.head_dim,
    }
}

fn trunk(config: &qwen3::Config) -> LayerSizes {
    LayerSizes {
        hidden: config.hidden_size,
        intermediate: config.intermediate_size,
        heads: config.num_attention_heads * config.head_dim,
    }
}

fn table(config: &qwen3::Config) -> u64 {
    product(&[config.vocab_size, config.hidden_size])
}

#[cfg(test)]
mod tests;
