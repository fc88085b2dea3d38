//! Each part of a frame alone, at the released sizes, with random weights.

use acestep_engine::{error::counted, host::to_host};
use acestep_import::MIMI_CONFIG;
use acestep_model::{
    Backend, Place,
    kernel::Precision,
    speech::{
        dia2::{Backbone, Config, DecoderConfig, Depformer},
        mimi,
    },
};
use anyhow::{Context, Result};
use burn::tensor::DType;
use serde_json::{Value, json};

use crate::{
    families::released,
    measure::{
        Cost, Rate, Run,
        clock::{self, wait},
        conv, layer, matvec,
        weights::{codes, random, random_weights},
    },
};

/// The work of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// One step of the backbone with guidance, and its logits.
    Backbone(Sizes),
    /// The other codes of a frame, one after the other, with guidance.
    Depformer(Sizes),
    /// Frames of codes to samples, so many at once.
    Codec(usize),
    /// Keys and values of a kept voice to the state of a run.
    Snapshot(Sizes),
}

/// Sizes of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sizes {
    B1,
    B2,
}

/// Steps before the one that is measured: 20 seconds.
const BEFORE: usize = 250;
/// Steps that follow before the state starts again.
const AFTER: usize = 250;
/// Rows with guidance.
const ROWS: usize = 2;
/// Seconds of a frame.
const FRAME: f64 = 0.08;
/// Frames that the decoder of the codec has seen before: those that its window holds.
const SEEN: usize = 125;

impl Work {
    /// Measures the work; its weights are freed afterwards.
    ///
    /// # Errors
    /// If a released configuration cannot be read.
    pub(crate) fn run<B: Backend>(self, place: &Place<B>) -> Result<Run> {
        match self {
            Self::Backbone(sizes) => backbone(&sizes.config()?, place),
            Self::Depformer(sizes) => depformer(&sizes.config()?, place),
            Self::Codec(frames) => codec(frames, place),
            Self::Snapshot(sizes) => snapshot(&sizes.config()?, place),
        }
    }
}

fn backbone<B: Backend>(config: &Config, place: &Place<B>) -> Result<Run> {
    let device = &place.device;
    let backbone = random_weights(Backbone::<B>::init(config, device), place.dtype);
    let tokens = |step: usize| {
        let of_row = |row: usize| {
            let codes = (0..config.data.codebooks()).map(|book| (book * 37 + step + row) % 2048);
            [7, 3].into_iter().chain(codes).map(|token| token as u32).collect()
        };
        (0..ROWS).map(of_row).collect::<Vec<Vec<u32>>>()
    };
    let mut state = backbone.state(ROWS, BEFORE + AFTER, place);
    for step in 0..BEFORE {
        B::on_pool(|| drop(to_host(backbone.step(&tokens(step), step, &mut state).cb0)));
    }
    let work = || {
        if state.steps() == state.capacity() {
            state.truncate(BEFORE);
        }
        let (step, state) = (state.steps(), &mut state);
        B::on_pool(|| {
            let output = backbone.step(&tokens(step), step, state);
            drop((to_host(output.action), to_host(output.cb0)));
        });
    };
    let time = clock::time(work, || wait::<B>(device));
    let (own, data) = (&config.model.decoder, &config.data);
    // Both texts of a frame, and its logits.
    let texts = matvec(own.n_embd, own.n_embd) * 2.0;
    let heads = matvec(own.n_embd, data.audio_vocab_size + data.action_vocab_size);
    let cost = (layers(own) + texts + heads).for_rows(ROWS);
    Ok(Run::of_speech(format!("{ROWS} rows after {BEFORE} steps"), cost, time, FRAME))
}

