//! The networks of a speech model, each loaded when it is needed.

use std::{fmt, ops::Deref, rc::Rc};

use acestep_engine::{
    Error, Lent, Residency,
    networks::{Network, NetworkCache, WeightTypes},
};
use acestep_model::{
    Backend, Place,
    speech::{
        mimi,
        qwen3_tts::{Checkpoint, SpeakerEncoder, Talker, codec},
    },
};

use super::stage;

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

/// The networks of a checkpoint on a device. Stages run through the [`NetworkCache`] to which this
/// dereferences.
pub struct Networks<'a, B: Backend> {
    checkpoint: Lent<'a, dyn Checkpoint<B> + 'a>,
    cache: NetworkCache<'a, B>,
}

impl<B: Backend> fmt::Debug for Networks<'_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.cache.fmt(f)
    }
}

impl<'a, B: Backend> Deref for Networks<'a, B> {
    type Target = NetworkCache<'a, B>;

    fn deref(&self) -> &Self::Target {
        &self.cache
    }
}

impl<'a, B: Backend> Networks<'a, B> {
    /// All networks in `place`. Nothing is loaded yet. What is loaded stays in memory: talker and
    /// codec work in turn.
    pub fn new(checkpoint: &'a dyn Checkpoint<B>, place: Place<B>) -> Self {
        Self::of(Lent::Borrowed(checkpoint), place)
    }

    /// As [`Self::new`], with a checkpoint that the networks share.
    pub fn of(checkpoint: Lent<'a, dyn Checkpoint<B> + 'a>, place: Place<B>) -> Self {
        let files = checkpoint.clone();
        let is_unchanged = move || files.unchanged().map_err(Error::Checkpoint);
        Self { checkpoint, cache: NetworkCache::new(place, Residency::Kept, is_unchanged) }
    }

    /// The checkpoint.
    pub fn checkpoint(&self) -> &(dyn Checkpoint<B> + 'a) {
        &*self.checkpoint
    }

    /// Returns talker and code predictor.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn talker(&self) -> Result<Rc<Talker<B>>, Error> {
        self.load(TALKER, |place| self.checkpoint.talker(place).map_err(Error::Checkpoint))
    }

    /// Returns the speaker encoder.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn speaker_encoder(&self) -> Result<Rc<SpeakerEncoder<B>>, Error> {
        let read = |place: &Place<B>| self.checkpoint.speaker_encoder(place);
        self.load(SPEAKER_ENCODER, |place| read(place).map_err(Error::Checkpoint))
    }

    /// Returns the decoder of the codec.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn codec_decoder(&self) -> Result<Rc<codec::Decoder<B>>, Error> {
        let read = |place: &Place<B>| self.checkpoint.codec_decoder(place);
        self.load(CODEC_DECODER, |place| read(place).map_err(Error::Checkpoint))
    }

    /// Returns the encoder of the codec.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn codec_encoder(&self) -> Result<Rc<mimi::Encoder<B>>, Error> {
        let read = |place: &Place<B>| self.checkpoint.codec_encoder(place);
        self.load(CODEC_ENCODER, |place| read(place).map_err(Error::Checkpoint))
    }
}
