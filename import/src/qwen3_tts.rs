//! The files of a Qwen3-TTS model: a directory with talker, speaker encoder, tokenizer, and the codec
//! in `speech_tokenizer/`; or two GGUF files.

use std::{
    path::{Path, PathBuf},
    sync::OnceLock,
};

use crate::{
    Directory, Error, LanguageTokenizer, Layout, ModelFormat, PartSize, Tensors,
    built_in::{TINY_SPEECH, tiny_speech_directories},
    families::qwen3_tts::{self as names, gguf},
    foreign, kind, name_of,
    names::TensorNames,
    origin,
    quantized::fingerprint,
    weights::{WeightsDir, answered_by_model_and_codec, files_of_speech, once},
};
use acestep_model::{
    Backend, CheckpointError, Place, Tokenizer,
    speech::{
        mimi,
        qwen3_tts::{
            Checkpoint, Config, Files, GenerationConfig, ModelType, SpeakerEncoder,
            SpeakerEncoderConfig, Talker, codec,
        },
    },
};

/// Folder of the codec.
const CODEC: &str = "speech_tokenizer";
/// Directory of the codec beside the models, where it is published alone.
const PUBLISHED_CODEC: &str = "Qwen3-TTS-Tokenizer-12Hz";

/// A network of a Qwen3-TTS model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Qwen3TtsNetwork {
    /// Talker and code predictor.
    Talker,
    /// The speaker encoder, which only some models have.
    SpeakerEncoder,
    /// Codes to sound.
    CodecDecoder,
    /// Sound to codes.
    CodecEncoder,
}

/// A model's networks, read from the released directory layout or from GGUF files.
#[derive(Debug)]
pub struct Qwen3Tts {
    name: String,
    model: WeightsDir<Config>,
    codec: WeightsDir<codec::Config>,
    generation: GenerationConfig,
    fix_mistral_regex: bool,
    tokenizer: OnceLock<LanguageTokenizer>,
    fingerprint: OnceLock<String>,
}

