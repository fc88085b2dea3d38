//! One directory of a model: the diffusion model's or the autoencoder's.
//!
//! Opening parses the configuration and the header, and checks everything that does not need the
//! weights. Each network is read on request.

use std::path::PathBuf;

use acestep_model::{Backend, ConfigError, Place, acestep, oobleck};
use burn::{
    module::Module,
    tensor::{DType, Tensor},
};

use crate::{
    Directory, Error, Network,
    families::acestep::{Kind, OF_DIT_FILE, OF_VAE_FILE, tensor_names},
    kind, silence,
    weights::WeightsDir,
};

/// The directory of a diffusion model: conditioner, audio codes, transformer, silence.
pub type DitDir = WeightsDir<acestep::Config>;

/// The directory of the autoencoder.
pub type VaeDir = WeightsDir<oobleck::Config>;

impl<C> WeightsDir<C> {
    /// Opens a directory of `kind` (with its name for messages), which must have exactly the
    /// tensors of `networks`, and may have the one that `spare` names for its configuration.
    pub(crate) fn open_as(
        directory: Directory,
        (kind, what): (Kind, &'static str),
        networks: &[Network],
        parse: impl Fn(&str) -> Result<C, ConfigError>,
        spare: impl Fn(&C) -> Option<&'static str>,
    ) -> Result<Self, Error> {
        let config = parse(&kind::config(&directory, kind)?)
            .map_err(|source| Error::BadConfig { path: directory.path("config.json"), source })?;
        let names: Vec<_> = networks.iter().map(|&network| tensor_names(network)).collect();
        let unused: Vec<_> = spare(&config).map(str::to_owned).into_iter().collect();
        Self::open_for(directory, config, what, &names, &unused)
    }

    /// Returns an error if the directory does not have `network`: a pipeline of diffusers may have no
    /// audio codec.
    ///
    /// # Errors
    /// [`Error::MissingPiece`].
    pub fn require(&self, network: Network) -> Result<(), Error> {
        match self.directory() {
            Directory::Foreign(foreign) => foreign.lack_of(network.name()).map_or(Ok(()), Err),
            Directory::Disk(_) | Directory::Embedded(..) => Ok(()),
        }
    }

    /// Fills `module` with the tensors of `network`, if the directory has it.
    pub(crate) fn load_network<B: Backend, M: Module<B>>(
        &self,
        module: M,
        network: Network,
        place: &Place<B>,
    ) -> Result<M, Error> {
        self.require(network)?;
        let adapters = self.adapters.as_ref().filter(|_| network == Network::Dit);
        self.load(module, &tensor_names(network), place, adapters)
    }
}

impl DitDir {
    /// Opens the directory of a diffusion model.
    ///
    /// # Errors
    /// If something is missing, cut, contradictory or of another kind; the message names the file.
    pub fn open(directory: Directory) -> Result<Self, Error> {
        let kind = (Kind::Dit, "diffusion model");
        Self::open_as(directory, kind, &OF_DIT_FILE, acestep::Config::from_json, |_| None)
    }

    /// Returns the VAE's latent of silence, `[1, T, C]`, in f32.
    ///
    /// # Errors
    /// If its file is missing or malformed.
    pub fn silence_latent<B: Backend>(&self, device: &B::Device) -> Result<Tensor<B, 3>, Error> {
        let data = silence::read(self.directory(), self.config().audio_acoustic_hidden_dim)?;
        Ok(Tensor::from_data(data, (device, DType::F32)))
    }

    /// Reads the encoders of text, lyrics and timbre.
    ///
    /// # Errors
    /// If a tensor is missing, unused or of another shape.
    pub fn conditioner<B: Backend>(
        &self,
        place: &Place<B>,
    ) -> Result<acestep::Conditioner<B>, Error> {
        let module = acestep::Conditioner::init(self.config(), &place.device);
        self.load_network(module, Network::Conditioner, place)
    }

    /// Reads the codec between latents and audio codes.
    ///
    /// # Errors
    /// As [`Self::conditioner`].
    pub fn audio_codec<B: Backend>(
        &self,
        place: &Place<B>,
    ) -> Result<acestep::AudioCodec<B>, Error> {
        let module = acestep::AudioCodec::init(self.config(), &place.device);
        self.load_network(module, Network::AudioCodec, place)
    }

    /// Reads the diffusion transformer.
    ///
    /// # Errors
    /// As [`Self::conditioner`].
    pub fn dit<B: Backend>(&self, place: &Place<B>) -> Result<acestep::Dit<B>, Error> {
        let module = acestep::Dit::init(self.config(), &place.device);
        self.load_network(module, Network::Dit, place)
    }

