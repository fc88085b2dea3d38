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
    let stages = config.upsampling_ratios.len();
    let file = |layer: usize, rest: &str| format!("encoder.layers.{layer}.{rest}");
    let mut rows = vec![
        [file(0, "conv."), "encoder.conv_in.".to_owned()],
        [file(3 * stages + 2, "conv."), "encoder.conv_out.".to_owned()],
        ["downsample.conv.", "downsample."].map(str::to_owned),
    ];
    for stage in 0..stages {
        let (first, module) = (3 * stage + 1, format!("encoder.stages.{stage}."));
        rows.push([file(first, "block.1.conv."), format!("{module}unit.0.")]);
        rows.push([file(first, "block.3.conv."), format!("{module}unit.1.")]);
        rows.push([file(first + 2, "conv."), format!("{module}conv.")]);
    }
    rows.extend(layers("encoder_transformer", config.num_hidden_layers));
    rows.extend(quantizers(config, codebooks, "input_proj"));
    let row = |[file, module]: [String; 2]| (format!("{prefix}{file}").into(), module.into());
    TensorNames::of(noun, rows.into_iter().map(row).collect())
}

/// Returns the names of the decoder's tensors.
pub(crate) fn decoder(config: &Config, codebooks: usize) -> TensorNames {
    let stages = config.upsampling_ratios.len();
    let file = |layer: usize, rest: &str| format!("decoder.layers.{layer}.{rest}");
    let mut rows = vec![
        [file(0, "conv."), "decoder.conv_in.".to_owned()],
        [file(3 * stages + 2, "conv."), "decoder.conv_out.".to_owned()],
        ["upsample.conv.", "upsample."].map(str::to_owned),
    ];
    for stage in 0..stages {
        let (first, module) = (3 * stage + 2, format!("decoder.stages.{stage}."));
        rows.push([file(first, "conv."), format!("{module}conv.")]);
        rows.push([file(first + 1, "block.1.conv."), format!("{module}unit.0.")]);
        rows.push([file(first + 1, "block.3.conv."), format!("{module}unit.1.")]);
    }
    rows.extend(layers("decoder_transformer", config.num_hidden_layers));
    rows.extend(quantizers(config, codebooks, "output_proj"));
    let row = |[file, module]: [String; 2]| (file.into(), module.into());
    TensorNames::of("codec decoder", rows.into_iter().map(row).collect())
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
