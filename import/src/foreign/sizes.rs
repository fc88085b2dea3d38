//! A config.json for files that have none: what the sizes of the tensors say, and for the rest the
//! values that are the same in every release of ACE-Step 1.5.
//!
//! Source: the released `config.json` files; ComfyUI, which reads the same sizes
//! (`comfy/model_detection.py`) and has the same constants (`comfy/ldm/ace/ace_step15.py`,
//! `comfy/text_encoders/llama.py`).

use std::path::Path;

use serde_json::{Value, json};

use crate::{Error, Tensors};

/// What the released codebook has, whose dimensions alone a tensor tells.
const LEVELS: [u32; 6] = [8, 8, 8, 5, 5, 5];
/// Base of the rotary angles, everywhere.
const ROPE_THETA: u32 = 1_000_000;
const EPSILON: f64 = 1e-6;

/// The sizes of `tensors`, with the error for one that is not there or not of so many sizes.
struct Sizes<'a>(&'a Tensors);

impl Sizes<'_> {
    /// Size `at` of the `rank` of tensor `name`.
    fn of(&self, name: &str, at: usize, rank: usize) -> Result<usize, Error> {
        let shape = self.0.shape(name)?;
        if shape.len() == rank {
            return Ok(shape[at]);
        }
        Err(self.strange(format!("tensor `{name}` is {shape:?}, which has not {rank} sizes")))
    }

    /// Layers of the stack whose tensors' names begin with `prefix`.
    fn layers(&self, prefix: &str) -> usize {
        let indices = self
            .0
            .names()
            .filter_map(|name| name.strip_prefix(prefix)?.split('.').next()?.parse::<usize>().ok());
        indices.max().map_or(0, |last| last.saturating_add(1))
    }

    /// Query heads, key heads and width of a head of attention `prefix`.
    fn heads(&self, prefix: &str) -> Result<[usize; 3], Error> {
        let width = self.of(&format!("{prefix}.q_norm.weight"), 0, 1)?.max(1);
        let rows = |name: &str| self.of(&format!("{prefix}.{name}.weight"), 0, 2);
        Ok([rows("q_proj")? / width, rows("k_proj")? / width, width])
    }

    fn strange(&self, reason: String) -> Error {
        Error::BadHeader { path: self.0.path().to_owned(), reason }
    }
}

/// For the tensors of a diffusion model.
///
/// # Errors
/// If one that tells a size is missing or of another rank; if the codebook is not the released one.
pub(super) fn dit(tensors: &Tensors) -> Result<String, Error> {
    let sizes = Sizes(tensors);
    let [heads, kv_heads, head_dim] = sizes.heads("decoder.layers.0.self_attn")?;
    let lyrics = "encoder.lyric_encoder.layers.0";
    let [encoder_heads, encoder_kv_heads, _] = sizes.heads(&format!("{lyrics}.self_attn"))?;
    let quantizer = "tokenizer.quantizer.project_in.weight";
    let dimensions = sizes.of(quantizer, 0, 2)?;
    if dimensions != LEVELS.len() {
        return Err(sizes.strange(format!(
            "its codebook has {dimensions} dimensions instead of {}, and no config.json beside it \
             says their levels",
            LEVELS.len()
        )));
    }
    let hidden = sizes.of("decoder.proj_in.1.weight", 0, 3)?;
    let intermediate = sizes.of("decoder.layers.0.mlp.gate_proj.weight", 0, 2)?;
    let encoder_hidden = sizes.of("encoder.text_projector.weight", 0, 2)?;
    let latent = sizes.of("decoder.proj_out.1.weight", 1, 3)?;
    let mut config = json!({
        "model_type": "acestep",
        "hidden_size": hidden,
        "intermediate_size": intermediate,
        "num_hidden_layers": sizes.layers("decoder.layers."),
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "rms_norm_eps": EPSILON,
        "rope_theta": ROPE_THETA,
        "use_sliding_window": true,
        "sliding_window": 128,
        "fsq_dim": sizes.of(quantizer, 1, 2)?,
        "fsq_input_levels": LEVELS,
        "fsq_input_num_quantizers": 1,
        "text_hidden_dim": sizes.of("encoder.text_projector.weight", 1, 2)?,
        "num_lyric_encoder_hidden_layers": sizes.layers("encoder.lyric_encoder.layers."),
        "timbre_hidden_dim": sizes.of("encoder.timbre_encoder.embed_tokens.weight", 1, 2)?,
        "num_timbre_encoder_hidden_layers": sizes.layers("encoder.timbre_encoder.layers."),
        "timbre_fix_frame": 750,
        "audio_acoustic_hidden_dim": latent,
        "pool_window_size": sizes.of("detokenizer.special_tokens", 1, 3)?,
        "num_attention_pooler_hidden_layers": sizes.layers("tokenizer.attention_pooler.layers."),
        "patch_size": sizes.of("decoder.proj_in.1.weight", 2, 3)?,
        "in_channels": sizes.of("decoder.proj_in.1.weight", 1, 3)?,
    });
    let encoder_intermediate = sizes.of(&format!("{lyrics}.mlp.gate_proj.weight"), 0, 2)?;
    let own = [encoder_hidden, encoder_intermediate, encoder_heads, encoder_kv_heads];
    if own != [hidden, intermediate, heads, kv_heads] {
        config["encoder_hidden_size"] = encoder_hidden.into();
        config["encoder_intermediate_size"] = encoder_intermediate.into();
        config["encoder_num_attention_heads"] = encoder_heads.into();
        config["encoder_num_key_value_heads"] = encoder_kv_heads.into();
    }
    Ok(config.to_string())
}

