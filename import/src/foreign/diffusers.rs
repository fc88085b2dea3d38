//! A pipeline of diffusers: `model_index.json`, and a directory for each network.
//!
//! | directory | becomes | renamed |
//! |---|---|---|
//! | `transformer` | `decoder.*` | `proj_in_conv` to `proj_in.1`, `proj_out_conv` to `proj_out.1` |
//! | `condition_encoder` | `encoder.*`, `null_condition_emb`, the latent of silence | |
//! | `audio_tokenizer`, `audio_token_detokenizer`, optional | `tokenizer.*`, `detokenizer.*` | |
//! | `vae` | itself | |
//! | `text_encoder`, `tokenizer` | Qwen3-Embedding-0.6B | |
//!
//! In all attention layers, `to_q`, `to_k`, `to_v`, `to_out.0`, `norm_q` and `norm_k` become
//! `q_proj`, `k_proj`, `v_proj`, `o_proj`, `q_norm` and `k_norm`.
//!
//! Source: diffusers `scripts/convert_ace_step_to_diffusers.py`, which this module reverses, and
//! `pipelines/ace_step/`.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use serde_json::{Map, Value};

use super::{
    Foreign, Lack, ModelFormat, Silence,
    pieces::{self, near},
    sizes,
};
use crate::{Directory, Error, Network, Tensors, families::acestep::Kind, silence};

mod config;

/// File that marks a pipeline.
pub(crate) const INDEX: &str = "model_index.json";
const CLASS: &str = "AceStepPipeline";
const SILENCE: &str = "silence_latent";

/// Directories of a diffusion model's tensors, and the released prefixes of their names.
const PARTS: [(&str, &str); 4] = [
    ("transformer", "decoder."),
    ("condition_encoder", "encoder."),
    ("audio_tokenizer", "tokenizer."),
    ("audio_token_detokenizer", "detokenizer."),
];

/// The two halves of the audio codec, which are optional in a pipeline.
const CODEC: [&str; 2] = ["audio_tokenizer", "audio_token_detokenizer"];

/// (Released name, diffusers' name.)
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

/// Opens the network `wanted` of the pipeline at `root`; `places` are searched for its pieces.
pub(super) fn open(root: &Path, wanted: Kind, places: &[PathBuf]) -> Result<Directory, Error> {
    let index = index(root)?;
    let foreign = match wanted {
        // It has the released form.
        Kind::Vae => return part(root, "vae").map(Directory::Disk),
        Kind::TextEncoder => text_encoder(root, places),
        Kind::Dit => dit(root, &index, places),
        Kind::LanguageModel => Err(Error::WrongDirectory {
            path: root.to_owned(),
            wanted: wanted.name(),
            found: "a pipeline of diffusers, which has none".into(),
        }),
    };
    Ok(Directory::Foreign(Arc::new(foreign?)))
}

/// Reads the list of networks, and checks that the pipeline has this model's class.
fn index(root: &Path) -> Result<Map<String, Value>, Error> {
    let index = json_of(root, INDEX)?;
    let class = index.get("_class_name").and_then(Value::as_str).unwrap_or_default();
    if class == CLASS {
        return Ok(index);
    }
    Err(Error::Foreign {
        path: root.to_owned(),
        reason: format!("it is a pipeline of diffusers of class `{class}`, not `{CLASS}`"),
        remedy: "take a pipeline of ACE-Step 1.5, such as ACE-Step/acestep-v15-xl-turbo-diffusers"
            .into(),
    })
}

/// Returns the directory `name` of the pipeline.
fn part(root: &Path, name: &'static str) -> Result<PathBuf, Error> {
    let path = root.join(name);
    if path.is_dir() {
        return Ok(path);
    }
    Err(Error::MissingPiece {
        path: root.to_owned(),
        piece: name,
        looked_for: crate::Places(vec![path]),
        tried: Vec::new(),
        remedy: "fetch the whole repository again: only `audio_tokenizer` and \
                 `audio_token_detokenizer` may be missing"
            .into(),
    })
}