fn depformer<B: Backend>(config: &Config, place: &Place<B>) -> Result<Run> {
    let device = &place.device;
    let depformer = random_weights(Depformer::<B>::init(config, device), place.dtype);
    let width = config.model.decoder.n_embd;
    let hidden = random::<B, 3>([ROWS, 1, width], place);
    let mut state = depformer.state(ROWS, place);
    let stages = depformer.stages();
    let work = || {
        let state = &mut state;
        B::on_pool(|| {
            let mut code = 5;
            for stage in 0..stages {
                let logits = to_host(depformer.stage(stage, hidden.clone(), code, None, state));
                // Any code will do, but it must wait for the logits.
                code = u32::from(logits[0] > 0.0);
            }
        });
    };
    let time = clock::time(work, || wait::<B>(device));
    let own = &config.model.depformer;
    let heads = own.gqa_query_heads * own.gqa_head_dim;
    let stage = matvec(width, own.n_embd)
        + layer(1.0, own.n_embd, [heads; 2], own.n_hidden) * own.n_layer as f64
        + matvec(own.n_embd, config.data.audio_vocab_size);
    // Each stage reads all weights that it uses.
    let cost = (stage * stages as f64).for_rows(ROWS);
    Ok(Run::of_speech(format!("{stages} codes of {ROWS} rows"), cost, time, FRAME))
}

fn codec<B: Backend>(frames: usize, place: &Place<B>) -> Result<Run> {
    let config = codec_config()?;
    let device = &place.device;
    let codebooks = config.num_quantizers;
    // In f32 with every type, as in a run.
    let decoder = mimi::Decoder::<B>::init(&config, codebooks, device);
    let decoder = random_weights(decoder, DType::F32).prepacked(Precision::beside(place.dtype));
    let codes = codes::<B>([codebooks, frames], 2048, device);
    let mut state = mimi::DecoderState::default();
    for _ in 0..SEEN.div_ceil(frames) {
        B::on_pool(|| drop(to_host(decoder.forward(codes.clone(), &mut state))));
    }
    let work = || {
        let (codes, state) = (codes.clone(), &mut state);
        B::on_pool(|| drop(to_host(decoder.forward(codes, state))));
    };
    let time = clock::time(work, || wait::<B>(device));
    let (unit, cost) = (counted(frames, "frame") + " in f32", codec_cost(&config, frames));
    Ok(Run::of_speech(unit, cost, time, frames as f64 * FRAME))
}

/// Copies a voice into a state with room for all steps, as each text from a snapshot does.
fn snapshot<B: Backend>(config: &Config, place: &Place<B>) -> Result<Run> {
    let (device, own) = (&place.device, &config.model.decoder);
    // It makes states; its weights are not used, and so never created.
    let backbone = Backbone::<B>::init(config, device);
    let shape = [1, own.kv_heads, SEEN, own.gqa_head_dim];
    let mut kept = backbone.state(ROWS, SEEN, place);
    for row in 0..ROWS {
        kept.set_row(row, (0..own.n_layer).map(|_| [0, 1].map(|_| random(shape, place))).collect());
    }
    let work = || {
        let mut state = backbone.state(ROWS, config.runtime.max_context_steps + 1, place);
        (0..ROWS).for_each(|row| state.set_row(row, kept.row(row)));
        state
    };
    let time = clock::time(work, || wait::<B>(device));
    let numbers = ROWS * own.n_layer * 2 * shape.iter().product::<usize>();
    let bytes = numbers * place.computes_in().size();
    let rate = Rate::new(bytes as f64 / time.wall_s / 1e9, "GB/s");
    Ok(Run { unit: format!("{ROWS} rows of {SEEN} steps"), cost: Cost::default(), time, rate })
}

/// Returns the cost of the backbone's layers for one row.
fn layers(config: &DecoderConfig) -> Cost {
    let heads = [config.gqa_query_heads, config.kv_heads].map(|heads| heads * config.gqa_head_dim);
    layer(1.0, config.n_embd, heads, config.n_hidden) * config.n_layer as f64
}

/// Returns the cost of decoding frames.
fn codec_cost(config: &mimi::Config, frames: usize) -> Cost {
    let wide = config.hidden_size;
    let heads = config.num_attention_heads * config.head_dim;
    // The transformer has two positions a frame.
    let mut samples = frames as f64 * 2.0;
    let layer = conv(samples, wide, 3 * heads, 1)
        + conv(samples, heads, wide, 1)
        + conv(samples, wide, 2 * config.intermediate_size, 1);
    let mut channels = config.num_filters << config.upsampling_ratios.len();
    let mut cost = conv(frames as f64, config.codebook_dim, wide, 2)
        + layer * config.num_hidden_layers as f64
        + conv(samples, wide, channels, config.kernel_size);
    for &factor in &config.upsampling_ratios {
        samples *= factor as f64;
        let half = channels / 2;
        let inner = half / config.compress;
        // The transposed filter is twice as long as its stride.
        let up = Cost {
            flop: 2.0 * samples * (2 * channels * half) as f64,
            weights: (2 * factor * channels * half) as f64,
        };
        cost = cost
            + up
            + conv(samples, half, inner, config.residual_kernel_size)
            + conv(samples, inner, half, 1);
        channels = half;
    }
    cost + conv(samples, channels, 1, config.last_kernel_size)
}

