//! The tokenizer of the released talkers, from the files of any model with Qwen's vocabulary.
//!
//! `vocab.json` and `merges.txt` are those of Qwen3. The tokens after them are those of the tiny
//! checkpoints, with ids that begin after the released vocabulary.

use std::{
    fs,
    path::{Path, PathBuf},
};

use acestep_import::{Directory, LanguageTokenizer, Qwen3Tts};
use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use super::SpeechModels;

/// The reason if no vocabulary was passed.
const MISSING: &str = "needs the real vocabulary: pass `tokenizer: DIR`";
/// The reason if the passed directory has other files.
const OTHER_FILES: &str = "the directory of `tokenizer` has no vocab.json and merges.txt";

/// Returns the tokenizer with Qwen's own way to split texts and with upstream's other one, or the
/// reason why there is none.
pub(super) fn released(
    models: &SpeechModels,
    tiny: &Qwen3Tts,
) -> Result<Result<[LanguageTokenizer; 2], &'static str>> {
    let Some(root) = &models.vocabulary else { return Ok(Err(MISSING)) };
    let Some(from) = directory(root)? else { return Ok(Err(OTHER_FILES)) };
    let folder = tempfile::tempdir().context("cannot create a temporary directory")?;
    for file in ["vocab.json", "merges.txt"] {
        fs::copy(from.join(file), folder.path().join(file))
            .with_context(|| format!("cannot copy `{}`", from.join(file).display()))?;
    }
    let config = json!({ "added_tokens_decoder": added(&from, tiny)? });
    let file = folder.path().join("tokenizer_config.json");
    fs::write(&file, config.to_string()).context("cannot write a temporary file")?;
    let directory = Directory::Disk(folder.path().to_owned());
    let open = |fixed| LanguageTokenizer::open_of_talker(&directory, usize::MAX, fixed);
    Ok(Ok([open(false)?, open(true)?]))
}

/// The directory itself, or the first one in it that has the files.
fn directory(root: &Path) -> Result<Option<PathBuf>> {
    let has =
        |path: &Path| ["vocab.json", "merges.txt"].iter().all(|file| path.join(file).is_file());
    if has(root) {
        return Ok(Some(root.to_owned()));
    }
    let listing =
        fs::read_dir(root).with_context(|| format!("cannot list `{}`", root.display()))?;
    let mut inside: Vec<PathBuf> = listing.filter_map(|entry| Some(entry.ok()?.path())).collect();
    inside.sort();
    Ok(inside.into_iter().find(|path| has(path)))
}

/// The added tokens of the tiny model, with ids after the vocabulary in `from`.
fn added(from: &Path, tiny: &Qwen3Tts) -> Result<Map<String, Value>> {
    let json = |path: PathBuf| -> Result<Value> {
        let text = fs::read_to_string(&path)
            .with_context(|| format!("cannot read `{}`", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("`{}` is not JSON", path.display()))
    };
    let words = json(from.join("vocab.json"))?.as_object().map_or(0, Map::len) as u64;
    let config = json(tiny.path().join("tokenizer_config.json"))?;
    let tokens = config["added_tokens_decoder"].as_object().cloned().unwrap_or_default();
    let id = |id: &String| id.parse::<u64>().ok();
    let first = tokens.keys().filter_map(id).min().unwrap_or_default();
    let moved = |(own, token): (String, Value)| Some((id(&own)? - first + words, token));
    let moved = tokens.into_iter().filter_map(moved);
    Ok(moved.map(|(id, token)| (id.to_string(), token)).collect())
}
