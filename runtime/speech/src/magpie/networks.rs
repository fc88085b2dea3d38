//! The networks of a model, each loaded when it is needed.

use std::rc::Rc;

use acestep_engine::{
    Error,
    networks::{Network, WeightTypes},
};
use acestep_model::{
    Backend, CheckpointError,
    kernel::Precision,
    speech::{
        magpie::{Checkpoint, Decoder, Encoder, Files, LocalTransformer},
        nanocodec,
    },
};

use super::stage;
use crate::networks::{self, Unchanged};

/// Text to memory.
pub const ENCODER: Network =
    Network { name: "the text encoder", stage: stage::DECODER, types: WeightTypes::All };
/// Memory and codes to the next codes.
pub const DECODER: Network =
    Network { name: "the decoder", stage: stage::DECODER, types: WeightTypes::All };
/// The codes of a stack, one after the other.
pub const LOCAL_TRANSFORMER: Network =
    Network { name: "the local transformer", stage: stage::DECODER, types: WeightTypes::All };
/// Codes to samples.
pub const CODEC_DECODER: Network =
    Network { name: "the codec decoder", stage: stage::CODEC_DECODER, types: WeightTypes::F32 };

/// The networks of a checkpoint.
pub type Networks<'a, B> = networks::Networks<'a, B, dyn Checkpoint<B> + 'a>;

impl<B: Backend> Unchanged for dyn Checkpoint<B> + '_ {
    fn unchanged(&self) -> Result<(), CheckpointError> {
        Files::unchanged(self)
    }
}

impl<B: Backend> Networks<'_, B> {
    /// Returns the encoder of the text.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn encoder(&self) -> Result<Rc<Encoder<B>>, Error> {
        self.read(ENCODER, |files, place| files.encoder(place))
    }

    /// Returns the decoder.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn decoder(&self) -> Result<Rc<Decoder<B>>, Error> {
        self.read(DECODER, |files, place| files.decoder(place))
    }

    /// Returns the local transformer.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn local_transformer(&self) -> Result<Rc<LocalTransformer<B>>, Error> {
        self.read(LOCAL_TRANSFORMER, |files, place| files.local_transformer(place))
    }

    /// Returns the decoder of the codec. It computes in f32, with a precision that depends on the type of the
    /// decoder.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn codec_decoder(&self) -> Result<Rc<nanocodec::Decoder<B>>, Error> {
        let precision = Precision::beside(self.place(DECODER).dtype);
        self.read(CODEC_DECODER, |files, place| files.codec_decoder(place, precision))
    }
}