impl Qwen3Tts {
    /// Opens the directory or the talker's GGUF file at `path`: parses the configurations and the
    /// headers. The tokenizer and the weights are read on first use.
    ///
    /// # Errors
    /// If something is missing, cut, contradictory or of another kind; the message names the file.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::open_among(path, &[])
    }

    /// [`Self::open`] that also searches `places` for the codec of a GGUF file.
    fn open_among(path: &Path, places: &[PathBuf]) -> Result<Self, Error> {
        if let Some([model, codec]) = foreign::speech(path, places)? {
            // By this name a voice that was kept with it finds it again.
            let release = foreign::release_of_talker(model.root()).map(str::to_owned);
            let name = release.unwrap_or_else(|| name_of(model.root()));
            return Self::from_directories(name, model, codec);
        }
        let model = Directory::Disk(path.to_owned());
        let (own, beside) = (path.join(CODEC), path.with_file_name(PUBLISHED_CODEC));
        let codec = if !own.is_dir() && beside.is_dir() { beside } else { own };
        Self::from_directories(name_of(path), model, Directory::Disk(codec))
    }

    /// Opens the model called `choice`: the one inside the program, or the result of
    /// [`Layout::resolve_speech_model`].
    ///
    /// # Errors
    /// Errors of [`Layout::resolve_speech_model`] and [`Self::open`].
    pub fn find(choice: Option<&str>, layout: &Layout) -> Result<Self, Error> {
        if choice == Some(TINY_SPEECH) {
            let [model, codec] = tiny_speech_directories();
            return Self::from_directories(TINY_SPEECH.to_owned(), model, codec);
        }
        Self::open_among(&layout.resolve_speech_model(choice)?, layout.dirs())
    }

    /// Opens two directories, which may be built into the program.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn from_directories(
        name: String,
        model: Directory,
        codec: Directory,
    ) -> Result<Self, Error> {
        let bad = |directory: &Directory, file: &str, source| Error::BadConfig {
            path: directory.path(file),
            source,
        };
        let text = kind::config_of_type(&model, "qwen3_tts", "a Qwen3-TTS model")?;
        let mut config =
            Config::from_json(&text).map_err(|source| bad(&model, "config.json", source))?;
        let file = "generation_config.json";
        let generation = GenerationConfig::from_json(&model.text(file)?)
            .map_err(|source| bad(&model, file, source))?;
        let kind = "qwen3_tts_tokenizer_12hz";
        let text = kind::config_of_type(&codec, kind, "the speech tokenizer of Qwen3-TTS")?;
        let codec_config =
            codec::Config::from_json(&text).map_err(|source| bad(&codec, "config.json", source))?;
        let (talker, decoder) = (&config.talker_config, &codec_config.decoder_config);
        let of = |directory: &Directory, key, value| (directory.path("config.json"), key, value);
        kind::agree(
            of(&model, "num_code_groups", talker.num_code_groups),
            of(&codec, "num_quantizers", decoder.num_quantizers),
        )?;
        kind::agree(
            of(&model, "vocab_size", talker.code_predictor_config.vocab_size),
            of(&codec, "codebook_size", decoder.codebook_size),
        )?;

        let (spelling, tensors) = (Spelling(model.format()), Tensors::open(&model)?);
        // A fine-tuned model has the key of its base model, and not the network.
        let is_base = config.tts_model_type == ModelType::Base;
        let is_there = |encoder: &SpeakerEncoderConfig| {
            let names = spelling.speaker_encoder(encoder);
            is_base || tensors.names().any(|name| names.path_of(name).is_some())
        };
        config.speaker_encoder_config = config.speaker_encoder_config.filter(is_there);
        let mut networks = vec![spelling.talker(&config)];
        networks
            .extend(config.speaker_encoder_config.as_ref().map(|c| spelling.speaker_encoder(c)));
        let model = WeightsDir::of(model, config, tensors, "speech model", (&networks, &[]))?;
        let spelling = Spelling(codec.format());
        let networks = [spelling.decoder(&codec_config), spelling.encoder(&codec_config)];
        let unused = spelling.unused(&codec_config);
        let codec =
            WeightsDir::open_for(codec, codec_config, "speech tokenizer", &networks, &unused)?;
        Ok(Self {
            name,
            model,
            codec,
            generation,
            fix_mistral_regex: false,
            tokenizer: OnceLock::new(),
            fingerprint: OnceLock::new(),
        })
    }

    /// Splits texts before merging as upstream does for a local directory (`fix_mistral_regex`), and
    /// not as Qwen's own tokenizer. Ordinary prose has the same ids; `iPhone` has others.
    pub fn with_fix_mistral_regex(self, fix_mistral_regex: bool) -> Self {
        Self { fix_mistral_regex, tokenizer: OnceLock::new(), ..self }
    }

    /// Returns the number of parameters and file bytes of `network`; 0 if the model has none.
    ///
    /// # Errors
    /// None after a successful [`Self::open`], which checks the same.
    pub fn size(&self, network: Qwen3TtsNetwork) -> Result<PartSize, Error> {
        match network {
            Qwen3TtsNetwork::Talker => self.model.size(&self.talker_names()),
            Qwen3TtsNetwork::SpeakerEncoder => match &self.config().speaker_encoder_config {
                Some(config) => self.model.size(&self.of_model().speaker_encoder(config)),
                None => Ok(PartSize { parameters: 0, file_bytes: 0 }),
            },
            Qwen3TtsNetwork::CodecDecoder => self.codec.size(&self.decoder_names()),
            Qwen3TtsNetwork::CodecEncoder => self.codec.size(&self.encoder_names()),
        }
    }

    /// Returns notices about the files: lower case, no full stop.
    pub fn notices(&self) -> Vec<String> {
        let (talker, codec) = (self.origin(), self.codec.origin());
        origin::notices([
            ("talker", &talker, self.model.directory()),
            ("codec", &codec, self.codec.directory()),
        ])
    }

    fn of_model(&self) -> Spelling {
        Spelling(self.model.directory().format())
    }

    fn of_codec(&self) -> Spelling {
        Spelling(self.codec.directory().format())
    }

    fn talker_names(&self) -> TensorNames {
        self.of_model().talker(self.model.config())
    }

    fn decoder_names(&self) -> TensorNames {
        self.of_codec().decoder(self.codec.config())
    }

    fn encoder_names(&self) -> TensorNames {
        self.of_codec().encoder(self.codec.config())
    }

    /// Compares the headers of all files with the networks, so that errors are found before the
    /// first network is read. It reads the tokenizer, but does not read or initialise weights.
    ///
    /// # Errors
    /// Names the missing, unused or mismatched tensors.
    pub fn check<B: Backend>(&self, device: &B::Device) -> Result<(), Error> {
        let config = self.model.config();
        self.model.compare::<B, _>(&Talker::init(config, device), &self.talker_names())?;
        if let Some(encoder) = &config.speaker_encoder_config {
            let module = SpeakerEncoder::init(encoder, device);
            self.model.compare::<B, _>(&module, &self.of_model().speaker_encoder(encoder))?;
        }
        let config = self.codec.config();
        let decoder = codec::Decoder::init(&config.decoder_config, device);
        self.codec.compare::<B, _>(&decoder, &self.decoder_names())?;
        self.codec.compare::<B, _>(&encoder_of(config, device), &self.encoder_names())?;
        self.language_tokenizer().map(drop)
    }

    /// Writes the matrices of the talker in int8 beside the weights, see
    /// [`DitDir::quantize`](crate::DitDir::quantize).
    ///
    /// # Errors
    /// [`Error::NoPlace`], [`Error::NotWritten`]; tensors that are missing or cannot be read.
    pub fn quantize<B: Backend>(
        &self,
        device: &B::Device,
        advanced: &dyn Fn(usize, usize) -> bool,
    ) -> Result<Vec<PathBuf>, Error> {
        let module = Talker::<B>::init(self.model.config(), device);
        let names = self.talker_names();
        Ok(vec![self.model.write_quantized(&module, &names, device, advanced)?])
    }

    fn language_tokenizer(&self) -> Result<&LanguageTokenizer, Error> {
        let rows = self.model.config().talker_config.text_vocab_size;
        once(&self.tokenizer, || {
            let directory = self.model.directory();
            LanguageTokenizer::open_of_talker(directory, rows, self.fix_mistral_regex)
        })
    }
}

