//! The files of a Dia2 model: a directory with backbone, depformer and tokenizer, and the codec Mimi
//! beside it.
//!
//! `dia2_assets.json` and the configuration name tokenizer and codec by identifiers of the hub. An
//! identifier is searched as a path, then inside the model, then as a directory beside the model
//! that has the last component of the identifier as its name.

use std::{
    path::{Path, PathBuf},
    sync::OnceLock,
};

use acestep_model::{
    Backend, CheckpointError, Place, Tokenizer,
    kernel::Precision,
    speech::{
        dia2::{Assets, Backbone, Checkpoint, Config, Depformer, Files},
        mimi,
    },
};
use serde::Deserialize;
use serde_json::Value;

use crate::{
    Directory, Error, LanguageTokenizer, Layout, PartSize, Tensors,
    error::Places,
    families::{self, dia2 as names, mimi::MIMI},
    kind,
    listing::read_text,
    name_of,
    names::TensorNames,
    quantized::fingerprint,
    weights::{WeightsDir, answered_by_model_and_codec, files_of_speech, once},
};

#[cfg(test)]
mod tests;

/// The file that names the others.
const ASSETS: &str = "dia2_assets.json";
/// The codec of a model that names none.
const DEFAULT_CODEC: &str = "kyutai/mimi";

/// A network of a Dia2 model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dia2Network {
    /// Text and codes to hidden states.
    Backbone,
    /// Hidden states to the codes of a frame.
    Depformer,
    /// Codes to sound.
    CodecDecoder,
    /// Sound to codes.
    CodecEncoder,
}

/// Identifiers or paths of the user, which come before those of the model's files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dia2Choice {
    /// The directory of the tokenizer.
    pub tokenizer: Option<String>,
    /// The directory or file of the codec.
    pub mimi: Option<String>,
}

/// A model's networks, read from the released directories.
#[derive(Debug)]
pub struct Dia2 {
    name: String,
    model: WeightsDir<Config>,
    codec: WeightsDir<mimi::Config>,
    tokenizer_place: Directory,
    tokenizer: OnceLock<LanguageTokenizer>,
    notices: Vec<String>,
}

/// The content of `dia2_assets.json`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AssetsFile {
    config: Option<String>,
    weights: Option<String>,
    #[serde(flatten)]
    assets: Assets,
}

impl Dia2 {
    /// Opens the directory at `path`: parses the configurations and the headers. The tokenizer and
    /// the weights are read on first use.
    ///
    /// # Errors
    /// If something is missing, cut, contradictory or of another kind; the message names the file.
    pub fn open(path: &Path, choice: &Dia2Choice) -> Result<Self, Error> {
        Self::open_among(path, choice, &[])
    }

    /// Opens the model called `name`, the result of [`Layout::resolve_dialogue_model`]. A codec that
    /// is not beside it is searched in `layout`.
    ///
    /// # Errors
    /// Errors of [`Layout::resolve_dialogue_model`] and [`Self::open`].
    pub fn find(name: Option<&str>, choice: &Dia2Choice, layout: &Layout) -> Result<Self, Error> {
        let path = layout.resolve_dialogue_model(name)?;
        let codecs: Vec<_> = layout.place(&MIMI).into_iter().collect();
        Self::open_among(&path, choice, &codecs)
    }

    /// True if a model of this family is in the directory `path`.
    pub fn is_at(path: &Path) -> bool {
        let text = read_text(&path.join("config.json"));
        let config = text.ok().and_then(|text| serde_json::from_str::<Value>(&text).ok());
        config.is_some_and(|config| names::is_one(&config))
    }

