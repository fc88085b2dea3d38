//! The state of a sequence, and the result of a step.

use burn::tensor::Tensor;

use crate::{
    Backend,
    nn::{Cache, KeysValues},
};

/// Options of a sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// Number of sequences: 2 with guidance (the second is unconditional), else 1.
    pub rows: usize,
    /// Most rows of a sequence, those of the voice included.
    pub capacity: usize,
    /// True to compute all rows again under the newest prior, as the reference without a cache.
    pub exact: bool,
}

/// A sequence so far. A copy continues the same sequence a second time.
#[derive(Debug, Clone)]
pub struct DecoderState<B: Backend> {
    pub(super) cache: Cache<B>,
    /// Keys and values of the text, for each layer.
    pub(super) memory: Vec<KeysValues<B>>,
    /// Rows before the first step.
    pub(super) context: Option<Tensor<B, 3>>,
    pub(super) length: usize,
    pub(super) rows: usize,
    /// First layer that is computed again, if there is one.
    pub(super) exact: Option<usize>,
    /// All inputs of that layer.
    pub(super) below: Option<Tensor<B, 3>>,
}

impl<B: Backend> DecoderState<B> {
    /// Returns the number of rows that were computed, those of the voice included.
    pub fn length(&self) -> usize {
        self.length
    }
}

/// The result of a step.
#[derive(Debug, Clone)]
pub struct Step<B: Backend> {
    /// The last row of each sequence, `[rows, D]`.
    pub hidden: Tensor<B, 2>,
    /// Attention of the last conditional row to the text, after the prior and averaged over heads:
    /// `[layers, L]`, f32, the layers of `estimate_alignment_from_layers`.
    pub attention: Tensor<B, 2>,
}
