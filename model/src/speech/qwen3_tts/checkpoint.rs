//! The interface between the networks and the code that loads their weights.

use super::{Config, GenerationConfig, SpeakerEncoder, Talker, codec};
use crate::{Backend, CheckpointError, Place, Tokenizer, speech::mimi};

/// The part of a checkpoint that needs no device.
pub trait Files {
    /// Returns the name of the checkpoint, for messages.
    fn name(&self) -> &str;

    /// Returns the configuration of talker, code predictor and speaker encoder.
    fn config(&self) -> &Config;

    /// Returns the configuration of the codec.
    fn codec_config(&self) -> &codec::Config;

    /// Returns the sampling settings.
    fn generation_config(&self) -> &GenerationConfig;

    /// Returns the tokenizer, whose ids all have a row in the talker's text table.
    ///
    /// # Errors
    /// If its files are missing or malformed.
    fn tokenizer(&self) -> Result<&dyn Tokenizer, CheckpointError>;

    /// Returns a checksum of the configurations and of samples of all weights of talker and codec. A
    /// state that was kept in a file finds its model again by it.
    ///
    /// # Errors
    /// If a file cannot be read any more.
    fn fingerprint(&self) -> Result<String, CheckpointError>;

    /// Checks that the files of the networks did not change since they were opened.
    ///
    /// # Errors
    /// If a file was changed or cannot be read any more.
    fn unchanged(&self) -> Result<(), CheckpointError> {
        Ok(())
    }
}

/// A checkpoint whose networks are read on request.
pub trait Checkpoint<B: Backend>: Files {
    /// Returns talker and code predictor.
    ///
    /// # Errors
    /// If weights are missing, malformed or have another shape.
    fn talker(&self, place: &Place<B>) -> Result<Talker<B>, CheckpointError>;

    /// Returns the speaker encoder.
    ///
    /// # Errors
    /// If the checkpoint has none, or weights are missing, malformed or have another shape.
    fn speaker_encoder(&self, place: &Place<B>) -> Result<SpeakerEncoder<B>, CheckpointError>;

    /// Returns the decoder of the codec.
    ///
    /// # Errors
    /// If weights are missing, malformed or have another shape.
    fn codec_decoder(&self, place: &Place<B>) -> Result<codec::Decoder<B>, CheckpointError>;

    /// Returns the encoder of the codec.
    ///
    /// # Errors
    /// If weights are missing, malformed or have another shape.
    fn codec_encoder(&self, place: &Place<B>) -> Result<mimi::Encoder<B>, CheckpointError>;
}
