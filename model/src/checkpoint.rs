//! The seam between the networks and whoever stores their weights.
//!
//! Whoever loads weights implements [`Checkpoint`]; whoever runs networks asks one for parts. The
//! two never meet otherwise.

use burn::tensor::Tensor;

use crate::{Backend, Place, acestep, oobleck, qwen3};

/// Text to token ids and back, special tokens included.
///
/// Whoever implements it has checked its files while opening them; after that nothing can fail.
pub trait Tokenizer {
    /// The ids of `text`; special tokens that are written out in it are one id each, and none is
    /// added.
    fn encode(&self, text: &str) -> Vec<u32>;

    /// The text of `ids`, special tokens written out; an id that does not exist has no text, and
    /// bytes that are no whole character are U+FFFD.
    fn decode(&self, ids: &[u32]) -> String;

    /// The id of the token that is written `content`, if it is a single token.
    fn id_of(&self, content: &str) -> Option<u32>;

    /// How many ids there are, that is one more than the largest.
    fn vocabulary(&self) -> usize;
}

/// A language model and its tokenizer, each read when it is asked for.
pub trait LanguageCheckpoint<B: Backend> {
    /// What can go wrong while reading.
    type Error: std::error::Error + Send + Sync + 'static;

    /// The configuration, known without reading any weights.
    fn config(&self) -> &qwen3::Config;

    /// The tokenizer.
    ///
    /// # Errors
    /// If its files are absent or malformed.
    fn tokenizer(&self) -> Result<&dyn Tokenizer, Self::Error>;

    /// Checks that what the networks are read from is still what it was when it was opened.
    ///
    /// A network may use its file in place. Where another program writes to that file meanwhile, what the
    /// network computed is worth nothing: whoever uses a network asks this before its result is used.
    ///
    /// # Errors
    /// If a file was changed or cannot be read any more.
    fn unchanged(&self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// The network.
    ///
    /// # Errors
    /// If its weights are absent, malformed or of another shape.
    fn language_model(&self, place: &Place<B>) -> Result<qwen3::Causal<B>, Self::Error>;
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

/// A set of networks that belong together, each loaded when it is asked for.
///
/// Every call that returns a network reads it anew; whoever wants to keep one keeps the value.
pub trait Checkpoint<B: Backend> {
    /// What can go wrong while reading.
    type Error: std::error::Error + Send + Sync + 'static;

    /// The configurations, known without reading any weights.
    fn configs(&self) -> &Configs;

    /// Checks that what the networks are read from is still what it was when it was opened.
    ///
    /// A network may use its file in place. Where another program writes to that file meanwhile, what the
    /// network computed is worth nothing: whoever uses a network asks this before its result is used.
    ///
    /// # Errors
    /// If a file was changed or cannot be read any more.
    fn unchanged(&self) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Token ids of `text` for the text encoder, with the special tokens its tokenizer appends.
    ///
    /// Longer texts are cut to `max_tokens`; the appended special token stays last.
    ///
    /// # Errors
    /// If the tokenizer cannot be read.
    fn token_ids(&self, text: &str, max_tokens: usize) -> Result<Vec<u32>, Self::Error>;

    /// The text of token ids of the text encoder, special tokens written out; bytes that are no whole
    /// character are U+FFFD.
    ///
    /// # Errors
    /// If the tokenizer cannot be read.
    fn text_of(&self, ids: &[u32]) -> Result<String, Self::Error>;

    /// The id that fills up the shorter rows of a batch, `<|endoftext|>`.
    ///
    /// # Errors
    /// If the tokenizer cannot be read.
    fn pad_token_id(&self) -> Result<u32, Self::Error>;

    /// What the VAE encodes silence to: `[1, T, C]`, in f32.
    ///
    /// # Errors
    /// If it is absent or malformed; nothing stands in for it.
    fn silence_latent(&self, device: &B::Device) -> Result<Tensor<B, 3>, Self::Error>;

    /// The text encoder.
    ///
    /// # Errors
    /// If its weights are absent, malformed or of another shape.
    fn text_encoder(&self, place: &Place<B>) -> Result<qwen3::Model<B>, Self::Error>;

    /// The encoders of text, lyrics and timbre.
    ///
    /// # Errors
    /// If its weights are absent, malformed or of another shape.
    fn conditioner(&self, place: &Place<B>) -> Result<acestep::Conditioner<B>, Self::Error>;

    /// Latents to audio codes and back.
    ///
    /// # Errors
    /// If its weights are absent, malformed or of another shape.
    fn audio_codec(&self, place: &Place<B>) -> Result<acestep::AudioCodec<B>, Self::Error>;

    // ANCHOR: dit
    /// The diffusion transformer.
    ///
    /// # Errors
    /// If its weights are absent, malformed or of another shape.
    fn dit(&self, place: &Place<B>) -> Result<acestep::Dit<B>, Self::Error>;
    // ANCHOR_END: dit

    /// Latents to sound.
    ///
    /// # Errors
    /// If its weights are absent, malformed or of another shape.
    fn vae_decoder(&self, place: &Place<B>) -> Result<oobleck::Decoder<B>, Self::Error>;

    /// Sound to latents.
    ///
    /// # Errors
    /// If its weights are absent, malformed or of another shape.
    fn vae_encoder(&self, place: &Place<B>) -> Result<oobleck::Encoder<B>, Self::Error>;
}