    fn open_among(path: &Path, choice: &Dia2Choice, codecs: &[PathBuf]) -> Result<Self, Error> {
        let directory = Directory::Disk(path.to_owned());
        directory.check()?;
        let text = directory.has(ASSETS).then(|| directory.text(ASSETS)).transpose()?;
        let read = |text: String| serde_json::from_str::<AssetsFile>(&text);
        // As in the reference, a broken file counts as an empty one.
        let (assets, notices) = match text.map(read) {
            None => Default::default(),
            Some(Ok(assets)) => (assets, Vec::new()),
            Some(Err(why)) => {
                let path = directory.path(ASSETS);
                let path = path.display();
                let notice = format!("`{path}` is not used, for it cannot be read: {why}");
                (AssetsFile::default(), vec![notice])
            }
        };
        let file = assets.config.as_deref().unwrap_or("config.json");
        let is_one = |config: &Value| names::is_one(config);
        let text = match file {
            "config.json" => kind::config_that(&directory, is_one, "a Dia2 model")?,
            other => directory.text(other)?,
        };
        let config = Config::from_json(&text)
            .map_err(|source| Error::BadConfig { path: directory.path(file), source })?;

        let own = &config.assets;
        let tokenizer = [&choice.tokenizer, &assets.assets.tokenizer, &own.tokenizer]
            .into_iter()
            .chain([&config.data.tokenizer_path]);
        // As in the reference, an empty name counts as none.
        let tokenizer = tokenizer.flatten().find(|id| !id.is_empty());
        let tokenizer_place = tokenizer_place(path, tokenizer, &choice.tokenizer)?;
        let mimi = [&choice.mimi, &assets.assets.mimi, &own.mimi];
        let mimi = mimi.into_iter().flatten().find(|id| !id.is_empty());
        let codec = codec_place(path, mimi.map_or(DEFAULT_CODEC, String::as_str), codecs)?;

        let codec = crate::mimi::open(&codec, config.data.codebooks())?;
        let (codes, size) = (config.data.codes(), codec.config().codebook_size);
        kind::agree(
            (directory.path(file), "audio_bos_token_id", codes),
            (codec.directory().path("config.json"), "codebook_size", size),
        )?;
        let tensors = match assets.weights.as_deref() {
            None | Some("model.safetensors") => Tensors::open(&directory)?,
            Some(other) => Tensors::open_file(&directory, other)?,
        };
        let networks = [names::backbone(), names::depformer(&config)];
        let model = WeightsDir::of(directory, config, tensors, "dialogue model", (&networks, &[]))?;
        let (name, tokenizer) = (name_of(path), OnceLock::new());
        Ok(Self { name, model, codec, tokenizer_place, tokenizer, notices })
    }

    /// Returns notices about the files.
    pub fn notices(&self) -> Vec<String> {
        self.notices.clone()
    }

    /// Returns the number of parameters and file bytes of `network`.
    ///
    /// # Errors
    /// None after a successful [`Self::open`], which checks the same.
    pub fn size(&self, network: Dia2Network) -> Result<PartSize, Error> {
        match network {
            Dia2Network::Backbone => self.model.size(&names::backbone()),
            Dia2Network::Depformer => self.model.size(&self.depformer_names()),
            Dia2Network::CodecDecoder => self.codec.size(&self.decoder_names()),
            Dia2Network::CodecEncoder => self.codec.size(&self.encoder_names()),
        }
    }

    /// Compares the headers of all files with the networks, so that errors are found before the
    /// first network is read. It reads the tokenizer, but does not read or initialise weights.
    ///
    /// # Errors
    /// Names the missing, unused or mismatched tensors.
    pub fn check<B: Backend>(&self, device: &B::Device) -> Result<(), Error> {
        let config = self.model.config();
        self.model.compare::<B, _>(&Backbone::init(config, device), &names::backbone())?;
        self.model.compare::<B, _>(&Depformer::init(config, device), &self.depformer_names())?;
        self.codec.compare::<B, _>(&self.empty_decoder(device), &self.decoder_names())?;
        self.codec.compare::<B, _>(&self.empty_encoder(device), &self.encoder_names())?;
        self.language_tokenizer().map(drop)
    }

    fn codebooks(&self) -> usize {
        self.model.config().data.codebooks()
    }

    /// Writes the matrices of backbone and depformer in int8 beside the weights, see
    /// [`DitDir::quantize`](crate::DitDir::quantize).
    ///
    /// # Errors
    /// [`Error::NoPlace`], [`Error::NotWritten`]; tensors that are missing or cannot be read.
    pub fn quantize<B: Backend>(
        &self,
        device: &B::Device,
        advanced: &dyn Fn(usize, usize) -> bool,
    ) -> Result<Vec<PathBuf>, Error> {
        let (config, model) = (self.model.config(), &self.model);
        let backbone = Backbone::<B>::init(config, device);
        let backbone = model.write_quantized(&backbone, &names::backbone(), device, advanced)?;
        let depformer = Depformer::<B>::init(config, device);
        let names = self.depformer_names();
        Ok(vec![backbone, model.write_quantized(&depformer, &names, device, advanced)?])
    }

    fn depformer_names(&self) -> TensorNames {
        names::depformer(self.model.config())
    }

    fn decoder_names(&self) -> TensorNames {
        families::mimi::decoder(self.codec.config(), self.codebooks())
    }

    fn encoder_names(&self) -> TensorNames {
        families::mimi::encoder("codec encoder", "", self.codec.config(), self.codebooks())
    }

    fn empty_decoder<B: Backend>(&self, device: &B::Device) -> mimi::Decoder<B> {
        mimi::Decoder::init(self.codec.config(), self.codebooks(), device)
    }

    fn empty_encoder<B: Backend>(&self, device: &B::Device) -> mimi::Encoder<B> {
        let config = self.codec.config();
        let encoder = mimi::Encoder::init(config, self.codebooks(), device);
        encoder.with_window(config.sliding_window)
    }

    fn language_tokenizer(&self) -> Result<&LanguageTokenizer, Error> {
        let rows = self.model.config().data.text_vocab_size;
        let open = || LanguageTokenizer::open_of_dialogue(&self.tokenizer_place, rows);
        once(&self.tokenizer, open)
    }

