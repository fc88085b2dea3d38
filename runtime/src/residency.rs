//! Which networks are in memory: one at a time, or all once loaded.

use std::{cell::OnceCell, rc::Rc};

use acestep_model::{
    Backend, Checkpoint, Configs,
    acestep::{AudioCodec, Conditioner, Dit},
    oobleck, qwen3,
};
use burn::tensor::Tensor;

use crate::Error;

/// How long a network stays in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Residency {
    /// As long as it is used: one at a time.
    WhileUsed,
    /// Once used, to the end.
    Kept,
}

/// The networks of a checkpoint on a device.
///
/// A handle that a method returns lives as long as its statement: then the network is dropped, and
/// only one is in memory at a time, unless they are [`Residency::Kept`].
#[derive(Debug)]
pub struct Parts<'a, B: Backend, C> {
    checkpoint: &'a C,
    device: B::Device,
    residency: Residency,
    text_encoder: Slot<qwen3::Model<B>>,
    conditioner: Slot<Conditioner<B>>,
    audio_codec: Slot<AudioCodec<B>>,
    dit: Slot<Dit<B>>,
    vae_decoder: Slot<oobleck::Decoder<B>>,
    vae_encoder: Slot<oobleck::Encoder<B>>,
}

type Slot<T> = OnceCell<Rc<T>>;

impl<'a, B: Backend, C: Checkpoint<B>> Parts<'a, B, C> {
    /// Nothing is loaded yet.
    pub fn new(checkpoint: &'a C, device: B::Device, residency: Residency) -> Self {
        Self {
            checkpoint,
            device,
            residency,
            text_encoder: Slot::new(),
            conditioner: Slot::new(),
            audio_codec: Slot::new(),
            dit: Slot::new(),
            vae_decoder: Slot::new(),
            vae_encoder: Slot::new(),
        }
    }

    /// Where the networks run.
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

    /// See [`Checkpoint::pad_token_id`].
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn pad_token_id(&self) -> Result<u32, Error> {
        self.checkpoint.pad_token_id().map_err(Error::checkpoint)
    }

    /// See [`Checkpoint::silence_latent`].
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn silence_latent(&self) -> Result<Tensor<B, 3>, Error> {
        self.checkpoint.silence_latent(&self.device).map_err(Error::checkpoint)
    }

    /// The text encoder.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn text_encoder(&self) -> Result<Rc<qwen3::Model<B>>, Error> {
        self.load(&self.text_encoder, C::text_encoder)
    }

    /// The encoders of text, lyrics and timbre.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn conditioner(&self) -> Result<Rc<Conditioner<B>>, Error> {
        self.load(&self.conditioner, C::conditioner)
    }

    /// Latents to audio codes and back.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn audio_codec(&self) -> Result<Rc<AudioCodec<B>>, Error> {
        self.load(&self.audio_codec, C::audio_codec)
    }

    /// The diffusion transformer.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn dit(&self) -> Result<Rc<Dit<B>>, Error> {
        self.load(&self.dit, C::dit)
    }

    /// Latents to sound.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn vae_decoder(&self) -> Result<Rc<oobleck::Decoder<B>>, Error> {
        self.load(&self.vae_decoder, C::vae_decoder)
    }

    /// Sound to latents.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn vae_encoder(&self) -> Result<Rc<oobleck::Encoder<B>>, Error> {
        self.load(&self.vae_encoder, C::vae_encoder)
    }

    fn load<T>(
        &self,
        slot: &Slot<T>,
        read: impl FnOnce(&C, &B::Device) -> Result<T, C::Error>,
    ) -> Result<Rc<T>, Error> {
        if let Some(kept) = slot.get() {
            return Ok(kept.clone());
        }
        let part = Rc::new(read(self.checkpoint, &self.device).map_err(Error::checkpoint)?);
        Ok(match self.residency {
            Residency::WhileUsed => part,
            Residency::Kept => slot.get_or_init(|| part).clone(),
        })
    }
}
