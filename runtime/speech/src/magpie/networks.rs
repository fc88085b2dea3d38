//! The networks of a model, each loaded when it is needed.

use std::{fmt, ops::Deref, rc::Rc};

use acestep_engine::{
    Error, Lent, Residency,
    networks::{Network, NetworkCache, WeightTypes},
};
use acestep_model::{
    Backend, Place,
    kernel::Precision,
    speech::{
        magpie::{Checkpoint, Decoder, Encoder, LocalTransformer},
        nanocodec,
    },
};

use super::stage;

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
    /// All networks in `place`. Nothing is loaded yet; what is loaded stays in memory.
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

    /// Returns the encoder of the text.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn encoder(&self) -> Result<Rc<Encoder<B>>, Error> {
        self.load(ENCODER, |place| self.checkpoint.encoder(place).map_err(Error::Checkpoint))
    }

    /// Returns the decoder.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn decoder(&self) -> Result<Rc<Decoder<B>>, Error> {
        self.load(DECODER, |place| self.checkpoint.decoder(place).map_err(Error::Checkpoint))
    }

    /// Returns the local transformer.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn local_transformer(&self) -> Result<Rc<LocalTransformer<B>>, Error> {
        let read = |place: &Place<B>| self.checkpoint.local_transformer(place);
        self.load(LOCAL_TRANSFORMER, |place| read(place).map_err(Error::Checkpoint))
    }

    /// Returns the decoder of the codec. It computes in f32, with a precision that depends on the type of the
    /// decoder.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn codec_decoder(&self) -> Result<Rc<nanocodec::Decoder<B>>, Error> {
        let precision = Precision::beside(self.place(DECODER).dtype);
        let read = |place: &Place<B>| self.checkpoint.codec_decoder(place, precision);
        self.load(CODEC_DECODER, |place| read(place).map_err(Error::Checkpoint))
    }
}
