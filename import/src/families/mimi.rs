//! The tensors and the published directory of Mimi.
//!
//! | network | tensors |
//! |---|---|
//! | encoder | `encoder.*`, `encoder_transformer.*`, `downsample.*`, `quantizer.*` |
//! | decoder | `quantizer.*`, `upsample.*`, `decoder_transformer.*`, `decoder.*` |
//!
//! Both read the codebooks. These are the names of transformers; see [`moshi`] for others.

pub(crate) mod moshi;

use acestep_model::speech::mimi::Config;

use super::Release;
use crate::names::TensorNames;

/// The published directory.
pub(crate) const MIMI: Release =
    Release::whole("mimi", "kyutai/mimi", 0.4, "the codec of dialogue models");

/// Returns the names of the layers of `transformer`.
fn layers(transformer: &str, count: usize) -> impl Iterator<Item = [String; 2]> {
    (0..count).flat_map(move |layer| {
        let file = format!("{transformer}.layers.{layer}.");
        let module = format!("{transformer}.{layer}.");
        [
            [format!("{file}mlp.fc1."), format!("{module}mlp.up_proj.")],
            [format!("{file}mlp.fc2."), format!("{module}mlp.down_proj.")],
            [file, module],
        ]
    })
}

/// Returns the names of the first `codebooks` codebooks and of the projection `projection`.
fn quantizers(
    config: &Config,
    codebooks: usize,
    projection: &str,
) -> impl Iterator<Item = [String; 2]> {
    let semantic = config.num_semantic_quantizers;
    let of = move |kind: &str, count: usize| {
        let both = format!("quantizer.{kind}_residual_vector_quantizer.");
        let codebook = |layer: usize| {
            [format!("{both}layers.{layer}.codebook."), format!("{both}layers.{layer}.")]
        };
        let projection = format!("{both}{projection}.");
        let mut rows: Vec<_> = (0..count).map(codebook).collect();
        rows.push([projection.clone(), projection]);
        rows
    };
    let rows = [of("semantic", semantic), of("acoustic", codebooks.saturating_sub(semantic))];
    rows.into_iter().flatten()
}

/// Returns the names of the encoder's tensors, which begin with `prefix` in the file.
pub(crate) fn encoder(
    noun: &'static str,
    prefix: &str,
    config: &Config,
    codebooks: usize,
) -> TensorNames {
    let parts = ["encoder", "downsample", "input_proj"];
    names(noun, prefix, parts, [3, 1], config, codebooks)
}

/// Returns the names of the decoder's tensors.
pub(crate) fn decoder(config: &Config, codebooks: usize) -> TensorNames {
    let parts = ["decoder", "upsample", "output_proj"];
    names("codec decoder", "", parts, [2, 3], config, codebooks)
}

/// Returns the names of the network with these parts. In a stage of three layers, `conv` and `unit` are the
/// numbers of its layers with tensors, counted from the layer before it.
fn names(
    noun: &'static str,
    prefix: &str,
    [side, resampling, projection]: [&str; 3],
    [conv, unit]: [usize; 2],
    config: &Config,
    codebooks: usize,
) -> TensorNames {
    let stages = config.upsampling_ratios.len();
    let file = |layer: usize, rest: &str| format!("{side}.layers.{layer}.{rest}");
    let mut rows = vec![
        [file(0, "conv."), format!("{side}.conv_in.")],
        [file(3 * stages + 2, "conv."), format!("{side}.conv_out.")],
        [format!("{resampling}.conv."), format!("{resampling}.")],
    ];
    for stage in 0..stages {
        let (before, module) = (3 * stage, format!("{side}.stages.{stage}."));
        rows.push([file(before + conv, "conv."), format!("{module}conv.")]);
        rows.push([file(before + unit, "block.1.conv."), format!("{module}unit.0.")]);
        rows.push([file(before + unit, "block.3.conv."), format!("{module}unit.1.")]);
    }
    let transformer = format!("{side}_transformer");
    rows.extend(layers(&transformer, config.num_hidden_layers));
    rows.extend(quantizers(config, codebooks, projection));
    let row = |[file, module]: [String; 2]| (format!("{prefix}{file}").into(), module.into());
    TensorNames::of(noun, rows.into_iter().map(row).collect())
}

/// Returns the tensors that no network here reads, if the first `codebooks` codebooks are read: marks
/// of the training, and the other codebooks. They begin with `prefix` in the file.
pub(crate) fn unused(prefix: &str, config: &Config, codebooks: usize) -> Vec<String> {
    let semantic = config.num_semantic_quantizers;
    let (all, read) = (config.num_quantizers - semantic, codebooks.saturating_sub(semantic));
    let mut unused = Vec::new();
    for (kind, all, read) in [("semantic", semantic, semantic), ("acoustic", all, read)] {
        for layer in 0..all {
            let quantizer = format!("{prefix}quantizer.{kind}_residual_vector_quantizer");
            let codebook = format!("{quantizer}.layers.{layer}.codebook.");
            unused.push(format!("{codebook}initialized"));
            if layer >= read {
                unused.push(format!("{codebook}embed_sum"));
                unused.push(format!("{codebook}cluster_usage"));
            }
        }
    }
    unused
}
