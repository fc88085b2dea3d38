//! The interface between the networks and the code that loads their weights.
//!
//! A loader implements [`Checkpoint`]; code that runs networks requests networks from it. The two
//! have no other connection.

use burn::tensor::Tensor;

use crate::{Backend, Place, acestep, oobleck, qwen3};

/// Conversion between text and token ids, special tokens included.
///
/// An implementation checks its files when it opens them; after that nothing can fail.
pub trait Tokenizer {
    /// Returns the ids of `text`. A special token that is written out in the text becomes one id;
    /// none is added.
    fn encode(&self, text: &str) -> Vec<u32>;

    /// Returns the text of `ids`, with special tokens written out. An unknown id gives no text;
    /// incomplete UTF-8 characters become U+FFFD.
    fn decode(&self, ids: &[u32]) -> String;

    /// Returns the id of the token that is written `content`, if it is a single token.
    fn id_of(&self, content: &str) -> Option<u32>;

    /// Returns the number of ids, which is one more than the largest id.
    fn vocabulary(&self) -> usize;
}

/// An error while a checkpoint is read.
pub type CheckpointError = Box<dyn std::error::Error + Send + Sync>;

/// The part of a language model that needs no device.
pub trait LanguageFiles {
    /// Returns the configuration, without reading any weights.
    fn config(&self) -> &qwen3::Config;

    /// Returns the tokenizer.
    ///
    /// # Errors
    /// If its files are missing or malformed.
    fn tokenizer(&self) -> Result<&dyn Tokenizer, CheckpointError>;

    /// Checks that the files of the network did not change since they were opened: see
    /// [`ModelFiles::unchanged`].
    ///
    /// # Errors
    /// If a file was changed or cannot be read any more.
    fn unchanged(&self) -> Result<(), CheckpointError> {
        Ok(())
    }
}

/// A language model that is read on request.
pub trait LanguageCheckpoint<B: Backend>: LanguageFiles {
    /// Returns the network.
    ///
    /// # Errors
    /// If its weights are missing, malformed or have another shape.
    fn language_model(&self, place: &Place<B>) -> Result<qwen3::Causal<B>, CheckpointError>;
}

/// The configurations of a complete set of networks.
#[derive(Debug, Clone)]
pub struct Configs {
    /// Conditioner, audio codes and diffusion transformer.
    pub dit: acestep::Config,
    /// The text encoder.
    pub text_encoder: qwen3::Config,
    /// The audio autoencoder.
    pub vae: oobleck::Config,
}

/// The part of a set of networks that needs no device.
pub trait ModelFiles {
    /// Returns the configurations, without reading any weights.
    fn configs(&self) -> &Configs;

    /// Checks that the files of the networks did not change since they were opened.
    ///
    /// A network may use its file in place. If another program writes to that file, the results of the
    /// network are invalid. So call this before a result is used.
    ///
    /// # Errors
    /// If a file was changed or cannot be read any more.
    fn unchanged(&self) -> Result<(), CheckpointError> {
        Ok(())
    }

    /// Returns the token ids of `text` for the text encoder, with the special tokens its tokenizer
    /// appends.
    ///
    /// Longer texts are truncated to `max_tokens`; the appended special token stays last.
    ///
    /// # Errors
    /// If the tokenizer cannot be read.
    fn token_ids(&self, text: &str, max_tokens: usize) -> Result<Vec<u32>, CheckpointError>;

    /// Returns the text of token ids of the text encoder, with special tokens written out.
    /// Incomplete UTF-8 characters become U+FFFD.
    ///
    /// # Errors
    /// If the tokenizer cannot be read.
    fn text_of(&self, ids: &[u32]) -> Result<String, CheckpointError>;

    /// Returns the id that pads the shorter rows of a batch, `<|endoftext|>`.
    ///
    /// # Errors
    /// If the tokenizer cannot be read.
    fn pad_token_id(&self) -> Result<u32, CheckpointError>;
}

/// A set of networks that belong together, each loaded on request.
///
/// Every call that returns a network reads it again; the caller keeps the value to reuse it.
pub trait Checkpoint<B: Backend>: ModelFiles {
    /// Returns the VAE's latents of silence: `[1, T, C]`, in f32.
    ///
    /// # Errors
    /// If they are missing or malformed; there is no fallback.
    fn silence_latent(&self, device: &B::Device) -> Result<Tensor<B, 3>, CheckpointError>;

    /// Returns the text encoder.
    ///
    /// # Errors
    /// If its weights are missing, malformed or have another shape.
    fn text_encoder(&self, place: &Place<B>) -> Result<qwen3::Model<B>, CheckpointError>;

    /// Returns the encoders of text, lyrics and timbre.
    ///
    /// # Errors
    /// If its weights are missing, malformed or have another shape.
    fn conditioner(&self, place: &Place<B>) -> Result<acestep::Conditioner<B>, CheckpointError>;

    /// Returns the codec between latents and audio codes.
    ///
    /// # Errors
    /// If its weights are missing, malformed or have another shape.
    fn audio_codec(&self, place: &Place<B>) -> Result<acestep::AudioCodec<B>, CheckpointError>;

    // ANCHOR: dit
    /// Returns the diffusion transformer.
    ///
    /// # Errors
    /// If its weights are missing, malformed or have another shape.
    fn dit(&self, place: &Place<B>) -> Result<acestep::Dit<B>, CheckpointError>;
    // ANCHOR_END: dit

    /// Returns the decoder from latents to audio.
    ///
    /// # Errors
    /// If its weights are missing, malformed or have another shape.
    fn vae_decoder(&self, place: &Place<B>) -> Result<oobleck::Decoder<B>, CheckpointError>;

    /// Returns the encoder from audio to latents.
    ///
    /// # Errors
    /// If its weights are missing, malformed or have another shape.
    fn vae_encoder(&self, place: &Place<B>) -> Result<oobleck::Encoder<B>, CheckpointError>;
}
