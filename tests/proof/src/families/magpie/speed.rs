//! Each part of a step alone, at the released sizes, with random weights.

use acestep_engine::{error::counted, host::to_host};
use acestep_model::{
    Backend, Place,
    kernel::Precision,
    speech::{
        magpie::{Config, Decoder, Encoder, LocalTransformer, Sizes, Start},
        nanocodec,
    },
};
use anyhow::Result;
use burn::tensor::{DType, Tensor};
use serde_json::{Value, json};

use crate::{
    families::{released, with},
    measure::{
        Cost, Rate, Run,
        clock::{self, wait},
        conv, matvec,
        weights::{self, random, random_weights},
    },
};

/// The work of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// A text through the encoder.
    Encoder,
    /// One step of the decoder with guidance, and its logits.
    Decoder(Geometry),
    /// The codes of a step, one after the other, with guidance.
    Local(Geometry),
    /// Frames of codes to samples, so many at once.
    Codec(usize),
}

/// A released geometry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Geometry {
    /// December 2025: one frame in a step.
    V2512,
    /// July 2026: two frames in a step.
    V2607,
}

/// Ids of the text.
const TEXT: usize = 60;
/// Steps before the one that is measured.
const BEFORE: usize = 100;
/// Rows with guidance.
const ROWS: usize = 2;
/// Frames per second.
const FRAMES_PER_SECOND: f64 = 22_050.0 / 1024.0;

impl Work {
    /// Measures the work; its weights are freed afterwards.
    ///
    /// # Errors
    /// If a released configuration cannot be read.
    pub(crate) fn run<B: Backend>(self, place: &Place<B>) -> Result<Run> {
        match self {
            Self::Encoder => encoder(place),
            Self::Decoder(geometry) => decoder(geometry, place),
            Self::Local(geometry) => local(geometry, place),
            Self::Codec(frames) => codec(frames, place),
        }
    }
}

fn encoder<B: Backend>(place: &Place<B>) -> Result<Run> {
    let (config, sizes) = Geometry::V2607.sizes()?;
    let device = &place.device;
    let encoder = random_weights(Encoder::<B>::init(&config, &sizes, device), place.dtype);
    let ids = weights::codes::<B>([1, TEXT], 3000, device);
    let work = || B::on_pool(|| drop(to_host(encoder.forward(ids.clone()))));
    let time = clock::time(work, || wait::<B>(device));
    let (own, width) = (&config.encoder, config.embedding_dim);
    let inner = own.kernel_size * own.d_ffn;
    let cost = (layer(width, inner) * own.n_layers as f64).for_rows(TEXT);
    let rate = Rate::per_second(TEXT, "ids/s", time);
    Ok(Run { unit: format!("{TEXT} ids"), cost, time, rate })
}

fn decoder<B: Backend>(geometry: Geometry, place: &Place<B>) -> Result<Run> {
    let (config, sizes) = geometry.sizes()?;
    let device = &place.device;
    let decoder = random_weights(Decoder::<B>::init(&config, &sizes, device), place.dtype);
    let width = config.embedding_dim;
    let memory = random::<B, 3>([1, TEXT, width], place);
    let prior = Tensor::<B, 1>::full([TEXT], 0.1, device);
    let codes = |steps: usize| {
        let codes = weights::codes::<B>([decoder.tables(), steps], 2016, device);
        decoder.embedded(codes).repeat_dim(0, ROWS)
    };
    let capacity = decoder.positions();
    let begin = || {
        let start = Start { rows: ROWS, capacity, exact: false };
        let context = decoder.context(0, device);
        let mut state = decoder.start(context, memory.clone(), start, place);
        let _ = decoder.step(codes(BEFORE), Some(&prior), &mut state);
        state
    };
    let mut state = begin();
    let work = || {
        if state.length() == capacity {
            state = begin();
        }
        let state = &mut state;
        B::on_pool(|| {
            let step = decoder.step(codes(1), Some(&prior), state);
            drop((to_host(decoder.logits(step.hidden)), to_host(step.attention)));
        });
    };
    let time = clock::time(work, || wait::<B>(device));
    let own = &config.decoder;
    let cross = own.xa_n_heads * own.head_width();
    let layer = layer(width, own.stack.d_ffn) + matvec(width, cross) + matvec(cross, width);
    let last = matvec(width, decoder.tables() * sizes.code_rows());
    let cost = (layer * own.stack.n_layers as f64 + last).for_rows(ROWS);
    let unit = format!("{ROWS} rows after {BEFORE} steps of {TEXT} ids");
    Ok(Run::of_speech(unit, cost, time, geometry.seconds()))
}

