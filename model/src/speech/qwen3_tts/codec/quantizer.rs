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

#[cfg(all(test, feature = "cpu"))]
mod tests {
    use std::{fs, path::Path};

    use burn::tensor::DType;
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
