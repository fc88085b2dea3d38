//! The two GGUF files of a speech model, in the format of qwentts.cpp.

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::Value;

use super::{
    Stack, Stored, Weights, gguf, read, save, text, value_bool, value_float, value_number,
    value_numbers, value_text, value_texts, write, write_gguf,
};

/// Returns the folder of the tiny speech checkpoints in the released layout.
fn goldens() -> std::path::PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/goldens/checkpoints_qwen3_tts"))
        .to_owned()
}

/// Directory of the tiny codec.
const CODEC: &str = "Qwen3-TTS-Tokenizer-12Hz";

/// A value of a GGUF header: its key, and its type and content.
pub type GgufValue = (String, Vec<u8>);

/// Writes the tiny talker `kind`, `Base` or `CustomVoice`, as `qwen-talker-0.6b-KIND-TYPE.gguf`.
pub fn write_qwentts_talker(to: &Path, kind: &str, weights: Weights) {
    let (values, tensors) = qwentts_talker(kind);
    let file = format!("qwen-talker-0.6b-{}-{}.gguf", kind.to_lowercase(), weights.name());
    write_qwentts(&to.join(file), &values, &tensors, weights);
}

/// Writes the tiny codec as `qwen-tokenizer-12hz-TYPE.gguf`.
pub fn write_qwentts_codec(to: &Path, weights: Weights) {
    let (values, tensors) = qwentts_codec();
    let file = format!("qwen-tokenizer-12hz-{}.gguf", weights.name());
    write_qwentts(&to.join(file), &values, &tensors, weights);
}

/// Writes one file, with the types that qwentts.cpp's quantiser picks.
pub fn write_qwentts(path: &Path, values: &[GgufValue], tensors: &Stack, weights: Weights) {
    let values: Vec<_> = values.iter().map(|(key, value)| (key.as_str(), value.clone())).collect();
    write_gguf(path, &values, tensors, |name, stored| picked(name, stored, weights));
}

/// Writes a released directory whose values are those of [`write_qwentts_talker`] and
/// [`write_qwentts_codec`], in f32.
pub fn write_rounded_release(to: &Path, kind: &str, weights: Weights) {
    let directory = goldens().join(format!("Qwen3-TTS-12Hz-0.6B-{kind}"));
    for (from, to) in
        [(directory, to.to_owned()), (goldens().join(CODEC), to.join("speech_tokenizer"))]
    {
        for file in fs::read_dir(&from).expect("a golden") {
            let file = file.expect("a file").path();
            let name = file.file_name().expect("a name");
            if name != "model.safetensors" {
                save(&to.join(name), &fs::read(&file).expect("a golden"));
            }
        }
        let rounded = |(name, stored): (String, Stored)| {
            let kept = Stored { shape: stored.shape.clone(), values: stored.values.clone() };
            let stored = match renamed(&name) {
                Some(own) => gguf::rounded(&stored, picked(&own, &stored, weights)),
                None => kept,
            };
            (name, stored)
        };
        let tensors = read(&from.join("model.safetensors")).into_iter().map(rounded).collect();
        write(&to.join("model.safetensors"), &tensors);
    }
}

/// Returns the type of a tensor in a file of `weights`.
fn picked(name: &str, stored: &Stored, weights: Weights) -> Weights {
    let is_kept =
        ["vq_", ".alpha", ".beta", "spk_enc.fc.weight"].iter().any(|own| name.contains(own));
    let dimensions = stored.shape.iter().skip_while(|&&size| size == 1).count();
    if is_kept || dimensions < 2 {
        return Weights::F32;
    }
    match (weights, stored.shape.last()) {
        (Weights::Q8_0, Some(row)) if row % 32 != 0 => Weights::F16,
        _ => weights,
    }
}

