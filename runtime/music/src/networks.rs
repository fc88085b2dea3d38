//! The networks of a song's model, each loaded when a stage needs it.

use std::{
    cell::RefCell,
    fmt,
    ops::Deref,
    ptr,
    rc::{Rc, Weak},
};

use acestep_engine::{
    DeviceTarget, Error, Residency, SharedRef, Stage,
    networks::{NetworkCache, NetworkSpec, WeightTypes},
};
pub use acestep_model::acestep::Network;
use acestep_model::{
    Backend, Checkpoint, CheckpointError, Configs, Place,
    acestep::{AudioCodec, Conditioner, Dit},
    oobleck, qwen3,
};
use burn::{
    module::Module,
    tensor::{DType, Tensor, TensorData},
};

use crate::{exchange::Array3, stage};

/// Prompts to hidden states.
pub const TEXT_ENCODER: NetworkSpec = spec(Network::TextEncoder);
/// Encoders of text, lyrics and timbre.
pub const CONDITIONER: NetworkSpec = spec(Network::Conditioner);
/// Latents to audio codes and back.
pub const AUDIO_CODEC: NetworkSpec = spec(Network::AudioCodec);
/// Noise to latents.
pub const DIT: NetworkSpec = spec(Network::Dit);
/// Latents to sound.
pub const VAE_DECODER: NetworkSpec = spec(Network::VaeDecoder);
/// Sound to latents.
pub const VAE_ENCODER: NetworkSpec = spec(Network::VaeEncoder);

/// Describes a network to the engine.
const fn spec(network: Network) -> NetworkSpec {
    let types = match network {
        Network::Dit | Network::LanguageModel => WeightTypes::All,
        _ => WeightTypes::Floats,
    };
    NetworkSpec { name: network.with_article(), stage: stage_of(network), types }
}

/// Returns the stage that a network is loaded for.
const fn stage_of(network: Network) -> Stage {
    match network {
        Network::TextEncoder => stage::TEXT_ENCODER,
        Network::Conditioner => stage::CONDITION,
        Network::AudioCodec => stage::CODES,
        Network::Dit => stage::DIFFUSION,
        Network::VaeDecoder => stage::VAE,
        Network::VaeEncoder => stage::VAE_ENCODER,
        Network::LanguageModel => stage::LM_TEXT,
    }
}

/// The encoded references of a timbre, `[R, H]`. Clones share them. Only the loaded network that
/// encoded them gets them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Voices<B: Backend>(Rc<RefCell<Option<Encoded<B>>>>);

#[derive(Debug)]
struct Encoded<B: Backend> {
    network: Weak<Conditioner<B>>,
    vectors: Tensor<B, 2>,
}

impl<B: Backend> Voices<B> {
    /// Returns the vectors, if `network` encoded them.
    pub(crate) fn of(&self, network: &Rc<Conditioner<B>>) -> Option<Tensor<B, 2>> {
        let encoded = self.0.borrow();
        let own = encoded.as_ref().filter(|own| ptr::eq(own.network.as_ptr(), Rc::as_ptr(network)));
        own.map(|own| own.vectors.clone())
    }

    /// Keeps the vectors of `network`.
    pub(crate) fn keep(&self, network: &Rc<Conditioner<B>>, vectors: Tensor<B, 2>) {
        *self.0.borrow_mut() = Some(Encoded { network: Rc::downgrade(network), vectors });
    }

    /// Drops the vectors of a network that is no longer in memory.
    fn drop_old(&self) {
        let mut encoded = self.0.borrow_mut();
        if encoded.as_ref().is_some_and(|own| own.network.strong_count() == 0) {
            *encoded = None;
        }
    }
}

