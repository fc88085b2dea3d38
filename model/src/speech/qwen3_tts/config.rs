//! `config.json` of a Qwen3-TTS checkpoint.
//!
//! Source: upstream `configuration_qwen3_tts.py`. Its class defaults differ from the released values
//! nearly everywhere, so a missing key is an error.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::super::inherited::{INHERITED, without};
use crate::{
    ConfigError,
    config::{Rest, number, parse, refuse_unknown, require, require_plain},
    limits::{keys, layer_shape, size, sizes, transformer},
    nn::LayerShape,
};

/// The voice that a checkpoint needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelType {
    /// A voice from reference audio.
    Base,
    /// Named speakers.
    CustomVoice,
    /// A voice described in words.
    VoiceDesign,
}

/// The keys of `config.json` that affect the result.
#[derive(Debug, Clone, Deserialize)]
pub struct Config {
    /// The voice that the checkpoint needs.
    pub tts_model_type: ModelType,
    /// The size, `0b6` or `1b7`.
    pub tts_model_size: String,
    /// Text token that stands for no text.
    pub tts_pad_token_id: u32,
    /// Text token before the text.
    pub tts_bos_token_id: u32,
    /// Text token after the text.
    pub tts_eos_token_id: u32,
    /// The talker.
    pub talker_config: TalkerConfig,
    /// The speaker encoder; only in [`ModelType::Base`].
    pub speaker_encoder_config: Option<SpeakerEncoderConfig>,
    tokenizer_type: String,
    #[serde(flatten)]
    rest: Rest,
}

/// The talker, and the ids of its codec table.
#[derive(Debug, Clone, Deserialize)]
pub struct TalkerConfig {
    /// The layers.
    #[serde(flatten)]
    pub layers: LayersConfig,
    /// Rows of the codec table.
    pub vocab_size: usize,
    /// Rows of the text table.
    pub text_vocab_size: usize,
    /// Width of the text table.
    pub text_hidden_size: usize,
    /// Codes of a frame.
    pub num_code_groups: usize,
    /// Most rows of a prompt with its frames.
    pub max_position_embeddings: usize,
    /// Codec id that stands for no code.
    pub codec_pad_id: u32,
    /// Codec id before the first frame.
    pub codec_bos_id: u32,
    /// Codec id after the last frame.
    pub codec_eos_token_id: u32,
    /// Codec id before a language.
    pub codec_think_id: u32,
    /// Codec id instead of a language.
    pub codec_nothink_id: u32,
    /// Codec id that opens the language.
    pub codec_think_bos_id: u32,
    /// Codec id that closes the language.
    pub codec_think_eos_id: u32,
    /// Codec ids of languages and dialects, by lower-case name.
    pub codec_language_id: BTreeMap<String, u32>,
    /// Codec ids of named speakers, by name.
    pub spk_id: BTreeMap<String, u32>,
    /// The dialect of each named speaker, or `false`.
    pub spk_is_dialect: BTreeMap<String, Value>,
    /// The code predictor.
    pub code_predictor_config: CodePredictorConfig,
    #[serde(flatten)]
    rest: Rest,
}

/// The code predictor.
#[derive(Debug, Clone, Deserialize)]
pub struct CodePredictorConfig {
    /// The layers.
    #[serde(flatten)]
    pub layers: LayersConfig,
    /// Entries of each codebook.
    pub vocab_size: usize,
    num_code_groups: usize,
    #[serde(flatten)]
    rest: Rest,
}

/// The sizes of Qwen3 layers.
#[derive(Debug, Clone, Deserialize)]
pub struct LayersConfig {
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width inside the feed-forward block.
    pub intermediate_size: usize,
    /// Number of layers.
    pub num_hidden_layers: usize,
    /// Query heads.
    pub num_attention_heads: usize,
    /// Key and value heads.
    pub num_key_value_heads: usize,
    /// Width of one head.
    pub head_dim: usize,
    /// Base of the rotary angles.
    pub rope_theta: f64,
    /// Epsilon under the root of every norm.
    pub rms_norm_eps: f64,
    attention_bias: bool,
    hidden_act: String,
    sliding_window: Option<Value>,
    rope_scaling: Option<Value>,
    layer_types: Option<Vec<String>>,
}