/// Returns the values and the tensors of the tiny talker `kind`.
pub fn qwentts_talker(kind: &str) -> (Vec<GgufValue>, Stack) {
    let from = goldens().join(format!("Qwen3-TTS-12Hz-0.6B-{kind}"));
    let json =
        |file: &str| -> Value { serde_json::from_str(&text(&from.join(file))).expect("JSON") };
    let (config, generation) = (json("config.json"), json("generation_config.json"));
    let (talker, mut values) = (&config["talker_config"], Values(Vec::new()));
    let named = config["tts_model_type"].as_str().expect("a type");
    values.text("general.architecture", "qwen3-tts");
    values.text("general.name", &format!("Qwen3-TTS-12Hz-0.6B-{named}"));
    for (key, own) in [
        ("tokenizer_type", "tokenizer_type"),
        ("model_size", "tts_model_size"),
        ("model_type", "tts_model_type"),
    ] {
        values.text(&format!("qwen3-tts.{key}"), config[own].as_str().expect("a text"));
    }
    values.number("qwen3-tts.num_code_groups", &talker["num_code_groups"]);
    for (part, own) in [("talker", talker), ("code_pred", &talker["code_predictor_config"])] {
        for (key, own_key) in [
            ("embedding_length", "hidden_size"),
            ("feed_forward_length", "intermediate_size"),
            ("block_count", "num_hidden_layers"),
            ("attention.head_count", "num_attention_heads"),
            ("attention.head_count_kv", "num_key_value_heads"),
            ("attention.key_length", "head_dim"),
            ("vocab_size", "vocab_size"),
            ("context_length", "max_position_embeddings"),
        ] {
            values.number(&format!("qwen3-tts.{part}.{key}"), &own[own_key]);
        }
        values.float(&format!("qwen3-tts.{part}.rope.freq_base"), &own["rope_theta"]);
        let key = format!("qwen3-tts.{part}.attention.layer_norm_rms_epsilon");
        values.float(&key, &own["rms_norm_eps"]);
    }
    for key in ["text_vocab_size", "text_hidden_size", "position_id_per_seconds"] {
        values.number(&format!("qwen3-tts.talker.{key}"), &talker[key]);
    }
    values.numbers("qwen3-tts.talker.rope.mrope_section", &talker["rope_scaling"]["mrope_section"]);
    values.0.push(("qwen3-tts.talker.mrope_interleaved".into(), value_bool(true)));
    if let Some(encoder) = config.get("speaker_encoder_config") {
        values.number("qwen3-tts.spk_enc.embedding_length", &encoder["enc_dim"]);
        values.number("qwen3-tts.spk_enc.sample_rate", &encoder["sample_rate"]);
    }
    for key in ["pad", "bos", "think", "nothink", "think_bos", "think_eos"] {
        values.number(&format!("qwen3-tts.codec.{key}_id"), &talker[format!("codec_{key}_id")]);
    }
    values.number("qwen3-tts.codec.eos_id", &talker["codec_eos_token_id"]);
    values.table("qwen3-tts.codec.language", &talker["codec_language_id"]);
    let speakers = talker["spk_id"].as_object().expect("a map");
    if !speakers.is_empty() {
        values.table("qwen3-tts.codec.speaker", &talker["spk_id"]);
        let dialect = |name: &String| talker["spk_is_dialect"][name].as_str().unwrap_or_default();
        let dialects: Vec<String> = speakers.keys().map(|name| dialect(name).to_owned()).collect();
        values.0.push(("qwen3-tts.codec.speaker_dialects".into(), value_texts(&dialects)));
    }
    for key in ["im_start", "im_end", "tts_pad", "tts_bos", "tts_eos"] {
        values.number(&format!("qwen3-tts.text.{key}_id"), &config[format!("{key}_token_id")]);
    }
    for (key, value) in generation.as_object().expect("a map") {
        let key = format!("generation.{}", key.replace("dosample", "do_sample"));
        match value {
            Value::Bool(is_on) => values.0.push((key, value_bool(*is_on))),
            Value::Number(number) if number.is_u64() => values.number(&key, value),
            _ => values.float(&key, value),
        }
    }
    values.tokenizer(&from);
    (values.0, renamed_all(read(&from.join("model.safetensors"))))
}

