//! From vectors to codes, the nearest centroids of codebooks, and back.
//!
//! The semantic and the acoustic quantizer start from the same vector. Within one, each codebook
//! quantises what the codebooks before it left over.
//!
//! Source: transformers `MimiSplitResidualVectorQuantizer`, `MimiEuclideanCodebook`.
//! Checkpoint: `quantizer.*` of Mimi; `input_proj` only for vectors to codes, `output_proj` only for
//! codes to vectors.

use burn::{
    module::{Module, Param},
    tensor::{DType, Int, Tensor},
};

use super::Config;
use crate::{
    Backend, Tap,
    kernel::{self, ConvGeometry},
    nn::{Conv1d, ones, random},
};

/// Both quantizers.
#[derive(Module, Debug)]
pub(super) struct Quantizer<B: Backend> {
    semantic_residual_vector_quantizer: ResidualQuantizer<B>,
    acoustic_residual_vector_quantizer: ResidualQuantizer<B>,
}

/// Codebooks, each for the rest of the one before.
#[derive(Module, Debug)]
struct ResidualQuantizer<B: Backend> {
    input_proj: Conv1d<B>,
    layers: Vec<Codebook<B>>,
}

/// Sums of the training vectors of each code, and their numbers.
#[derive(Module, Debug)]
struct Codebook<B: Backend> {
    embed_sum: Param<Tensor<B, 2>>,
    cluster_usage: Param<Tensor<B, 1>>,
}

/// The smallest number of training vectors, as in the reference.
const LEAST_USAGE: f32 = 1e-5;

impl<B: Backend> Quantizer<B> {
    /// Creates quantizers of `count` codebooks in all.
    pub(super) fn init(config: &Config, count: usize, device: &B::Device) -> Self {
        let semantic = config.num_semantic_quantizers;
        let (hidden, sizes) = (config.hidden_size, [config.codebook_size, config.codebook_dim]);
        let quantizer = |count: usize| ResidualQuantizer {
            input_proj: Conv1d::init([hidden, sizes[1]], 1, ConvGeometry::default(), device),
            layers: (0..count).map(|_| Codebook::init(sizes, device)).collect(),
        };
        Self {
            semantic_residual_vector_quantizer: quantizer(semantic),
            acoustic_residual_vector_quantizer: quantizer(count - semantic),
        }
    }

    /// Computes the codes, the semantic ones first; taps `semantic_in` and `acoustic_in`.
    ///
    /// # Shapes
    /// - `x`: `[1, H, F]`
    /// - output: `[G, F]`
    pub(super) fn forward(&self, x: Tensor<B, 3>, tap: &mut impl Tap<B>) -> Tensor<B, 2, Int> {
        let mut codes = Vec::new();
        for (name, quantizer) in [
            ("semantic", &self.semantic_residual_vector_quantizer),
            ("acoustic", &self.acoustic_residual_vector_quantizer),
        ] {
            let x = quantizer.input_proj.enter(x.clone());
            tap.tap(format_args!("{name}_in"), &x);
            let mut rest = x.cast(DType::F32).squeeze_dim::<2>(0).transpose();
            for layer in &quantizer.layers {
                let (nearest, centroids) = layer.nearest(rest.clone());
                rest = rest - centroids;
                codes.push(nearest);
            }
        }
        Tensor::stack(codes, 0)
    }
}

/// Both quantizers, from codes to vectors.
#[derive(Module, Debug)]
pub(super) struct Dequantizer<B: Backend> {
    semantic_residual_vector_quantizer: ResidualDequantizer<B>,
    acoustic_residual_vector_quantizer: ResidualDequantizer<B>,
}

/// Codebooks whose vectors are summed, and the projection of the sum.
#[derive(Module, Debug)]
pub(in crate::speech) struct ResidualDequantizer<B: Backend> {
    output_proj: Conv1d<B>,
    layers: Vec<Codebook<B>>,
}

impl<B: Backend> Dequantizer<B> {
    /// Creates quantizers of `count` codebooks in all.
    pub(super) fn init(config: &Config, count: usize, device: &B::Device) -> Self {
        let semantic = config.num_semantic_quantizers;
        let (hidden, sizes) = (config.hidden_size, [config.codebook_size, config.codebook_dim]);
        let quantizer = |count| ResidualDequantizer::init(count, sizes, hidden, device);
        Self {
            semantic_residual_vector_quantizer: quantizer(semantic),
            acoustic_residual_vector_quantizer: quantizer(count - semantic),
        }
    }

    /// Returns it with prepacked projections, whose results stay equal to the bit.
    pub(super) fn prepacked(self) -> Self {
        Self {
            semantic_residual_vector_quantizer: self.semantic_residual_vector_quantizer.prepacked(),
            acoustic_residual_vector_quantizer: self.acoustic_residual_vector_quantizer.prepacked(),
        }
    }

    /// Computes the vectors of codes. Without codes of the last codebooks the vectors are coarser.
    ///
    /// # Shapes
    /// - `codes`: `[G, F]`, of all codebooks or of the first ones, at least the semantic ones
    /// - output: `[1, H, F]`, in the type that the network computes in
    pub(super) fn forward(&self, codes: Tensor<B, 2, Int>) -> Tensor<B, 3> {
        let (semantic, acoustic) =
            (&self.semantic_residual_vector_quantizer, &self.acoustic_residual_vector_quantizer);
        let (first, all) = (semantic.layers.len(), codes.dims()[0]);
        let groups = first + acoustic.layers.len();
        assert!((first..=groups).contains(&all), "codes of {all} codebooks for {groups}");
        let x = semantic.forward(codes.clone().narrow(0, 0, first));
        match all > first {
            true => x + acoustic.forward(codes.narrow(0, first, all - first)),
            false => x,
        }
    }
}

