//! The tiny checkpoint with changed weights, loading or sizes.

use acestep_import::{AceStep, Error, Network};
use acestep_model::{
    Checkpoint, CheckpointError, Configs, ModelFiles, Place, acestep, oobleck, qwen3,
};
use burn::{module::Module, tensor::Tensor};
use burn_flex::FlexDevice;

use crate::{Cpu, turbo};

/// A change of a checkpoint. Every method defaults to no change.
pub trait Change {
    /// Returns the configurations that replace `own`.
    fn configs<'a>(&'a self, own: &'a Configs) -> &'a Configs {
        own
    }

    /// Changes a network after it was read.
    fn network<M: Module<Cpu>>(&self, _part: Network, network: M) -> M {
        network
    }

    /// Changes the VAE decoder after it was read.
    fn vae_decoder(&self, network: oobleck::Decoder<Cpu>) -> oobleck::Decoder<Cpu> {
        self.network(Network::VaeDecoder, network)
    }

    /// Says if a file was changed since it was opened.
    ///
    /// # Errors
    /// If one was.
    fn unchanged(&self) -> Result<(), Error> {
        Ok(())
    }
}

/// The built-in turbo checkpoint with a change.
#[derive(Debug)]
pub struct Altered<C> {
    /// The unchanged checkpoint.
    pub model: AceStep,
    /// The change.
    pub change: C,
}

impl<C: Change> Altered<C> {
    /// Returns the built-in turbo checkpoint with `change`.
    pub fn new(change: C) -> Self {
        Self { model: turbo(), change }
    }

    fn changed<M: Module<Cpu>>(
        &self,
        part: Network,
        read: Result<M, CheckpointError>,
    ) -> Result<M, CheckpointError> {
        read.map(|network| self.change.network(part, network))
    }
}

impl<C: Change> ModelFiles for Altered<C> {
    fn configs(&self) -> &Configs {
        self.change.configs(self.model.configs())
    }

    fn unchanged(&self) -> Result<(), CheckpointError> {
        Ok(self.change.unchanged()?)
    }

    fn token_ids(&self, text: &str, max_tokens: usize) -> Result<Vec<u32>, CheckpointError> {
        self.model.token_ids(text, max_tokens)
    }

    fn text_of(&self, ids: &[u32]) -> Result<String, CheckpointError> {
        self.model.text_of(ids)
    }

    fn pad_token_id(&self) -> Result<u32, CheckpointError> {
        self.model.pad_token_id()
    }
}

impl<C: Change> Checkpoint<Cpu> for Altered<C> {
    fn silence_latent(&self, device: &FlexDevice) -> Result<Tensor<Cpu, 3>, CheckpointError> {
        self.model.silence_latent(device)
    }

    fn text_encoder(&self, place: &Place<Cpu>) -> Result<qwen3::Model<Cpu>, CheckpointError> {
        self.changed(Network::TextEncoder, self.model.text_encoder(place))
    }

    fn conditioner(
        &self,
        place: &Place<Cpu>,
    ) -> Result<acestep::Conditioner<Cpu>, CheckpointError> {
        self.changed(Network::Conditioner, self.model.conditioner(place))
    }

    fn audio_codec(&self, place: &Place<Cpu>) -> Result<acestep::AudioCodec<Cpu>, CheckpointError> {
        self.changed(Network::AudioCodec, self.model.audio_codec(place))
    }

    fn dit(&self, place: &Place<Cpu>) -> Result<acestep::Dit<Cpu>, CheckpointError> {
        self.changed(Network::Dit, self.model.dit(place))
    }

    fn vae_decoder(&self, place: &Place<Cpu>) -> Result<oobleck::Decoder<Cpu>, CheckpointError> {
        Ok(self.change.vae_decoder(self.model.vae_decoder(place)?))
    }

    fn vae_encoder(&self, place: &Place<Cpu>) -> Result<oobleck::Encoder<Cpu>, CheckpointError> {
        self.changed(Network::VaeEncoder, self.model.vae_encoder(place))
    }
}
