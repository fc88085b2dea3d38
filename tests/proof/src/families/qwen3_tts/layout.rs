//! Names and shapes of all tensors at the released sizes.
//!
//! The files here have only headers: what follows is a hole of the file system, which nothing reads.

use std::{
    fs::{self, File},
    io::Write as _,
    path::Path,
};

use acestep_import::Qwen3Tts;
use acestep_model::{Backend, Place};
use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use super::speed::{Sizes, codec_values};
use crate::{families::GoldenSource, golden::page::Page};

/// Key of the codec's tensors.
const CODEC: &str = "speech_tokenizer";

/// Opens a model of each stored layout, with the stored codec: every tensor must have a place, and no
/// place may be empty.
pub(super) fn compare<B: Backend>(
    page: Page<'_>,
    content: &Value,
    of: &GoldenSource,
    place: &Place<B>,
) -> Result<()> {
    let Ok(tiny) = of.speech.any() else {
        page.skip_entries(content, "no speech model among the checkpoints");
        return Ok(());
    };
    let layouts = content.as_object().into_iter().flatten();
    for (name, tensors) in layouts.filter(|(name, _)| !["note", CODEC].contains(&&***name)) {
        let sizes = match name {
            name if name.contains("0.6B") => Sizes::B06,
            name if name.contains("1.7B") => Sizes::B17,
            _ => {
                page.unknown(name.clone());
                continue;
            }
        };
        page.attempt(vec![name.clone()], || {
            let folder = tempfile::tempdir().context("cannot create a temporary directory")?;
            let root = folder.path().join(name);
            write(&root, sizes, [tensors, &content[CODEC]], tiny.path())
                .context("cannot write a temporary file")?;
            let checked = Qwen3Tts::open(&root).and_then(|model| model.check::<B>(&place.device));
            match checked {
                Ok(()) => page.equal(name.clone(), &Value::Null, &Value::Null),
                Err(error) => page.fail(name, &error.to_string()),
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Writes a base model with the tokenizer of a tiny one.
fn write(root: &Path, sizes: Sizes, [model, codec]: [&Value; 2], tiny: &Path) -> Result<()> {
    let to = root.join(CODEC);
    fs::create_dir_all(&to)?;
    for file in ["generation_config.json", "vocab.json", "merges.txt", "tokenizer_config.json"] {
        fs::copy(tiny.join(file), root.join(file))?;
    }
    let mut config = sizes.values();
    config["model_type"] = "qwen3_tts".into();
    config["tts_model_type"] = "base".into();
    let width = config["talker_config"]["hidden_size"].clone();
    config["speaker_encoder_config"] = json!({ "enc_dim": width, "sample_rate": 24_000 });
    fs::write(root.join("config.json"), config.to_string())?;
    let mut config = codec_values();
    config["model_type"] = "qwen3_tts_tokenizer_12hz".into();
    fs::write(to.join("config.json"), config.to_string())?;
    write_header(&root.join("model.safetensors"), model, "BF16", 2)?;
    write_header(&to.join("model.safetensors"), codec, "F32", 4)
}

/// Writes a safetensors file of tensors whose values are a hole.
fn write_header(path: &Path, shapes: &Value, dtype: &str, bytes: u64) -> Result<()> {
    let (mut header, mut end) = (Map::new(), 0);
    for (name, shape) in shapes.as_object().into_iter().flatten() {
        let sizes = shape.as_array().into_iter().flatten().filter_map(Value::as_u64);
        let start = end;
        end += sizes.product::<u64>() * bytes;
        let tensor = json!({ "dtype": dtype, "shape": shape, "data_offsets": [start, end] });
        header.insert(name.clone(), tensor);
    }
    let mut header = Value::from(header).to_string();
    header.push_str(&" ".repeat(header.len().next_multiple_of(8) - header.len()));
    let mut file = File::create(path)?;
    file.write_all(&(header.len() as u64).to_le_bytes())?;
    file.write_all(header.as_bytes())?;
    Ok(file.set_len(8 + header.len() as u64 + end)?)
}