impl<B: Backend> ResidualDequantizer<B> {
    /// Creates `count` codebooks, each with the number of codes and the width of `sizes`, and a
    /// projection to `hidden` channels.
    pub(in crate::speech) fn init(
        count: usize,
        sizes: [usize; 2],
        hidden: usize,
        device: &B::Device,
    ) -> Self {
        Self {
            output_proj: Conv1d::init([sizes[1], hidden], 1, ConvGeometry::default(), device),
            layers: (0..count).map(|_| Codebook::init(sizes, device)).collect(),
        }
    }

    /// Returns it with a prepacked projection, whose results stay equal to the bit.
    pub(in crate::speech) fn prepacked(self) -> Self {
        Self { output_proj: self.output_proj.prepacked_in_order(), ..self }
    }

    /// # Shapes
    /// - `codes`: `[layers, F]`
    /// - output: `[1, H, F]`, in the type that the network computes in
    pub(in crate::speech) fn forward(&self, codes: Tensor<B, 2, Int>) -> Tensor<B, 3> {
        let codes = codes.iter_dim(0).map(|row| row.squeeze_dim::<1>(0));
        let vectors = self.layers.iter().zip(codes).map(|(layer, codes)| layer.rows(codes));
        let sum = vectors.reduce(|sum, vectors| sum + vectors).expect("at least one codebook");
        self.output_proj.enter(sum.transpose().unsqueeze_dim(0))
    }
}

impl<B: Backend> Codebook<B> {
    fn init([codes, width]: [usize; 2], device: &B::Device) -> Self {
        Self {
            embed_sum: random([codes, width], 1.0, device),
            cluster_usage: ones([codes], device),
        }
    }

    /// Returns the centroids of `codes`, `[F, codebook_dim]`, f32.
    fn rows(&self, codes: Tensor<B, 1, Int>) -> Tensor<B, 2> {
        let sums = self.embed_sum.val().select(0, codes.clone()).cast(DType::F32);
        let usage = self.cluster_usage.val().select(0, codes).cast(DType::F32);
        sums / usage.clamp_min(LEAST_USAGE).unsqueeze_dim(1)
    }

    /// Returns the nearest code of each vector, the first of equals, and its centroid.
    ///
    /// # Shapes
    /// - `x`: `[F, codebook_dim]`
    /// - outputs: `[F]`, `[F, codebook_dim]`
    fn nearest(&self, x: Tensor<B, 2>) -> (Tensor<B, 1, Int>, Tensor<B, 2>) {
        let usage = self.cluster_usage.val().cast(DType::F32).clamp_min(LEAST_USAGE);
        let centroids = self.embed_sum.val().cast(DType::F32) / usage.unsqueeze_dim(1);
        // |x - c|^2 = |x|^2 - 2 x c + |c|^2, and the first term is the same for all codes.
        let squares = centroids.clone().square().sum_dim(1).transpose();
        let products =
            kernel::batched_product(x.unsqueeze(), centroids.clone().transpose().unsqueeze());
        let distances = squares - products.squeeze_dims::<2>(&[0, 1]) * 2.0;
        let nearest = distances.argmin(1).squeeze_dim::<1>(1);
        (nearest.clone(), centroids.select(0, nearest))
    }
}

#[cfg(test)]
mod tests {
    use burn_flex::Flex;

    use super::*;
    use crate::{cast, kernel::Weight, testing::values};

    /// Zeros in the last codebook add nothing, so both ways are equal to the bit.
    #[test]
    fn without_the_last_codebook_the_others_are_summed() {
        let (config, device) = (super::super::tests::config(), Default::default());
        let mut all = Dequantizer::<Flex>::init(&config, 3, &device);
        let codes = Tensor::from_data([[1, 2], [3, 4], [5, 0]], &device);
        let of = |all: &Dequantizer<Flex>, count| {
            values(all.forward(Tensor::clone(&codes).narrow(0, 0, count)))
        };
        let whole = of(&all, 3);
        let layers = &mut all.acoustic_residual_vector_quantizer.layers;
        layers[1].embed_sum = Param::from_tensor(Tensor::zeros([12, 6], &device));
        assert_eq!(of(&all, 2), of(&all, 3));
        assert_ne!(of(&all, 2), whole);
        let first = Tensor::clone(&codes).narrow(0, 0, 1);
        let semantic = all.semantic_residual_vector_quantizer.forward(first);
        assert_eq!(of(&all, 1), values(semantic));
        // Packed once for all chunks, they give the same vectors.
        for dtype in [DType::F32, DType::BF16] {
            let plain = cast(all.clone(), dtype);
            let packed = plain.clone().prepacked();
            let projection = &packed.acoustic_residual_vector_quantizer.output_proj;
            assert!(matches!(projection.parts().0, Weight::Packed(_)), "{dtype:?}");
            assert_eq!(of(&packed, 3), of(&plain, 3), "{dtype:?}");
        }
    }
}
