//! The files of a Magpie TTS model: an archive or GGUF file, and its codec's file.

mod archive;
mod sizes;

use std::path::{Path, PathBuf};

use acestep_model::{
    Backend, CheckpointError, ConfigError, Place,
    kernel::Precision,
    speech::{
        magpie::{Checkpoint, Config, Decoder, Encoder, Files, LocalTransformer, Sizes, TextFiles},
        nanocodec,
    },
};

use crate::{
    Error, Layout, PartSize,
    families::magpie::{self as names, Spelling},
    foreign,
    layout::{self, files::stem},
    names::TensorNames,
    nemo::Texts,
    origin,
    quantized::fingerprint,
    single_file::{Codec, Opened, SingleFile},
    weights::{WeightsDir, answered_by_model_and_codec, files_of_speech},
};
use sizes::{check_quantizer, flatten_convolutions, sizes_of};

/// The networks of a Magpie TTS model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MagpieNetwork {
    /// The encoder of the text.
    Encoder,
    /// The decoder of the codes.
    Decoder,
    /// The codes of a stack.
    LocalTransformer,
    /// Codes to sound.
    CodecDecoder,
}

/// The files of a model and of its codec.
#[derive(Debug)]
pub struct Magpie {
    name: String,
    model: WeightsDir<Config>,
    codec: WeightsDir<nanocodec::Config>,
    spelling: Spelling,
    sizes: Sizes,
    texts: Texts,
}

impl Magpie {
    /// Opens the model at `path`, a file or a directory with one: parses the configurations and the
    /// headers. The codec is at `codec`, or is searched beside the model.
    ///
    /// # Errors
    /// If something is missing, cut, contradictory or of another kind; the message names the file.
    pub fn open(path: &Path, codec: Option<&Path>) -> Result<Self, Error> {
        Self::open_among(path, codec, &[])
    }

    /// Opens the model called `choice`, which is the result of [`Layout::resolve_magpie`].
    ///
    /// # Errors
    /// Errors of [`Layout::resolve_magpie`] and [`Self::open`].
    pub fn find(
        choice: Option<&str>,
        codec: Option<&Path>,
        layout: &Layout,
    ) -> Result<Self, Error> {
        Self::open_among(&layout.resolve_magpie(choice)?, codec, &layout.codec_places())
    }

    /// True if a model of this family is at `path`.
    pub fn is_at(path: &Path) -> bool {
        layout::magpie::is_model(path)
    }

    fn open_among(path: &Path, codec: Option<&Path>, places: &[PathBuf]) -> Result<Self, Error> {
        let file = layout::magpie::model(path)?;
        let is_gguf = |file: &Path| foreign::architecture(file).is_some();
        let open = if is_gguf(&file) { foreign::magpie } else { archive::model };
        let Opened { model, texts, lengths, codec: own } = open(&file)?;
        let codec = match (codec, own) {
            (None, Some(own)) => own,
            (given, _) => {
                let path = layout::magpie::codec(&file, given, places)?;
                let open = if is_gguf(&path) { foreign::magpie_codec } else { archive::codec };
                open(&path)?
            }
        };
        Self::from_parts(stem(&file), model, texts, lengths, codec)
    }

    fn from_parts(
        name: String,
        mut model: SingleFile,
        texts: Texts,
        lengths: Option<Vec<usize>>,
        Codec { file: mut codec, spelling }: Codec,
    ) -> Result<Self, Error> {
        let config = Config::from_json(&model.config).map_err(|source| bad(&model, source))?;
        let of_codec =
            nanocodec::Config::from_json(&codec.config).map_err(|source| bad(&codec, source))?;
        check_quantizer(&mut codec, &of_codec, spelling)?;
        let sizes = sizes_of(&mut model, &config, &of_codec, lengths)?;
        config.check_codes(&sizes).map_err(|source| bad(&model, source))?;
        flatten_convolutions(&mut model.tensors, &config);

        let networks = [names::encoder(), names::decoder(), names::local_transformer()];
        let model = foreign::single(model);
        let model = WeightsDir::open_for(model, config, "speech model", &networks, &[])?;
        let networks = [names::codec_decoder(&of_codec.audio_decoder, spelling)];
        let codec = foreign::single(codec);
        let codec = WeightsDir::open_for(codec, of_codec, "speech codec", &networks, &[])?;
        Ok(Self { name, model, codec, spelling, sizes, texts })
    }

    /// Returns the number of parameters and file bytes of `network`.
    ///
    /// # Errors
    /// None after a successful [`Self::open`], which checks the same.
    pub fn size(&self, network: MagpieNetwork) -> Result<PartSize, Error> {
        match network {
            MagpieNetwork::Encoder => self.model.size(&names::encoder()),
            MagpieNetwork::Decoder => self.model.size(&names::decoder()),
            MagpieNetwork::LocalTransformer => self.model.size(&names::local_transformer()),
            MagpieNetwork::CodecDecoder => self.codec.size(&self.codec_names()),
        }
    }

