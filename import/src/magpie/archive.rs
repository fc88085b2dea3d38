//! The archives of model and codec.

use std::path::Path;

use serde_json::Value;

use crate::{
    Error, ModelFormat, NemoArchive,
    families::magpie::Spelling,
    single_file::{Codec, Opened, SingleFile},
};

/// Keys and beginnings of names in old files: (old, new).
const OLD: [(&str, &str); 2] = [("t5_encoder", "encoder"), ("t5_decoder", "decoder")];

/// Opens the archive of a model at `path`.
pub(super) fn model(path: &Path) -> Result<Opened, Error> {
    let archive = NemoArchive::open(path)?;
    let mut config = archive.config().clone();
    if let Value::Object(map) = &mut config {
        for (old, new) in OLD {
            if let Some(value) = map.shift_remove(old) {
                map.entry(new).or_insert(value);
            }
        }
    }
    let (tensors, texts) = archive.tensors()?;
    let mut tensors = tensors.renamed(|name| {
        let old = OLD.iter().find_map(|(old, new)| {
            let rest = name.strip_prefix(old)?;
            rest.starts_with('.').then(|| format!("{new}{rest}"))
        });
        old.unwrap_or_else(|| name.to_owned())
    })?;
    const LENGTHS: &str = "baked_context_embedding_len";
    let lengths = match tensors.has(LENGTHS) {
        true => tensors.whole_numbers(LENGTHS)?,
        false => None,
    };
    let whole = |length: i64| usize::try_from(length).unwrap_or(usize::MAX);
    let lengths = lengths.map(|lengths| lengths.into_iter().map(whole).collect());
    tensors.leave_out(LENGTHS);
    // A constant, the triangle of causal attention.
    tensors.retain(|name| !name.ends_with(".self_attention.causal_mask"));
    let model = SingleFile {
        path: path.to_owned(),
        format: ModelFormat::Nemo,
        config: config.to_string(),
        tensors,
        notices: Vec::new(),
    };
    Ok(Opened { model, texts, lengths, codec: None })
}

/// Opens the archive of a codec at `path`.
pub(super) fn codec(path: &Path) -> Result<Codec, Error> {
    let archive = NemoArchive::open(path)?;
    let config = archive.config().to_string();
    let (mut tensors, _) = archive.tensors()?;
    // Networks of the other direction and of the training.
    let is_other = |name: &str| {
        let first = name.split('.').next().unwrap_or_default();
        ["audio_encoder", "discriminator"].contains(&first) || first.contains("loss")
    };
    tensors.retain(|name| !is_other(name));
    let (path, format) = (path.to_owned(), ModelFormat::Nemo);
    let file = SingleFile { path, format, config, tensors, notices: Vec::new() };
    Ok(Codec { file, spelling: Spelling::Released })
}
