//! Networks in memory: one at a time, or all that were loaded.

use std::{cell::RefCell, rc::Rc};

use acestep_model::{
    Backend, Checkpoint, Configs, Place,
    acestep::{AudioCodec, Conditioner, Dit},
    oobleck, qwen3,
};
use burn::{
    module::Module,
    tensor::{DType, Tensor},
};

use crate::{
    Error,
    device::{DeviceTarget, dtype::of_others, memory::bytes_of_weights, trial},
    observe::{Observe, Stage, WhileUnchanged},
    overflow,
};

/// The lifetime of networks in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Residency {
    /// Only while it is used: one network at a time.
    WhileUsed,
    /// Until another network is used: one at a time, but many songs share one load.
    Last,
    /// From the first use to the end.
    Kept,
}

/// One of the networks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// See [`Networks::text_encoder`].
    TextEncoder,
    /// See [`Networks::conditioner`].
    Conditioner,
    /// See [`Networks::audio_codec`].
    AudioCodec,
    /// See [`Networks::dit`].
    Dit,
    /// See [`Networks::vae_decoder`].
    VaeDecoder,
    /// See [`Networks::vae_encoder`].
    VaeEncoder,
}

impl Network {
    const COUNT: usize = 6;
    const ALL: [Self; Self::COUNT] = [
        Self::TextEncoder,
        Self::Conditioner,
        Self::AudioCodec,
        Self::Dit,
        Self::VaeDecoder,
        Self::VaeEncoder,
    ];

    /// The stage that the network is loaded for.
    pub fn stage(self) -> Stage {
        match self {
            Self::TextEncoder => Stage::TextEncoder,
            Self::Conditioner => Stage::Condition,
            Self::AudioCodec => Stage::Codes,
            Self::Dit => Stage::Diffusion,
            Self::VaeDecoder => Stage::Vae,
            Self::VaeEncoder => Stage::VaeEncoder,
        }
    }

    /// A noun phrase for messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::TextEncoder => "the text encoder",
            Self::Conditioner => "the condition encoder",
            Self::AudioCodec => "the network of audio codes",
            Self::Dit => "the diffusion transformer",
            Self::VaeDecoder => "the VAE",
            Self::VaeEncoder => "the encoder of the VAE",
        }
    }
}

/// The networks of a checkpoint on a device.
///
/// A handle that a method returns lives as long as its statement. Then the network is dropped, so
/// only one is in memory at a time, unless they are [`Residency::Kept`].
#[derive(Debug)]
pub struct Networks<'a, B: Backend, C> {
    checkpoint: &'a C,
    device: B::Device,
    site: DeviceTarget,
    /// The place of each [`Network`].
    places: RefCell<[Place<B>; Network::COUNT]>,
    /// The number of parameters of each loaded [`Network`]; 0 for others.
    parameters: RefCell<[u64; Network::COUNT]>,
    residency: Residency,
    text_encoder: Slot<qwen3::Model<B>>,
    conditioner: Slot<Conditioner<B>>,
    audio_codec: Slot<AudioCodec<B>>,
    dit: Slot<Dit<B>>,
    vae_decoder: Slot<oobleck::Decoder<B>>,
    vae_encoder: Slot<oobleck::Encoder<B>>,
}

type Slot<T> = RefCell<Option<Rc<T>>>;

impl<'a, B: Backend, C: Checkpoint<B>> Networks<'a, B, C> {
    /// All networks in `place`; those besides the diffusion transformer have the type of
    /// [`of_others`]. Nothing is loaded yet.
    pub fn new(checkpoint: &'a C, place: Place<B>, residency: Residency) -> Self {
        Self {
            checkpoint,
            device: place.device.clone(),
            site: DeviceTarget::of::<B>(&place.device),
            parameters: RefCell::default(),
            places: RefCell::new(std::array::from_fn(|network| Place {
                device: place.device.clone(),
                dtype: match network == Network::Dit as usize {
                    true => place.dtype,
                    false => of_others(place.dtype),
                },
            })),
            residency,
            text_encoder: Slot::default(),
            conditioner: Slot::default(),
            audio_codec: Slot::default(),
            dit: Slot::default(),
            vae_decoder: Slot::default(),
            vae_encoder: Slot::default(),
        }
    }

    /// Sets the float type of one network.
    pub fn with(self, network: Network, dtype: DType) -> Self {
        self.places.borrow_mut()[network as usize].dtype = dtype;
        self
    }

    /// Treats failures as on `site`.
    pub fn at(self, site: DeviceTarget) -> Self {
        Self { site, ..self }
    }

    /// The lifetime of networks in memory.
    pub fn residency(&self) -> Residency {
        self.residency
    }

    /// The device and its memory, which decide how failures are handled.
    pub fn site(&self) -> &DeviceTarget {
        &self.site
    }

    /// The device and type of a network when it is loaded.
    pub fn place(&self, network: Network) -> Place<B> {
        self.places.borrow()[network as usize].clone()
    }

