//! The part of config.json that follows from the sizes of a network's tensors, and the values that
//! are the same in every release of ACE-Step 1.5, for files without config.json.
//!
//! Source: the released `config.json` files; ComfyUI, which reads the same sizes
//! (`comfy/model_detection.py`) and has the same constants (`comfy/ldm/ace/ace_step15.py`,
//! `comfy/text_encoders/llama.py`).

use serde_json::{Map, Value, json};

use crate::{Error, Tensors, families::acestep::Kind};

/// Levels of the released codebook; a tensor only shows the number of its dimensions.
pub(super) const LEVELS: [u32; 6] = [8, 8, 8, 5, 5, 5];
/// Base of the rotary embedding in all networks.
const ROPE_THETA: u32 = 1_000_000;
const EPSILON: f64 = 1e-6;
/// Number of levels of a code. It is no key of config.json, which lists the levels.
const DIMENSIONS: &str = "dimensions of a code";
/// Sizes that the encoders of XL models have separately, under `encoder_`.
const WIDTHS: [&str; 4] =
    ["hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads"];

/// Access to the sizes of `tensors`, with an error for a missing tensor or a wrong rank.
struct Sizes<'a>(&'a Tensors);

impl Sizes<'_> {
    /// Returns size `at` of tensor `name`, which must have rank `rank`.
    fn of(&self, name: &str, at: usize, rank: usize) -> Result<usize, Error> {
        let shape = self.0.shape(name)?;
        if shape.len() == rank {
            return Ok(shape[at]);
        }
        Err(self.strange(format!("tensor `{name}` is {shape:?}, which has not {rank} sizes")))
    }

    /// Returns the number of layers in the stack with the name prefix `prefix`.
    fn layers(&self, prefix: &str) -> usize {
        let indices = self
            .0
            .names()
            .filter_map(|name| name.strip_prefix(prefix)?.split('.').next()?.parse::<usize>().ok());
        indices.max().map_or(0, |last| last.saturating_add(1))
    }

    /// Returns query heads, key heads and head width of the attention `prefix`.
    fn heads(&self, prefix: &str) -> Result<[usize; 3], Error> {
        let width = self.of(&format!("{prefix}.q_norm.weight"), 0, 1)?.max(1);
        let rows = |name: &str| self.of(&format!("{prefix}.{name}.weight"), 0, 2);
        Ok([rows("q_proj")? / width, rows("k_proj")? / width, width])
    }

    fn strange(&self, reason: String) -> Error {
        Error::BadHeader { path: self.0.path().to_owned(), reason }
    }
}

