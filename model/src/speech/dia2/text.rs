//! The vector of a step's two text tokens.
//!
//! `main_proj(E[main]) + second_proj(E[second])`, where the second term is left out if the second
//! token is the pad token. The first one is never left out.
//!
//! Checkpoint: `transformer.text_embed.*`, `depformer.text_embed.*`.

use burn::{
    module::Module,
    tensor::{Tensor, TensorData},
};

use crate::{
    Backend,
    nn::{Linear, LookupTable, ids_in_rows},
};

/// A table of text tokens and a map for each of the two channels.
#[derive(Module, Debug)]
pub(super) struct TextEmbed<B: Backend> {
    embedding: LookupTable<B>,
    main_proj: Linear<B>,
    second_proj: Linear<B>,
    pad: u32,
}

impl<B: Backend> TextEmbed<B> {
    /// Creates a table of `rows` rows of `inner` values, for a network of `width` values.
    pub(super) fn init(
        rows: usize,
        [inner, width]: [usize; 2],
        pad: u32,
        device: &B::Device,
    ) -> Self {
        Self {
            embedding: LookupTable::init(rows, inner, device),
            main_proj: Linear::init(inner, width, device),
            second_proj: Linear::init(inner, width, device),
            pad,
        }
    }

    /// Returns the vectors of pairs of tokens, the main one first.
    ///
    /// # Shapes
    /// - output: `[pairs, 1, width]`, in the type that the network computes in
    pub(super) fn forward(&self, pairs: &[[u32; 2]], device: &B::Device) -> Tensor<B, 3> {
        let column =
            |at: usize| ids_in_rows::<B>(pairs.iter().map(|pair| pair[at]), pairs.len(), device);
        let main = self.main_proj.forward(self.embedding.forward(column(0)));
        if pairs.iter().all(|pair| pair[1] == self.pad) {
            return main;
        }
        let second = self.second_proj.forward(self.embedding.forward(column(1)));
        let counts: Vec<f32> =
            pairs.iter().map(|pair| if pair[1] == self.pad { 0.0 } else { 1.0 }).collect();
        let data = TensorData::new(counts, [pairs.len(), 1, 1]);
        let counts = Tensor::<B, 3>::from_data(data, (device, second.dtype()));
        main + second * counts
    }
}