/// The networks of a checkpoint on a device.
///
/// A handle that a method returns lives as long as its statement. Then the network is dropped, so
/// only one is in memory at a time, unless they are [`Residency::Kept`]. Stages run through the
/// [`NetworkCache`] to which this dereferences.
pub struct Networks<'a, B: Backend> {
    checkpoint: SharedRef<'a, dyn Checkpoint<B> + 'a>,
    cache: NetworkCache<'a, B>,
    silence: Voices<B>,
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
    /// All networks in `place`; those that do not take int8 have the type of
    /// [`of_others`](acestep_engine::device::dtype::of_others). Nothing is loaded yet.
    pub fn new(checkpoint: &'a dyn Checkpoint<B>, place: Place<B>, residency: Residency) -> Self {
        Self::of(SharedRef::Borrowed(checkpoint), place, residency)
    }

    /// As [`Self::new`], with a checkpoint that the networks share.
    pub fn of(
        checkpoint: SharedRef<'a, dyn Checkpoint<B> + 'a>,
        place: Place<B>,
        residency: Residency,
    ) -> Self {
        let files = checkpoint.clone();
        let cache = NetworkCache::new(place, residency, move || files.unchanged());
        Self { checkpoint, cache, silence: Voices::default() }
    }

    /// Sets the float type of one network.
    pub fn with(mut self, network: Network, dtype: DType) -> Self {
        self.cache.set_dtype(spec(network), dtype);
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

    /// See [`ModelFiles::token_ids`](acestep_model::ModelFiles::token_ids).
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn token_ids(&self, text: &str, max_tokens: usize) -> Result<Vec<u32>, Error> {
        self.checkpoint.token_ids(text, max_tokens).map_err(Error::checkpoint)
    }

    /// See [`ModelFiles::text_of`](acestep_model::ModelFiles::text_of).
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn text_of(&self, ids: &[u32]) -> Result<String, Error> {
        self.checkpoint.text_of(ids).map_err(Error::checkpoint)
    }

    /// See [`ModelFiles::pad_token_id`](acestep_model::ModelFiles::pad_token_id).
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

    /// Returns the encoded [silence](Self::silence_latent) of a timbre.
    pub(crate) fn voices_of_silence(&self) -> Voices<B> {
        self.silence.clone()
    }

    /// [`NetworkCache::load`], which may drop another network.
    fn load<T: Module<B> + 'static>(
        &self,
        network: NetworkSpec,
        read: impl FnOnce(&Place<B>) -> Result<T, CheckpointError>,
    ) -> Result<Rc<T>, Error> {
        let loaded = self.cache.load(network, read);
        self.silence.drop_old();
        loaded
    }

    /// Returns the text encoder.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn text_encoder(&self) -> Result<Rc<qwen3::Model<B>>, Error> {
        self.load(TEXT_ENCODER, |place| self.checkpoint.text_encoder(place))
    }

    /// Returns the encoders of text, lyrics and timbre.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn conditioner(&self) -> Result<Rc<Conditioner<B>>, Error> {
        self.load(CONDITIONER, |place| self.checkpoint.conditioner(place))
    }

    /// Returns the network between latents and audio codes.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn audio_codec(&self) -> Result<Rc<AudioCodec<B>>, Error> {
        self.load(AUDIO_CODEC, |place| self.checkpoint.audio_codec(place))
    }

    /// Returns the diffusion transformer.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn dit(&self) -> Result<Rc<Dit<B>>, Error> {
        self.load(DIT, |place| self.checkpoint.dit(place))
    }

    /// Returns the network from latents to sound.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn vae_decoder(&self) -> Result<Rc<oobleck::Decoder<B>>, Error> {
        // Weights are prepacked once for all tiles, for as long as the network is in memory.
        self.load(VAE_DECODER, |place| Ok(self.checkpoint.vae_decoder(place)?.prepacked()))
    }

    /// Returns the network from sound to latents.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn vae_encoder(&self) -> Result<Rc<oobleck::Encoder<B>>, Error> {
        self.load(VAE_ENCODER, |place| Ok(self.checkpoint.vae_encoder(place)?.prepacked()))
    }

    /// Copies an array to the device, as a part of `stage`.
    pub(crate) fn upload(&self, array: &Array3, stage: Stage) -> Result<Tensor<B, 3>, Error> {
        let data = TensorData::new(array.data.clone(), array.shape);
        self.catch(stage, || Ok(Tensor::from_data(data, self.device())))
    }
}
