//! Errors of adapters, and their remedies.

use std::path::PathBuf;

use super::{NameList, Places};

/// An error between the file of an adapter and the weights that it changes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what most fields hold")]
pub enum AdapterError {
    /// Nothing exists at that path.
    #[error("the adapter `{name}` is not on this machine{looked_for}")]
    Absent { name: String, looked_for: Places },
    /// A directory without an adapter.
    #[error("the directory `{}` holds no adapter: {found}", path.display())]
    NotADirectoryOfOne { path: PathBuf, found: String },
    /// A file of another kind.
    #[error("`{}` is not an adapter: {reason}", path.display())]
    NotAnAdapter { path: PathBuf, reason: String, remedy: &'static str },
    /// The settings in the file or next to it are invalid.
    #[error("the settings of the adapter in `{}` cannot be used: {reason}", path.display())]
    BadSettings {
        /// adapter_config.json, or the file whose metadata they are.
        path: PathBuf,
        reason: String,
    },
    /// The adapter changes weights in an unsupported way.
    #[error("the adapter `{}` has {what}, which this version cannot apply", path.display())]
    NotSupported {
        path: PathBuf,
        /// The unsupported feature, as a noun phrase.
        what: String,
    },
    /// The tensors of one module are incomplete or contradict each other.
    #[error("the adapter `{}` is broken at `{module}`: {reason}", path.display())]
    Broken {
        path: PathBuf,
        /// The module, as the file spells it.
        module: String,
        reason: String,
    },
    /// A value that is NaN or infinite.
    #[error("tensor `{tensor}` of the adapter `{}` has values that are not finite", path.display())]
    NotFinite { path: PathBuf, tensor: String },
    /// Two groups of tensors change the same weight.
    #[error("the adapter `{}` changes one weight twice, as `{first}` and as `{second}`", path.display())]
    Twice { path: PathBuf, first: String, second: String },
    /// The shape does not fit the weight.
    #[error(
        "the adapter `{}` changes `{module}` as {found:?}, but the model has it as {expected:?}{likely}",
        path.display()
    )]
    WrongShape {
        path: PathBuf,
        /// The module, as the file spells it.
        module: String,
        expected: Vec<usize>,
        found: Vec<usize>,
        /// The likely reason, as text that follows the message; may be empty.
        likely: &'static str,
    },
    /// The model has none of the adapter's modules.
    #[error("the adapter `{}` changes nothing of {model}, which has none of its {count}: {names}; \
             they seem to be of {what}", path.display())]
    NoMatch {
        path: PathBuf,
        model: String,
        /// The number of modules, with the noun.
        count: String,
        /// The modules, as the file spells them.
        names: NameList,
        /// The network that they seem to belong to.
        what: String,
    },
    /// The change makes a weight that f16 cannot hold.
    #[error("with its adapters, `{tensor}` has values that are too large for f16")]
    BeyondF16 { tensor: String },
    /// The change makes a weight NaN or infinite.
    #[error("with its adapters, `{tensor}` has values that are not finite")]
    NotFiniteTogether { tensor: String },
}

impl AdapterError {
    /// Returns the remedy: a sentence without a full stop.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Absent { .. } => {
                "give a .safetensors file or a directory with adapter_config.json, or put it into `adapters/` of the models directory"
            }
            Self::NotADirectoryOfOne { .. } => {
                "a PEFT adapter is a directory with adapter_config.json and adapter_model.safetensors; others are one .safetensors file: name that"
            }
            Self::NotAnAdapter { remedy, .. } => remedy,
            Self::BadSettings { .. } => "use the settings that were saved with it, unchanged",
            Self::NotSupported { .. } => {
                "merge it into its model where it was trained and use that as `model`, or train a LoRA, LoKr or LoHa without it"
            }
            Self::Broken { .. } | Self::NotFinite { .. } => {
                "the file is damaged or its training failed: fetch it again, or take an earlier checkpoint of the training"
            }
            Self::Twice { .. } => "keep one of the two in the file",
            Self::WrongShape { .. } | Self::NoMatch { .. } => {
                "use it with the model that it was trained on"
            }
            Self::BeyondF16 { .. } => "pass `dtype: f32`, or a smaller `adapter_scale`",
            Self::NotFiniteTogether { .. } => "pass a smaller `adapter_scale`",
        }
    }
}
