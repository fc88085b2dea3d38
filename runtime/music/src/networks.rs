//! The networks of a song's model, each loaded when a stage needs it.

use std::{ops::Deref, rc::Rc};

use acestep_engine::{
    DeviceTarget, Error,
    networks::{Network, NetworkCache, Residency},
};
use acestep_model::{
    Backend, Checkpoint, Configs, Place,
    acestep::{AudioCodec, Conditioner, Dit},
    oobleck, qwen3,
};
use burn::{
    module::Module,
    tensor::{DType, Tensor},
};

use crate::stage;

/// Prompts to hidden states.
pub const TEXT_ENCODER: Network =
    Network { name: "the text encoder", stage: stage::TEXT_ENCODER, takes_int8: false };
/// Encoders of text, lyrics and timbre.
pub const CONDITIONER: Network =
    Network { name: "the condition encoder", stage: stage::CONDITION, takes_int8: false };
/// Latents to audio codes and back.
pub const AUDIO_CODEC: Network =
    Network { name: "the network of audio codes", stage: stage::CODES, takes_int8: false };
/// Noise to latents.
pub const DIT: Network =
    Network { name: "the diffusion transformer", stage: stage::DIFFUSION, takes_int8: true };
/// Latents to sound.
pub const VAE_DECODER: Network = Network { name: "the VAE", stage: stage::VAE, takes_int8: false };
/// Sound to latents.
pub const VAE_ENCODER: Network =
    Network { name: "the encoder of the VAE", stage: stage::VAE_ENCODER, takes_int8: false };

/// The networks of a checkpoint on a device.
///
/// A handle that a method returns lives as long as its statement. Then the network is dropped, so
/// only one is in memory at a time, unless they are [`Residency::Kept`]. Stages run through the
/// [`NetworkCache`] to which this dereferences.
#[derive(Debug)]
pub struct Networks<'a, B: Backend, C> {
    checkpoint: &'a C,
    cache: NetworkCache<'a, B>,
}

impl<'a, B: Backend, C> Deref for Networks<'a, B, C> {
    type Target = NetworkCache<'a, B>;

    fn deref(&self) -> &Self::Target {
        &self.cache
    }
}

impl<'a, B: Backend, C: Checkpoint<B>> Networks<'a, B, C> {
    /// All networks in `place`; those that do not take int8 have the type of
    /// [`of_others`](acestep_engine::device::dtype::of_others). Nothing is loaded yet.
    pub fn new(checkpoint: &'a C, place: Place<B>, residency: Residency) -> Self {
        let is_unchanged = || checkpoint.unchanged().map_err(Error::checkpoint);
        Self { checkpoint, cache: NetworkCache::new(place, residency, is_unchanged) }
    }

    /// Sets the float type of one network.
    pub fn with(mut self, network: Network, dtype: DType) -> Self {
        self.cache.set_dtype(network, dtype);
        self
    }

    /// Treats failures as on `target`.
    pub fn at(mut self, target: DeviceTarget) -> Self {
        self.cache.set_target(target);
        self
    }

    /// The checkpoint's configurations.
    pub fn configs(&self) -> &Configs {
        self.checkpoint.configs()
    }

    /// See [`Checkpoint::token_ids`].
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn token_ids(&self, text: &str, max_tokens: usize) -> Result<Vec<u32>, Error> {
        self.checkpoint.token_ids(text, max_tokens).map_err(Error::checkpoint)
    }

    /// See [`Checkpoint::text_of`].
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn text_of(&self, ids: &[u32]) -> Result<String, Error> {
        self.checkpoint.text_of(ids).map_err(Error::checkpoint)
    }

    /// See [`Checkpoint::pad_token_id`].
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn pad_token_id(&self) -> Result<u32, Error> {
        self.checkpoint.pad_token_id().map_err(Error::checkpoint)
    }

    /// Latents of silence, `[1, T, C]`: see [`Checkpoint::silence_latent`].
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn silence_latent(&self) -> Result<Tensor<B, 3>, Error> {
        self.checkpoint.silence_latent(self.cache.device()).map_err(Error::checkpoint)
    }

    /// Returns the text encoder.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn text_encoder(&self) -> Result<Rc<qwen3::Model<B>>, Error> {
        self.load(TEXT_ENCODER, C::text_encoder)
    }

    /// Returns the encoders of text, lyrics and timbre.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn conditioner(&self) -> Result<Rc<Conditioner<B>>, Error> {
        self.load(CONDITIONER, C::conditioner)
    }

    /// Returns the network between latents and audio codes.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn audio_codec(&self) -> Result<Rc<AudioCodec<B>>, Error> {
        self.load(AUDIO_CODEC, C::audio_codec)
    }

    /// Returns the diffusion transformer.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn dit(&self) -> Result<Rc<Dit<B>>, Error> {
        self.load(DIT, C::dit)
    }

    /// Returns the network from latents to sound.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn vae_decoder(&self) -> Result<Rc<oobleck::Decoder<B>>, Error> {
        // Weights are prepacked once for all tiles, for as long as the network is in memory.
        let read = |checkpoint: &C, place: &Place<B>| {
            checkpoint.vae_decoder(place).map(oobleck::Decoder::in_order)
        };
        self.load(VAE_DECODER, read)
    }

    /// Returns the network from sound to latents.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn vae_encoder(&self) -> Result<Rc<oobleck::Encoder<B>>, Error> {
        let read = |checkpoint: &C, place: &Place<B>| {
            checkpoint.vae_encoder(place).map(oobleck::Encoder::in_order)
        };
        self.load(VAE_ENCODER, read)
    }

    fn load<T: Module<B> + 'static>(
        &self,
        network: Network,
        read: impl FnOnce(&C, &Place<B>) -> Result<T, C::Error>,
    ) -> Result<Rc<T>, Error> {
        self.cache.load(network, |place| read(self.checkpoint, place).map_err(Error::checkpoint))
    }
}
