//! The directory of the text encoder: weights, configuration, tokenizer.

use std::sync::OnceLock;

use acestep_model::{Backend, Place, qwen3};

use crate::{
    Directory, Error, Network, TextTokenizer,
    families::acestep::{Kind, tensor_names},
    weights::{WeightsDir, once},
};

/// The directory of the text encoder, with its tokenizer.
#[derive(Debug)]
pub struct TextEncoderDir {
    weights: WeightsDir<qwen3::Config>,
    tokenizer: OnceLock<TextTokenizer>,
}

impl TextEncoderDir {
    /// Opens the directory of a text encoder; the tokenizer is read on first use.
    ///
    /// # Errors
    /// Errors of [`crate::DitDir::open`].
    pub fn open(directory: Directory) -> Result<Self, Error> {
        let kind = (Kind::TextEncoder, "text encoder");
        let networks = [Network::TextEncoder];
        let parse = qwen3::Config::from_json;
        let weights = WeightsDir::open_as(directory, kind, &networks, parse, |_| None)?;
        Ok(Self { weights, tokenizer: OnceLock::new() })
    }

    /// Returns configuration, files and sizes.
    pub fn weights(&self) -> &WeightsDir<qwen3::Config> {
        &self.weights
    }

    /// Loads the network.
    ///
    /// # Errors
    /// If a tensor is missing, unexpected or of another shape.
    pub fn model<B: Backend>(&self, place: &Place<B>) -> Result<qwen3::Model<B>, Error> {
        let module = qwen3::Model::init(self.weights.config(), &place.device);
        self.weights.load_network(module, Network::TextEncoder, place)
    }

    /// Like [`crate::DitDir::check`]. The tokenizer is not read.
    ///
    /// # Errors
    /// An error that names the tensors.
    pub fn check<B: Backend>(&self, device: &B::Device, networks: &[Network]) -> Result<(), Error> {
        if !networks.contains(&Network::TextEncoder) {
            return Ok(());
        }
        let module = qwen3::Model::init(self.weights.config(), device);
        self.weights.compare::<B, _>(&module, &tensor_names(Network::TextEncoder))
    }

    /// Returns the ids of `text`, truncated to `max_tokens` with the appended special token last.
    ///
    /// # Errors
    /// [`Error::BadTokenizer`].
    pub fn token_ids(&self, text: &str, max_tokens: usize) -> Result<Vec<u32>, Error> {
        let bad = |reason| self.bad_tokenizer(reason);
        self.tokenizer()?.token_ids(text, max_tokens).map_err(bad)
    }

    /// Decodes `ids`, including special tokens.
    ///
    /// # Errors
    /// [`Error::BadTokenizer`].
    pub fn text_of(&self, ids: &[u32]) -> Result<String, Error> {
        let bad = |reason| self.bad_tokenizer(reason);
        self.tokenizer()?.text_of(ids).map_err(bad)
    }

    /// Returns the tokenizer; all its ids have a row in the embedding table. The first call reads it, which takes
    /// a quarter of a second for a released one.
    ///
    /// # Errors
    /// [`Error::MissingFile`], [`Error::BadTokenizer`].
    pub fn tokenizer(&self) -> Result<&TextTokenizer, Error> {
        once(&self.tokenizer, || {
            let tokenizer = TextTokenizer::open(self.weights.directory())?;
            let (ids, rows) = (tokenizer.vocabulary(), self.weights.config().vocab_size);
            match ids > rows {
                true => Err(self.bad_tokenizer(format!(
                    "it has {ids} ids, but the network has {rows} rows for them"
                ))),
                false => Ok(tokenizer),
            }
        })
    }

    fn bad_tokenizer(&self, reason: String) -> Error {
        let path = self.weights.directory().root().to_owned();
        Error::BadTokenizer { path, part: Network::TextEncoder.name(), reason }
    }
}