/// The speaker encoder; keys that are not in the file have upstream's class defaults, because the
/// released files rely on them.
#[derive(Debug, Clone, Deserialize)]
pub struct SpeakerEncoderConfig {
    /// Width of the speaker vector.
    pub enc_dim: usize,
    /// Samples per second of its input.
    pub sample_rate: u32,
    /// Mel bands.
    #[serde(default = "number::<128>")]
    pub mel_dim: usize,
    /// Channels of the blocks, and last of the aggregation.
    #[serde(default = "enc_channels")]
    pub enc_channels: Vec<usize>,
    /// Taps of the first convolution of each block.
    #[serde(default = "enc_kernel_sizes")]
    pub enc_kernel_sizes: Vec<usize>,
    /// Dilations of the blocks.
    #[serde(default = "enc_dilations")]
    pub enc_dilations: Vec<usize>,
    /// Channels of the attention of the pooling.
    #[serde(default = "number::<128>")]
    pub enc_attention_channels: usize,
    /// Parts of a Res2Net block.
    #[serde(default = "number::<8>")]
    pub enc_res2net_scale: usize,
    /// Channels of squeeze and excitation.
    #[serde(default = "number::<128>")]
    pub enc_se_channels: usize,
    #[serde(flatten)]
    rest: Rest,
}

fn enc_channels() -> Vec<usize> {
    vec![512, 512, 512, 512, 1536]
}

fn enc_kernel_sizes() -> Vec<usize> {
    vec![5, 3, 3, 3, 1]
}

fn enc_dilations() -> Vec<usize> {
    vec![1, 2, 3, 4, 1]
}

/// Keys of the whole that do not affect the result, with the reason.
const IGNORED: &[(&str, &str)] = &[
    ("model_type", "checked by the layout"),
    ("assistant_token_id", "part of the prompt's text"),
    ("im_start_token_id", "part of the prompt's text"),
    ("im_end_token_id", "part of the prompt's text"),
];

/// Keys of the layers that do not affect the result, with the reason.
const IGNORED_OF_LAYERS: &[(&str, &str)] = &[
    ("model_type", "checked by the layout"),
    ("attention_dropout", "training only"),
    ("initializer_range", "training only"),
    ("max_position_embeddings", "a code predictor reads one position for each code"),
    ("max_window_layers", "no layer has a window"),
    ("use_sliding_window", "no layer has a window, see sliding_window"),
    ("use_cache", "a cache does not change the result"),
    ("position_id_per_seconds", "not used by the reference"),
];

impl Config {
    /// Reads `config.json`.
    ///
    /// # Errors
    /// [`ConfigError`] if a key is missing, malformed, unknown, or asks for something that is not
    /// implemented.
    pub fn from_json(text: &str) -> Result<Self, ConfigError> {
        let config: Self = parse(text)?;
        refuse_unknown(&without(&config.rest, INHERITED), &[IGNORED])?;
        let tokenizer = &config.tokenizer_type;
        let why = "only the tokenizer of 12 Hz, qwen3_tts_tokenizer_12hz";
        require(tokenizer == "qwen3_tts_tokenizer_12hz", "tokenizer_type", tokenizer, why)?;
        config.talker_config.check()?;
        let encoder = config.speaker_encoder_config.as_ref();
        let has_encoder = encoder.is_some() || config.tts_model_type != ModelType::Base;
        let why = "a base model has a speaker encoder";
        require(has_encoder, "speaker_encoder_config", None::<()>, why)?;
        if let Some(encoder) = encoder {
            encoder.check()?;
            let width = config.talker_config.layers.hidden_size;
            let why = "must be the talker's hidden_size";
            require(encoder.enc_dim == width, "enc_dim", encoder.enc_dim, why)?;
        }
        let rows = config.talker_config.text_vocab_size;
        for (key, id) in keys!(config: tts_pad_token_id, tts_bos_token_id, tts_eos_token_id) {
            require((id as usize) < rows, key, id, "must be less than text_vocab_size")?;
        }
        Ok(config)
    }
}

