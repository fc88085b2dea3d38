//! Kind of a directory, from its `config.json`.

use std::{ops::RangeInclusive, path::Path};

use serde_json::Value;

use crate::{
    Directory, Error,
    families::{
        self,
        acestep::{Kind, declared},
    },
    tokenizer::AUDIO_CODE_0,
};

/// Reads `config.json` of `directory`, which must be of the kind `wanted`.
///
/// # Errors
/// [`Error::NotADirectory`], [`Error::MissingFile`], [`Error::NotJson`],
/// [`Error::WrongDirectory`].
pub(crate) fn config(directory: &Directory, wanted: Kind) -> Result<String, Error> {
    directory.check()?;
    let wrong = |found: String| Error::WrongDirectory {
        path: directory.root().to_owned(),
        wanted: wanted.name(),
        found,
    };
    if let (Directory::Disk(path), false) = (directory, directory.has("config.json"))
        && holds_models(path)
    {
        return Err(wrong("several model directories".into()));
    }
    let text = directory.text("config.json")?;
    let value: Value = serde_json::from_str(&text).map_err(|error| Error::NotJson {
        path: directory.path("config.json"),
        reason: error.to_string(),
    })?;
    let declared = match declared(&value) {
        Ok(Kind::TextEncoder) => qwen3(directory, &value, wanted),
        other => other,
    };
    match declared {
        Ok(kind) if kind == wanted => Ok(text),
        Ok(kind) => Err(wrong(kind.name().to_owned())),
        Err(found) => Err(wrong(found)),
    }
}

/// True if published directories lie in the directory at `path`.
pub(crate) fn holds_models(path: &Path) -> bool {
    families::all().any(|release| path.join(release.directory).is_dir())
}

/// Numbers of tokens of Qwen3's released text models: at least the base vocabulary, and fewer than
/// any language model with audio codes.
const OF_TEXTS: RangeInclusive<u64> = 151_643..=160_000;

/// Returns which Qwen3 network is in `directory`: only the language model's tokenizer has audio
/// codes. Without a tokenizer.json, the number of tokens decides if it is a released one. Otherwise
/// the result is `wanted`: `vocab.json` is the same in both, and the number of rows is checked when
/// the tokenizer is assembled.
fn qwen3(directory: &Directory, config: &Value, wanted: Kind) -> Result<Kind, String> {
    let file = "tokenizer.json";
    // The tokenizer reports its own read errors later.
    let text = directory.has(file).then(|| directory.text(file).ok()).flatten();
    let tokens = config.get("vocab_size").and_then(Value::as_u64);
    match (text.map(|text| text.contains(AUDIO_CODE_0)), wanted) {
        (Some(true), _) => Ok(Kind::LanguageModel),
        (Some(false), Kind::LanguageModel) => {
            Err("a Qwen3 model whose tokenizer has no audio codes, such as the text encoder".into())
        }
        (None, Kind::LanguageModel) => match tokens.filter(|tokens| OF_TEXTS.contains(tokens)) {
            Some(tokens) => Err(format!(
                "a Qwen3 network with no audio codes among its {tokens} tokens, such as the text \
                 encoder"
            )),
            None => Ok(Kind::LanguageModel),
        },
        (Some(false) | None, _) => Ok(Kind::TextEncoder),
    }
}
