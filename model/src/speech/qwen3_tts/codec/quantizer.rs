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

    /// Returns it with prepacked projections, whose results stay equal to the bit.
    pub(super) fn prepacked(self) -> Self {
        let of = |codebooks: Codebooks<B>| Codebooks {
            output_proj: codebooks.output_proj.prepacked_in_order(),
            ..codebooks
        };
        Self { rvq_first: of(self.rvq_first), rvq_rest: of(self.rvq_rest) }
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

#[cfg(all(test, feature = "cpu"))]
mod tests {
    use std::{fs, path::Path};

    use burn_flex::Flex;

    use super::*;
    use crate::{cast, kernel::Weight, speech::qwen3_tts::codec};

    fn config() -> codec::Config {
        let goldens = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/goldens");
        let codec = "checkpoints_qwen3_tts/Qwen3-TTS-Tokenizer-12Hz/config.json";
        let text = fs::read_to_string(goldens.join(codec)).expect("a golden");
        codec::Config::from_json(&text).expect("valid")
    }

    /// Once for all chunks, without a change of the samples.
    #[test]
    fn packed_projections_give_the_same_vectors() {
        let (config, device) = (config().decoder_config, Default::default());
        let groups = config.num_quantizers;
        let codes = Tensor::<Flex, 1, Int>::arange(0..3 * groups as i64, &device) * 5 % 64;
        let codes = codes.reshape([groups, 3]);
        for dtype in [DType::F32, DType::BF16] {
            let plain = cast(Quantizer::<Flex>::init(&config, &device), dtype);
            let packed = plain.clone().prepacked();
            for codebooks in [&packed.rvq_first, &packed.rvq_rest] {
                assert!(matches!(codebooks.output_proj.parts().0, Weight::Packed(_)), "{dtype:?}");
            }
            let of = |quantizer: &Quantizer<Flex>| quantizer.forward(codes.clone()).into_data();
            assert_eq!(of(&packed), of(&plain), "{dtype:?}");
        }
    }
}