fn local<B: Backend>(geometry: Geometry, place: &Place<B>) -> Result<Run> {
    let (config, sizes) = geometry.sizes()?;
    let device = &place.device;
    let local = random_weights(LocalTransformer::<B>::init(&config, &sizes, device), place.dtype);
    let width = config.embedding_dim;
    let inputs = [0, 1].map(|_| random::<B, 2>([ROWS, width], place));
    let mut state = local.start(ROWS, place);
    let codes = local.heads();
    let work = || {
        state.clear();
        let state = &mut state;
        B::on_pool(|| {
            let mut next = 0;
            for code in 0..codes {
                let hidden = local.step(inputs[next].clone(), state);
                // Any input will do, but it must wait for the logits.
                next = usize::from(to_host(local.logits(code, hidden))[0] > 0.0);
            }
        });
    };
    let time = clock::time(work, || wait::<B>(device));
    let own = config.local_transformer(&sizes);
    let entry = if own.d_model == width { Cost::default() } else { matvec(width, own.d_model) };
    let layers = layer(own.d_model, own.d_ffn) * own.n_layers as f64;
    let one = entry + layers + matvec(own.d_model, sizes.code_rows());
    // Each code reads all layers again.
    let cost = (one * codes as f64).for_rows(ROWS);
    Ok(Run::of_speech(format!("{codes} codes of {ROWS} rows"), cost, time, geometry.seconds()))
}

fn codec<B: Backend>(frames: usize, place: &Place<B>) -> Result<Run> {
    let config = codec_config()?;
    let device = &place.device;
    // In f32 with every type, as in a run.
    let decoder = random_weights(nanocodec::Decoder::<B>::init(&config, device), DType::F32)
        .prepacked(Precision::beside(place.dtype));
    let codes = weights::codes::<B>([config.codebooks(), frames], 2016, device);
    let mut state = nanocodec::DecoderState::default();
    let work = || {
        let (codes, state) = (codes.clone(), &mut state);
        B::on_pool(|| drop(to_host(decoder.forward(codes, state))));
    };
    let time = clock::time(work, || wait::<B>(device));
    let cost = codec_cost(&config.audio_decoder, frames);
    let unit = counted(frames, "frame") + " in f32";
    Ok(Run::of_speech(unit, cost, time, frames as f64 / FRAMES_PER_SECOND))
}

/// Returns the cost of a layer for one row; attention to few keys is left out.
fn layer(width: usize, inner: usize) -> Cost {
    matvec(width, 3 * width) + matvec(width, width) + matvec(width, inner) + matvec(inner, width)
}

/// Returns the cost of decoding frames.
fn codec_cost(config: &nanocodec::DecoderConfig, frames: usize) -> Cost {
    let mut samples = frames as f64;
    let mut cost = conv(samples, config.input_dim, config.base_channels, config.in_kernel_size);
    let mut channels = config.base_channels;
    for &rate in &config.up_sample_rates {
        channels /= 2;
        // Each output channel reads two channels, and each of its samples two taps.
        let up = 2 * 2 * rate * channels;
        samples *= rate as f64;
        let flop = 2.0 * samples * (4 * channels) as f64;
        cost = cost + Cost { flop, weights: up as f64 };
        for &taps in &config.resblock_kernel_sizes {
            let convs = 2 * config.resblock_dilation_sizes.len();
            cost = cost + conv(samples, channels, channels, taps) * convs as f64;
        }
    }
    cost + conv(samples, channels, 1, config.out_kernel_size)
}

