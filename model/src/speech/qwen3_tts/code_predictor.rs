//! The code predictor: from the first code of a frame to the others, one after the other.
//!
//! A frame is a short sequence: the talker's hidden state, then the vectors of codes 0 to 14. After
//! the second vector comes code 1. Each code has its own table and its own head.
//!
//! Source: upstream `Qwen3TTSTalkerCodePredictorModelForConditionalGeneration`.
//! Checkpoint: `talker.code_predictor.*`.

use std::ops::Range;

use burn::{
    module::Module,
    tensor::{DType, Int, Tensor},
};

use super::{TalkerConfig, stack};
use crate::{
    Backend, Place, Tap,
    nn::{Cache, Layer, Linear, LookupTable, RmsNorm, ids_in_rows},
};

/// The code predictor.
#[derive(Module, Debug)]
pub struct CodePredictor<B: Backend> {
    model: Trunk<B>,
    /// The head of code `g` is number `g - 1`.
    lm_head: Vec<Linear<B>>,
    /// From the talker's width to the layers' width, if they differ.
    small_to_mtp_projection: Option<Linear<B>>,
}

/// Tables, layers and final norm.
#[derive(Module, Debug)]
struct Trunk<B: Backend> {
    /// The table of code `g` is number `g - 1`; its rows have the talker's width.
    codec_embedding: Vec<LookupTable<B>>,
    layers: Vec<Layer<B>>,
    norm: RmsNorm<B>,
    head_dim: usize,
    rope_theta: f64,
}

impl<B: Backend> CodePredictor<B> {
    /// Creates a predictor for a talker of the configured size.
    pub(super) fn init(talker: &TalkerConfig, device: &B::Device) -> Self {
        let config = &talker.code_predictor_config;
        let (layers, norm) = stack::init(&config.layers, device);
        let (wide, width) = (talker.layers.hidden_size, config.layers.hidden_size);
        let others = 1..talker.num_code_groups;
        let table = |_| LookupTable::init(config.vocab_size, wide, device);
        let rope_theta = config.layers.rope_theta;
        Self {
            model: Trunk {
                codec_embedding: others.clone().map(table).collect(),
                layers,
                norm,
                head_dim: config.layers.head_dim,
                rope_theta,
            },
            lm_head: others.map(|_| Linear::init(width, config.vocab_size, device)).collect(),
            small_to_mtp_projection: (wide != width)
                .then(|| Linear::init_with_bias(wide, width, device)),
        }
    }

    /// Returns the number of codes of a frame, code 0 included.
    pub fn groups(&self) -> usize {
        self.lm_head.len() + 1
    }

    /// Creates an empty cache for one frame of each of `rows` sequences.
    pub fn cache(talker: &TalkerConfig, rows: usize, place: &Place<B>) -> Cache<B> {
        let config = &talker.code_predictor_config;
        stack::cache(&config.layers, rows, talker.num_code_groups, place)
    }

    /// Returns the vectors of codes of group `group`, at least 1, in the talker's width.
    ///
    /// # Panics
    /// If there is no such group.
    ///
    /// # Shapes
    /// - output: `[1, codes, H]`
    pub fn codes(&self, group: usize, codes: &[u32], device: &B::Device) -> Tensor<B, 3> {
        self.embedded(group, ids_in_rows(codes.iter().copied(), 1, device))
    }

    /// [`Self::codes`] of codes that are on the device.
    ///
    /// # Panics
    /// If there is no such group.
    ///
    /// # Shapes
    /// - `codes`: `[rows, t]`, output: `[rows, t, H]`
    pub fn embedded(&self, group: usize, codes: Tensor<B, 2, Int>) -> Tensor<B, 3> {
        self.model.codec_embedding[group - 1].forward(codes)
    }

    /// Appends vectors of the talker's width to the cache and computes the logits of code `group` of
    /// each frame: two vectors of one frame, or one for each of several frames.
    ///
    /// # Panics
    /// If there is no such group, or the cache has no room.
    ///
    /// # Shapes
    /// - `x`: `[rows, t, H]`
    /// - output: `[rows, 1, codes]`, f32
    pub fn scores(
        &self,
        x: Tensor<B, 3>,
        group: usize,
        rows: Range<usize>,
        cache: &mut Cache<B>,
    ) -> Tensor<B, 3> {
        let x = self.projected(x);
        let Trunk { layers, norm, rope_theta, .. } = &self.model;
        let hidden = stack::forward((layers, norm), *rope_theta, x, rows, cache);
        self.lm_head[group - 1].forward(hidden).cast(DType::F32)
    }

    /// Computes the hidden states of a whole frame, after the final norm, without a cache; taps
    /// `layer{i}.self_attn.out` and `layer{i}.out`.
    ///
    /// # Shapes
    /// - `x`: `[B, t, H]` of the talker's width; output: of the predictor's width
    pub fn forward_tapped(&self, x: Tensor<B, 3>, tap: &mut impl Tap<B>) -> Tensor<B, 3> {
        let Trunk { layers, norm, head_dim, rope_theta, .. } = &self.model;
        stack::forward_whole((layers, norm), (*head_dim, *rope_theta), self.projected(x), tap)
    }

    /// Returns vectors of the talker's width in the width of the layers.
    fn projected(&self, x: Tensor<B, 3>) -> Tensor<B, 3> {
        match &self.small_to_mtp_projection {
            Some(projection) => projection.forward(x),
            None => x,
        }
    }
}
