//! A pipeline of diffusers: a directory with one for each network, and `model_index.json`.
//!
//! | directory | becomes | renamed |
//! |---|---|---|
//! | `transformer` | `decoder.*` | `proj_in_conv` to `proj_in.1`, `proj_out_conv` to `proj_out.1` |
//! | `condition_encoder` | `encoder.*`, `null_condition_emb`, the latent of silence | |
//! | `audio_tokenizer`, `audio_token_detokenizer` | `tokenizer.*`, `detokenizer.*` | |
//! | `vae` | itself | |
//! | `text_encoder`, `tokenizer` | Qwen3-Embedding-0.6B | |
//!
//! In all attention `to_q`, `to_k`, `to_v`, `to_out.0`, `norm_q` and `norm_k` become `q_proj`,
//! `k_proj`, `v_proj`, `o_proj`, `q_norm` and `k_norm`.
//!
//! Source: diffusers `scripts/convert_ace_step_to_diffusers.py`, whose way back this is, and
//! `pipelines/ace_step/`.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::{Foreign, Format, Silence};
use crate::{Directory, Error, Tensors, kind::Kind, silence};

/// The file that a pipeline is known by.
pub(super) const INDEX: &str = "model_index.json";
const CLASS: &str = "AceStepPipeline";
const SILENCE: &str = "silence_latent";

/// Where the tensors of a diffusion model are, and what their names begin with when released.
const PARTS: [(&str, &str); 4] = [
    ("transformer", "decoder."),
    ("condition_encoder", "encoder."),
    ("audio_tokenizer", "tokenizer."),
    ("audio_token_detokenizer", "detokenizer."),
];

/// (In a released name, in that of diffusers.)
const RENAMED: [(&str, &str); 8] = [
    ("q_proj.", "to_q."),
    ("k_proj.", "to_k."),
    ("v_proj.", "to_v."),
    ("o_proj.", "to_out.0."),
    ("q_norm.", "norm_q."),
    ("k_norm.", "norm_k."),
    ("proj_in.1.", "proj_in_conv."),
    ("proj_out.1.", "proj_out_conv."),
];

/// What a network of a pipeline is.
pub(super) enum Opened {
    /// A directory that is as the released one.
    AsReleased(PathBuf),
    /// One that is not.
    Foreign(Box<Foreign>),
}

/// Opens the network `wanted` of the pipeline at `root`.
///
/// # Errors
/// Names what is missing, cut or of another kind.
pub(super) fn open(root: &Path, wanted: Kind) -> Result<Opened, Error> {
    check_class(root)?;
    match wanted {
        Kind::Vae => part(root, "vae").map(Opened::AsReleased),
        Kind::TextEncoder => text_encoder(root).map(Box::new).map(Opened::Foreign),
        Kind::Dit => dit(root).map(Box::new).map(Opened::Foreign),
        Kind::LanguageModel => Err(Error::WrongDirectory {
            path: root.to_owned(),
            wanted: wanted.name(),
            found: "a pipeline of diffusers, which has none".into(),
        }),
    }
}

fn check_class(root: &Path) -> Result<(), Error> {
    let index = json_of(root, INDEX)?;
    let class = index.get("_class_name").and_then(Value::as_str).unwrap_or_default();
    if class == CLASS {
        return Ok(());
    }
    Err(Error::Foreign {
        path: root.to_owned(),
        reason: format!("it is a pipeline of diffusers of class `{class}`, not `{CLASS}`"),
        remedy: "take a pipeline of ACE-Step 1.5, such as ACE-Step/acestep-v15-xl-turbo-diffusers"
            .into(),
    })
}

/// The directory `name` of the pipeline.
fn part(root: &Path, name: &'static str) -> Result<PathBuf, Error> {
    let path = root.join(name);
    if path.is_dir() {
        return Ok(path);
    }
    Err(Error::MissingPiece {
        path: root.to_owned(),
        piece: name,
        looked_for: crate::Places(vec![path]),
        remedy: "fetch the whole repository again: every directory of it is needed".into(),
    })
}

fn json_of(directory: &Path, file: &str) -> Result<Map<String, Value>, Error> {
    let text = Directory::Disk(directory.to_owned()).text(file)?;
    serde_json::from_str(&text)
        .map_err(|error| Error::NotJson { path: directory.join(file), reason: error.to_string() })
}

