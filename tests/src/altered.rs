//! The tiny checkpoint with changed weights, loading or sizes.

use acestep_import::{AceStep, Error, Network};
use acestep_model::{
    Checkpoint, CheckpointError, Configs, ModelFiles, Place, acestep, oobleck, qwen3,
};
use burn::{
    module::{Module, ModuleMapper, Param},
    tensor::Tensor,
};
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

/// Multiplies all weights of one network by a factor.
#[derive(Debug)]
pub struct Scaled {
    /// The network.
    pub network: Network,
    /// The factor.
    pub factor: f32,
}

impl Change for Scaled {
    fn network<M: Module<Cpu>>(&self, part: Network, network: M) -> M {
        if part == self.network { scaled(network, self.factor) } else { network }
    }
}

/// Returns `network` with all weights multiplied by `factor`.
pub fn scaled<M: Module<Cpu>>(network: M, factor: f32) -> M {
    network.map(&mut Multiply(factor))
}

struct Multiply(f32);

impl ModuleMapper<Cpu> for Multiply {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<Cpu, D>>) -> Param<Tensor<Cpu, D>> {
        param.map(|weight| weight * self.0)
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
