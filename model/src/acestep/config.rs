//! `config.json` of an ACE-Step 1.5 checkpoint.

use serde::Deserialize;
use serde_json::Value;

use super::EncoderShape;
use crate::{
    ConfigError,
    config::{Ignored, OF_TRANSFORMERS, Rest, parse, refuse_unknown, require, require_plain, silu},
    kernel::Visibility,
    limits::{keys, layer_shape, layers, size, sizes, transformer},
    nn::LayerShape,
};

/// The keys that affect the computation, for all released variants.
#[derive(Debug, Clone, Deserialize)]
pub struct Config {
    /// Width of the diffusion transformer.
    pub hidden_size: usize,
    /// Width inside its feed-forward blocks.
    pub intermediate_size: usize,
    /// Number of its layers.
    pub num_hidden_layers: usize,
    /// Number of its query heads.
    pub num_attention_heads: usize,
    /// Number of its key and value heads.
    pub num_key_value_heads: usize,
    /// Width of a head, in every network.
    pub head_dim: usize,
    /// Width of the encoders where it differs from `hidden_size`: the XL models.
    pub encoder_hidden_size: Option<usize>,
    /// Width inside the encoders' feed-forward blocks, XL only.
    pub encoder_intermediate_size: Option<usize>,
    /// Query heads of the encoders, XL only.
    pub encoder_num_attention_heads: Option<usize>,
    /// Key and value heads of the encoders, XL only.
    pub encoder_num_key_value_heads: Option<usize>,
    /// Epsilon under the root of every norm.
    pub rms_norm_eps: f64,
    /// Base of the rotary angles.
    pub rope_theta: f64,
    /// True if the sliding layers use their window.
    pub use_sliding_window: bool,
    /// Positions that a sliding layer attends to on each side, its own position not counted.
    pub sliding_window: Option<usize>,
    /// `sliding_attention` or `full_attention` per layer; absent = alternating, sliding first.
    pub layer_types: Option<Vec<String>>,
    /// Width of the vector of one audio code.
    pub fsq_dim: usize,
    /// Levels of each dimension of the code.
    pub fsq_input_levels: Vec<u32>,
    /// Width of the text encoder's output.
    pub text_hidden_dim: usize,
    /// Layers of the lyric encoder.
    pub num_lyric_encoder_hidden_layers: usize,
    /// Channels of the timbre reference.
    pub timbre_hidden_dim: usize,
    /// Layers of the timbre encoder.
    pub num_timbre_encoder_hidden_layers: usize,
    /// Frames of silence that represent "no reference".
    pub timbre_fix_frame: usize,
    /// Latent channels.
    pub audio_acoustic_hidden_dim: usize,
    /// Latent frames per audio code.
    pub pool_window_size: usize,
    /// Layers of the pooler and, as in upstream, of the detokenizer.
    pub num_attention_pooler_hidden_layers: usize,
    /// Latent frames per position of the diffusion transformer.
    pub patch_size: usize,
    /// Input channels of the diffusion transformer: source, mask and noisy latents.
    pub in_channels: usize,
    /// True for a model that is distilled to eight steps without guidance. In older files only the
    /// name tells.
    pub is_turbo: Option<bool>,
    /// `turbo`, `base` or `sft`, as in the file.
    pub model_version: Option<String>,
    /// Mean of the logit-normal distribution of training times (before the sigmoid).
    pub timestep_mu: Option<f64>,
    /// Standard deviation of the same distribution.
    pub timestep_sigma: Option<f64>,
    /// Default guidance scale. This key belongs to this project: no released file has it, and
    /// released models are made for 7.
    pub default_guidance_scale: Option<f64>,
    /// Layers and heads whose attention aligns lyrics; needed only for timestamps.
    pub lyric_alignment_layers_config: Option<Value>,
    fsq_input_num_quantizers: usize,
    #[serde(default)]
    attention_bias: bool,
    #[serde(default = "silu")]
    hidden_act: String,
    rope_scaling: Option<Value>,
    #[serde(default)]
    is_lego_sft: bool,
    #[serde(flatten)]
    rest: Rest,
}

/// Maximum number of codes of a codebook: an index is a sum in f32, which is exact only up to this.
const MOST_CODES: u32 = 1 << 24;

/// Keys that do not affect the computation, with the reason.
const IGNORED: &Ignored = &[
    ("auto_map", "class names of the reference"),
    ("bos_token_id", "no language model here"),
    ("eos_token_id", "no language model here"),
    ("pad_token_id", "no language model here"),
    ("data_proportion", "training only"),
    ("num_audio_decoder_hidden_layers", "unused: the detokenizer has the pooler's layer count"),
    ("tie_word_embeddings", "no language model here"),
    ("vocab_size", "no language model here"),
];