/// Returns the keys of config.json that follow from the sizes of `tensors`, a network of `kind`.
pub(super) fn implied(kind: Kind, tensors: &Tensors) -> Result<Map<String, Value>, Error> {
    let sizes = Sizes(tensors);
    let implied = match kind {
        Kind::Dit => dit(&sizes)?,
        Kind::Vae => vae(&sizes)?,
        Kind::TextEncoder | Kind::LanguageModel => qwen3(&sizes)?,
    };
    Ok(implied.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

/// Returns the config.json for `tensors`, from the keys of [`implied`].
pub(super) fn config(
    kind: Kind,
    tensors: &Tensors,
    mut config: Map<String, Value>,
) -> Result<String, Error> {
    let constants = match kind {
        Kind::Dit => {
            let dimensions = config.remove(DIMENSIONS).and_then(|value| value.as_u64());
            if dimensions != Some(LEVELS.len() as u64) {
                return Err(Sizes(tensors).strange(format!(
                    "its codebook has {} dimensions instead of {}, and no config.json beside it \
                     says their levels",
                    dimensions.unwrap_or_default(),
                    LEVELS.len()
                )));
            }
            let is_own = |key: &str| config.get(&format!("encoder_{key}")) != config.get(key);
            if !WIDTHS.into_iter().any(is_own) {
                config.retain(|key, _| !key.starts_with("encoder_"));
            }
            json!({
                "model_type": "acestep",
                "rms_norm_eps": EPSILON,
                "rope_theta": ROPE_THETA,
                "use_sliding_window": true,
                "sliding_window": 128,
                "fsq_input_levels": LEVELS,
                "fsq_input_num_quantizers": 1,
                "timbre_fix_frame": 750,
            })
        }
        Kind::Vae => json!({ "_class_name": "AutoencoderOobleck", "sampling_rate": 48_000 }),
        Kind::TextEncoder | Kind::LanguageModel => json!({
            "model_type": "qwen3",
            "rope_theta": ROPE_THETA,
            "rms_norm_eps": EPSILON,
            "tie_word_embeddings": !tensors.has("lm_head.weight"),
        }),
    };
    if let Value::Object(constants) = constants {
        config.extend(constants);
    }
    Ok(Value::Object(config).to_string())
}

/// Returns the first difference between config.json and the values `implied` by the tensors: key, its
/// value there, the tensors' value. A missing key is no difference.
pub(super) fn difference(
    implied: &Map<String, Value>,
    config: &Map<String, Value>,
) -> Option<(String, Value, Value)> {
    let says = |key: &str| config.get(key).filter(|value| !value.is_null());
    implied.iter().find_map(|(key, own)| {
        let value = match key.as_str() {
            DIMENSIONS => says("fsq_input_levels")?.as_array()?.len().into(),
            // Encoders without a separate width have the transformer's.
            _ => says(key).or_else(|| says(key.strip_prefix("encoder_")?))?.clone(),
        };
        let key = if key == DIMENSIONS { "fsq_input_levels" } else { key };
        (value != *own).then(|| (key.to_owned(), value, own.clone()))
    })
}

/// Returns the number of tokens in the embedding table of a Qwen3.
pub(super) fn rows(tensors: &Tensors) -> Result<usize, Error> {
    Sizes(tensors).of(&table(tensors), 0, 2)
}

/// Returns the name of a Qwen3's embedding table, with or without `model.`.
fn table(tensors: &Tensors) -> String {
    let bare = "embed_tokens.weight";
    if tensors.has(bare) { bare.to_owned() } else { format!("model.{bare}") }
}

/// Keys and their values from the sizes.
type Implied = Vec<(&'static str, Value)>;

fn dit(sizes: &Sizes<'_>) -> Result<Implied, Error> {
    let [heads, kv_heads, head_dim] = sizes.heads("decoder.layers.0.self_attn")?;
    let lyrics = "encoder.lyric_encoder.layers.0";
    let [encoder_heads, encoder_kv_heads, _] = sizes.heads(&format!("{lyrics}.self_attn"))?;
    let quantizer = "tokenizer.quantizer.project_in.weight";
    let gate = format!("{lyrics}.mlp.gate_proj.weight");
    let projector = "encoder.text_projector.weight";
    let timbre = "encoder.timbre_encoder";
    let input = "decoder.proj_in.1.weight";
    let own = [
        ("hidden_size", sizes.of(input, 0, 3)?),
        ("intermediate_size", sizes.of("decoder.layers.0.mlp.gate_proj.weight", 0, 2)?),
        ("num_hidden_layers", sizes.layers("decoder.layers.")),
        ("num_attention_heads", heads),
        ("num_key_value_heads", kv_heads),
        ("head_dim", head_dim),
        ("encoder_hidden_size", sizes.of(projector, 0, 2)?),
        ("encoder_intermediate_size", sizes.of(&gate, 0, 2)?),
        ("encoder_num_attention_heads", encoder_heads),
        ("encoder_num_key_value_heads", encoder_kv_heads),
        (DIMENSIONS, sizes.of(quantizer, 0, 2)?),
        ("fsq_dim", sizes.of(quantizer, 1, 2)?),
        ("text_hidden_dim", sizes.of(projector, 1, 2)?),
        ("num_lyric_encoder_hidden_layers", sizes.layers("encoder.lyric_encoder.layers.")),
        ("timbre_hidden_dim", sizes.of(&format!("{timbre}.embed_tokens.weight"), 1, 2)?),
        ("num_timbre_encoder_hidden_layers", sizes.layers(&format!("{timbre}.layers."))),
        ("audio_acoustic_hidden_dim", sizes.of("decoder.proj_out.1.weight", 1, 3)?),
        ("pool_window_size", sizes.of("detokenizer.special_tokens", 1, 3)?),
        ("num_attention_pooler_hidden_layers", sizes.layers("tokenizer.attention_pooler.layers.")),
        ("patch_size", sizes.of(input, 2, 3)?),
        ("in_channels", sizes.of(input, 1, 3)?),
    ];
    Ok(own.map(|(key, size)| (key, size.into())).into())
}

/// Reads the VAE's sizes; the tensors have their released names.
fn vae(sizes: &Sizes<'_>) -> Result<Implied, Error> {
    let first = "encoder.conv1.weight_v";
    let width = sizes.of(first, 0, 3)?;
    let stage = |index, at| sizes.of(&format!("encoder.block.{index}.conv1.weight_v"), at, 3);
    let stages = 0..sizes.layers("encoder.block.");
    // A stage that downsamples by n has a filter of 2 n samples.
    let ratios = stages.clone().map(|index| Ok(stage(index, 2)? / 2));
    let multiples = stages.map(|index| Ok(stage(index, 0)? / width.max(1)));
    Ok(vec![
        ("audio_channels", sizes.of(first, 1, 3)?.into()),
        ("encoder_hidden_size", width.into()),
        ("downsampling_ratios", ratios.collect::<Result<Vec<_>, Error>>()?.into()),
        ("channel_multiples", multiples.collect::<Result<Vec<_>, Error>>()?.into()),
        ("decoder_channels", sizes.of("decoder.conv2.weight_v", 1, 3)?.into()),
        ("decoder_input_channels", sizes.of("decoder.conv1.weight_v", 1, 3)?.into()),
    ])
}

/// Reads a Qwen3's sizes (text encoder or language model), with or without `model.`.
fn qwen3(sizes: &Sizes<'_>) -> Result<Implied, Error> {
    let table = table(sizes.0);
    let prefix = table.trim_end_matches("embed_tokens.weight");
    let [heads, kv_heads, head_dim] = sizes.heads(&format!("{prefix}layers.0.self_attn"))?;
    let gate = format!("{prefix}layers.0.mlp.gate_proj.weight");
    let own = [
        ("vocab_size", sizes.of(&table, 0, 2)?),
        ("hidden_size", sizes.of(&table, 1, 2)?),
        ("intermediate_size", sizes.of(&gate, 0, 2)?),
        ("num_hidden_layers", sizes.layers(&format!("{prefix}layers."))),
        ("num_attention_heads", heads),
        ("num_key_value_heads", kv_heads),
        ("head_dim", head_dim),
    ];
    Ok(own.map(|(key, size)| (key, size.into())).into())
}
