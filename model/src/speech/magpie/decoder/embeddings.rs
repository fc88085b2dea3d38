//! The rows that the decoder reads: codes and voices.

use burn::tensor::{Int, Tensor};

use super::Decoder;
use crate::{Backend, nn::ids_in_rows};

impl<B: Backend> Decoder<B> {
    /// Returns the number of tables of codes: the codes of a stack. Code `c` of frame `i` has table
    /// `c + i C`, with `C` codebooks.
    pub fn tables(&self) -> usize {
        self.audio_embeddings.len()
    }

    /// Returns the number of voices.
    pub fn voices(&self) -> usize {
        self.context_lengths.len()
    }

    /// Returns the rows of voice `voice`, which come before the codes.
    ///
    /// # Panics
    /// If there is no such voice.
    ///
    /// # Shapes
    /// - output: `[1, C, D]`
    pub fn context(&self, voice: usize, device: &B::Device) -> Tensor<B, 3> {
        let length = self.context_lengths[voice];
        let id = ids_in_rows([voice as u32], 1, device);
        let rows = self.baked_context_embedding.forward(id);
        let width = self.decoder.width();
        let count = rows.dims()[2] / width;
        let dtype = self.computes_in();
        rows.cast(dtype).reshape([1, count, width]).narrow(1, 0, length)
    }

    /// Returns the row of each stack: the mean of the embeddings of its codes.
    ///
    /// # Shapes
    /// - `codes`: `[tables, n]`
    /// - output: `[1, n, D]`
    pub fn embedded(&self, codes: Tensor<B, 2, Int>) -> Tensor<B, 3> {
        let [tables, _] = codes.dims();
        assert_eq!(tables, self.tables(), "codes of another number of tables");
        let of = |table| self.audio_embedding(table, codes.clone().narrow(0, table, 1));
        let sum = (1..tables).fold(of(0), |sum, table| sum + of(table));
        sum / tables as f64
    }

    /// Returns the embeddings of codes of one table, the next input of the local transformer.
    ///
    /// # Panics
    /// If there is no such table.
    ///
    /// # Shapes
    /// - `codes`: `[B, n]`
    /// - output: `[B, n, D]`
    pub fn audio_embedding(&self, table: usize, codes: Tensor<B, 2, Int>) -> Tensor<B, 3> {
        self.audio_embeddings[table].forward(codes).cast(self.computes_in())
    }

    /// Returns the type that the network computes in.
    fn computes_in(&self) -> burn::tensor::DType {
        B::computes_in(self.final_proj.dtype())
    }
}
