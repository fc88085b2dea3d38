//! The config.json beside a single file, if it belongs to that file.
//!
//! A directory of checkpoints has at most one, which may belong to any of them or to none: it is
//! used only if it fits the tensors. Models of the same sizes differ in their training, which
//! tensors do not show. If several models are together, the file's name has priority over
//! config.json.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::{comfy, sizes};
use crate::{
    Error, Tensors,
    families::acestep::{Kind, declared},
    listing::{files_in, folder_of},
};

const FILE: &str = "config.json";

/// A config.json and its path.
pub(super) struct Config {
    pub(super) from: PathBuf,
    pub(super) text: String,
    /// True if it was read from a file, false if it was generated.
    pub(super) is_file: bool,
    /// Reason why a file was not used.
    pub(super) notice: Option<String>,
}

/// Returns the config.json of `tensors`, a network of `kind` in the file at `path`: the file beside
/// it, else one derived from the sizes.
pub(super) fn of(path: &Path, kind: Kind, tensors: &Tensors) -> Result<Config, Error> {
    let implied = sizes::implied(kind, tensors)?;
    let from = path.with_file_name(FILE);
    let notice = match beside(&from, kind) {
        Ok(None) => None,
        Err(reason) => Some(reason),
        Ok(Some((text, config))) => match is_of_another(path, kind, &implied, &config) {
            None => {
                let notice = contradicts_name(path, kind, &config).map(|said| {
                    format!("`{}` is used for `{}`: {said}", from.display(), name(path))
                });
                return Ok(Config { from, text, is_file: true, notice });
            }
            reason => reason,
        },
    };
    let notice = notice
        .map(|reason| format!("`{}` is not used for `{}`: {reason}", from.display(), name(path)));
    let text = sizes::config(kind, tensors, implied)?;
    Ok(Config { from: path.to_owned(), text, is_file: false, notice })
}

type TextAndContent = (String, Map<String, Value>);

/// Returns text and content of the config.json at `from`; `None` if there is none, or one for another kind of
/// network: complete checkpoints hold several kinds.
///
/// # Errors
/// The reason why it cannot be read.
fn beside(from: &Path, kind: Kind) -> Result<Option<TextAndContent>, String> {
    if !from.is_file() {
        return Ok(None);
    }
    let text = std::fs::read_to_string(from);
    let text = text.map_err(|error| format!("it cannot be read ({error})"))?;
    let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
    let config: Value =
        serde_json::from_str(&text).map_err(|error| format!("it is not JSON ({error})"))?;
    let declared = declared(&config);
    let fits = match kind {
        // Both are a Qwen3.
        Kind::LanguageModel => declared == Ok(Kind::TextEncoder),
        kind => declared == Ok(kind),
    };
    Ok(match config {
        Value::Object(config) if fits => Some((text, config)),
        _ => None,
    })
}

/// Returns the reason why `config` does not belong to the file at `path`, whose tensors imply
/// `implied`.
fn is_of_another(
    path: &Path,
    kind: Kind,
    implied: &Map<String, Value>,
    config: &Map<String, Value>,
) -> Option<String> {
    if let Some((key, value, own)) = sizes::difference(implied, config) {
        return Some(format!(
            "its `{key}` is {value}, and by its tensors the file's is {own}; the sizes of the \
             tensors tell"
        ));
    }
    let said = contradicts_name(path, kind, config).filter(|_| has_others(path))?;
    Some(format!(
        "{said}, and several checkpoints lie there; give each, with its config.json, a directory of \
         its own to be sure"
    ))
}

/// Returns the contradiction between the name of the file at `path` and `config`.
fn contradicts_name(path: &Path, kind: Kind, config: &Map<String, Value>) -> Option<&'static str> {
    if kind != Kind::Dit {
        return None;
    }
    match (is_turbo(config)?, is_turbo_by_name(path)?) {
        (true, false) => Some("it is a turbo model's, which this is not by its name"),
        (false, true) => Some("it is no turbo model's, which this is by its name"),
        _ => None,
    }
}

/// Returns whether `config` declares a turbo model, if it says so at all.
fn is_turbo(config: &Map<String, Value>) -> Option<bool> {
    config.get("is_turbo").and_then(Value::as_bool).or_else(|| {
        let version = config.get("model_version")?.as_str()?;
        Some(version.to_lowercase().contains("turbo"))
    })
}

/// Returns whether the file's name says that it is a turbo model, if it says so at all.
fn is_turbo_by_name(path: &Path) -> Option<bool> {
    let name = name(path).to_lowercase();
    if name.contains("turbo") {
        return Some(true);
    }
    ["base", "sft"].iter().any(|word| name.contains(word)).then_some(false)
}

/// True if other diffusion models lie beside the file at `path`.
fn has_others(path: &Path) -> bool {
    let files = files_in(folder_of(path), "safetensors");
    let mut others = files.iter().filter(|other| other.file_name() != path.file_name());
    others.any(|other| comfy::holds(other, Kind::Dit))
}

/// Returns the notice for a file at `path` whose training is known only from its name.
pub(super) fn named(path: &Path) -> String {
    let turbo = if is_turbo_by_name(path) == Some(true) { "a" } else { "not a" };
    format!(
        "`{}` does not say how it was trained: by its name it is {turbo} turbo model; put the \
         release's config.json beside it to be sure",
        name(path)
    )
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
