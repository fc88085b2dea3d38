//! `model_config.yaml` of Magpie TTS, as JSON, and the sizes that it does not contain.
//!
//! Most keys of the file are settings of the training. So unknown keys are ignored here, and the keys
//! of options that are not implemented are checked.

mod run;
mod sizes;
mod stack;

pub use run::{EosDetection, InferenceParameters};
pub use sizes::{SPECIAL_CODES, Sizes};
pub use stack::{DecoderConfig, StackConfig};

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{
    config::{ConfigError, number, parse, require},
    limits::{layers, sizes as check_sizes},
};

/// The configuration of the networks and of a run.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Config {
    model_type: String,
    target: Option<String>,
    /// Width of the text memory and of the decoder.
    pub embedding_dim: usize,
    /// Frames of codes in a step of the decoder.
    #[serde(default = "number::<1>")]
    pub frame_stacking_factor: usize,
    /// The encoder of the text.
    pub encoder: StackConfig,
    /// The decoder of the codes.
    pub decoder: DecoderConfig,
    local_transformer_type: Option<String>,
    #[serde(default = "number::<2>")]
    local_transformer_n_layers: usize,
    #[serde(default = "number::<1>")]
    local_transformer_n_heads: usize,
    #[serde(default = "number::<256>")]
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
    #[serde(default)]
    vector_quantizer: Value,
    forced_num_all_tokens_per_codebook: Option<usize>,
    forced_audio_bos_id: Option<usize>,
    forced_audio_eos_id: Option<usize>,
}

impl Config {
    /// Parses `text`, the configuration as JSON.
    ///
    /// # Errors
    /// [`ConfigError`] if a key is missing or asks for something that is not implemented.
    pub fn from_json(text: &str) -> Result<Self, ConfigError> {
        let mut config: Self = parse(text)?;
        let lookahead_key = config.inference_parameters.unify_names();
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
        let layout = &config.vector_quantizer;
        let why = "only null: codes in another layout than the codec's are not converted";
        require(layout.is_null(), "vector_quantizer", format_args!("{layout}"), why)?;
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
        let divides = *xa_n_heads > 0 && stack.d_model.is_multiple_of(*xa_n_heads);
        require(divides, "xa_n_heads", xa_n_heads, "must divide d_model")?;
        let head_width = config.decoder.head_width();
        require(head_width > 0, "xa_d_head", head_width, "at least 1")?;
        let fits = *xa_d_memory == config.encoder.d_model;
        require(fits, "xa_d_memory", xa_d_memory, "must be the width of the encoder")?;
        let (width, heads) =
            (config.local_transformer_hidden_dim, config.local_transformer_n_heads);
        let divides = heads > 0 && width.is_multiple_of(heads);
        require(divides, "local_transformer_n_heads", heads, "must divide the width")?;
        layers("local_transformer_n_layers", config.local_transformer_n_layers)?;
        check_sizes(&[
            ("local_transformer_hidden_dim", width),
            ("xa_n_heads", *xa_n_heads),
            ("xa_d_head", head_width),
        ])?;
        let lookahead = config.inference_parameters.attention_prior_lookahead_window;
        let why = "0 to 1000";
        require(lookahead <= 1000, lookahead_key, lookahead, why)?;
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