impl Sizes {
    /// Returns the released configuration.
    fn config(self) -> Result<Config> {
        released(Config::from_json, &self.values())
    }

    fn values(self) -> Value {
        let (layers, width, small, runs): (_, _, _, &[usize]) = match self {
            Self::B1 => (30, 1024, 3, &[11, 10, 10]),
            Self::B2 => (28, 2048, 4, &[7, 6, 6, 6, 6]),
        };
        // The lengths of these runs are not published. They do not change the work.
        let runs = runs.iter().enumerate();
        let schedule: Vec<usize> = runs.flat_map(|(id, &length)| vec![id; length]).collect();
        let delays: Vec<usize> = std::iter::once(16).chain([18; 31]).collect();
        json!({
            "data": {
                "channels": 34, "text_vocab_size": 49_280, "audio_vocab_size": 2050,
                "action_vocab_size": 2, "text_pad_token_id": 3, "text_new_word_token_id": 2,
                "text_zero_token_id": 7, "action_pad_token_id": 0, "action_new_word_token_id": 1,
                "delay_pattern": delays, "second_stream_ahead": 2,
            },
            "model": {
                "decoder": {
                    "n_layer": layers, "n_embd": width, "n_hidden": 6144, "gqa_query_heads": 16,
                    "kv_heads": 8, "gqa_head_dim": 128,
                },
                "depformer": {
                    "n_layer": small, "n_embd": 1024, "n_hidden": 3072, "gqa_query_heads": 8,
                    "kv_heads": 8, "gqa_head_dim": 128, "apply_rope": true,
                    "text_embedding": false,
                },
                "normalization_layer_epsilon": 1e-6,
            },
            "runtime": { "weights_schedule": schedule, "max_context_steps": 1500 },
        })
    }
}

/// Returns the released configuration of the codec.
fn codec_config() -> Result<mimi::Config> {
    mimi::Config::from_json(MIMI_CONFIG).context("the released configuration cannot be read")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of the released files in f32, less the tables that no step multiplies with.
    #[test]
    fn costs_agree_with_published_sizes() {
        for (sizes, published) in [(Sizes::B1, 4_304_978_944.0), (Sizes::B2, 7_678_226_000.0)] {
            let config = sizes.config().expect("the released sizes");
            let (wide, small) = (&config.model.decoder, &config.model.depformer);
            let (data, ids) = (&config.data, config.weight_ids().len() as f64);
            let backbone = layers(wide).weights
                + (2 * wide.n_embd * wide.n_embd) as f64
                + (wide.n_embd * (data.audio_vocab_size + data.action_vocab_size)) as f64;
            let tables = data.text_vocab_size + 32 * data.audio_vocab_size;
            let heads = small.gqa_query_heads * small.gqa_head_dim;
            let attention = 4.0 * (heads * small.n_embd) as f64 * ids;
            let inner = 3.0 * (small.n_hidden * small.n_embd) as f64;
            let stages = 31 * 2 * data.audio_vocab_size * small.n_embd;
            let depformer = (attention + inner) * small.n_layer as f64
                + (wide.n_embd * small.n_embd) as f64 * ids
                + stages as f64;
            let bytes = 4.0 * (backbone + (tables * wide.n_embd) as f64 + depformer);
            assert!((bytes / published - 1.0).abs() < 1e-3, "{sizes:?}: {bytes}");
        }
    }

    /// 2.69 GMAC for a second: of its 25 positions, 0.63 G in the transformer and 0.09 G in the first
    /// convolution; the rest in the four stages.
    #[test]
    fn a_second_of_the_codec_costs_what_its_shapes_say() {
        let codec = codec_config().expect("the released sizes");
        let second = codec_cost(&codec, 25).flop / 2.0 / 2e9;
        assert!((second - 2.69).abs() < 0.01, "{second}");
    }
}
