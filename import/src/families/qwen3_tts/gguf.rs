//! The tensors of each network of Qwen3-TTS in the GGUF files of qwentts.cpp.
//!
//! | architecture | file | networks |
//! |---|---|---|
//! | `qwen3-tts` | `qwen-talker-SIZE-KIND-TYPE.gguf` | talker and code predictor; speaker encoder |
//! | `qwen3-tts-tokenizer` | `qwen-tokenizer-12hz-TYPE.gguf` | codec decoder, codec encoder |
//!
//! No tensor is turned or joined with another, with one exception: a codebook is divided by the
//! numbers of its training vectors, which are not stored. They are ones here.
//!
//! Source: qwentts.cpp `convert.py`, of May to August 2026.

use acestep_model::speech::{
    mimi,
    qwen3_tts::{Config, SpeakerEncoderConfig, codec},
};

use super::names::add;
use crate::names::{Rows, TensorNames};

/// Architecture of a talker's file.
pub(crate) const TALKER: &str = "qwen3-tts";
/// Architecture of a codec's file.
pub(crate) const CODEC: &str = "qwen3-tts-tokenizer";

/// (Architecture, noun phrase for messages.)
pub(crate) const ARCHITECTURES: [(&str, &str); 2] =
    [(TALKER, "the talker of a Qwen3-TTS model"), (CODEC, "the codec of Qwen3-TTS")];

/// (Name in a layer of the file, name in a layer of the module) of weights.
const OF_LAYER: [(&str, &str); 11] = [
    ("attn_norm.", "input_layernorm."),
    ("ffn_norm.", "post_attention_layernorm."),
    ("attn_q.", "self_attn.q_proj."),
    ("attn_k.", "self_attn.k_proj."),
    ("attn_v.", "self_attn.v_proj."),
    ("attn_output.", "self_attn.o_proj."),
    ("attn_q_norm.", "self_attn.q_norm."),
    ("attn_k_norm.", "self_attn.k_norm."),
    ("ffn_gate.", "mlp.gate_proj."),
    ("ffn_up.", "mlp.up_proj."),
    ("ffn_down.", "mlp.down_proj."),
];

/// The same, of the scales in the layers of the codec.
const SCALES: [(&str, &str); 2] =
    [("attn_scale", "self_attn_layer_scale.scale"), ("ffn_scale", "mlp_layer_scale.scale")];

fn add_layers(rows: &mut Rows, count: usize, table: &[(&str, &str)], file: &str, module: &str) {
    for layer in 0..count {
        for (from, to) in table {
            add(rows, format!("{file}.{layer}.{from}"), format!("{module}.{layer}.{to}"));
        }
    }
}

fn names(noun: &'static str, published: Rows, ones: Vec<String>) -> TensorNames {
    TensorNames { ones, ..TensorNames::of(noun, published) }
}

/// Talker and code predictor.
pub(crate) fn talker(config: &Config) -> TensorNames {
    let config = &config.talker_config;
    let predictor = &config.code_predictor_config;
    let mut rows = Rows::new();
    for (file, module) in [
        ("talker.codec_embd.", "model.codec_embedding."),
        ("talker.text_embd.", "model.text_embedding."),
        ("talker.output_norm.", "model.norm."),
        ("talker.codec_head.", "codec_head."),
        ("talker.text_proj.fc1.", "text_projection.linear_fc1."),
        ("talker.text_proj.fc2.", "text_projection.linear_fc2."),
        ("code_pred.output_norm.", "code_predictor.model.norm."),
        ("code_pred.mtp_proj.", "code_predictor.small_to_mtp_projection."),
    ] {
        add(&mut rows, file, module);
    }
    let layers = config.layers.num_hidden_layers;
    add_layers(&mut rows, layers, &OF_LAYER, "talker.blk", "model.layers");
    let (layers, module) = (predictor.layers.num_hidden_layers, "code_predictor.model.layers");
    add_layers(&mut rows, layers, &OF_LAYER, "code_pred.blk", module);
    for (file, module) in [
        ("code_pred.codec_embd", "code_predictor.model.codec_embedding"),
        ("code_pred.lm_head", "code_predictor.lm_head"),
    ] {
        add_layers(&mut rows, config.num_code_groups - 1, &[("", "")], file, module);
    }
    names("talker", rows, Vec::new())
}

pub(crate) fn speaker_encoder(config: &SpeakerEncoderConfig) -> TensorNames {
    let mut rows = Rows::new();
    for (file, module) in [
        ("spk_enc.conv0.", "tdnn.conv."),
        ("spk_enc.mfa.", "mfa.conv."),
        ("spk_enc.asp.tdnn.", "asp.tdnn.conv."),
        ("spk_enc.asp.conv.", "asp.conv."),
        ("spk_enc.fc.", "fc."),
    ] {
        add(&mut rows, file, module);
    }
    for block in 0..3 {
        let (file, module) = (format!("spk_enc.blk.{}.", block + 1), format!("blocks.{block}."));
        for (from, to) in [
            ("tdnn1.", "tdnn1.conv."),
            ("tdnn2.", "tdnn2.conv."),
            ("se.conv1.", "se_block.0."),
            ("se.conv2.", "se_block.1."),
        ] {
            add(&mut rows, format!("{file}{from}"), format!("{module}{to}"));
        }
        for branch in 0..config.enc_res2net_scale - 1 {
            let module = format!("{module}res2net_block.{branch}.conv.");
            add(&mut rows, format!("{file}res2net.{branch}."), module);
        }
    }
    names("speaker encoder", rows, Vec::new())
}

