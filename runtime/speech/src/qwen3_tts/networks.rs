//! The networks of a speech model, each loaded when it is needed.

use std::rc::Rc;

use acestep_engine::{
    Error,
    networks::{Network, WeightTypes},
};
use acestep_model::{
    Backend, CheckpointError,
    speech::{
        mimi,
        qwen3_tts::{Checkpoint, Files, SpeakerEncoder, Talker, codec},
    },
};

use super::stage;
use crate::networks::{self, Unchanged};

/// Talker and code predictor.
pub const TALKER: Network =
    Network { name: "the talker", stage: stage::TALKER, types: WeightTypes::All };
/// A recording to the vector of its voice.
pub const SPEAKER_ENCODER: Network = Network {
    name: "the speaker encoder",
    stage: stage::SPEAKER_ENCODER,
    types: WeightTypes::Floats,
};
/// Codes to samples.
pub const CODEC_DECODER: Network =
    Network { name: "the codec decoder", stage: stage::CODEC_DECODER, types: WeightTypes::Floats };
/// A recording to codes.
pub const CODEC_ENCODER: Network =
    Network { name: "the codec encoder", stage: stage::CODEC_ENCODER, types: WeightTypes::Floats };

/// The networks of a checkpoint.
pub type Networks<'a, B> = networks::Networks<'a, B, dyn Checkpoint<B> + 'a>;

impl<B: Backend> Unchanged for dyn Checkpoint<B> + '_ {
    fn unchanged(&self) -> Result<(), CheckpointError> {
        Files::unchanged(self)
    }
}

impl<B: Backend> Networks<'_, B> {
    /// Returns talker and code predictor.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn talker(&self) -> Result<Rc<Talker<B>>, Error> {
        self.read(TALKER, |files, place| files.talker(place))
    }

    /// Returns the speaker encoder.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn speaker_encoder(&self) -> Result<Rc<SpeakerEncoder<B>>, Error> {
        self.read(SPEAKER_ENCODER, |files, place| files.speaker_encoder(place))
    }

    /// Returns the decoder of the codec.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn codec_decoder(&self) -> Result<Rc<codec::Decoder<B>>, Error> {
        self.read(CODEC_DECODER, |files, place| files.codec_decoder(place))
    }

    /// Returns the encoder of the codec.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn codec_encoder(&self) -> Result<Rc<mimi::Encoder<B>>, Error> {
        self.read(CODEC_ENCODER, |files, place| files.codec_encoder(place))
    }
}
