//! `model_config.yaml` of Magpie TTS, as JSON, and the sizes that it does not contain.
//!
//! Most keys of the file are settings of the training. So unknown keys are ignored here, and the keys
//! of options that are not implemented are checked.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{
    config::{ConfigError, parse, require},
    limits::{layers, sizes},
};

/// Number of special codes after those of a codebook: begin, end, six others.
pub const SPECIAL_CODES: usize = 8;

/// The configuration of the networks and of a run.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Config {
    model_type: String,
    target: Option<String>,
    /// Width of the text memory and of the decoder.
    pub embedding_dim: usize,
    /// Frames of codes in a step of the decoder.
    #[serde(default = "one")]
    pub frame_stacking_factor: usize,
    /// The encoder of the text.
    pub encoder: StackConfig,
    /// The decoder of the codes.
    pub decoder: DecoderConfig,
    local_transformer_type: Option<String>,
    #[serde(default = "two")]
    local_transformer_n_layers: usize,
    #[serde(default = "one")]
    local_transformer_n_heads: usize,
    #[serde(default = "local_hidden")]
    local_transformer_hidden_dim: usize,
    /// The tokenizers of the text by name. The order decides the ids.
    pub text_tokenizers: Map<String, Value>,
    /// Settings of a run.
    #[serde(default)]
    pub inference_parameters: InferenceParameters,
    /// The tokenizers of each language, the preferred one first.
    pub language_to_tokenizer_mapping: Option<Map<String, Value>>,
    /// Name of the file with the names of voices.
    pub speaker_map: Option<String>,
    /// The repository of the codec.
    pub codecmodel_path: Option<String>,
    /// Version of NeMo that wrote the file.
    pub nemo_version: Option<String>,
    #[serde(default)]
    use_bpe_char_tokenizer: bool,
    #[serde(default)]
    legacy_text_conditioning: bool,
    forced_num_all_tokens_per_codebook: Option<usize>,
    forced_audio_bos_id: Option<usize>,
    forced_audio_eos_id: Option<usize>,
}

/// The layers of an encoder or a decoder.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct StackConfig {
    /// Number of layers.
    pub n_layers: usize,
    /// Width of a row.
    pub d_model: usize,
    /// Width inside the feed-forward block.
    pub d_ffn: usize,
    /// Heads of self attention.
    pub sa_n_heads: usize,
    /// Taps of the convolutions of the feed-forward block.
    pub kernel_size: usize,
    /// Rows of the table of positions.
    pub max_length_causal_mask: usize,
    is_causal: bool,
    #[serde(default)]
    apply_norm_out: bool,
    #[serde(default)]
    use_learnable_pos_emb: bool,
    #[serde(default)]
    use_moe: bool,
}

/// The layers of the decoder and their cross attention.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct DecoderConfig {
    /// The layers.
    #[serde(flatten)]
    pub stack: StackConfig,
    /// Width of a head of cross attention.
    pub xa_d_head: usize,
    /// Width of the memory.
    pub xa_d_memory: usize,
    /// Heads of cross attention.
    pub xa_n_heads: usize,
    #[serde(default)]
    has_xattn: bool,
    #[serde(default)]
    apply_norm_to_cond: bool,
}

/// Settings of a run, with the defaults of the reference.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default)]
pub struct InferenceParameters {
    /// Most frames of a chunk of text.
    pub max_decoder_steps: usize,
    /// Temperature of the draws.
    pub temperature: f64,
    /// Number of codes that can be drawn.
    pub topk: usize,
    /// Scale of guidance.
    pub cfg_scale: f64,
    /// True if a prior steers cross attention.
    pub apply_attention_prior: bool,
    /// The prior of other positions.
    #[serde(alias = "prior_epsilon")]
    pub attention_prior_epsilon: f64,
    /// Positions that attention may move ahead.
    #[serde(alias = "lookahead_window_size")]
    pub attention_prior_lookahead_window: usize,
    /// Layers whose attention shows the position in the text; `None` for all.
    pub estimate_alignment_from_layers: Option<Vec<usize>>,
    /// Layers with the prior; `None` for all.
    pub apply_prior_to_layers: Option<Vec<usize>>,
    /// Steps without the prior at the start.
    pub start_prior_after_n_audio_steps: usize,
    /// True if the end is not delayed until the text is read.
    pub ignore_finished_sentence_tracking: bool,
    /// The rule for the end of speech.
    pub eos_detection_method: EosDetection,
    /// Frames before the end may come.
    pub min_generated_frames: usize,
}

