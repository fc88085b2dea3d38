//! One config.json, made from the four configs of a pipeline's diffusion model.

use std::path::Path;

use serde_json::{Map, Value, json};

use super::{CODEC, PARTS, json_of, part};
use crate::{Error, foreign::sizes};

/// Returns the released config.json: the transformer's, completed with keys of the other networks.
pub(super) fn of(root: &Path, has_codec: bool) -> Result<String, Error> {
    let of = |name| json_of(&part(root, name)?, "config.json");
    let [mut config, encoder] = [of(PARTS[0].0)?, of(PARTS[1].0)?];
    let [tokenizer, detokenizer] = match has_codec {
        true => [of(CODEC[0])?, of(CODEC[1])?],
        false => [released_codec(&encoder), Map::new()],
    };
    config.retain(|key, _| !key.starts_with('_'));
    // Like the pipeline: either of the two keys marks a turbo model.
    if config.get("model_version").and_then(Value::as_str) == Some("turbo") {
        config.insert("is_turbo".to_owned(), json!(true));
    }
    for (key, from) in [
        ("text_hidden_dim", &encoder),
        ("timbre_hidden_dim", &encoder),
        ("num_lyric_encoder_hidden_layers", &encoder),
        ("num_timbre_encoder_hidden_layers", &encoder),
        ("pool_window_size", &tokenizer),
        ("fsq_dim", &tokenizer),
        ("fsq_input_levels", &tokenizer),
        ("fsq_input_num_quantizers", &tokenizer),
        ("num_attention_pooler_hidden_layers", &tokenizer),
    ] {
        if let Some(value) = from.get(key) {
            config.insert(key.to_owned(), value.clone());
        }
    }
    // All encoders share one set of sizes, and all networks share the other settings.
    let widths = ["hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads"];
    // Only XL models have encoders of their own width; other releases do not have these keys.
    let is_wider = widths.iter().any(|key| encoder.get(*key) != config.get(*key));
    config.remove("encoder_hidden_size");
    for key in widths {
        for (name, other) in [(PARTS[2].0, &tokenizer), (PARTS[3].0, &detokenizer)] {
            agree(root, key, &encoder, (name, other))?;
        }
        if let Some(value) = encoder.get(key).filter(|_| is_wider) {
            config.insert(format!("encoder_{key}"), value.clone());
        }
    }
    let own: Map<_, _> = config.clone();
    for key in ["head_dim", "rope_theta", "rms_norm_eps", "sliding_window"] {
        for (name, other) in [(1, &encoder), (2, &tokenizer), (3, &detokenizer)] {
            agree(root, key, &own, (PARTS[name].0, other))?;
        }
    }
    for (key, value) in [
        ("model_type", json!("acestep")),
        // 30 s at 25 Hz, as in the pipeline.
        ("timbre_fix_frame", json!(750)),
        ("use_sliding_window", json!(true)),
    ] {
        config.insert(key.to_owned(), value);
    }
    Ok(Value::Object(config).to_string())
}

/// Returns the audio codec's config, which is the same in every release, for a pipeline without
/// one.
fn released_codec(encoder: &Map<String, Value>) -> Map<String, Value> {
    let mut config = Map::new();
    for (key, value) in [
        ("pool_window_size", json!(5)),
        ("fsq_dim", encoder.get("hidden_size").cloned().unwrap_or_default()),
        ("fsq_input_levels", json!(sizes::LEVELS)),
        ("fsq_input_num_quantizers", json!(1)),
        ("num_attention_pooler_hidden_layers", json!(2)),
    ] {
        config.insert(key.to_owned(), value);
    }
    config
}

/// Refuses networks that differ in `key`.
fn agree(
    root: &Path,
    key: &str,
    first: &Map<String, Value>,
    (name, other): (&str, &Map<String, Value>),
) -> Result<(), Error> {
    match (first.get(key), other.get(key)) {
        (Some(own), Some(value)) if own != value => Err(Error::Foreign {
            path: root.join(name).join("config.json"),
            reason: format!(
                "its `{key}` is {value}, where another network of the pipeline has {own}"
            ),
            remedy: "take the pipeline as it was released, unchanged".into(),
        }),
        _ => Ok(()),
    }
}