impl Geometry {
    fn frames(self) -> usize {
        match self {
            Self::V2512 => 1,
            Self::V2607 => 2,
        }
    }

    /// Returns the seconds of a step.
    fn seconds(self) -> f64 {
        self.frames() as f64 / FRAMES_PER_SECOND
    }

    /// Returns the released sizes.
    fn sizes(self) -> Result<(Config, Sizes)> {
        let config = released(Config::from_json, &self.config())?;
        let (text_rows, context_rows) = match self {
            Self::V2512 => (2380, 110),
            Self::V2607 => (3359, 217),
        };
        let context_lengths = vec![context_rows; 5];
        let sizes = Sizes { text_rows, codebooks: 8, codes: 2016, context_rows, context_lengths };
        Ok((config, sizes))
    }

    fn config(self) -> Value {
        let stack = |layers: usize, taps: usize| {
            json!({
                "n_layers": layers, "d_model": 768, "d_ffn": 3072, "sa_n_heads": 12,
                "kernel_size": taps, "max_length_causal_mask": 2048, "is_causal": true,
                "apply_norm_out": true, "use_learnable_pos_emb": true,
            })
        };
        let attends = json!({
            "has_xattn": true, "xa_d_head": 128, "xa_d_memory": 768, "xa_n_heads": 1,
            "apply_norm_to_cond": true,
        });
        let decoder = with(stack(12, 1), &attends);
        let (layers, heads, width) = match self {
            Self::V2512 => (1, 1, 256),
            Self::V2607 => (2, 12, 768),
        };
        json!({
            "model_type": "decoder_ce", "embedding_dim": 768,
            "frame_stacking_factor": self.frames(), "encoder": stack(6, 3), "decoder": decoder,
            "local_transformer_type": "autoregressive", "local_transformer_n_layers": layers,
            "local_transformer_n_heads": heads, "local_transformer_hidden_dim": width,
            "text_tokenizers": {},
            "inference_parameters": {
                "estimate_alignment_from_layers": [4, 5, 8, 9],
                "apply_prior_to_layers": [2, 3, 4, 5, 6, 7, 8, 9, 10],
            },
        })
    }
}

/// Returns the released configuration of the codec.
fn codec_config() -> Result<nanocodec::Config> {
    let config = json!({
        "sample_rate": 22_050, "samples_per_frame": 1024,
        "audio_decoder": {
            "up_sample_rates": [8, 8, 4, 2, 2], "input_dim": 32, "base_channels": 864,
            "activation": "half_snake", "output_activation": "clamp", "pad_mode": "zeros",
            "n_groups_equal_to_out_channels": true,
        },
        "vector_quantizer": { "num_groups": 8, "num_levels_per_group": [8, 7, 6, 6] },
    });
    released(nanocodec::Config::from_json, &config)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The figures of the specification: 31.56 M weights of the codec with its 97 biases of
    /// 17_739 numbers; and 57 MB of a local transformer in f32.
    #[test]
    fn costs_agree_with_published_sizes() {
        let codec = codec_config().expect("the released sizes");
        let weights = codec_cost(&codec.audio_decoder, 1).weights;
        assert!((weights / 1e6 - 31.54).abs() < 0.03, "{weights}");
        let (config, sizes) = Geometry::V2607.sizes().expect("the released sizes");
        let own = config.local_transformer(&sizes);
        let layers = layer(own.d_model, own.d_ffn) * own.n_layers as f64;
        assert!((layers.weights * 4.0 / 1e6 - 56.6).abs() < 0.1, "{layers:?}");
        assert_eq!(config.codes_per_stack(&sizes), 16);
    }
}
