//! The tensors of each network of Qwen3-TTS in the released files.
//!
//! | network | file | tensors |
//! |---|---|---|
//! | talker and code predictor | model.safetensors | `talker.*` |
//! | speaker encoder | model.safetensors | `speaker_encoder.*` |
//! | codec decoder | speech_tokenizer/model.safetensors | `decoder.*` |
//! | codec encoder | speech_tokenizer/model.safetensors | `encoder.*` |
//!
//! In PyTorch a convolution lies in a wrapper that pads, and stages are members of one list with the
//! convolutions before and after them. Here they have fields of their own.

use std::borrow::Cow;

use acestep_model::speech::{mimi, qwen3_tts::codec};

use crate::{
    families,
    names::{Rows, TensorNames},
};

pub(super) fn add(
    rows: &mut Rows,
    file: impl Into<Cow<'static, str>>,
    module: impl Into<Cow<'static, str>>,
) {
    rows.push((file.into(), module.into()));
}

/// Talker and code predictor.
pub(crate) fn talker() -> TensorNames {
    TensorNames::of("talker", vec![("talker.".into(), "".into())])
}

pub(crate) fn speaker_encoder() -> TensorNames {
    let mut rows = Rows::new();
    add(&mut rows, "speaker_encoder.", "");
    add(&mut rows, "speaker_encoder.blocks.0.", "tdnn.");
    for block in 0..3 {
        let (file, module) =
            (format!("speaker_encoder.blocks.{}.", block + 1), format!("blocks.{block}."));
        add(&mut rows, file.clone(), module.clone());
        add(&mut rows, format!("{file}res2net_block.blocks."), format!("{module}res2net_block."));
        for (index, name) in ["conv1", "conv2"].into_iter().enumerate() {
            let module = format!("{module}se_block.{index}.");
            add(&mut rows, format!("{file}se_block.{name}."), module);
        }
    }
    add(&mut rows, "speaker_encoder.asp.", "asp.");
    add(&mut rows, "speaker_encoder.fc.", "fc.");
    TensorNames::of("speaker encoder", rows)
}

pub(crate) fn codec_decoder(config: &codec::DecoderConfig) -> TensorNames {
    let mut rows = Rows::new();
    add(&mut rows, "decoder.pre_conv.conv.", "pre_conv.");
    add(&mut rows, "decoder.pre_transformer.", "pre_transformer.");
    for (quantizer, count) in [("rvq_first", 1), ("rvq_rest", config.num_quantizers - 1)] {
        let name = |rest: &str| format!("quantizer.{quantizer}.{rest}");
        let file = |rest: &str| format!("decoder.{}", name(rest));
        add(&mut rows, file("output_proj."), name("output_proj."));
        for layer in 0..count {
            let (of_file, module) =
                (file(&format!("vq.layers.{layer}._codebook.")), name(&format!("layers.{layer}.")));
            add(&mut rows, format!("{of_file}embedding_sum"), format!("{module}embed_sum"));
            add(&mut rows, of_file, module);
        }
    }
    for stage in 0..config.upsampling_ratios.len() {
        let (file, module) = (format!("decoder.upsample.{stage}."), format!("upsample.{stage}."));
        add(&mut rows, format!("{file}0.conv."), format!("{module}conv."));
        add(&mut rows, format!("{file}1."), format!("{module}convnext."));
        add(&mut rows, format!("{file}1.dwconv.conv."), format!("{module}convnext.dwconv."));
    }
    add(&mut rows, "decoder.decoder.0.conv.", "conv_in.");
    let stages = config.upsample_rates.len();
    for stage in 0..stages {
        let file = format!("decoder.decoder.{}.block.", stage + 1);
        let module = format!("blocks.{stage}.");
        add(&mut rows, format!("{file}0."), format!("{module}snake."));
        add(&mut rows, format!("{file}1.conv."), format!("{module}conv."));
        for unit in 0..3 {
            let (file, module) = (format!("{file}{}.", unit + 2), format!("{module}units.{unit}."));
            add(&mut rows, file.clone(), module.clone());
            for conv in ["conv1", "conv2"] {
                add(&mut rows, format!("{file}{conv}.conv."), format!("{module}{conv}."));
            }
        }
    }
    add(&mut rows, format!("decoder.decoder.{}.", stages + 1), "snake_out.");
    add(&mut rows, format!("decoder.decoder.{}.conv.", stages + 2), "conv_out.");
    TensorNames::of("codec decoder", rows)
}

pub(crate) fn codec_encoder(config: &mimi::Config, codebooks: usize) -> TensorNames {
    families::mimi::encoder("codec encoder", "encoder.", config, codebooks)
}

/// Returns the tensors of the speech tokenizer that no network here reads: projections of the other
/// direction, marks of the training, and the codebooks of the encoder that do not count.
pub(crate) fn unused_of_codec(config: &codec::Config) -> Vec<String> {
    let (encoder, codebooks) = (&config.encoder_config, config.encoder_valid_num_quantizers);
    let mut unused = families::mimi::unused("encoder.", encoder, codebooks);
    for other in [
        "decoder.quantizer.rvq_first.input_proj",
        "decoder.quantizer.rvq_rest.input_proj",
        "encoder.quantizer.semantic_residual_vector_quantizer.output_proj",
        "encoder.quantizer.acoustic_residual_vector_quantizer.output_proj",
    ] {
        unused.push(format!("{other}.weight"));
    }
    unused
}