/// Returns the values and the tensors of the tiny codec.
pub fn qwentts_codec() -> (Vec<GgufValue>, Stack) {
    let from = goldens().join(CODEC);
    let config: Value = serde_json::from_str(&text(&from.join("config.json"))).expect("JSON");
    let mut values = Values(Vec::new());
    values.text("general.architecture", "qwen3-tts-tokenizer");
    values.text("general.name", CODEC);
    for key in [
        "input_sample_rate",
        "output_sample_rate",
        "decode_upsample_rate",
        "encode_downsample_rate",
        "encoder_valid_num_quantizers",
    ] {
        values.number(&format!("qwen3-tts-tokenizer.{key}"), &config[key]);
    }
    let width = "vector_quantization_hidden_dimension";
    for part in ["decoder", "encoder"] {
        let own = config[format!("{part}_config")].as_object().expect("a map");
        // The converter lists the keys; these are the ones of them that are read, and one more.
        for (key, value) in own {
            let to = format!("qwen3-tts-tokenizer.{part}.{key}");
            match (key.as_str(), value) {
                (key, value) if key == width => {
                    values.number(&to.replace(width, "vector_quantization_hidden_dim"), value);
                }
                ("rope_theta" | "rms_norm_eps" | "norm_eps" | "layer_scale_initial_scale", _) => {
                    values.float(&to, value);
                }
                ("audio_channels" | "sampling_rate" | "max_position_embeddings", _) => (),
                (_, Value::Number(number)) if number.is_u64() => values.number(&to, value),
                (_, Value::Array(_)) => values.numbers(&to, value),
                _ => (),
            }
        }
    }
    let kept = config["encoder_valid_num_quantizers"].as_u64().expect("a number") - 1;
    let tensors = read(&from.join("model.safetensors"));
    let is_kept = |name: &str| {
        let rest =
            name.strip_prefix("encoder.quantizer.acoustic_residual_vector_quantizer.layers.");
        rest.is_none_or(|rest| {
            rest.split('.').next().expect("one").parse::<u64>().expect("a layer") < kept
        })
    };
    let tensors = tensors.into_iter().filter(|(name, _)| is_kept(name)).collect();
    (values.0, renamed_all(divided(tensors)))
}

/// Divides the sums of each codebook by the numbers of training vectors.
fn divided(mut tensors: Stack) -> Stack {
    let names: Vec<String> = tensors.keys().cloned().collect();
    for stem in names.iter().filter_map(|name| name.strip_suffix("cluster_usage")) {
        let usage = tensors.remove(&format!("{stem}cluster_usage")).expect("one").values;
        let sums = ["embedding_sum", "embed_sum"].map(|own| format!("{stem}{own}"));
        let sums = sums.iter().find(|name| names.contains(name)).expect("sums");
        let codebook = tensors.get_mut(sums).expect("sums");
        let width = codebook.shape[1];
        for (row, usage) in codebook.values.chunks_exact_mut(width).zip(usage) {
            row.iter_mut().for_each(|value| *value /= usage.max(1e-5));
        }
    }
    tensors
}

fn renamed_all(tensors: Stack) -> Stack {
    let name = |(name, stored): (String, Stored)| Some((renamed(&name)?, stored));
    tensors.into_iter().filter_map(name).collect()
}

