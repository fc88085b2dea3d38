//! Kind of a directory, from its `config.json`.

use std::{
    ops::RangeInclusive,
    path::{Path, PathBuf},
};

use serde_json::Value;

use crate::{
    Directory, Error,
    families::{Release, acestep::Kind, declared},
    tokenizer::AUDIO_CODE_0,
};

/// Reads `config.json` of `directory`, which must be of the kind `wanted`.
pub(crate) fn config(directory: &Directory, wanted: Kind) -> Result<String, Error> {
    let (text, value) = read(directory, wanted.name())?;
    let wrong = |found: String| wrong(directory, wanted.name(), found);
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

/// Reads `config.json` of `directory`, whose `model_type` must be `wanted`; `noun` is the name of
/// this kind for messages, with its article.
pub(crate) fn config_of_type(
    directory: &Directory,
    wanted: &str,
    noun: &'static str,
) -> Result<String, Error> {
    config_that(directory, |config| config["model_type"] == wanted, noun)
}

/// Reads `config.json` of `directory`, which must pass `is_one`; `noun` is the name of this kind for
/// messages, with its article.
pub(crate) fn config_that(
    directory: &Directory,
    is_one: impl Fn(&Value) -> bool,
    noun: &'static str,
) -> Result<String, Error> {
    let (text, value) = read(directory, noun)?;
    if is_one(&value) {
        return Ok(text);
    }
    let found = declared(&value).map_or_else(|found| found, |kind| kind.name().to_owned());
    Err(wrong(directory, noun, found))
}

/// Checks that the configurations of two networks agree: each has its path, a key, and the value there.
pub(crate) fn agree(
    (first, first_key, first_value): (PathBuf, &'static str, usize),
    (second, second_key, second_value): (PathBuf, &'static str, usize),
) -> Result<(), Error> {
    if first_value == second_value {
        return Ok(());
    }
    Err(Error::ConfigsDisagree { first, first_key, first_value, second, second_key, second_value })
}

fn wrong(directory: &Directory, wanted: &'static str, found: String) -> Error {
    Error::WrongDirectory { path: directory.root().to_owned(), wanted, found }
}

/// Reads `config.json` of `directory` as text and JSON; `wanted` is for messages.
fn read(directory: &Directory, wanted: &'static str) -> Result<(String, Value), Error> {
    directory.check()?;
    if let (Directory::Disk(path), false) = (directory, directory.has("config.json"))
        && holds_models(path)
    {
        return Err(wrong(directory, wanted, "several model directories".into()));
    }
    let text = directory.text("config.json")?;
    let value: Value = serde_json::from_str(&text).map_err(|error| Error::NotJson {
        path: directory.path("config.json"),
        reason: error.to_string(),
    })?;
    Ok((text, value))
}

/// True if published directories lie in the directory at `path`.
pub(crate) fn holds_models(path: &Path) -> bool {
    Release::all().any(|release| path.join(release.directory).is_dir())
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
