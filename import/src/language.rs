//! The directory of a language model: weights, configuration, tokenizer.

use std::{
    path::{Path, PathBuf},
    sync::OnceLock,
};

use acestep_model::{
    self as model, Backend, CheckpointError, LanguageCheckpoint, LanguageFiles, Place, qwen3,
};

use crate::{
    Directory, Error, LanguageTokenizer, Network, Origin, PartSize,
    built_in::{self, BuiltIn},
    families::acestep::{Kind, tensor_names},
    layout::language,
    origin::notices,
    weights::{WeightsDir, once},
};

/// The head's name in a file.
const HEAD: &str = "lm_head.weight";

/// The directory of a 5 Hz language model, with its tokenizer.
#[derive(Debug)]
pub struct LanguageModelDir {
    name: String,
    weights: WeightsDir<qwen3::Config>,
    tokenizer: OnceLock<LanguageTokenizer>,
}

impl LanguageModelDir {
    /// Opens the directory of a language model: parses the configuration and the headers. The
    /// tokenizer and the weights are read on first use.
    ///
    /// # Errors
    /// If something is missing, cut, contradictory or of another kind; the message names the file.
    pub fn open(directory: Directory) -> Result<Self, Error> {
        let name = match &directory {
            Directory::Disk(_) | Directory::Foreign(_) => language::name_of(directory.root()),
            Directory::Embedded(root, _) => built_in::owner(root).to_owned(),
        };
        let kind = (Kind::LanguageModel, Network::LanguageModel.name());
        // transformers may save tied embeddings a second time as the head.
        let spare = |config: &qwen3::Config| config.tie_word_embeddings.then_some(HEAD);
        let networks = [Network::LanguageModel];
        let weights =
            WeightsDir::open_as(directory, kind, &networks, qwen3::Config::from_json, spare)?;
        Ok(Self { name, weights, tokenizer: OnceLock::new() })
    }

    /// Returns the short name of the model if it has one, else the name of its directory.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the directory.
    pub fn directory(&self) -> &Directory {
        self.weights.directory()
    }

    /// Returns the parsed `config.json`.
    pub fn config(&self) -> &qwen3::Config {
        self.weights.config()
    }

    /// Returns its files of weights.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.weights.files()
    }

    /// True if its files of weights are still at their paths: no other one has replaced them.
    pub fn is_current(&self) -> bool {
        self.weights.is_current()
    }

    /// Returns the format of its files and the types of its weights.
    pub fn origin(&self) -> Origin {
        self.weights.origin()
    }

    /// Returns notices to print when it is used: lower case, no full stop.
    pub fn notices(&self) -> Vec<String> {
        notices([("language model", &self.origin(), self.directory())])
    }

    /// Returns the number of parameters and file bytes of the network.
    ///
    /// # Errors
    /// None after a successful opening, which checks the same.
    pub fn size(&self) -> Result<PartSize, Error> {
        self.weights.size(&tensor_names(Network::LanguageModel))
    }

    /// Compares the headers with the network: every tensor must exist with its shape, and there
    /// must be no others. No weight is read or initialised.
    ///
    /// # Errors
    /// Names the tensors.
    pub fn check<B: Backend>(&self, device: &B::Device) -> Result<(), Error> {
        let module = qwen3::Causal::init(self.config(), device);
        self.weights.compare::<B, _>(&module, &tensor_names(Network::LanguageModel))
    }

    /// Reads the network.
    ///
    /// # Errors
    /// If a tensor is missing, unused or of another shape.
    pub fn model<B: Backend>(&self, place: &Place<B>) -> Result<qwen3::Causal<B>, Error> {
        let module = qwen3::Causal::init(self.config(), &place.device);
        self.weights.load_network(module, Network::LanguageModel, place)
    }

    /// Writes the matrices of the network in int8 beside its weights, see [`DitDir::quantize`].
    ///
    /// # Errors
    /// [`Error::NoPlace`], [`Error::NotWritten`]; as [`Self::model`].
    ///
    /// [`DitDir::quantize`]: crate::DitDir::quantize
    pub fn quantize<B: Backend>(
        &self,
        device: &B::Device,
        advanced: &dyn Fn(usize, usize) -> bool,
    ) -> Result<PathBuf, Error> {
        let module = qwen3::Causal::<B>::init(self.config(), device);
        let names = tensor_names(Network::LanguageModel);
        self.weights.write_quantized(&module, &names, device, advanced)
    }

    /// Returns the tokenizer, whose ids all have a row in the embedding table. The first call reads
    /// it, which takes half a second for a released one.
    ///
    /// # Errors
    /// [`Error::MissingFile`], [`Error::BadTokenizer`].
    pub fn tokenizer(&self) -> Result<&LanguageTokenizer, Error> {
        let open = || LanguageTokenizer::open(self.directory(), self.config().vocab_size);
        once(&self.tokenizer, open)
    }
}

impl LanguageFiles for LanguageModelDir {
    fn config(&self) -> &qwen3::Config {
        self.weights.config()
    }

    fn tokenizer(&self) -> Result<&dyn model::Tokenizer, CheckpointError> {
        Ok(self.tokenizer()?)
    }

    fn unchanged(&self) -> Result<(), CheckpointError> {
        Ok(self.weights.unchanged()?)
    }
}

impl<B: Backend> LanguageCheckpoint<B> for LanguageModelDir {
    fn language_model(&self, place: &Place<B>) -> Result<qwen3::Causal<B>, CheckpointError> {
        Ok(self.model(place)?)
    }
}

impl BuiltIn {
    /// Opens its language model.
    ///
    /// # Errors
    /// None, except for a bug: its files are part of the program.
    pub fn open_language_model(&self) -> Result<LanguageModelDir, Error> {
        LanguageModelDir::open(self.language_model.clone())
    }
}

/// Opens the random language model, which has 512 audio codes.
///
/// # Errors
/// Errors of [`BuiltIn::open_language_model`].
pub fn open_tiny_language_model() -> Result<LanguageModelDir, Error> {
    built_in::tiny().open_language_model()
}

#[cfg(test)]
mod tests;