/// The names of tensors in files of a format.
#[derive(Clone, Copy)]
struct Spelling(ModelFormat);

impl Spelling {
    fn is_gguf(self) -> bool {
        self.0 == ModelFormat::Gguf
    }

    fn talker(self, config: &Config) -> TensorNames {
        if self.is_gguf() { gguf::talker(config) } else { names::talker() }
    }

    fn speaker_encoder(self, config: &SpeakerEncoderConfig) -> TensorNames {
        if self.is_gguf() { gguf::speaker_encoder(config) } else { names::speaker_encoder() }
    }

    fn decoder(self, config: &codec::Config) -> TensorNames {
        let config = &config.decoder_config;
        if self.is_gguf() { gguf::codec_decoder(config) } else { names::codec_decoder(config) }
    }

    fn encoder(self, config: &codec::Config) -> TensorNames {
        let (config, count) = (&config.encoder_config, config.encoder_valid_num_quantizers);
        match self.is_gguf() {
            true => gguf::codec_encoder(config, count),
            false => names::codec_encoder(config, count),
        }
    }

    /// Returns the tensors of the codec's files that no network uses.
    fn unused(self, config: &codec::Config) -> Vec<String> {
        match self.is_gguf() {
            true => gguf::UNUSED_OF_CODEC.map(str::to_owned).into(),
            false => names::unused_of_codec(config),
        }
    }
}

fn encoder_of<B: Backend>(config: &codec::Config, device: &B::Device) -> mimi::Encoder<B> {
    mimi::Encoder::init(&config.encoder_config, config.encoder_valid_num_quantizers, device)
}

answered_by_model_and_codec!(Qwen3Tts);

impl Files for Qwen3Tts {
    files_of_speech!(Config, codec::Config);

    fn generation_config(&self) -> &GenerationConfig {
        &self.generation
    }

    fn tokenizer(&self) -> Result<&dyn Tokenizer, CheckpointError> {
        Ok(self.language_tokenizer()?)
    }

    fn fingerprint(&self) -> Result<String, CheckpointError> {
        // A server asks for it with every kept voice.
        if let Some(fingerprint) = self.fingerprint.get() {
            Files::unchanged(self)?;
            return Ok(fingerprint.clone());
        }
        let settings = format!("{:?} {:?}", self.model.config(), self.codec.config());
        let fingerprint = fingerprint(&settings, &[self.model.tensors(), self.codec.tensors()])?;
        Ok(self.fingerprint.get_or_init(|| fingerprint).clone())
    }
}

impl<B: Backend> Checkpoint<B> for Qwen3Tts {
    fn talker(&self, place: &Place<B>) -> Result<Talker<B>, CheckpointError> {
        let module = Talker::init(self.model.config(), &place.device);
        Ok(self.model.load(module, &self.talker_names(), place, None)?)
    }

    fn speaker_encoder(&self, place: &Place<B>) -> Result<SpeakerEncoder<B>, CheckpointError> {
        let Some(config) = &self.model.config().speaker_encoder_config else {
            let path = self.path().to_owned();
            return Err(Error::NoNetwork { path, network: "speaker encoder" }.into());
        };
        let module = SpeakerEncoder::init(config, &place.device);
        let names = self.of_model().speaker_encoder(config);
        Ok(self.model.load(module, &names, place, None)?)
    }

    fn codec_decoder(&self, place: &Place<B>) -> Result<codec::Decoder<B>, CheckpointError> {
        let config = self.codec.config();
        let module = codec::Decoder::init(&config.decoder_config, &place.device);
        let decoder = self.codec.load(module, &self.decoder_names(), place, None)?;
        Ok(decoder.prepacked())
    }

    fn codec_encoder(&self, place: &Place<B>) -> Result<mimi::Encoder<B>, CheckpointError> {
        let config = self.codec.config();
        let module = encoder_of(config, &place.device);
        Ok(self.codec.load(module, &self.encoder_names(), place, None)?)
    }
}
