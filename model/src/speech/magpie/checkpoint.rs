//! The interface between the networks and the code that loads their weights.

use super::{Config, Decoder, Encoder, LocalTransformer, Sizes};
use crate::{Backend, CheckpointError, Place, kernel::Precision, speech::nanocodec};

/// The part of a checkpoint that needs no device.
pub trait Files {
    /// Returns the name of the checkpoint, for messages.
    fn name(&self) -> &str;

    /// Returns the configuration of the networks and of a run.
    fn config(&self) -> &Config;

    /// Returns the sizes that the configuration does not contain.
    fn sizes(&self) -> &Sizes;

    /// Returns the configuration of the codec.
    fn codec_config(&self) -> &nanocodec::Config;

    /// Returns the files of the text and of the voices.
    fn texts(&self) -> &dyn TextFiles;

    /// Returns a checksum of the configurations and of samples of all weights.
    ///
    /// # Errors
    /// If a file cannot be read any more.
    fn fingerprint(&self) -> Result<String, CheckpointError>;

    /// Checks that the files of the networks did not change since they were opened.
    ///
    /// # Errors
    /// If a file was changed or cannot be read any more.
    fn unchanged(&self) -> Result<(), CheckpointError>;
}

/// The files that [`Config::text_tokenizers`] and [`Config::speaker_map`] name.
pub trait TextFiles {
    /// Returns the content of the file `name`, with or without `nemo:` before it.
    ///
    /// # Errors
    /// If there is no such file.
    fn artefact(&self, name: &str) -> Result<Vec<u8>, CheckpointError>;

    /// Returns the names of the voices with their indices; empty if the files have no names.
    ///
    /// # Errors
    /// If the file of names is missing or malformed.
    fn speakers(&self) -> Result<Vec<(String, usize)>, CheckpointError>;
}

/// A checkpoint whose networks are read on request.
pub trait Checkpoint<B: Backend>: Files {
    /// Returns the encoder of the text.
    ///
    /// # Errors
    /// If weights are missing, malformed or have another shape.
    fn encoder(&self, place: &Place<B>) -> Result<Encoder<B>, CheckpointError>;

    /// Returns the decoder, with the tables of codes and the voices.
    ///
    /// # Errors
    /// If weights are missing, malformed or have another shape.
    fn decoder(&self, place: &Place<B>) -> Result<Decoder<B>, CheckpointError>;

    /// Returns the local transformer.
    ///
    /// # Errors
    /// If weights are missing, malformed or have another shape.
    fn local_transformer(&self, place: &Place<B>) -> Result<LocalTransformer<B>, CheckpointError>;

    /// Returns the decoder of the codec, for this precision.
    ///
    /// # Errors
    /// If weights are missing, malformed or have another shape.
    fn codec_decoder(
        &self,
        place: &Place<B>,
        precision: Precision,
    ) -> Result<nanocodec::Decoder<B>, CheckpointError>;
}
