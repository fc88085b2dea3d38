//! The directory of a Qwen3-TTS model: talker, speaker encoder, tokenizer, and the codec in
//! `speech_tokenizer/`.

use std::{
    path::{Path, PathBuf},
    sync::OnceLock,
};

use crate::{
    Directory, Error, LanguageTokenizer, Layout, Origin, PartSize,
    built_in::{TINY_SPEECH, tiny_speech_directories},
    families::qwen3_tts as names,
    hub::checksum,
    kind, name_of,
    names::TensorNames,
    weights::WeightsDir,
};
use acestep_model::{
    Backend, CheckpointError, Place, Tokenizer,
    speech::{
        mimi,
        qwen3_tts::{Checkpoint, Config, Files, GenerationConfig, SpeakerEncoder, Talker, codec},
    },
};
use sha2::{Digest as _, Sha256};

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

/// A model's networks, read from the released directory layout.
#[derive(Debug)]
pub struct Qwen3Tts {
    name: String,
    model: WeightsDir<Config>,
    codec: WeightsDir<codec::Config>,
    generation: GenerationConfig,
    fix_mistral_regex: bool,
    tokenizer: OnceLock<LanguageTokenizer>,
}

impl Qwen3Tts {
    /// Opens the directory at `path`: parses the configurations and the headers. The tokenizer and
    /// the weights are read on first use.
    ///
    /// # Errors
    /// If something is missing, cut, contradictory or of another kind; the message names the file.
    pub fn open(path: &Path) -> Result<Self, Error> {
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
        Self::open(&layout.resolve_speech_model(choice)?)
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
        let config =
            Config::from_json(&text).map_err(|source| bad(&model, "config.json", source))?;
        let file = "generation_config.json";
        let generation = GenerationConfig::from_json(&model.text(file)?)
            .map_err(|source| bad(&model, file, source))?;
        let kind = "qwen3_tts_tokenizer_12hz";
        let text = kind::config_of_type(&codec, kind, "the speech tokenizer of Qwen3-TTS")?;
        let codec_config =
            codec::Config::from_json(&text).map_err(|source| bad(&codec, "config.json", source))?;
        let agree = |first_key, first_value, second_key, second_value| {
            if first_value == second_value {
                return Ok(());
            }
            Err(Error::ConfigsDisagree {
                first: model.path("config.json"),
                first_key,
                first_value,
                second: codec.path("config.json"),
                second_key,
                second_value,
            })
        };
        let (talker, decoder) = (&config.talker_config, &codec_config.decoder_config);
        let groups = talker.num_code_groups;
        agree("num_code_groups", groups, "num_quantizers", decoder.num_quantizers)?;
        let codes = talker.code_predictor_config.vocab_size;
        agree("vocab_size", codes, "codebook_size", decoder.codebook_size)?;

        let mut networks = vec![names::talker()];
        networks.extend(config.speaker_encoder_config.is_some().then(names::speaker_encoder));
        let model = WeightsDir::open(model, config, "speech model", &networks, &[])?;
        let networks = [decoder_names(&codec_config), encoder_names(&codec_config)];
        let unused = names::unused_of_codec(&codec_config);
        let codec = WeightsDir::open(codec, codec_config, "speech tokenizer", &networks, &unused)?;
        let (fix_mistral_regex, tokenizer) = (false, OnceLock::new());
        Ok(Self { name, model, codec, generation, fix_mistral_regex, tokenizer })
    }

    /// Splits texts before merging as upstream does for a local directory (`fix_mistral_regex`), and
    /// not as Qwen's own tokenizer. Ordinary prose has the same ids; `iPhone` has others.
    pub fn with_fix_mistral_regex(self, fix_mistral_regex: bool) -> Self {
        Self { fix_mistral_regex, tokenizer: OnceLock::new(), ..self }
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        self.model.directory().root()
    }

    /// Returns the format of the model's files and the types of its weights.
    pub fn origin(&self) -> Origin {
        self.model.origin()
    }

    /// Returns every file of weights.
    pub fn files(&self) -> Vec<PathBuf> {
        self.model.files().chain(self.codec.files()).map(Path::to_owned).collect()
    }

    /// Returns the number of parameters and file bytes of `network`; 0 if the model has none.
    ///
    /// # Errors
    /// None after a successful [`Self::open`], which checks the same.
    pub fn size(&self, network: Qwen3TtsNetwork) -> Result<PartSize, Error> {
        match network {
            Qwen3TtsNetwork::Talker => self.model.size(&names::talker()),
            Qwen3TtsNetwork::SpeakerEncoder => self.model.size(&names::speaker_encoder()),
            Qwen3TtsNetwork::CodecDecoder => self.codec.size(&decoder_names(self.codec.config())),
            Qwen3TtsNetwork::CodecEncoder => self.codec.size(&encoder_names(self.codec.config())),
        }
    }

