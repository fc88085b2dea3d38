//! [`AceStep`]: the three directories of a model as one [`Checkpoint`].

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use acestep_model::{
    Backend, Checkpoint, CheckpointError, Configs, ModelFiles, Place, acestep, oobleck, qwen3,
};
use burn::tensor::{DType, Tensor};

use crate::{
    Adapter, Adapters, Directory, DitDir, Error, ModelPaths, Network, Origin, PartSize,
    TextEncoderDir, VaeDir, apply,
    built_in::{self, BuiltIn},
    families::acestep::{Kind, tensor_names},
    foreign,
    kind::agree,
    origin::notices,
};

/// A model's networks, read from the released directory layout or an equivalent of it.
#[derive(Debug)]
pub struct AceStep {
    name: String,
    configs: Configs,
    dit: DitDir,
    vae: VaeDir,
    text_encoder: TextEncoderDir,
}

impl AceStep {
    /// Opens the directories in `paths`.
    ///
    /// # Errors
    /// If something is missing, cut, contradictory or of another kind; the message names the file.
    pub fn open(paths: &ModelPaths) -> Result<Self, Error> {
        let at = |path, kind| foreign::directory(path, kind, &paths.pieces);
        Self::from_directories(
            paths.name.clone(),
            at(&paths.dit, Kind::Dit)?,
            at(&paths.vae, Kind::Vae)?,
            at(&paths.text_encoder, Kind::TextEncoder)?,
        )
    }

    /// Opens three directories, which may be built into the program.
    ///
    /// # Errors
    /// As [`AceStep::open`].
    pub fn from_directories(
        name: String,
        dit: Directory,
        vae: Directory,
        text_encoder: Directory,
    ) -> Result<Self, Error> {
        let dit = DitDir::open(dit)?;
        let vae = VaeDir::open(vae)?;
        let text_encoder = TextEncoderDir::open(text_encoder)?;
        let configs = Configs {
            dit: dit.config().clone(),
            text_encoder: text_encoder.weights().config().clone(),
            vae: vae.config().clone(),
        };
        let path = |directory: &Directory| directory.path("config.json");
        let of_dit = |key, value| (path(dit.directory()), key, value);
        let text = path(text_encoder.weights().directory());
        agree(
            of_dit("text_hidden_dim", configs.dit.text_hidden_dim),
            (text, "hidden_size", configs.text_encoder.hidden_size),
        )?;
        agree(
            of_dit("audio_acoustic_hidden_dim", configs.dit.audio_acoustic_hidden_dim),
            (path(vae.directory()), "decoder_input_channels", configs.vae.decoder_input_channels),
        )?;
        Ok(Self { name, configs, dit, vae, text_encoder })
    }

    /// Returns the short name of the model if it has one, else the name of its directory.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the configurations of its networks.
    pub fn configs(&self) -> &Configs {
        &self.configs
    }

    /// Returns the opened directory of the diffusion transformer.
    pub fn dit_dir(&self) -> &DitDir {
        &self.dit
    }

    /// Returns the path of the diffusion transformer's directory.
    pub fn path(&self) -> &Path {
        self.dit.directory().root()
    }

    /// Returns the format of the diffusion model's files and the types of its weights.
    pub fn origin(&self) -> Origin {
        self.dit.origin()
    }

    /// Returns notices to print when it is used: lower case, no full stop.
    pub fn notices(&self) -> Vec<String> {
        let text = self.text_encoder.weights();
        notices([
            ("diffusion model", &self.dit.origin(), self.dit.directory()),
            ("text encoder", &text.origin(), text.directory()),
            ("autoencoder", &self.vae.origin(), self.vae.directory()),
        ])
    }

    /// True if its files of weights are still at their paths: no other one has replaced them.
    pub fn is_current(&self) -> bool {
        let text_encoder = self.text_encoder.weights();
        text_encoder.is_current() && self.dit.is_current() && self.vae.is_current()
    }

    /// Returns every file of weights, in the order text encoder, diffusion transformer, VAE.
    pub fn files(&self) -> Vec<PathBuf> {
        let text_encoder = self.text_encoder.weights().files();
        let rest = self.dit.files().chain(self.vae.files());
        text_encoder.chain(rest).map(Path::to_owned).collect()
    }

    /// Returns the number of parameters and file bytes of `network`; 0 for the language model.
    ///
    /// # Errors
    /// None after a successful [`AceStep::open`], which checks the same.
    pub fn size(&self, network: Network) -> Result<PartSize, Error> {
        let names = tensor_names(network);
        match network {
            Network::TextEncoder => self.text_encoder.weights().size(&names),
            Network::Conditioner | Network::AudioCodec | Network::Dit => self.dit.size(&names),
            Network::VaeDecoder | Network::VaeEncoder => self.vae.size(&names),
            Network::LanguageModel => Ok(PartSize { parameters: 0, file_bytes: 0 }),
        }
    }

    /// Returns an error if the model does not have `network`: see [`DitDir::require`].
    ///
    /// # Errors
    /// [`Error::MissingPiece`], which tells what works without it.
    pub fn require(&self, network: Network) -> Result<(), Error> {
        self.dit.require(network)
    }

