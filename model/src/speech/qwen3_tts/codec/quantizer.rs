//! From codes to vectors: a codebook for the first code, a sum of codebooks for the others.
//!
//! Source: upstream `SplitResidualVectorQuantizer`, `EuclideanCodebook`; Défossez et al. 2022,
//! arXiv:2210.13438.
//! Checkpoint: `decoder.quantizer.*`, without `input_proj`, which only an encoder needs.

use burn::{
    module::Module,
    tensor::{Int, Tensor},
};

use super::DecoderConfig;
use crate::{Backend, speech::mimi::ResidualDequantizer};

/// The quantizer of a decoder.
#[derive(Module, Debug)]
pub(super) struct Quantizer<B: Backend> {
    rvq_first: ResidualDequantizer<B>,
    rvq_rest: ResidualDequantizer<B>,
}

impl<B: Backend> Quantizer<B> {
    pub(super) fn init(config: &DecoderConfig, device: &B::Device) -> Self {
        let (hidden, sizes) =
            (config.codebook_dim, [config.codebook_size, config.codebook_dim / 2]);
        let codebooks = |count| ResidualDequantizer::init(count, sizes, hidden, device);
        Self { rvq_first: codebooks(1), rvq_rest: codebooks(config.num_quantizers - 1) }
    }

    /// Returns it with prepacked projections, whose results stay equal to the bit.
    pub(super) fn prepacked(self) -> Self {
        Self { rvq_first: self.rvq_first.prepacked(), rvq_rest: self.rvq_rest.prepacked() }
    }

    /// Returns the vectors of frames.
    ///
    /// # Shapes
    /// - `codes`: `[G, F]`
    /// - output: `[1, codebook_dim, F]`, in the type that the network computes in
    pub(super) fn forward(&self, codes: Tensor<B, 2, Int>) -> Tensor<B, 3> {
        let [groups, frames] = codes.dims();
        let first = codes.clone().slice([0..1, 0..frames]);
        let rest = codes.slice([1..groups, 0..frames]);
        self.rvq_first.forward(first) + self.rvq_rest.forward(rest)
    }
}