    /// Compares the headers of all files with the networks, so that errors are found before the
    /// first network is read. It reads the tokenizer, but does not read or initialise weights.
    ///
    /// # Errors
    /// Names the missing, unused or mismatched tensors.
    pub fn check<B: Backend>(&self, device: &B::Device) -> Result<(), Error> {
        let config = self.model.config();
        self.model.compare::<B, _>(&Talker::init(config, device), &names::talker())?;
        if let Some(encoder) = &config.speaker_encoder_config {
            let module = SpeakerEncoder::init(encoder, device);
            self.model.compare::<B, _>(&module, &names::speaker_encoder())?;
        }
        let config = self.codec.config();
        let decoder = codec::Decoder::init(&config.decoder_config, device);
        self.codec.compare::<B, _>(&decoder, &decoder_names(config))?;
        self.codec.compare::<B, _>(&encoder_of(config, device), &encoder_names(config))?;
        self.language_tokenizer().map(drop)
    }

    fn language_tokenizer(&self) -> Result<&LanguageTokenizer, Error> {
        if let Some(tokenizer) = self.tokenizer.get() {
            return Ok(tokenizer);
        }
        let rows = self.model.config().talker_config.text_vocab_size;
        let directory = self.model.directory();
        let tokenizer = LanguageTokenizer::open_of_talker(directory, rows, self.fix_mistral_regex)?;
        Ok(self.tokenizer.get_or_init(|| tokenizer))
    }
}

fn decoder_names(config: &codec::Config) -> TensorNames {
    names::codec_decoder(&config.decoder_config)
}

fn encoder_names(config: &codec::Config) -> TensorNames {
    names::codec_encoder(&config.encoder_config, config.encoder_valid_num_quantizers)
}

fn encoder_of<B: Backend>(config: &codec::Config, device: &B::Device) -> mimi::Encoder<B> {
    mimi::Encoder::init(&config.encoder_config, config.encoder_valid_num_quantizers, device)
}

impl Files for Qwen3Tts {
    fn name(&self) -> &str {
        &self.name
    }

    fn config(&self) -> &Config {
        self.model.config()
    }

    fn codec_config(&self) -> &codec::Config {
        self.codec.config()
    }

    fn generation_config(&self) -> &GenerationConfig {
        &self.generation
    }

    fn tokenizer(&self) -> Result<&dyn Tokenizer, CheckpointError> {
        Ok(self.language_tokenizer()?)
    }

    fn fingerprint(&self) -> Result<String, CheckpointError> {
        let mut hash = Sha256::new();
        self.model.tensors().sample(&mut hash)?;
        self.codec.tensors().sample(&mut hash)?;
        Ok(checksum::hex(hash.finalize()))
    }

    fn unchanged(&self) -> Result<(), CheckpointError> {
        self.model.unchanged()?;
        Ok(self.codec.unchanged()?)
    }
}

impl<B: Backend> Checkpoint<B> for Qwen3Tts {
    fn talker(&self, place: &Place<B>) -> Result<Talker<B>, CheckpointError> {
        let module = Talker::init(self.model.config(), &place.device);
        Ok(self.model.load(module, &names::talker(), place, None)?)
    }

    fn speaker_encoder(&self, place: &Place<B>) -> Result<SpeakerEncoder<B>, CheckpointError> {
        let Some(config) = &self.model.config().speaker_encoder_config else {
            let path = self.path().to_owned();
            return Err(Error::NoNetwork { path, network: "speaker encoder" }.into());
        };
        let module = SpeakerEncoder::init(config, &place.device);
        Ok(self.model.load(module, &names::speaker_encoder(), place, None)?)
    }

    fn codec_decoder(&self, place: &Place<B>) -> Result<codec::Decoder<B>, CheckpointError> {
        let config = self.codec.config();
        let module = codec::Decoder::init(&config.decoder_config, &place.device);
        let decoder = self.codec.load(module, &decoder_names(config), place, None)?;
        Ok(decoder.prepacked())
    }

    fn codec_encoder(&self, place: &Place<B>) -> Result<mimi::Encoder<B>, CheckpointError> {
        let config = self.codec.config();
        let module = encoder_of(config, &place.device);
        Ok(self.codec.load(module, &encoder_names(config), place, None)?)
    }
}