/// The codebooks and draws in which the code of the end ends the speech.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are those of the reference")]
pub enum EosDetection {
    ArgmaxAny,
    ArgmaxOrMultinomialAny,
    ArgmaxAll,
    ArgmaxOrMultinomialAll,
    ArgmaxZeroCb,
    ArgmaxOrMultinomialZeroCb,
}

impl Default for InferenceParameters {
    fn default() -> Self {
        Self {
            max_decoder_steps: 500,
            temperature: 0.7,
            topk: 80,
            cfg_scale: 2.5,
            apply_attention_prior: true,
            attention_prior_epsilon: 0.1,
            attention_prior_lookahead_window: 5,
            estimate_alignment_from_layers: None,
            apply_prior_to_layers: None,
            start_prior_after_n_audio_steps: 0,
            ignore_finished_sentence_tracking: true,
            eos_detection_method: EosDetection::ArgmaxOrMultinomialAny,
            min_generated_frames: 4,
        }
    }
}

/// Sizes that the configuration does not contain: of the vocabulary, the codec and the voices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sizes {
    /// Rows of the text table: the vocabulary, then begin and end.
    pub text_rows: usize,
    /// Codebooks of the codec.
    pub codebooks: usize,
    /// Codes of a codebook, without special ones.
    pub codes: usize,
    /// Rows of each voice in the file.
    pub context_rows: usize,
    /// Rows of each voice that are used.
    pub context_lengths: Vec<usize>,
}

impl Sizes {
    /// Returns the rows of a table of codes.
    pub fn code_rows(&self) -> usize {
        self.codes + SPECIAL_CODES
    }

    /// Returns the code that begins speech.
    pub fn begin(&self) -> usize {
        self.codes
    }

    /// Returns the code that ends speech.
    pub fn end(&self) -> usize {
        self.codes + 1
    }

    /// Returns the id that ends a text.
    pub fn text_end(&self) -> usize {
        self.text_rows - 1
    }
}

fn one() -> usize {
    1
}

fn two() -> usize {
    2
}

fn local_hidden() -> usize {
    256
}

impl Config {
    /// Parses `text`, the configuration as JSON.
    ///
    /// # Errors
    /// [`ConfigError`] if a key is missing or asks for something that is not implemented.
    pub fn from_json(text: &str) -> Result<Self, ConfigError> {
        let config: Self = parse(text)?;
        let target = config.target.as_deref().unwrap_or("MagpieTTSModel");
        let is_other = target.rsplit('.').next() != Some("MagpieTTSModel");
        require(!is_other, "target", target, "only MagpieTTSModel; others are other networks")?;
        let kind = config.model_type.as_str();
        let why = "only decoder_ce with voices in the file; others read the voice of a recording";
        require(kind == "decoder_ce", "model_type", kind, why)?;
        let kind = config.local_transformer_type.as_deref().unwrap_or("none");
        require(kind == "autoregressive", "local_transformer_type", kind, "only autoregressive")?;
        let (bpe, legacy) = (config.use_bpe_char_tokenizer, config.legacy_text_conditioning);
        require(!bpe, "use_bpe_char_tokenizer", bpe, "only false")?;
        require(!legacy, "legacy_text_conditioning", legacy, "only false")?;
        let stacks = config.frame_stacking_factor;
        require((1..=8).contains(&stacks), "frame_stacking_factor", stacks, "only 1 to 8")?;
        config.encoder.check(config.embedding_dim)?;
        let DecoderConfig { stack, xa_n_heads, xa_d_memory, .. } = &config.decoder;
        stack.check(config.embedding_dim)?;
        let why = "only 1: a cache holds no inputs of a convolution";
        require(stack.kernel_size == 1, "kernel_size", stack.kernel_size, why)?;
        let has = config.decoder.has_xattn;
        require(has, "has_xattn", has, "only a decoder with cross attention")?;
        let normed = config.decoder.apply_norm_to_cond;
        require(normed, "apply_norm_to_cond", normed, "only true")?;
        require(*xa_n_heads > 0, "xa_n_heads", xa_n_heads, "at least 1")?;
        require(config.decoder.xa_d_head > 0, "xa_d_head", 0, "at least 1")?;
        let fits = *xa_d_memory == config.encoder.d_model;
        require(fits, "xa_d_memory", xa_d_memory, "must be the width of the encoder")?;
        let (width, heads) =
            (config.local_transformer_hidden_dim, config.local_transformer_n_heads);
        let divides = heads > 0 && width.is_multiple_of(heads);
        require(divides, "local_transformer_n_heads", heads, "must divide the width")?;
        layers("local_transformer_n_layers", config.local_transformer_n_layers)?;
        sizes(&[
            ("local_transformer_hidden_dim", width),
            ("xa_n_heads", *xa_n_heads),
            ("xa_d_head", config.decoder.xa_d_head),
        ])?;
        let lookahead = config.inference_parameters.attention_prior_lookahead_window;
        let why = "0 to 1000";
        require(lookahead <= 1000, "attention_prior_lookahead_window", lookahead, why)?;
        config.check_layers()?;
        Ok(config)
    }