/// Returns the error data for a missing audio codec. diffusers registers both halves as optional,
/// and needs both for audio codes.
fn codec_lack(root: &Path, index: &Map<String, Value>) -> Option<Lack> {
    // A missing half is listed as `[null, null]`; an older file may still be there.
    let is_listed = |name: &str| match index.get(name) {
        Some(Value::Array(pair)) => pair.iter().any(|class| !class.is_null()),
        other => !matches!(other, Some(Value::Null)),
    };
    let is_here = |name: &&str| is_listed(name) && root.join(name).is_dir();
    let missing: Vec<_> = CODEC.iter().filter(|name| !is_here(name)).collect();
    (!missing.is_empty()).then(|| Lack {
        network: Network::AudioCodec,
        looked_for: missing.into_iter().map(|name| root.join(name)).collect(),
        remedy:
            "this pipeline makes songs without audio codes only: pass `thinking: false`, and no \
                 codes and no cover; for the rest take one that has `audio_tokenizer` and \
                 `audio_token_detokenizer`"
                .into(),
    })
}

fn json_of(directory: &Path, file: &str) -> Result<Map<String, Value>, Error> {
    let text = Directory::Disk(directory.to_owned()).text(file)?;
    serde_json::from_str(&text)
        .map_err(|error| Error::NotJson { path: directory.join(file), reason: error.to_string() })
}

fn dit(root: &Path, index: &Map<String, Value>, places: &[PathBuf]) -> Result<Foreign, Error> {
    let lacks = codec_lack(root, index);
    let is_here = |name: &str| lacks.is_none() || !CODEC.contains(&name);
    let mut all = Vec::new();
    let mut silence = None;
    for (name, prefix) in PARTS.into_iter().filter(|(name, _)| is_here(name)) {
        let mut tensors = Tensors::open(&Directory::Disk(part(root, name)?))?;
        if tensors.has(SILENCE) {
            silence = Some(tensors.clone());
            tensors.leave_out(SILENCE);
        }
        all.push(tensors.renamed(|name| released(name, prefix))?);
    }
    let tensors = Tensors::joined(root.to_owned(), all)?;
    // The converter leaves a copy that was not rounded to the type of the weights.
    let is_beside = silence::file_in(&Directory::Disk(root.to_owned())).is_some();
    let mut notices = Vec::new();
    let held = silence.filter(|_| !is_beside).map(|tensors| (tensors, SILENCE));
    if let Some((tensors, name)) = &held {
        let dtype = tensors.dtype(name).unwrap_or_default();
        if dtype != "F32" {
            notices.push(format!(
                "the latent of silence is rounded to {dtype}, which changes the sound a little: \
                 put the release's silence_latent.pt into `{}`",
                root.display()
            ));
        }
    }
    let silence = Silence { held, near: near(&root.join(INDEX), places) };
    let config = config::of(root, lacks.is_none())?;
    let texts = vec![("config.json", root.join("transformer/config.json"), config)];
    let foreign = Foreign::new(root, ModelFormat::Diffusers, texts, tensors);
    Ok(Foreign { silence, notices, lacks, ..foreign })
}

/// Returns the released name of a tensor; `prefix` is the released prefix of its directory.
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

fn text_encoder(root: &Path, places: &[PathBuf]) -> Result<Foreign, Error> {
    let directory = part(root, "text_encoder")?;
    let tokenizer = root.join("tokenizer");
    let mut config = json_of(&directory, "config.json")?;
    // transformers 5 keeps the rotary parameters in a separate object.
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
    // Both files are needed for a tokenizer.
    let is_whole = |files: &[&str]| files.iter().all(|file| from.has(file));
    for files in [&["tokenizer.json"][..], &["vocab.json", "merges.txt"]] {
        if is_whole(files) {
            for &file in files {
                texts.push((file, tokenizer.join(file), from.text(file)?));
            }
        }
    }
    let tensors = Tensors::open(&Directory::Disk(directory.clone()))?;
    let mut missing = pieces::Tokenizer::default();
    if texts.len() == 1 {
        let mut near = near(&root.join(INDEX), places);
        near.insert(0, tokenizer);
        missing = pieces::tokenizer(Kind::TextEncoder, sizes::rows(&tensors)?, &near);
        texts.append(&mut missing.texts);
    }
    let foreign = Foreign::new(&directory, ModelFormat::Diffusers, texts, tensors);
    Ok(Foreign { looked_for: missing.looked_for, tried: missing.tried, ..foreign })
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
