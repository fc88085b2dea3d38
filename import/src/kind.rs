//! What a directory holds, by its `config.json`.

use serde_json::Value;

use crate::{Directory, Error};

/// A network family as `config.json` declares it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Dit,
    TextEncoder,
    Vae,
}

impl Kind {
    /// Noun phrase for messages.
    fn name(self) -> &'static str {
        match self {
            Self::Dit => "a diffusion transformer of ACE-Step 1.5",
            Self::TextEncoder => "a Qwen3 text encoder",
            Self::Vae => "the Oobleck audio autoencoder",
        }
    }
}

/// Reads `config.json` of `directory`, which has to be of the kind `wanted`.
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
    if let (Directory::Disk(path), false) = (directory, directory.has("config.json")) {
        let inner = ["vae", "acestep-v15-turbo", "Qwen3-Embedding-0.6B"];
        if inner.iter().any(|name| path.join(name).is_dir()) {
            return Err(wrong("several model directories".into()));
        }
    }
    let text = directory.text("config.json")?;
    let value: Value = serde_json::from_str(&text).map_err(|error| Error::NotJson {
        path: directory.path("config.json"),
        reason: error.to_string(),
    })?;
    match declared(&value) {
        Ok(kind) if kind == wanted => Ok(text),
        Ok(kind) => Err(wrong(kind.name().to_owned())),
        Err(found) => Err(wrong(found)),
    }
}

/// The kind that a config declares, or what it says instead.
fn declared(config: &Value) -> Result<Kind, String> {
    let text = |key: &str| config.get(key).and_then(Value::as_str);
    match (text("model_type"), text("_class_name")) {
        (Some("acestep"), _) => Ok(Kind::Dit),
        (Some("qwen3"), _) => Ok(Kind::TextEncoder),
        (_, Some("AutoencoderOobleck")) => Ok(Kind::Vae),
        (_, Some(class)) => Err(format!("`{class}` in the format of diffusers")),
        (Some(model_type), _) => Err(format!("a model of type `{model_type}`")),
        (None, None) => Err("a model whose config.json does not say its type".into()),
    }
}
