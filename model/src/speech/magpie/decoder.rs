//! The decoder of the codes, which attends to the text, with the tables of codes and the voices.
//!
//! A sequence is the rows of a voice, then one row per stack: the mean of the embeddings of its codes.
//! With guidance there is a second, unconditional sequence: its voice is zeros and it sees no text.
//!
//! With a cache every row keeps the keys and values of its own step, so it keeps the prior of that
//! step. The reference without a cache computes all rows again under the newest prior; that is
//! [`Start::exact`]. The unconditional sequence and the layers before the first one with a prior do
//! not depend on it.
//!
//! Checkpoint: `audio_embeddings.*`, `baked_context_embedding.*`, `decoder.*`, `final_proj.*`.

mod embeddings;
mod state;

pub use state::{DecoderState, Start, Step};

use burn::{module::Module, tensor::Tensor};

use super::{Config, Prior, Sizes, layer::Cross, stack::Stack};
use crate::{
    Backend, NoTap, Place, Tap,
    nn::{Linear, LookupTable},
};

/// The decoder.
#[derive(Module, Debug)]
pub struct Decoder<B: Backend> {
    audio_embeddings: Vec<LookupTable<B>>,
    baked_context_embedding: LookupTable<B>,
    decoder: Stack<B>,
    final_proj: Linear<B>,
    #[module(skip)]
    context_lengths: Vec<usize>,
    #[module(skip)]
    alignment_layers: Vec<usize>,
    #[module(skip)]
    prior_layers: Vec<usize>,
}

impl<B: Backend> Decoder<B> {
    /// Creates a decoder of the configured size.
    pub fn init(config: &Config, sizes: &Sizes, device: &B::Device) -> Self {
        let (width, tables) = (config.embedding_dim, config.codes_per_stack(sizes));
        let table = |_| LookupTable::init(sizes.code_rows(), width, device);
        let own = &config.decoder;
        let cross = [own.xa_d_memory, own.xa_n_heads, own.head_width()];
        let (voices, context) = (sizes.context_lengths.len(), sizes.context_rows * width);
        Self {
            audio_embeddings: (0..tables).map(table).collect(),
            baked_context_embedding: LookupTable::init(voices, context, device),
            decoder: Stack::init(&own.stack, Some(cross), device),
            final_proj: Linear::init_with_bias(width, tables * sizes.code_rows(), device),
            context_lengths: sizes.context_lengths.clone(),
            alignment_layers: config.alignment_layers(),
            prior_layers: config.prior_layers(),
        }
    }

    /// Returns it with other layers that [`Step::attention`] shows.
    pub fn with_alignment_layers(self, layers: Vec<usize>) -> Self {
        Self { alignment_layers: layers, ..self }
    }

    /// Returns the largest number of rows of a sequence, those of the voice included.
    pub fn positions(&self) -> usize {
        self.decoder.positions()
    }

    /// Begins a sequence: `context` are the rows of a voice, `memory` the text.
    ///
    /// # Shapes
    /// - `context`: `[1, C, D]`
    /// - `memory`: `[1, L, D]`
    pub fn start(
        &self,
        context: Tensor<B, 3>,
        memory: Tensor<B, 3>,
        start: Start,
        place: &Place<B>,
    ) -> DecoderState<B> {
        let Start { rows, capacity, exact } = start;
        assert!((1..=2).contains(&rows), "{rows} sequences");
        DecoderState {
            memory: self.decoder.memories(&memory),
            cache: self.decoder.cache(rows, capacity, place),
            context: Some(with_unconditional(context, rows)),
            length: 0,
            rows,
            exact: exact.then(|| self.prior_layers.iter().copied().min()).flatten(),
            below: None,
        }
    }

