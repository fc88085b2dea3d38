//! Stage of the tokenizers.

use acestep_demo::{demo::Sizes, vocabulary};
use anyhow::Context;
use tokenizers::Tokenizer;

use super::{Setting, write};

/// Folders of the text encoder and of the language model.
pub(super) const FOLDERS: [&str; 2] = ["Qwen3-Embedding-0.6B", "acestep-5Hz-lm-0.6B"];

pub(super) fn run(setting: &Setting<'_>) -> anyhow::Result<bool> {
    let files = vocabulary::learn(setting.seed, Sizes::demo()?.codes())?;
    for (name, file) in FOLDERS.into_iter().zip(files) {
        let path = setting.released(name)?.join("tokenizer.json");
        write(&path, &serde_json::to_string(&file)?)?;
    }
    Ok(true)
}

/// Reads a tokenizer, and trains it first if it is missing.
pub(super) fn read(setting: &Setting<'_>, folder: &str) -> anyhow::Result<Tokenizer> {
    let path = setting.released(folder)?.join("tokenizer.json");
    if !path.is_file() {
        run(setting)?;
    }
    Tokenizer::from_file(&path)
        .map_err(anyhow::Error::from_boxed)
        .with_context(|| format!("{}: cannot be read", path.display()))
}