    /// Returns notices about the files: lower case, no full stop.
    pub fn notices(&self) -> Vec<String> {
        let (model, codec) = (self.origin(), self.codec.origin());
        origin::notices([
            ("speech model", &model, self.model.directory()),
            ("codec", &codec, self.codec.directory()),
        ])
    }

    /// Compares the headers of the files with the networks, so that errors are found before the
    /// first network is read.
    ///
    /// # Errors
    /// Names the missing, unused or mismatched tensors.
    pub fn check<B: Backend>(&self, device: &B::Device) -> Result<(), Error> {
        let (config, sizes) = (self.model.config(), &self.sizes);
        let encoder = Encoder::init(config, sizes, device);
        self.model.compare::<B, _>(&encoder, &names::encoder())?;
        let decoder = Decoder::init(config, sizes, device);
        self.model.compare::<B, _>(&decoder, &names::decoder())?;
        let local = LocalTransformer::init(config, sizes, device);
        self.model.compare::<B, _>(&local, &names::local_transformer())?;
        let codec = nanocodec::Decoder::init(self.codec.config(), device);
        self.codec.compare::<B, _>(&codec, &self.codec_names())
    }

    /// Writes the matrices of encoder, decoder and local transformer in int8 beside the weights, see
    /// [`DitDir::quantize`](crate::DitDir::quantize).
    ///
    /// # Errors
    /// [`Error::NoPlace`], [`Error::NotWritten`]; tensors that are missing or cannot be read.
    pub fn quantize<B: Backend>(
        &self,
        device: &B::Device,
        advanced: &dyn Fn(usize, usize) -> bool,
    ) -> Result<Vec<PathBuf>, Error> {
        let (config, sizes, model) = (self.model.config(), &self.sizes, &self.model);
        let encoder = Encoder::<B>::init(config, sizes, device);
        let encoder = model.write_quantized(&encoder, &names::encoder(), device, advanced)?;
        let decoder = Decoder::<B>::init(config, sizes, device);
        let decoder = model.write_quantized(&decoder, &names::decoder(), device, advanced)?;
        let local = LocalTransformer::<B>::init(config, sizes, device);
        let names = names::local_transformer();
        Ok(vec![encoder, decoder, model.write_quantized(&local, &names, device, advanced)?])
    }

    /// Returns the decoder of the codec with plain filters, which mappers can change and visitors can read.
    ///
    /// # Errors
    /// Weights that are missing, malformed or of another shape.
    pub fn plain_codec_decoder<B: Backend>(
        &self,
        place: &Place<B>,
    ) -> Result<nanocodec::Decoder<B>, CheckpointError> {
        let module = nanocodec::Decoder::init(self.codec.config(), &place.device);
        Ok(self.codec.load(module, &self.codec_names(), place, None)?)
    }

    fn codec_names(&self) -> TensorNames {
        names::codec_decoder(&self.codec.config().audio_decoder, self.spelling)
    }
}

fn bad(file: &SingleFile, source: ConfigError) -> Error {
    Error::BadConfig { path: file.path.clone(), source }
}

answered_by_model_and_codec!(Magpie);

impl Files for Magpie {
    files_of_speech!(Config, nanocodec::Config);

    fn sizes(&self) -> &Sizes {
        &self.sizes
    }

    fn texts(&self) -> &dyn TextFiles {
        &self.texts
    }

    fn fingerprint(&self) -> Result<String, CheckpointError> {
        let (model, codec) = (self.model.config(), self.codec.config());
        let settings = format!("{model:?} {codec:?} {:?}", self.sizes);
        Ok(fingerprint(&settings, &[self.model.tensors(), self.codec.tensors()])?)
    }
}

impl<B: Backend> Checkpoint<B> for Magpie {
    fn encoder(&self, place: &Place<B>) -> Result<Encoder<B>, CheckpointError> {
        let module = Encoder::init(self.model.config(), &self.sizes, &place.device);
        Ok(self.model.load(module, &names::encoder(), place, None)?)
    }

    fn decoder(&self, place: &Place<B>) -> Result<Decoder<B>, CheckpointError> {
        let module = Decoder::init(self.model.config(), &self.sizes, &place.device);
        Ok(self.model.load(module, &names::decoder(), place, None)?)
    }

    fn local_transformer(&self, place: &Place<B>) -> Result<LocalTransformer<B>, CheckpointError> {
        let module = LocalTransformer::init(self.model.config(), &self.sizes, &place.device);
        Ok(self.model.load(module, &names::local_transformer(), place, None)?)
    }

    fn codec_decoder(
        &self,
        place: &Place<B>,
        precision: Precision,
    ) -> Result<nanocodec::Decoder<B>, CheckpointError> {
        Ok(self.plain_codec_decoder(place)?.prepacked(precision))
    }
}

#[cfg(test)]
mod tests;