    /// Returns the last row of each sequence after its next rows `embedded`, and the attention of the
    /// conditional one to the text.
    ///
    /// # Panics
    /// If the sequence is longer than its capacity, or than [`Self::positions`].
    ///
    /// # Shapes
    /// - `embedded`: `[rows, n, D]`
    /// - `prior`: `[L]`
    pub fn step(
        &self,
        embedded: Tensor<B, 3>,
        prior: Option<&Prior<B>>,
        state: &mut DecoderState<B>,
    ) -> Step<B> {
        let x = match state.context.take() {
            Some(context) => {
                let dtype = context.dtype();
                Tensor::cat(vec![context, embedded.cast(dtype)], 1)
            }
            None => embedded,
        };
        let (start, rows, stack) = (state.length, state.rows, &self.decoder);
        state.length += x.dims()[1];
        let x = stack.positioned(x, start);
        let count = stack.layers.len();
        let memory = std::mem::take(&mut state.memory);
        let cross = |layer: usize| {
            let prior = prior.filter(|_| self.prior_layers.contains(&layer));
            Some(Cross { memory: &memory[layer], prior })
        };
        let mut weights = vec![None; count];
        let mut see = |layer: usize, of: Tensor<B, 4>| weights[layer] = Some(of);
        let cache = &mut state.cache;
        let first = state.exact.unwrap_or(count);
        let x = stack.forward_next(0..first, x, 0..rows, start, cache, cross, &mut see);
        let x = if first == count {
            x
        } else {
            let conditional = x.clone().narrow(0, 0, 1);
            let below = match state.below.take() {
                Some(below) => Tensor::cat(vec![below, conditional], 1),
                None => conditional,
            };
            state.below = Some(below.clone());
            let above = stack.forward(first, below, cross, &mut see, &mut NoTap);
            let last = |x: Tensor<B, 3>| {
                let rows = x.dims()[1];
                x.narrow(1, rows - 1, 1)
            };
            match rows {
                1 => last(above),
                _ => {
                    let other = x.narrow(0, 1, 1);
                    let all = first..count;
                    let other =
                        stack.forward_next(all, other, 1..2, start, cache, |_| None, |_, _| ());
                    Tensor::cat(vec![last(above), last(other)], 0)
                }
            }
        };
        state.memory = memory;
        let [_, length, width] = x.dims();
        let hidden = stack.finished(x.narrow(1, length - 1, 1)).reshape([rows, width]);
        let shown = self.alignment_layers.iter().map(|&layer| {
            let weights = weights[layer].take().expect("every layer has cross attention");
            let [_, _, rows, text] = weights.dims();
            weights.narrow(2, rows - 1, 1).mean_dim(1).reshape([1, text])
        });
        Step { attention: Tensor::cat(shown.collect(), 0), hidden }
    }

    /// Returns all rows of whole sequences, with one prior for all rows; taps the layers as the
    /// encoder, with `layer{i}.cross_attn` and `layer{i}.cross_prob`.
    ///
    /// # Shapes
    /// - `x`, output: `[rows, T, D]`, rows of the voice and of stacks
    /// - `memory`: `[1, L, D]`
    pub fn forward_tapped(
        &self,
        x: Tensor<B, 3>,
        memory: &Tensor<B, 3>,
        prior: Option<&Prior<B>>,
        tap: &mut impl Tap<B>,
    ) -> Tensor<B, 3> {
        let memory = self.decoder.memories(memory);
        let cross = |layer: usize| {
            let prior = prior.filter(|_| self.prior_layers.contains(&layer));
            Some(Cross { memory: &memory[layer], prior })
        };
        let x = self.decoder.forward(0, self.decoder.positioned(x, 0), cross, |_, _| (), tap);
        self.decoder.finished(x)
    }

    /// Returns the logits of all codes of a stack at once.
    ///
    /// # Shapes
    /// - `hidden`: `[rows, D]`
    /// - output: `[rows, tables V]`: the codes of the first frame, then those of the second
    pub fn logits(&self, hidden: Tensor<B, 2>) -> Tensor<B, 2> {
        self.final_proj.forward(hidden)
    }
}

/// Adds an unconditional sequence of zeros if there are two.
pub(super) fn with_unconditional<B: Backend>(context: Tensor<B, 3>, rows: usize) -> Tensor<B, 3> {
    match rows {
        1 => context,
        _ => Tensor::cat(vec![context.clone(), context.zeros_like()], 0),
    }
}