/// Returns the file's name of a released tensor; `None` if the file does not have it.
fn renamed(name: &str) -> Option<String> {
    if name.ends_with("initialized") || name.ends_with("cluster_usage") {
        return None;
    }
    if name.starts_with("decoder.quantizer") && name.contains("input_proj") {
        return None;
    }
    let mut name = name.to_owned();
    // The codec's chain of stages first: their numbers decide.
    let stage = name.strip_prefix("decoder.decoder.").and_then(|rest| rest.split_once('.'));
    if let Some((stage, rest)) = stage.map(|(stage, rest)| (stage.to_owned(), rest.to_owned())) {
        let rest = match rest.strip_prefix("block.").and_then(|rest| rest.split_once('.')) {
            Some(("0", rest)) => format!("snake.{rest}"),
            Some(("1", rest)) => rest.replace("conv.", "conv_t."),
            Some((unit, rest)) => {
                let unit = unit.parse::<usize>().expect("a unit") - 2;
                format!("res.{unit}.{}", rest.replace(".conv.", "."))
            }
            None if stage == "5" => format!("snake.{rest}"),
            None => rest,
        };
        return Some(format!("tok_dec.dec.{stage}.{rest}"));
    }
    if let Some(rest) = name.strip_prefix("encoder.encoder.layers.") {
        let (layer, rest) = rest.split_once('.').expect("a layer");
        return Some(match rest.strip_prefix("block.") {
            Some(rest) => format!("tok_enc.res.{layer}.blk.{}", rest.replace(".conv.", ".")),
            None => format!("tok_enc.conv.{layer}.{}", rest.replace("conv.", "")),
        });
    }
    for (own, other) in [
        ("talker.code_predictor.model.layers.", "code_pred.blk."),
        ("talker.code_predictor.model.codec_embedding.", "code_pred.codec_embd."),
        ("talker.code_predictor.model.norm.", "code_pred.output_norm."),
        ("talker.code_predictor.small_to_mtp_projection.", "code_pred.mtp_proj."),
        ("talker.code_predictor.lm_head.", "code_pred.lm_head."),
        ("talker.model.layers.", "talker.blk."),
        ("talker.model.codec_embedding.", "talker.codec_embd."),
        ("talker.model.text_embedding.", "talker.text_embd."),
        ("talker.model.norm.", "talker.output_norm."),
        ("talker.text_projection.linear_", "talker.text_proj."),
        ("speaker_encoder.blocks.0.conv.", "spk_enc.conv0."),
        ("speaker_encoder.blocks.", "spk_enc.blk."),
        ("speaker_encoder.asp.tdnn.conv.", "spk_enc.asp.tdnn."),
        ("speaker_encoder.mfa.conv.", "spk_enc.mfa."),
        ("speaker_encoder.", "spk_enc."),
        ("decoder.pre_conv.conv.", "tok_dec.pre_conv."),
        ("decoder.pre_transformer.layers.", "tok_dec.pre_tfm.blk."),
        ("decoder.pre_transformer.", "tok_dec.pre_tfm."),
        (
            "decoder.quantizer.rvq_first.vq.layers.0._codebook.embedding_sum",
            "tok_dec.vq_first.0.codebook",
        ),
        ("decoder.quantizer.rvq_rest.vq.layers.", "tok_dec.vq_rest."),
        ("decoder.quantizer.rvq_", "tok_dec.vq_"),
        ("decoder.upsample.", "tok_dec.upsample."),
        ("encoder.encoder_transformer.layers.", "tok_enc.blk."),
        ("encoder.downsample.conv.", "tok_enc.downsample."),
        ("encoder.quantizer.semantic_residual_vector_quantizer.", "tok_enc.vq_semantic."),
        ("encoder.quantizer.acoustic_residual_vector_quantizer.", "tok_enc.vq_acoustic."),
    ] {
        if let Some(rest) = name.strip_prefix(own) {
            name = format!("{other}{rest}");
            break;
        }
    }
    for (own, other) in [
        ("self_attn_layer_scale.scale", "attn_scale"),
        ("mlp_layer_scale.scale", "ffn_scale"),
        ("self_attn.q_norm", "attn_q_norm"),
        ("self_attn.k_norm", "attn_k_norm"),
        ("self_attn.q_proj", "attn_q"),
        ("self_attn.k_proj", "attn_k"),
        ("self_attn.v_proj", "attn_v"),
        ("self_attn.o_proj", "attn_output"),
        ("input_layernorm", "attn_norm"),
        ("post_attention_layernorm", "ffn_norm"),
        ("mlp.gate_proj", "ffn_gate"),
        ("mlp.up_proj", "ffn_up"),
        ("mlp.down_proj", "ffn_down"),
        ("mlp.fc1", "ffn_up"),
        ("mlp.fc2", "ffn_down"),
        ("res2net_block.blocks.", "res2net."),
        ("se_block.", "se."),
        ("tdnn1.conv.", "tdnn1."),
        ("tdnn2.conv.", "tdnn2."),
        ("._codebook.embedding_sum", ".codebook"),
        (".codebook.embed_sum", ".codebook"),
        ("dwconv.conv.", "dwconv."),
    ] {
        name = name.replace(own, other);
    }
    if name.contains(".res2net.") {
        name = name.replace(".conv.", ".");
    }
    if name.starts_with("tok_enc.vq_") {
        name = name.replace(".layers.", ".");
    }
    if name.starts_with("tok_dec.upsample.") {
        name = name.replacen(".0.conv.", ".conv.", 1).replacen(".1.dwconv", ".dwconv", 1);
        for own in ["norm", "pwconv1", "pwconv2", "gamma"] {
            name = name.replace(&format!(".1.{own}"), &format!(".{own}"));
        }
    }
    Some(name)
}