impl TalkerConfig {
    fn check(&self) -> Result<(), ConfigError> {
        refuse_unknown(&without(&self.rest, INHERITED), &[IGNORED_OF_LAYERS])?;
        self.layers.check()?;
        sizes(&keys!(self: vocab_size, text_vocab_size, text_hidden_size, num_code_groups))?;
        size("max_position_embeddings", self.max_position_embeddings)?;
        let groups = self.num_code_groups;
        require((2..=64).contains(&groups), "num_code_groups", groups, "from 2 to 64")?;
        let predictor = &self.code_predictor_config;
        refuse_unknown(&without(&predictor.rest, INHERITED), &[IGNORED_OF_LAYERS])?;
        predictor.layers.check()?;
        size("vocab_size", predictor.vocab_size)?;
        let same = predictor.num_code_groups == groups;
        let why = "must be the same in talker_config and code_predictor_config";
        require(same, "num_code_groups", predictor.num_code_groups, why)?;
        // The reference suppresses the last 1024 ids, which are not codes.
        let (rows, codes) = (self.vocab_size, predictor.vocab_size);
        let why = "must be that of the code predictor and 1024 ids more";
        require(rows == codes + SPECIAL_IDS, "vocab_size", rows, why)?;
        let ids = keys!(self: codec_pad_id, codec_bos_id, codec_eos_token_id, codec_think_id,
            codec_nothink_id, codec_think_bos_id, codec_think_eos_id);
        let languages = self.codec_language_id.values().map(|&id| ("codec_language_id", id));
        let speakers = self.spk_id.values().map(|&id| ("spk_id", id));
        for (key, id) in ids.into_iter().chain(languages).chain(speakers) {
            require((id as usize) < rows, key, id, "must be less than vocab_size")?;
        }
        for (speaker, dialect) in &self.spk_is_dialect {
            let is_known = match dialect {
                Value::Bool(false) => true,
                Value::String(name) => self.codec_language_id.contains_key(name),
                _ => false,
            };
            let why = "must be false or a key of codec_language_id";
            require(is_known, "spk_is_dialect", (speaker, dialect), why)?;
        }
        Ok(())
    }

    /// Returns the languages that a request may name, with their ids. A dialect belongs to a speaker.
    pub fn languages(&self) -> impl Iterator<Item = (&str, u32)> {
        let all = self.codec_language_id.iter().map(|(name, &id)| (&**name, id));
        all.filter(|(name, _)| !name.contains("dialect"))
    }

    /// Returns the id of the speaker called `name`, in any case.
    pub fn speaker(&self, name: &str) -> Option<u32> {
        in_any_case(&self.spk_id, name).copied()
    }

    /// Returns the dialect of the speaker called `name`, in any case, if it speaks one.
    pub fn dialect_of(&self, name: &str) -> Option<&str> {
        in_any_case(&self.spk_is_dialect, name)?.as_str()
    }
}

/// Returns the value of `name` in any case. A fine-tuned model has the name that its user typed.
fn in_any_case<'a, T>(all: &'a BTreeMap<String, T>, name: &str) -> Option<&'a T> {
    let lower = name.to_lowercase();
    let other = || all.iter().find(|(own, _)| own.to_lowercase() == lower);
    all.get(name).or_else(|| other().map(|(_, value)| value))
}

/// Ids of the codec table that are not codes: marks, languages, speakers. They are its last rows.
pub const SPECIAL_IDS: usize = 1024;

impl LayersConfig {
    fn check(&self) -> Result<(), ConfigError> {
        transformer(self.layer_shape(), self.num_hidden_layers, "rms_norm_eps", self.rope_theta)?;
        require_plain(self.attention_bias, &self.hidden_act, &self.rope_scaling)?;
        let window = &self.sliding_window;
        require(window.is_none(), "sliding_window", window, "only full attention (null)")?;
        let full = |types: &Vec<String>| types.iter().all(|kind| kind == "full_attention");
        let types = &self.layer_types;
        require(types.as_ref().is_none_or(full), "layer_types", types, "only full_attention")
    }

    /// Returns the sizes of every layer.
    pub fn layer_shape(&self) -> LayerShape {
        layer_shape!(self, rms_norm_eps)
    }
}

impl SpeakerEncoderConfig {
    fn check(&self) -> Result<(), ConfigError> {
        refuse_unknown(&self.rest, &[])?;
        sizes(&keys!(self: enc_dim, mel_dim, enc_attention_channels, enc_res2net_scale))?;
        size("enc_se_channels", self.enc_se_channels)?;
        for (key, list) in [
            ("enc_channels", &self.enc_channels),
            ("enc_kernel_sizes", &self.enc_kernel_sizes),
            ("enc_dilations", &self.enc_dilations),
        ] {
            require(list.len() == 5, key, list, "five numbers, one for each block")?;
            list.iter().try_for_each(|&value| size(key, value))?;
        }
        let odd = |list: &[usize]| list.iter().all(|taps| taps % 2 == 1);
        let kernels = &self.enc_kernel_sizes;
        require(odd(kernels), "enc_kernel_sizes", kernels, "odd numbers")?;
        let channels = &self.enc_channels;
        let scale = self.enc_res2net_scale;
        let fits = channels[1..4].iter().all(|count| count.is_multiple_of(scale));
        let why = "must be divisible by enc_res2net_scale";
        require(fits && scale > 1, "enc_channels", channels, why)?;
        let same = channels[..4].iter().all(|count| *count == channels[0]);
        let why = "the first four must be equal, for the residual sums";
        require(same, "enc_channels", channels, why)?;
        require(self.sample_rate == 24_000, "sample_rate", self.sample_rate, "only 24000")
    }
}
