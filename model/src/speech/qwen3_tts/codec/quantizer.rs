//! From codes to vectors: a codebook for the first code, a sum of codebooks for the others.
//!
//! Source: upstream `SplitResidualVectorQuantizer`, `EuclideanCodebook`; Défossez et al. 2022,
//! arXiv:2210.13438.
//! Checkpoint: `decoder.quantizer.*`, without `input_proj`, which only an encoder needs.

use burn::{
    module::{Module, Param},
    tensor::{DType, Int, Tensor},
};

use super::DecoderConfig;
use crate::{
    Backend,
    kernel::ConvGeometry,
    nn::{Conv1d, ones, random},
};

/// The quantizer of a decoder.
#[derive(Module, Debug)]
pub(super) struct Quantizer<B: Backend> {
    rvq_first: Codebooks<B>,
    rvq_rest: Codebooks<B>,
}

/// Codebooks whose vectors are summed, and the projection of the sum.
#[derive(Module, Debug)]
struct Codebooks<B: Backend> {
    layers: Vec<Codebook<B>>,
    output_proj: Conv1d<B>,
}

/// Sums of the training vectors of each code, and their numbers.
#[derive(Module, Debug)]
struct Codebook<B: Backend> {
    embedding_sum: Param<Tensor<B, 2>>,
    cluster_usage: Param<Tensor<B, 1>>,
}

/// The smallest number of training vectors, as in the reference.
const LEAST_USAGE: f32 = 1e-5;

impl<B: Backend> Quantizer<B> {
    pub(super) fn init(config: &DecoderConfig, device: &B::Device) -> Self {
        let codebooks = |count: usize| Codebooks::init(config, count, device);
        Self { rvq_first: codebooks(1), rvq_rest: codebooks(config.num_quantizers - 1) }
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

impl<B: Backend> Codebooks<B> {
    fn init(config: &DecoderConfig, count: usize, device: &B::Device) -> Self {
        let width = config.codebook_dim / 2;
        let codebook = |_| Codebook {
            embedding_sum: random([config.codebook_size, width], 1.0, device),
            cluster_usage: ones([config.codebook_size], device),
        };
        let channels = [width, config.codebook_dim];
        Self {
            layers: (0..count).map(codebook).collect(),
            output_proj: Conv1d::init(channels, 1, ConvGeometry::default(), device),
        }
    }

    /// # Shapes
    /// - `codes`: `[layers, F]`
    /// - output: `[1, codebook_dim, F]`
    fn forward(&self, codes: Tensor<B, 2, Int>) -> Tensor<B, 3> {
        let codes = codes.iter_dim(0).map(|row| row.squeeze_dim::<1>(0));
        let vectors = self.layers.iter().zip(codes).map(|(layer, codes)| layer.rows(codes));
        let sum = vectors.reduce(|sum, vectors| sum + vectors).expect("at least one codebook");
        self.output_proj.enter(sum.transpose().unsqueeze_dim(0))
    }
}

impl<B: Backend> Codebook<B> {
    /// Returns the centroids of `codes`, `[F, codebook_dim / 2]`, f32.
    fn rows(&self, codes: Tensor<B, 1, Int>) -> Tensor<B, 2> {
        let sums = self.embedding_sum.val().select(0, codes.clone()).cast(DType::F32);
        let usage = self.cluster_usage.val().select(0, codes).cast(DType::F32);
        sums / usage.clamp_min(LEAST_USAGE).unsqueeze_dim(1)
    }
}