    /// Reads the text of the token that begins a text, of `tokenizer_config.json`.
    fn bos_token(&self) -> Result<Option<String>, Error> {
        let (directory, file) = (&self.tokenizer_place, "tokenizer_config.json");
        if !directory.has(file) {
            return Ok(None);
        }
        let not_json = |error: serde_json::Error| Error::NotJson {
            path: directory.path(file),
            reason: error.to_string(),
        };
        let config: Value = serde_json::from_str(&directory.text(file)?).map_err(not_json)?;
        let token = &config["bos_token"];
        Ok(token.as_str().or_else(|| token["content"].as_str()).map(str::to_owned))
    }
}

/// Returns the first place of the identifier `id`, of the model at `model`; or all places.
fn place_of(model: &Path, id: &str) -> Result<PathBuf, Vec<PathBuf>> {
    let last = id.rsplit(['/', '\\']).next().unwrap_or(id);
    let places = [PathBuf::from(id), model.join(id), model.with_file_name(last)];
    match places.iter().find(|place| place.exists()) {
        Some(place) => Ok(place.clone()),
        None => Err(places.into()),
    }
}

/// Returns the directory of the tokenizer `id`. A model that names a tokenizer that is not here, but
/// has one itself, is a renamed copy of the one that it names.
fn tokenizer_place(
    model: &Path,
    id: Option<&String>,
    chosen: &Option<String>,
) -> Result<Directory, Error> {
    let Some(id) = id else { return Ok(Directory::Disk(model.to_owned())) };
    match place_of(model, id) {
        Ok(place) => Ok(Directory::Disk(place)),
        Err(_) if chosen.is_none() && model.join("tokenizer.json").is_file() => {
            Ok(Directory::Disk(model.to_owned()))
        }
        Err(looked_for) => Err(absent(format!("tokenizer `{id}`"), looked_for)),
    }
}

/// Returns the place of the codec `id`, or the first of `codecs`.
fn codec_place(model: &Path, id: &str, codecs: &[PathBuf]) -> Result<PathBuf, Error> {
    match place_of(model, id) {
        Ok(place) => Ok(place),
        Err(mut looked_for) => match codecs.first().filter(|_| id == DEFAULT_CODEC) {
            Some(place) => Ok(place.clone()),
            None => {
                looked_for.extend_from_slice(codecs);
                Err(absent(format!("codec `{id}`"), looked_for))
            }
        },
    }
}

fn absent(what: String, looked_for: Vec<PathBuf>) -> Error {
    let remedy = format!("put `{}` of `{}` beside the model", MIMI.directory, MIMI.repo);
    let remedy = match what.starts_with("codec") {
        true => remedy,
        false => "put the directory with tokenizer.json beside the model".to_owned(),
    };
    Error::Absent { what, looked_for: Places(looked_for), remedy, known: None, unknown: None }
}

answered_by_model_and_codec!(Dia2);

impl Files for Dia2 {
    files_of_speech!(Config, mimi::Config);

    fn tokenizer(&self) -> Result<&dyn Tokenizer, CheckpointError> {
        Ok(self.language_tokenizer()?)
    }

    fn bos_token_id(&self) -> Result<Option<u32>, CheckpointError> {
        let tokenizer = self.language_tokenizer()?;
        Ok(self.bos_token()?.and_then(|token| tokenizer.id_of(&token)))
    }

    fn fingerprint(&self) -> Result<String, CheckpointError> {
        let settings = format!("{:?} {:?}", self.model.config(), self.codec.config());
        Ok(fingerprint(&settings, &[self.model.tensors(), self.codec.tensors()])?)
    }
}

impl<B: Backend> Checkpoint<B> for Dia2 {
    fn backbone(&self, place: &Place<B>) -> Result<Backbone<B>, CheckpointError> {
        let module = Backbone::init(self.model.config(), &place.device);
        Ok(self.model.load(module, &names::backbone(), place, None)?)
    }

    fn depformer(&self, place: &Place<B>) -> Result<Depformer<B>, CheckpointError> {
        let module = Depformer::init(self.model.config(), &place.device);
        Ok(self.model.load(module, &self.depformer_names(), place, None)?)
    }

    fn codec_decoder(
        &self,
        place: &Place<B>,
        precision: Precision,
    ) -> Result<mimi::Decoder<B>, CheckpointError> {
        let module = self.empty_decoder(&place.device);
        let decoder = self.codec.load(module, &self.decoder_names(), place, None)?;
        Ok(decoder.prepacked(precision))
    }

    fn codec_encoder(&self, place: &Place<B>) -> Result<mimi::Encoder<B>, CheckpointError> {
        let module = self.empty_encoder(&place.device);
        Ok(self.codec.load(module, &self.encoder_names(), place, None)?)
    }
}