pub(crate) fn codec_decoder(config: &codec::DecoderConfig) -> TensorNames {
    let (mut rows, mut ones) = (Rows::new(), Vec::new());
    add(&mut rows, "tok_dec.pre_conv.", "pre_conv.");
    for own in ["input_proj.", "output_proj.", "norm."] {
        add(&mut rows, format!("tok_dec.pre_tfm.{own}"), format!("pre_transformer.{own}"));
    }
    let (layers, module) = (config.num_hidden_layers, "pre_transformer.layers");
    for table in [&OF_LAYER[..], &SCALES] {
        add_layers(&mut rows, layers, table, "tok_dec.pre_tfm.blk", module);
    }
    for (kind, count) in [("first", 1), ("rest", config.num_quantizers - 1)] {
        let (file, module) = (format!("tok_dec.vq_{kind}."), format!("quantizer.rvq_{kind}."));
        add(&mut rows, format!("{file}output_proj."), format!("{module}output_proj."));
        for layer in 0..count {
            let module = format!("{module}layers.{layer}.");
            add(&mut rows, format!("{file}{layer}.codebook"), format!("{module}embed_sum"));
            ones.push(format!("{module}cluster_usage"));
        }
    }
    for stage in 0..config.upsampling_ratios.len() {
        let (file, module) = (format!("tok_dec.upsample.{stage}."), format!("upsample.{stage}."));
        add(&mut rows, format!("{file}conv."), format!("{module}conv."));
        for own in ["dwconv.", "norm.", "pwconv1.", "pwconv2.", "gamma"] {
            add(&mut rows, format!("{file}{own}"), format!("{module}convnext.{own}"));
        }
    }
    add(&mut rows, "tok_dec.dec.0.conv.", "conv_in.");
    let stages = config.upsample_rates.len();
    for stage in 0..stages {
        let (file, module) = (format!("tok_dec.dec.{}.", stage + 1), format!("blocks.{stage}."));
        add(&mut rows, format!("{file}snake."), format!("{module}snake."));
        add(&mut rows, format!("{file}conv_t."), format!("{module}conv."));
        for unit in 0..3 {
            add(&mut rows, format!("{file}res.{unit}."), format!("{module}units.{unit}."));
        }
    }
    add(&mut rows, format!("tok_dec.dec.{}.snake.", stages + 1), "snake_out.");
    add(&mut rows, format!("tok_dec.dec.{}.conv.", stages + 2), "conv_out.");
    names("codec decoder", rows, ones)
}

pub(crate) fn codec_encoder(config: &mimi::Config, codebooks: usize) -> TensorNames {
    let (mut rows, mut ones) = (Rows::new(), Vec::new());
    add(&mut rows, "tok_enc.conv.0.", "encoder.conv_in.");
    let stages = config.upsampling_ratios.len();
    for stage in 0..stages {
        let (first, module) = (3 * stage + 1, format!("encoder.stages.{stage}."));
        add(&mut rows, format!("tok_enc.res.{first}.blk.1."), format!("{module}unit.0."));
        add(&mut rows, format!("tok_enc.res.{first}.blk.3."), format!("{module}unit.1."));
        add(&mut rows, format!("tok_enc.conv.{}.", first + 2), format!("{module}conv."));
    }
    add(&mut rows, format!("tok_enc.conv.{}.", 3 * stages + 2), "encoder.conv_out.");
    for table in [&OF_LAYER[..], &SCALES] {
        let module = "encoder_transformer";
        add_layers(&mut rows, config.num_hidden_layers, table, "tok_enc.blk", module);
    }
    add(&mut rows, "tok_enc.downsample.", "downsample.");
    let semantic = config.num_semantic_quantizers;
    for (kind, count) in [("semantic", semantic), ("acoustic", codebooks - semantic)] {
        let file = format!("tok_enc.vq_{kind}.");
        let module = format!("quantizer.{kind}_residual_vector_quantizer.");
        add(&mut rows, format!("{file}input_proj."), format!("{module}input_proj."));
        for layer in 0..count {
            let module = format!("{module}layers.{layer}.");
            add(&mut rows, format!("{file}{layer}.codebook"), format!("{module}embed_sum"));
            ones.push(format!("{module}cluster_usage"));
        }
    }
    names("codec encoder", rows, ones)
}

/// The tensors of the codec's file that no network here reads: projections of the other direction.
pub(crate) const UNUSED_OF_CODEC: [&str; 2] =
    ["tok_enc.vq_semantic.output_proj.weight", "tok_enc.vq_acoustic.output_proj.weight"];