    /// Writes the matrices of the diffusion transformer in int8 beside its weights, for networks of the
    /// type `I8`. Returns the path. `advanced` gets the numbers of written and of all matrices; false
    /// ends it.
    ///
    /// # Errors
    /// [`Error::NoPlace`], [`Error::NotWritten`]; as [`Self::dit`].
    pub fn quantize<B: Backend>(
        &self,
        device: &B::Device,
        advanced: &dyn Fn(usize, usize) -> bool,
    ) -> Result<PathBuf, Error> {
        let module = acestep::Dit::<B>::init(self.config(), device);
        self.write_quantized(&module, &tensor_names(Network::Dit), device, advanced)
    }

    /// Compares the headers with those networks of `networks` that are in this directory: every tensor
    /// must exist with its shape, and there must be no others. It also reads the latent of silence,
    /// which all of them need. No weight is read or initialised.
    ///
    /// A missing audio codec is not an error here: [`Self::require`] reports it.
    ///
    /// # Errors
    /// Names the tensors, or the searched places of the latent of silence.
    pub fn check<B: Backend>(&self, device: &B::Device, networks: &[Network]) -> Result<(), Error> {
        let config = self.config();
        if networks.iter().any(|network| OF_DIT_FILE.contains(network)) {
            silence::read(self.directory(), config.audio_acoustic_hidden_dim)?;
        }
        networks.iter().try_for_each(|&network| {
            let names = tensor_names(network);
            match network {
                Network::AudioCodec if self.require(network).is_err() => Ok(()),
                Network::Conditioner => {
                    self.compare::<B, _>(&acestep::Conditioner::init(config, device), &names)
                }
                Network::AudioCodec => {
                    self.compare::<B, _>(&acestep::AudioCodec::init(config, device), &names)
                }
                Network::Dit => self.compare::<B, _>(&acestep::Dit::init(config, device), &names),
                Network::TextEncoder
                | Network::VaeDecoder
                | Network::VaeEncoder
                | Network::LanguageModel => Ok(()),
            }
        })
    }

    /// True if the model was distilled to few steps without guidance: by `is_turbo` of config.json,
    /// else by its `model_version` (older files), else by the directory's name.
    pub fn is_turbo(&self) -> bool {
        let says_turbo = |text: &str| text.to_lowercase().contains("turbo");
        match (self.config().is_turbo, &self.config().model_version) {
            (Some(flag), _) => flag,
            (None, Some(version)) => says_turbo(version),
            (None, None) => {
                let name = self.directory().root().file_name();
                name.is_some_and(|name| says_turbo(&name.to_string_lossy()))
            }
        }
    }
}

impl VaeDir {
    /// Opens the directory of an autoencoder.
    ///
    /// # Errors
    /// As [`DitDir::open`].
    pub fn open(directory: Directory) -> Result<Self, Error> {
        let kind = (Kind::Vae, "autoencoder");
        Self::open_as(directory, kind, &OF_VAE_FILE, oobleck::Config::from_json, |_| None)
    }

    /// Reads the decoder from latents to audio.
    ///
    /// # Errors
    /// If a tensor is missing, unused or of another shape.
    pub fn decoder<B: Backend>(&self, place: &Place<B>) -> Result<oobleck::Decoder<B>, Error> {
        let module = oobleck::Decoder::init(self.config(), &place.device);
        self.load_network(module, Network::VaeDecoder, place)
    }

    /// Reads the encoder from audio to latents.
    ///
    /// # Errors
    /// As [`Self::decoder`].
    pub fn encoder<B: Backend>(&self, place: &Place<B>) -> Result<oobleck::Encoder<B>, Error> {
        let module = oobleck::Encoder::init(self.config(), &place.device);
        self.load_network(module, Network::VaeEncoder, place)
    }

    /// Compares the headers with the networks, as [`DitDir::check`].
    ///
    /// # Errors
    /// Names the tensors.
    pub fn check<B: Backend>(&self, device: &B::Device, networks: &[Network]) -> Result<(), Error> {
        let config = self.config();
        networks.iter().try_for_each(|&network| {
            let names = tensor_names(network);
            match network {
                Network::VaeDecoder => {
                    self.compare::<B, _>(&oobleck::Decoder::init(config, device), &names)
                }
                Network::VaeEncoder => {
                    self.compare::<B, _>(&oobleck::Encoder::init(config, device), &names)
                }
                Network::TextEncoder
                | Network::Conditioner
                | Network::AudioCodec
                | Network::Dit
                | Network::LanguageModel => Ok(()),
            }
        })
    }
}
