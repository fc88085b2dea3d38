//! The interface between the networks and the code that loads their weights.

use super::{Backbone, Config, Depformer};
use crate::{Backend, CheckpointError, Place, Tokenizer, kernel::Precision, speech::mimi};

/// The part of a checkpoint that needs no device.
pub trait Files {
    /// Returns the name of the checkpoint, for messages.
    fn name(&self) -> &str;

    /// Returns the configuration of both networks.
    fn config(&self) -> &Config;

    /// Returns the configuration of the codec.
    fn codec_config(&self) -> &mimi::Config;

    /// Returns the tokenizer, whose ids all have a row in the text table.
    ///
    /// # Errors
    /// If its files are missing or malformed.
    fn tokenizer(&self) -> Result<&dyn Tokenizer, CheckpointError>;

    /// Returns the id of the tokenizer's mark of the begin of a text; `None` if it has none.
    ///
    /// # Errors
    /// If its files are missing or malformed.
    fn bos_token_id(&self) -> Result<Option<u32>, CheckpointError>;

    /// Returns a text that tells these files from others: of the configurations and a sample of the
    /// weights.
    ///
    /// # Errors
    /// If a file cannot be read.
    fn fingerprint(&self) -> Result<String, CheckpointError>;

    /// Checks that the files of the networks did not change since they were opened, as a network may
    /// use them in place.
    ///
    /// # Errors
    /// If a file was changed or cannot be read any more.
    fn unchanged(&self) -> Result<(), CheckpointError> {
        Ok(())
    }
}

/// A set of networks that belong together, each loaded on request.
pub trait Checkpoint<B: Backend>: Files {
    /// Returns the backbone.
    ///
    /// # Errors
    /// If its weights are missing, malformed or have another shape.
    fn backbone(&self, place: &Place<B>) -> Result<Backbone<B>, CheckpointError>;

    /// Returns the depformer.
    ///
    /// # Errors
    /// If its weights are missing, malformed or have another shape.
    fn depformer(&self, place: &Place<B>) -> Result<Depformer<B>, CheckpointError>;

    /// Returns the decoder of the codec, for as many codebooks as the model has, and for this precision.
    ///
    /// # Errors
    /// If its weights are missing, malformed or have another shape.
    fn codec_decoder(
        &self,
        place: &Place<B>,
        precision: Precision,
    ) -> Result<mimi::Decoder<B>, CheckpointError>;

    /// Returns the encoder of the codec, for as many codebooks as the model has.
    ///
    /// # Errors
    /// If its weights are missing, malformed or have another shape.
    fn codec_encoder(&self, place: &Place<B>) -> Result<mimi::Encoder<B>, CheckpointError>;
}