/// For the tensors of the autoencoder, under their released names.
///
/// # Errors
/// If one that tells a size is missing or of another rank.
pub(super) fn vae(tensors: &Tensors) -> Result<String, Error> {
    let sizes = Sizes(tensors);
    let first = "encoder.conv1.weight_v";
    let width = sizes.of(first, 0, 3)?;
    let stage = |index, at| sizes.of(&format!("encoder.block.{index}.conv1.weight_v"), at, 3);
    let stages = 0..sizes.layers("encoder.block.");
    // A stage that makes its input n times shorter looks at 2 n samples.
    let ratios = stages.clone().map(|index| Ok(stage(index, 2)? / 2));
    let multiples = stages.map(|index| Ok(stage(index, 0)? / width.max(1)));
    Ok(json!({
        "_class_name": "AutoencoderOobleck",
        "audio_channels": sizes.of(first, 1, 3)?,
        "encoder_hidden_size": width,
        "downsampling_ratios": ratios.collect::<Result<Vec<_>, Error>>()?,
        "channel_multiples": multiples.collect::<Result<Vec<_>, Error>>()?,
        "decoder_channels": sizes.of("decoder.conv2.weight_v", 1, 3)?,
        "decoder_input_channels": sizes.of("decoder.conv1.weight_v", 1, 3)?,
        "sampling_rate": 48_000,
    })
    .to_string())
}

/// For the tensors of a Qwen3, with or without `model.`: the text encoder or a language model.
///
/// # Errors
/// If one that tells a size is missing or of another rank.
pub(super) fn qwen3(tensors: &Tensors) -> Result<String, Error> {
    let sizes = Sizes(tensors);
    let prefix = if tensors.has("embed_tokens.weight") { "" } else { "model." };
    let [rows, width] = rows_and_width(tensors)?;
    let [heads, kv_heads, head_dim] = sizes.heads(&format!("{prefix}layers.0.self_attn"))?;
    let gate = format!("{prefix}layers.0.mlp.gate_proj.weight");
    Ok(json!({
        "model_type": "qwen3",
        "vocab_size": rows,
        "hidden_size": width,
        "intermediate_size": sizes.of(&gate, 0, 2)?,
        "num_hidden_layers": sizes.layers(&format!("{prefix}layers.")),
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "rope_theta": ROPE_THETA,
        "rms_norm_eps": EPSILON,
        "tie_word_embeddings": !tensors.has("lm_head.weight"),
    })
    .to_string())
}

/// Rows and width of a Qwen3's embedding table.
fn rows_and_width(tensors: &Tensors) -> Result<[usize; 2], Error> {
    let sizes = Sizes(tensors);
    let bare = "embed_tokens.weight";
    let table = if tensors.has(bare) { bare } else { "model.embed_tokens.weight" };
    Ok([sizes.of(table, 0, 2)?, sizes.of(table, 1, 2)?])
}

/// The config.json beside the file at `path`, if it is that of `tensors`, a Qwen3's or another's as
/// `is_qwen3` says.
pub(super) fn beside(path: &Path, tensors: &Tensors, is_qwen3: bool) -> Option<String> {
    let text = std::fs::read_to_string(path.parent()?.join("config.json")).ok()?;
    let config: Value = serde_json::from_str(&text).ok()?;
    if is_qwen3 {
        let says = |key: &str| config.get(key)?.as_u64();
        let [rows, width] = rows_and_width(tensors).ok()?.map(|size| Some(size as u64));
        return (says("vocab_size") == rows && says("hidden_size") == width).then_some(text);
    }
    Some(text)
}