    /// Runs the work of a stage. If the result is not finite in a narrow type, runs it once more
    /// with its network in f32; the network then stays in f32.
    ///
    /// The observer that `work` gets also cancels it if a file of the checkpoint changes. `work`
    /// must load the network itself, drop it, and read its results: only then it is certain that
    /// the device did not fail.
    ///
    /// # Errors
    /// The errors of `work`; [`Error::Checkpoint`] if a file changed meanwhile;
    /// [`Error::DeviceFailed`] if a GPU fails; [`Error::NoRoomForF32`].
    pub fn run_with_f32_retry<T>(
        &self,
        network: Network,
        observe: &dyn Observe,
        mut work: impl FnMut(&dyn Observe) -> Result<T, Error>,
    ) -> Result<T, Error> {
        // Frees the memory of earlier stages, which a GPU keeps in blocks of their sizes.
        self.free();
        let place = self.place(network);
        let widened = |wide: &Place<B>| {
            self.places.borrow_mut()[network as usize] = wide.clone();
            self.forget(network);
            self.free();
            let own = self.parameters.borrow()[network as usize];
            let others = self.kept_bytes();
            overflow::check_room(network.name(), place.dtype, own, others, &self.site)
        };
        overflow::repeated_in_f32(network.name(), &place, observe, widened, |_| {
            let is_unchanged = &|| self.checkpoint.unchanged().is_ok();
            let observe = WhileUnchanged { observe, is_unchanged };
            let made = self.attempt(network.stage(), || work(&observe));
            // Check this first: a changed file may be the reason of a cancellation or of NaN
            // values.
            self.checkpoint.unchanged().map_err(Error::checkpoint)?;
            made
        })
    }

    /// Runs work without a network, such as copying values to the device.
    ///
    /// # Errors
    /// The errors of `work`; [`Error::DeviceFailed`] if a GPU fails.
    pub fn attempt<T>(
        &self,
        stage: Stage,
        work: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        trial::attempt(self.site.device, stage, work)
    }

    /// Releases unused memory of the device.
    pub fn free(&self) {
        trial::free::<B>(&self.device);
    }

    /// Bytes of the networks that are kept in memory.
    fn kept_bytes(&self) -> u64 {
        let is_kept = [
            self.text_encoder.borrow().is_some(),
            self.conditioner.borrow().is_some(),
            self.audio_codec.borrow().is_some(),
            self.dit.borrow().is_some(),
            self.vae_decoder.borrow().is_some(),
            self.vae_encoder.borrow().is_some(),
        ];
        let (places, parameters) = (self.places.borrow(), self.parameters.borrow());
        let sizes =
            places.iter().zip(&*parameters).map(|(place, n)| bytes_of_weights(*n, place.dtype));
        sizes.zip(is_kept).filter_map(|(bytes, is_kept)| is_kept.then_some(bytes)).sum()
    }

    /// Drops a network that is kept.
    fn forget(&self, network: Network) {
        match network {
            Network::TextEncoder => drop(self.text_encoder.take()),
            Network::Conditioner => drop(self.conditioner.take()),
            Network::AudioCodec => drop(self.audio_codec.take()),
            Network::Dit => drop(self.dit.take()),
            Network::VaeDecoder => drop(self.vae_decoder.take()),
            Network::VaeEncoder => drop(self.vae_encoder.take()),
        }
    }

    /// The backend's device.
    pub fn device(&self) -> &B::Device {
        &self.device
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
        self.checkpoint.silence_latent(&self.device).map_err(Error::checkpoint)
    }

    /// Returns the text encoder.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn text_encoder(&self) -> Result<Rc<qwen3::Model<B>>, Error> {
        self.load(Network::TextEncoder, &self.text_encoder, C::text_encoder)
    }

    /// Returns the encoders of text, lyrics and timbre.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn conditioner(&self) -> Result<Rc<Conditioner<B>>, Error> {
        self.load(Network::Conditioner, &self.conditioner, C::conditioner)
    }

    /// Returns the network between latents and audio codes.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn audio_codec(&self) -> Result<Rc<AudioCodec<B>>, Error> {
        self.load(Network::AudioCodec, &self.audio_codec, C::audio_codec)
    }

    /// Returns the diffusion transformer.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn dit(&self) -> Result<Rc<Dit<B>>, Error> {
        self.load(Network::Dit, &self.dit, C::dit)
    }

    /// Returns the network from latents to sound.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn vae_decoder(&self) -> Result<Rc<oobleck::Decoder<B>>, Error> {
        // Weights are prepacked once for all tiles, for as long as the network is in memory.
        let read = |checkpoint: &C, place: &Place<B>| {
            checkpoint.vae_decoder(place).map(oobleck::Decoder::prepacked)
        };
        self.load(Network::VaeDecoder, &self.vae_decoder, read)
    }

    /// Returns the network from sound to latents.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn vae_encoder(&self) -> Result<Rc<oobleck::Encoder<B>>, Error> {
        let read = |checkpoint: &C, place: &Place<B>| {
            checkpoint.vae_encoder(place).map(oobleck::Encoder::prepacked)
        };
        self.load(Network::VaeEncoder, &self.vae_encoder, read)
    }

    fn load<T: Module<B>>(
        &self,
        network: Network,
        slot: &Slot<T>,
        read: impl FnOnce(&C, &Place<B>) -> Result<T, C::Error>,
    ) -> Result<Rc<T>, Error> {
        if let Some(kept) = &*slot.borrow() {
            return Ok(kept.clone());
        }
        if self.residency == Residency::Last {
            Network::ALL.into_iter().for_each(|other| self.forget(other));
            self.free();
        }
        let place = self.place(network);
        let part = Rc::new(read(self.checkpoint, &place).map_err(Error::checkpoint)?);
        self.parameters.borrow_mut()[network as usize] = part.num_params() as u64;
        if self.residency != Residency::WhileUsed {
            slot.replace(Some(part.clone()));
        }
        Ok(part)
    }
}
