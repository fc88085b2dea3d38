//! Qwen3 with a head: logits of the next token, with a key/value cache.
//!
//! Source: Hugging Face `Qwen3ForCausalLM`.

use std::ops::Range;

use burn::{
    module::Module,
    tensor::{DType, Int, Tensor},
};

use super::{Config, Model};
use crate::{
    Backend, NoTap, Place, Tap,
    kernel::{self, Weight},
    nn::{Cache, Linear, ids_in_rows},
};

/// A causal language model: the trunk and a head, which is the embedding table unless the
/// checkpoint has its own.
#[derive(Module, Debug)]
pub struct Causal<B: Backend> {
    model: Model<B>,
    lm_head: Option<Linear<B>>,
}

impl<B: Backend> Causal<B> {
    /// Creates a language model of the configured size.
    pub fn init(config: &Config, device: &B::Device) -> Self {
        let head = || Linear::init(config.hidden_size, config.vocab_size, device);
        Self {
            model: Model::init(config, device),
            lm_head: (!config.tie_word_embeddings).then(head),
        }
    }

    /// Returns the type of the weights.
    pub fn dtype(&self) -> DType {
        self.model.dtype()
    }

    /// Returns the number of rows of the embedding table; ids must be less.
    pub fn vocabulary(&self) -> usize {
        self.model.vocabulary()
    }

    /// Computes the logits of the token after each position, without a cache.
    ///
    /// # Shapes
    /// - `ids`: `[B, L]`
    /// - output: `[B, L, vocabulary]`
    pub fn forward(&self, ids: Tensor<B, 2, Int>) -> Tensor<B, 3> {
        self.forward_tapped(ids, &mut NoTap)
    }

    /// [`Self::forward`] with the taps of [`Model::forward_tapped`].
    pub fn forward_tapped(&self, ids: Tensor<B, 2, Int>, tap: &mut impl Tap<B>) -> Tensor<B, 3> {
        kernel::linear(self.model.hidden(ids, tap), self.head(), None).cast(DType::F32)
    }

    /// Appends `ids` to row `row` of the cache and returns the final hidden state of the last id.
    ///
    /// # Panics
    /// If there are no ids, or the cache has no room for them.
    ///
    /// # Shapes
    /// - output: `[1, H]`
    pub fn read(
        &self,
        ids: &[u32],
        row: usize,
        cache: &mut Cache<B>,
        device: &B::Device,
    ) -> Tensor<B, 2> {
        self.read_ids(ids, row..row + 1, cache, device)
    }

    /// [`Self::read`] that returns the hidden state of each of `ids`.
    ///
    /// # Panics
    /// See [`Self::read`].
    ///
    /// # Shapes
    /// - output: `[ids, H]`
    pub fn read_all(
        &self,
        ids: &[u32],
        row: usize,
        cache: &mut Cache<B>,
        device: &B::Device,
    ) -> Tensor<B, 2> {
        let slots = cache.next(row..row + 1);
        let x = self.model.embedded(ids_in_rows(ids.iter().copied(), 1, device));
        self.model.forward_cached(x, &slots, ids.len(), cache).squeeze_dim::<2>(0).cast(DType::F32)
    }

    /// Appends one token to each of `rows` in one pass and returns their final hidden states.
    ///
    /// # Panics
    /// If there are more or fewer tokens than rows, or the cache has no room for them.
    ///
    /// # Shapes
    /// - output: `[rows, H]`
    pub fn step(
        &self,
        tokens: &[u32],
        rows: Range<usize>,
        cache: &mut Cache<B>,
        device: &B::Device,
    ) -> Tensor<B, 2> {
        assert_eq!(tokens.len(), rows.len(), "one token a row");
        self.read_ids(tokens, rows, cache, device)
    }

    /// [`Self::read`] or [`Self::step`] of embeddings: several of one row, or one of each row.
    ///
    /// # Panics
    /// If there are several embeddings for each of several rows, or the cache has no room for them.
    ///
    /// # Shapes
    /// - `embeddings`: `[rows, t, H]`, in the type that the network computes in
    /// - output: `[rows, H]`
    pub fn read_embedded(
        &self,
        embeddings: Tensor<B, 3>,
        rows: Range<usize>,
        cache: &mut Cache<B>,
    ) -> Tensor<B, 2> {
        let slots = cache.next(rows);
        let hidden = self.model.forward_cached(embeddings, &slots, 1, cache);
        hidden.squeeze_dim::<2>(1).cast(DType::F32)
    }

    fn read_ids(
        &self,
        ids: &[u32],
        rows: Range<usize>,
        cache: &mut Cache<B>,
        device: &B::Device,
    ) -> Tensor<B, 2> {
        B::on_pool(|| {
            let ids = ids_in_rows(ids.iter().copied(), rows.len(), device);
            self.read_embedded(self.model.embedded(ids), rows, cache)
        })
    }

    /// Computes the logits of the tokens `wanted`, one range after the other.
    ///
    /// Reads only those rows of the head: the audio codes are less than a third of the table.
    ///
    /// # Shapes
    /// - `hidden`: `[rows, H]`
    /// - output: `[rows, wanted]`
    pub fn scores(&self, hidden: Tensor<B, 2>, wanted: &[Range<usize>]) -> Tensor<B, 2> {
        // ANCHOR: scores
        let head = self.head();
        let hidden = hidden.cast(B::computes_in(head.dtype()));
        let part = |range: &Range<usize>| {
            kernel::linear(hidden.clone(), head.clone().rows(range.clone()), None)
        };
        let mut parts: Vec<_> = B::on_pool(|| wanted.iter().map(part).collect());
        let scores = if parts.len() == 1 { parts.remove(0) } else { Tensor::cat(parts, 1) };
        scores.cast(DType::F32)
        // ANCHOR_END: scores
    }

    fn head(&self) -> Weight<B, 2> {
        match &self.lm_head {
            Some(head) => head.weight(),
            None => self.model.table(),
        }
    }
}

impl Config {
    /// Creates an empty cache for `rows` sequences of at most `capacity` tokens, at its network's
    /// place.
    pub fn cache<B: Backend>(&self, rows: usize, capacity: usize, place: &Place<B>) -> Cache<B> {
        Cache::new(&self.layer_shape(), self.num_hidden_layers, rows, capacity, place)
    }
}

#[cfg(all(test, feature = "cpu"))]
mod tests;
