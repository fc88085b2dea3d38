//! The talker: writes the first code of each frame, and reads whole frames.
//!
//! Source: upstream `Qwen3TTSTalkerForConditionalGeneration`, `Qwen3TTSTalkerModel`. Its three-axis
//! rotary positions are all equal, so they are ordinary ones.
//! Checkpoint: `talker.*`.

use std::ops::Range;

use burn::{
    module::Module,
    tensor::{DType, Tensor},
};

use super::{CodePredictor, Config, stack};
use crate::{
    Backend, Place, Tap, kernel,
    nn::{Cache, Layer, Linear, LookupTable, RmsNorm, ids_in_rows},
};

/// The talker, with the code predictor that completes its frames.
#[derive(Module, Debug)]
pub struct Talker<B: Backend> {
    model: Trunk<B>,
    text_projection: TextProjection<B>,
    codec_head: Linear<B>,
    code_predictor: CodePredictor<B>,
}

/// Tables, layers and final norm.
#[derive(Module, Debug)]
struct Trunk<B: Backend> {
    text_embedding: LookupTable<B>,
    codec_embedding: LookupTable<B>,
    layers: Vec<Layer<B>>,
    norm: RmsNorm<B>,
    head_dim: usize,
    rope_theta: f64,
}

/// `fc2(silu(fc1(x)))`: from the text table's width to the talker's.
#[derive(Module, Debug)]
struct TextProjection<B: Backend> {
    linear_fc1: Linear<B>,
    linear_fc2: Linear<B>,
}

impl<B: Backend> Talker<B> {
    /// Creates a talker of the configured size.
    pub fn init(config: &Config, device: &B::Device) -> Self {
        let talker = &config.talker_config;
        let (layers, norm) = stack::init(&talker.layers, device);
        let (text, width) = (talker.text_hidden_size, talker.layers.hidden_size);
        Self {
            model: Trunk {
                text_embedding: LookupTable::init(talker.text_vocab_size, text, device),
                codec_embedding: LookupTable::init(talker.vocab_size, width, device),
                layers,
                norm,
                head_dim: talker.layers.head_dim,
                rope_theta: talker.layers.rope_theta,
            },
            text_projection: TextProjection {
                linear_fc1: Linear::init_with_bias(text, text, device),
                linear_fc2: Linear::init_with_bias(text, width, device),
            },
            codec_head: Linear::init(width, talker.vocab_size, device),
            code_predictor: CodePredictor::init(talker, device),
        }
    }

    /// Returns the code predictor.
    pub fn code_predictor(&self) -> &CodePredictor<B> {
        &self.code_predictor
    }

    /// Returns the type of the layers' weights.
    pub fn dtype(&self) -> DType {
        self.codec_head.dtype()
    }

    /// Creates an empty cache for `rows` sequences of at most `capacity` positions.
    pub fn cache(config: &Config, rows: usize, capacity: usize, place: &Place<B>) -> Cache<B> {
        stack::cache(&config.talker_config.layers, rows, capacity, place)
    }

    /// Returns the vectors of text tokens.
    ///
    /// # Shapes
    /// - output: `[1, ids, H]`
    pub fn text(&self, ids: &[u32], device: &B::Device) -> Tensor<B, 3> {
        let TextProjection { linear_fc1, linear_fc2 } = &self.text_projection;
        let ids = ids_in_rows(ids.iter().copied(), 1, device);
        let x = self.model.text_embedding.forward(ids);
        linear_fc2.forward(kernel::silu(linear_fc1.forward(x)))
    }

    /// Returns the vectors of ids of the codec table: codes of group 0, languages, speakers, marks.
    ///
    /// # Shapes
    /// - output: `[1, ids, H]`
    pub fn codec(&self, ids: &[u32], device: &B::Device) -> Tensor<B, 3> {
        self.model.codec_embedding.forward(ids_in_rows(ids.iter().copied(), 1, device))
    }

    /// Returns the sum of the 16 code vectors of each frame.
    ///
    /// # Panics
    /// If a frame has more or fewer codes than the talker has groups.
    ///
    /// # Shapes
    /// - output: `[1, frames, H]`
    pub fn frames(&self, frames: &[Vec<u32>], device: &B::Device) -> Tensor<B, 3> {
        let groups = self.code_predictor.groups();
        assert!(frames.iter().all(|frame| frame.len() == groups), "{groups} codes a frame");
        let of_group = |group: usize| frames.iter().map(|frame| frame[group]).collect::<Vec<_>>();
        let first = self.codec(&of_group(0), device);
        (1..groups).fold(first, |sum, group| {
            sum + self.code_predictor.codes(group, &of_group(group), device)
        })
    }

    /// Appends vectors to the cache and returns the last hidden state of each sequence, after the
    /// final norm: several vectors of one sequence, or one for each of several.
    ///
    /// # Panics
    /// If there are several vectors for each of several rows, or the cache has no room for them.
    ///
    /// # Shapes
    /// - `x`: `[rows, t, H]`, in the type that the network computes in
    /// - output: `[rows, 1, H]`
    pub fn read(&self, x: Tensor<B, 3>, rows: Range<usize>, cache: &mut Cache<B>) -> Tensor<B, 3> {
        let Trunk { layers, norm, rope_theta, .. } = &self.model;
        stack::forward((layers, norm), *rope_theta, x, rows, cache)
    }

    /// Computes the hidden states of a whole sequence, after the final norm, without a cache; taps
    /// `layer{i}.self_attn.out` and `layer{i}.out`.
    ///
    /// # Shapes
    /// - `x`, output: `[B, t, H]`, in the type that the network computes in
    pub fn forward_tapped(&self, x: Tensor<B, 3>, tap: &mut impl Tap<B>) -> Tensor<B, 3> {
        let Trunk { layers, norm, head_dim, rope_theta, .. } = &self.model;
        stack::forward_whole((layers, norm), (*head_dim, *rope_theta), x, tap)
    }

    /// Computes the logits of the first code of the next frame.
    ///
    /// # Shapes
    /// - `hidden`: `[rows, t, H]`
    /// - output: `[rows, t, vocabulary]`, f32
    pub fn scores(&self, hidden: Tensor<B, 3>) -> Tensor<B, 3> {
        self.codec_head.forward(hidden).cast(DType::F32)
    }
}