    /// Compares the headers of all files with the networks of `networks`, so that errors are found
    /// before the first network is read or run. It reads the latent of silence, but does not read or
    /// initialise weights. The tokenizer is not read: see [`Self::check_tokenizer`].
    ///
    /// # Errors
    /// Names the missing, unused or mismatched tensors, or the missing network.
    pub fn check<B: Backend>(&self, device: &B::Device, networks: &[Network]) -> Result<(), Error> {
        self.text_encoder.check::<B>(device, networks)?;
        self.dit.check::<B>(device, networks)?;
        self.vae.check::<B>(device, networks)
    }

    /// Reads the tokenizer of prompts, if it was not read yet.
    ///
    /// # Errors
    /// The errors of [`TextEncoderDir::tokenizer`].
    pub fn check_tokenizer(&self) -> Result<(), Error> {
        self.text_encoder.tokenizer().map(drop)
    }

    /// Applies `adapters`, each with its scale, to the diffusion transformer whenever it is read.
    /// They replace earlier adapters. No weight is read now.
    ///
    /// # Errors
    /// [`Error::Adapter`] if one of them does not fit this model.
    pub fn adapt(&mut self, adapters: Vec<(Adapter, f64)>) -> Result<(), Error> {
        let parameters = apply::shapes(self.dit.tensors(), &tensor_names(Network::Dit))?;
        let fitted = Adapters::fit(adapters, &self.name, parameters)?;
        self.dit.adapters = (!fitted.list().is_empty()).then(|| Arc::new(fitted));
        Ok(())
    }

    /// Reads the weights that adapters change and measures the changes in a network of type
    /// `dtype`. Reading the network does the same.
    ///
    /// # Errors
    /// If a weight cannot be read, or does not fit into `dtype` with its change.
    pub fn measure_adapters(&self, dtype: DType) -> Result<(), Error> {
        let Some(adapters) = &self.dit.adapters else { return Ok(()) };
        apply::measure(self.dit.tensors(), &tensor_names(Network::Dit), dtype, adapters)
    }

    /// Returns the adapters of the diffusion transformer, if there are any.
    pub fn adapters(&self) -> Option<&Adapters> {
        self.dit.adapters.as_deref()
    }

    /// True if the model was distilled to few steps without guidance; see [`DitDir::is_turbo`].
    pub fn is_turbo(&self) -> bool {
        self.dit.is_turbo()
    }
}

impl ModelFiles for AceStep {
    fn configs(&self) -> &Configs {
        &self.configs
    }

    fn unchanged(&self) -> Result<(), CheckpointError> {
        self.text_encoder.weights().unchanged()?;
        self.dit.unchanged()?;
        Ok(self.vae.unchanged()?)
    }

    fn token_ids(&self, text: &str, max_tokens: usize) -> Result<Vec<u32>, CheckpointError> {
        Ok(self.text_encoder.token_ids(text, max_tokens)?)
    }

    fn text_of(&self, ids: &[u32]) -> Result<String, CheckpointError> {
        Ok(self.text_encoder.text_of(ids)?)
    }

    fn pad_token_id(&self) -> Result<u32, CheckpointError> {
        Ok(self.text_encoder.tokenizer()?.end_of_text())
    }
}

impl<B: Backend> Checkpoint<B> for AceStep {
    fn silence_latent(&self, device: &B::Device) -> Result<Tensor<B, 3>, CheckpointError> {
        Ok(self.dit.silence_latent(device)?)
    }

    fn text_encoder(&self, place: &Place<B>) -> Result<qwen3::Model<B>, CheckpointError> {
        Ok(self.text_encoder.model(place)?)
    }

    fn conditioner(&self, place: &Place<B>) -> Result<acestep::Conditioner<B>, CheckpointError> {
        Ok(self.dit.conditioner(place)?)
    }

    fn audio_codec(&self, place: &Place<B>) -> Result<acestep::AudioCodec<B>, CheckpointError> {
        Ok(self.dit.audio_codec(place)?)
    }

    fn dit(&self, place: &Place<B>) -> Result<acestep::Dit<B>, CheckpointError> {
        Ok(self.dit.dit(place)?)
    }

    fn vae_decoder(&self, place: &Place<B>) -> Result<oobleck::Decoder<B>, CheckpointError> {
        Ok(self.vae.decoder(place)?)
    }

    fn vae_encoder(&self, place: &Place<B>) -> Result<oobleck::Encoder<B>, CheckpointError> {
        Ok(self.vae.encoder(place)?)
    }
}

impl BuiltIn {
    /// Opens the model.
    ///
    /// # Errors
    /// None, except for a bug: its files are network of the program.
    pub fn open(&self) -> Result<AceStep, Error> {
        let [dit, vae, text_encoder] = self.directories.clone();
        AceStep::from_directories(self.name.to_owned(), dit, vae, text_encoder)
    }
}

/// Opens the random model.
///
/// # Errors
/// Errors of [`BuiltIn::open`].
pub fn open_tiny() -> Result<AceStep, Error> {
    built_in::tiny().open()
}

#[cfg(test)]
mod tests;