impl Config {
    /// Reads `config.json`.
    ///
    /// # Errors
    /// [`ConfigError`] if a key is missing, malformed, unknown, or asks for something that is not
    /// implemented.
    pub fn from_json(text: &str) -> Result<Self, ConfigError> {
        let config: Self = parse(text)?;
        refuse_unknown(&config.rest, &[OF_TRANSFORMERS, IGNORED])?;
        config.check_sizes()?;
        let quantizers = config.fsq_input_num_quantizers;
        require(quantizers == 1, "fsq_input_num_quantizers", quantizers, "only one quantizer")?;
        require_plain(config.attention_bias, &config.hidden_act, &config.rope_scaling)?;
        require(!config.is_lego_sft, "is_lego_sft", true, "its prompts are not implemented")?;
        let channels = config.in_channels;
        let expected = 3 * config.audio_acoustic_hidden_dim;
        require(channels == expected, "in_channels", channels, "must be three times the latents")?;
        let levels = &config.fsq_input_levels;
        let sound = levels.iter().all(|&l| l >= 2) && !levels.is_empty();
        require(sound, "fsq_input_levels", levels, "every dimension needs two levels or more")?;
        let codes = levels.iter().try_fold(1_u32, |codes, &levels| codes.checked_mul(levels));
        let countable = codes.is_some_and(|codes| codes <= MOST_CODES);
        require(countable, "fsq_input_levels", levels, "at most 16777216 codes in all")?;
        let windowed = !config.use_sliding_window || config.sliding_window.is_some();
        require(windowed, "sliding_window", config.sliding_window, "a window needs a width")?;
        let LayerShape { heads, kv_heads, .. } = config.encoder_layer();
        let (divides, why) = (heads.is_multiple_of(kv_heads), "must divide the number of heads");
        require(divides, "encoder_num_key_value_heads", kv_heads, why)?;
        let scale = config.default_guidance_scale;
        let fits = scale.is_none_or(|scale| (1.0..=30.0).contains(&scale));
        require(fits, "default_guidance_scale", scale, "guidance is from 1 to 30")?;
        if let Some(types) = &config.layer_types {
            let known = |t: &String| matches!(t.as_str(), "sliding_attention" | "full_attention");
            let fine = types.iter().all(known) && types.len() >= config.num_hidden_layers;
            require(fine, "layer_types", types, "one of the two known types for every layer")?;
        }
        Ok(config)
    }

    /// Returns an error for sizes that are 0 or absurd, or that contradict each other.
    fn check_sizes(&self) -> Result<(), ConfigError> {
        transformer(self.dit_shape(), self.num_hidden_layers, "rms_norm_eps", self.rope_theta)?;
        sizes(&keys!(self: fsq_dim, text_hidden_dim, timbre_hidden_dim, timbre_fix_frame))?;
        sizes(&keys!(self: audio_acoustic_hidden_dim, pool_window_size, patch_size, in_channels))?;
        for (key, value) in keys!(self: encoder_hidden_size, encoder_intermediate_size,
            encoder_num_attention_heads, encoder_num_key_value_heads, sliding_window)
        {
            value.map_or(Ok(()), |value| size(key, value))?;
        }
        layers("num_lyric_encoder_hidden_layers", self.num_lyric_encoder_hidden_layers)?;
        layers("num_timbre_encoder_hidden_layers", self.num_timbre_encoder_hidden_layers)?;
        layers("num_attention_pooler_hidden_layers", self.num_attention_pooler_hidden_layers)?;
        let (timbre, latents) = (self.timbre_hidden_dim, self.audio_acoustic_hidden_dim);
        let why = "must be audio_acoustic_hidden_dim: a timbre reference is latents";
        require(timbre == latents, "timbre_hidden_dim", timbre, why)?;
        let (code, encoders) = (self.fsq_dim, self.encoder_layer().hidden);
        let why = "must be the encoders' width, encoder_hidden_size or else hidden_size";
        require(code == encoders, "fsq_dim", code, why)
    }

    /// Returns the visibility of layer `index` of any of the networks.
    pub fn visibility(&self, index: usize) -> Visibility {
        let slides = match self.layer_types.as_ref().and_then(|types| types.get(index)) {
            Some(kind) => kind == "sliding_attention",
            None => index.is_multiple_of(2),
        };
        match self.sliding_window {
            Some(reach) if slides && self.use_sliding_window => Visibility::Window(reach),
            Some(_) | None => Visibility::Full,
        }
    }

    /// Returns the sizes of the diffusion transformer's layers.
    pub fn dit_shape(&self) -> LayerShape {
        layer_shape!(self, rms_norm_eps)
    }

    /// Returns the sizes of the encoders' layers: the `encoder_*` keys if present.
    fn encoder_layer(&self) -> LayerShape {
        let dit = self.dit_shape();
        LayerShape {
            hidden: self.encoder_hidden_size.unwrap_or(dit.hidden),
            intermediate: self.encoder_intermediate_size.unwrap_or(dit.intermediate),
            heads: self.encoder_num_attention_heads.unwrap_or(dit.heads),
            kv_heads: self.encoder_num_key_value_heads.unwrap_or(dit.kv_heads),
            ..dit
        }
    }

    /// Returns the sizes and settings that all encoders share.
    pub fn encoder_shape(&self) -> EncoderShape {
        let layers = [
            self.num_lyric_encoder_hidden_layers,
            self.num_timbre_encoder_hidden_layers,
            self.num_attention_pooler_hidden_layers,
        ];
        let deepest = layers.into_iter().max().unwrap_or(0);
        EncoderShape {
            layer: self.encoder_layer(),
            rope_theta: self.rope_theta,
            visibility: (0..deepest).map(|index| self.visibility(index)).collect(),
        }
    }

    /// True if the timbre encoder reads its class token. This holds for the XL models, whose
    /// encoders have a width of their own. The 2B models store the token but do not use it.
    pub fn timbre_has_class_token(&self) -> bool {
        self.encoder_hidden_size.is_some()
    }
}

#[cfg(test)]
mod tests;
