//! The kinds of directories of ACE-Step 1.5, and their declaration in `config.json`.

use serde_json::Value;

/// The network of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Conditioner, audio codec and diffusion transformer.
    Dit,
    /// Text encoder.
    TextEncoder,
    /// The audio autoencoder.
    Vae,
    /// Language model.
    LanguageModel,
}

impl Kind {
    /// Returns a noun phrase for messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Dit => "a diffusion transformer of ACE-Step 1.5",
            Self::TextEncoder => "a Qwen3 text encoder",
            Self::Vae => "the Oobleck audio autoencoder",
            Self::LanguageModel => "a language model of ACE-Step 1.5",
        }
    }
}

/// (Architecture of a GGUF file, kind.)
pub(crate) const ARCHITECTURES: [(&str, Kind); 4] = [
    ("acestep-dit", Kind::Dit),
    ("acestep-lm", Kind::LanguageModel),
    ("acestep-text-enc", Kind::TextEncoder),
    ("acestep-vae", Kind::Vae),
];

/// Returns the declared kind of a config, or a description of what it declares instead. A language
/// model declares the same as the text encoder.
pub(crate) fn declared(config: &Value) -> Result<Kind, String> {
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