/// The values of a header.
struct Values(Vec<GgufValue>);

impl Values {
    fn text(&mut self, key: &str, value: &str) {
        self.0.push((key.into(), value_text(value)));
    }

    fn number(&mut self, key: &str, value: &Value) {
        let number = value.as_u64().unwrap_or_else(|| panic!("{key} is {value}"));
        self.0.push((key.into(), value_number(number as u32)));
    }

    fn float(&mut self, key: &str, value: &Value) {
        let number = value.as_f64().unwrap_or_else(|| panic!("{key} is {value}"));
        self.0.push((key.into(), value_float(number as f32)));
    }

    fn numbers(&mut self, key: &str, value: &Value) {
        let numbers = value.as_array().expect("a list").iter();
        let numbers: Vec<i32> = numbers.map(|n| n.as_i64().expect("a number") as i32).collect();
        self.0.push((key.into(), value_numbers(&numbers)));
    }

    /// Adds the names and the ids of a map.
    fn table(&mut self, stem: &str, value: &Value) {
        let map = value.as_object().expect("a map");
        let names: Vec<String> = map.keys().cloned().collect();
        self.0.push((format!("{stem}_names"), value_texts(&names)));
        self.numbers(&format!("{stem}_ids"), &map.values().cloned().collect());
    }

    /// Adds the base vocabulary, the added tokens and the merges; `#` begins a comment.
    fn tokenizer(&mut self, from: &Path) {
        let ids: BTreeMap<String, usize> =
            serde_json::from_str(&text(&from.join("vocab.json"))).expect("a vocabulary");
        let config: Value =
            serde_json::from_str(&text(&from.join("tokenizer_config.json"))).expect("JSON");
        let added = config["added_tokens_decoder"].as_object().expect("a map");
        let mut tokens: BTreeMap<usize, (String, i32)> =
            ids.into_iter().map(|(token, id)| (id, (token, 1))).collect();
        for (id, token) in added {
            let content = token["content"].as_str().expect("a text").to_owned();
            tokens.insert(id.parse().expect("an id"), (content, 4));
        }
        let (tokens, types): (Vec<String>, Vec<i32>) = tokens.into_values().unzip();
        let merges = text(&from.join("merges.txt"));
        let merges = merges.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let merges: Vec<String> = merges.map(str::to_owned).collect();
        self.text("tokenizer.ggml.model", "gpt2");
        self.0.push(("tokenizer.ggml.tokens".into(), value_texts(&tokens)));
        self.0.push(("tokenizer.ggml.token_type".into(), value_numbers(&types)));
        self.0.push(("tokenizer.ggml.merges".into(), value_texts(&merges)));
        self.0.push(("tokenizer.ggml.eos_token_id".into(), value_number(151_643)));
    }
}