fn dit(root: &Path) -> Result<Foreign, Error> {
    let mut all = Vec::new();
    let mut silence = None;
    for (name, prefix) in PARTS {
        let mut tensors = Tensors::open(&Directory::Disk(part(root, name)?))?;
        if tensors.has(SILENCE) {
            silence = Some(tensors.clone());
            tensors.leave_out(SILENCE);
        }
        all.push(tensors.renamed(|name| released(name, prefix))?);
    }
    let tensors = Tensors::together(root.to_owned(), all)?;
    // The converter leaves a copy that was not rounded to the type of the weights.
    let is_beside = silence::is_in(&Directory::Disk(root.to_owned()));
    let mut notices = Vec::new();
    let silence = match silence {
        Some(tensors) if !is_beside => {
            let dtype = tensors.dtype(SILENCE).unwrap_or_default();
            if dtype != "F32" {
                notices.push(format!(
                    "the latent of silence is rounded to {dtype}, which changes the sound a \
                     little: put the release's silence_latent.pt into `{}`",
                    root.display()
                ));
            }
            Silence::Tensor(tensors, SILENCE)
        }
        _ => Silence::Beside(vec![root.to_owned()]),
    };
    Ok(Foreign {
        root: root.to_owned(),
        format: Format::Diffusers,
        texts: vec![("config.json", root.join("transformer/config.json"), config(root)?)],
        tensors,
        silence,
        notices,
        looked_for: Vec::new(),
    })
}

/// The released name of a tensor of the directory whose names begin with `prefix` there.
fn released(name: &str, prefix: &str) -> String {
    if name == "null_condition_emb" {
        return name.to_owned();
    }
    let mut name = format!(".{name}");
    for (released, own) in RENAMED {
        name = name.replace(&format!(".{own}"), &format!(".{released}"));
    }
    format!("{prefix}{}", &name[1..])
}

/// The released config.json: that of the transformer, with what the others say of themselves.
fn config(root: &Path) -> Result<String, Error> {
    let [mut config, encoder, tokenizer, detokenizer] = {
        let of = |at: usize| json_of(&part(root, PARTS[at].0)?, "config.json");
        [of(0)?, of(1)?, of(2)?, of(3)?]
    };
    config.retain(|key, _| !key.starts_with('_'));
    // As the pipeline reads it: either of the two says it.
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
    // One set of sizes stands for all encoders, and one of habits for all networks.
    let widths = ["hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads"];
    // Encoders of their own width, and what goes with them, are the XL models' alone: elsewhere the
    // release does not have these keys.
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
        // 30 s at 25 Hz, as the pipeline has it.
        ("timbre_fix_frame", json!(750)),
        ("use_sliding_window", json!(true)),
    ] {
        config.insert(key.to_owned(), value);
    }
    Ok(Value::Object(config).to_string())
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

fn text_encoder(root: &Path) -> Result<Foreign, Error> {
    let directory = part(root, "text_encoder")?;
    let tokenizer = part(root, "tokenizer")?;
    let mut config = json_of(&directory, "config.json")?;
    // transformers 5 keeps the angles in an object of their own.
    if let Some(Value::Object(rope)) = config.remove("rope_parameters") {
        let is_plain = rope.get("rope_type").is_none_or(|kind| kind == "default");
        match (is_plain, rope.get("rope_theta")) {
            (true, Some(theta)) => drop(config.insert("rope_theta".into(), theta.clone())),
            _ => drop(config.insert("rope_scaling".into(), Value::Object(rope))),
        }
    }
    let config = Value::Object(config).to_string();
    let mut texts = vec![("config.json", directory.join("config.json"), config)];
    let from = Directory::Disk(tokenizer.clone());
    for file in ["tokenizer.json", "vocab.json", "merges.txt"] {
        if from.has(file) {
            texts.push((file, tokenizer.join(file), from.text(file)?));
        }
    }
    Ok(Foreign {
        root: directory.clone(),
        format: Format::Diffusers,
        texts,
        tensors: Tensors::open(&Directory::Disk(directory))?,
        silence: Silence::None,
        notices: Vec::new(),
        looked_for: vec![tokenizer],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_go_back_to_the_released_ones() {
        for (name, prefix, expected) in [
            ("proj_in_conv.weight", "decoder.", "decoder.proj_in.1.weight"),
            ("proj_out_conv.bias", "decoder.", "decoder.proj_out.1.bias"),
            (
                "layers.3.cross_attn.to_out.0.weight",
                "decoder.",
                "decoder.layers.3.cross_attn.o_proj.weight",
            ),
            (
                "lyric_encoder.layers.0.self_attn.norm_k.weight",
                "encoder.",
                "encoder.lyric_encoder.layers.0.self_attn.k_norm.weight",
            ),
            ("null_condition_emb", "encoder.", "null_condition_emb"),
            ("proj_out.weight", "detokenizer.", "detokenizer.proj_out.weight"),
            ("quantizer.project_in.bias", "tokenizer.", "tokenizer.quantizer.project_in.bias"),
        ] {
            assert_eq!(released(name, prefix), expected);
        }
    }
}