    /// Checks that the layers that a run names exist.
    fn check_layers(&self) -> Result<(), ConfigError> {
        let InferenceParameters { estimate_alignment_from_layers, apply_prior_to_layers, .. } =
            &self.inference_parameters;
        for (key, layers) in [
            ("estimate_alignment_from_layers", estimate_alignment_from_layers),
            ("apply_prior_to_layers", apply_prior_to_layers),
        ] {
            let all = layers.iter().flatten();
            let mut others = all.filter(|&&layer| layer >= self.decoder.stack.n_layers);
            require(others.next().is_none(), key, layers, "the decoder has fewer layers")?;
        }
        let is_empty = estimate_alignment_from_layers.as_ref().is_some_and(Vec::is_empty);
        require(!is_empty, "estimate_alignment_from_layers", "[]", "at least one layer")
    }

    /// Checks the ids of special codes that old files fix.
    ///
    /// # Errors
    /// [`ConfigError`] if they are not those of [`Sizes`].
    pub fn check_codes(&self, sizes: &Sizes) -> Result<(), ConfigError> {
        for (key, own, expected) in [
            (
                "forced_num_all_tokens_per_codebook",
                self.forced_num_all_tokens_per_codebook,
                sizes.code_rows(),
            ),
            ("forced_audio_bos_id", self.forced_audio_bos_id, sizes.begin()),
            ("forced_audio_eos_id", self.forced_audio_eos_id, sizes.end()),
        ] {
            let fits = own.is_none_or(|own| own == expected);
            require(fits, key, own, "it does not follow from the codec")?;
        }
        Ok(())
    }

    /// Returns the codes of a stack, which is the number of tables of codes.
    pub fn codes_per_stack(&self, sizes: &Sizes) -> usize {
        sizes.codebooks * self.frame_stacking_factor
    }

    /// Returns the layers of the local transformer, whose width, heads and positions are its own.
    pub fn local_transformer(&self, sizes: &Sizes) -> StackConfig {
        let width = self.local_transformer_hidden_dim;
        StackConfig {
            n_layers: self.local_transformer_n_layers,
            d_model: width,
            d_ffn: 4 * width,
            sa_n_heads: self.local_transformer_n_heads,
            kernel_size: 1,
            max_length_causal_mask: self.codes_per_stack(sizes) + 2,
            is_causal: true,
            apply_norm_out: false,
            use_learnable_pos_emb: true,
            use_moe: false,
        }
    }

    /// Returns the layers of the decoder whose attention shows the position in the text.
    pub fn alignment_layers(&self) -> Vec<usize> {
        self.layers_of(&self.inference_parameters.estimate_alignment_from_layers)
    }

    /// Returns the layers of the decoder with the prior.
    pub fn prior_layers(&self) -> Vec<usize> {
        self.layers_of(&self.inference_parameters.apply_prior_to_layers)
    }

    fn layers_of(&self, layers: &Option<Vec<usize>>) -> Vec<usize> {
        layers.clone().unwrap_or_else(|| (0..self.decoder.stack.n_layers).collect())
    }
}

impl StackConfig {
    /// True if a norm follows the layers.
    pub fn has_norm_out(&self) -> bool {
        self.apply_norm_out
    }

    fn check(&self, width: usize) -> Result<(), ConfigError> {
        require(self.is_causal, "is_causal", self.is_causal, "only causal layers")?;
        let learned = self.use_learnable_pos_emb;
        require(learned, "use_learnable_pos_emb", learned, "only learned positions")?;
        require(!self.use_moe, "use_moe", self.use_moe, "only one feed-forward block")?;
        require(self.d_model == width, "d_model", self.d_model, "must be embedding_dim")?;
        layers("n_layers", self.n_layers)?;
        sizes(&[
            ("d_model", self.d_model),
            ("d_ffn", self.d_ffn),
            ("max_length_causal_mask", self.max_length_causal_mask),
        ])?;
        require((1..=64).contains(&self.kernel_size), "kernel_size", self.kernel_size, "1 to 64")?;
        let divides = self.sa_n_heads > 0 && self.d_model.is_multiple_of(self.sa_n_heads);
        require(divides, "sa_n_heads", self.sa_n_heads, "must divide d_model")
    }
}
