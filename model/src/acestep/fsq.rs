//! Finite scalar quantisation: a code is one level in each of a few dimensions.
//!
//! `u = c tanh(x / c)` with `c = 1 + 1/(L-1)`, clamped to `[-1, 1]`; level
//! `k = floor((L-1)(u+1)/2 + 1/2)`; value `q = 2k/(L-1) - 1`; index `sum k_d basis_d`, the first
//! dimension varying fastest.
//!
//! Source: Mentzer et al. 2023, arXiv:2309.15505; vector-quantize-pytorch `ResidualFSQ` with
//! `bound_hard_clamp` and `preserve_symmetry`, one quantizer.
//! Checkpoint: `tokenizer.quantizer.{project_in,project_out}`; the codebook is implied.

use burn::{
    module::Module,
    tensor::{DType, Int, Tensor, TensorData},
};

use crate::{Backend, kernel, nn::Linear};

/// The codebook: levels per dimension, `[8, 8, 8, 5, 5, 5]` in the released models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fsq {
    levels: Vec<u32>,
}

impl Fsq {
    /// Creates a codebook with these levels, each at least two.
    pub fn new(levels: Vec<u32>) -> Self {
        Self { levels }
    }

    /// Returns the number of levels per dimension.
    pub(crate) fn levels(&self) -> &[u32] {
        &self.levels
    }

    /// Returns the number of codes (64000).
    pub fn codes(&self) -> u32 {
        self.levels.iter().product()
    }

    /// Returns the weight of each dimension in an index: `[1, 8, 64, 512, 2560, 12800]`.
    pub fn basis(&self) -> Vec<u32> {
        let step = |before: &mut u32, &levels: &u32| {
            let weight = *before;
            *before *= levels;
            Some(weight)
        };
        self.levels.iter().scan(1, step).collect()
    }

    /// Returns the values of a code, one per dimension, in `[-1, 1]`. The index must be below
    /// [`Self::codes`].
    pub fn values(&self, index: u32) -> Vec<f32> {
        // ANCHOR: code_values
        let value = |(&levels, basis): (&u32, u32)| {
            let level = index / basis % levels;
            level as f32 * (2.0 / (levels - 1) as f32) - 1.0
        };
        self.levels.iter().zip(self.basis()).map(value).collect()
        // ANCHOR_END: code_values
    }

    fn row<B: Backend>(&self, f: impl Fn(u32) -> f32, device: &B::Device) -> Tensor<B, 1> {
        let values: Vec<f32> = self.levels.iter().map(|&levels| f(levels)).collect();
        Tensor::from_data(TensorData::new(values, [self.levels.len()]), (device, DType::F32))
    }

    /// Bounds the output of `project_in` softly.
    ///
    /// # Shapes
    /// - `x`, output: `[B, N, levels]`
    pub fn bound<B: Backend>(&self, x: Tensor<B, 3>) -> Tensor<B, 3> {
        let bound = self.row::<B>(|levels| 1.0 + 1.0 / (levels - 1) as f32, &x.device());
        kernel::soft_clamp(x, bound)
    }

    /// Returns the nearest levels of bounded values, counted from 0.
    ///
    /// # Shapes
    /// - `x`, output: `[B, N, levels]`
    // ANCHOR: fsq
    fn level<B: Backend>(&self, x: Tensor<B, 3>) -> Tensor<B, 3> {
        let steps = self.row::<B>(|levels| (levels - 1) as f32, &x.device()).unsqueeze::<3>();
        (steps * (kernel::clamp(x, -1.0, 1.0) + 1.0) / 2.0 + 0.5).floor()
    }
    // ANCHOR_END: fsq

    /// Quantises bounded values; returns the values of the nearest codes and their indices.
    ///
    /// # Shapes
    /// - `x`: `[B, N, levels]`
    /// - output: `[B, N, levels]` and `[B, N]`
    pub fn quantize<B: Backend>(&self, x: Tensor<B, 3>) -> (Tensor<B, 3>, Tensor<B, 2, Int>) {
        let device = x.device();
        let level = self.level(x);
        let width = self.row::<B>(|levels| 2.0 / (levels - 1) as f32, &device).unsqueeze::<3>();
        let values = level.clone() * width - 1.0;
        let basis: Vec<f32> = self.basis().iter().map(|&weight| weight as f32).collect();
        let basis = TensorData::new(basis, [1, 1, self.levels.len()]);
        let basis = Tensor::<B, 3>::from_data(basis, (&device, DType::F32));
        // Every sum is an integer below 2^24, exact in f32.
        let [batch, count, _] = level.dims();
        let index = (level * basis).sum_dim(2).reshape([batch, count]).int();
        (values, index)
    }
}

/// Quantizer between vectors and codes.
#[derive(Module, Debug)]
pub struct Quantizer<B: Backend> {
    project_in: Linear<B>,
    project_out: Linear<B>,
    #[module(skip)]
    fsq: Fsq,
}

impl<B: Backend> Quantizer<B> {
    /// Creates a quantizer for vectors with `width` values.
    pub fn init(width: usize, fsq: Fsq, device: &B::Device) -> Self {
        let dimensions = fsq.levels.len();
        Self {
            project_in: Linear::init_with_bias(width, dimensions, device),
            project_out: Linear::init_with_bias(dimensions, width, device),
            fsq,
        }
    }

    /// Returns the codebook.
    pub fn fsq(&self) -> &Fsq {
        &self.fsq
    }

    /// Returns the map from a code's values to its vector.
    pub(super) fn projection(&self) -> kernel::Map<B> {
        self.project_out.parts()
    }

    /// Projects vectors to values, before these are bounded.
    ///
    /// # Shapes
    /// - `x`: `[B, N, H]`
    /// - output: `[B, N, levels]`
    pub fn project_in(&self, x: Tensor<B, 3>) -> Tensor<B, 3> {
        self.project_in.enter(x).cast(DType::F32)
    }

    /// Quantises vectors: returns the vectors of their codes, and the indices.
    ///
    /// # Shapes
    /// - `x`: `[B, N, H]`
    /// - output: `[B, N, H]` and indices `[B, N]`
    pub fn forward(&self, x: Tensor<B, 3>) -> (Tensor<B, 3>, Tensor<B, 2, Int>) {
        // In bf16 the boundaries between levels would move; newer upstream versions also use f32
        // here.
        let bounded = self.fsq.bound(self.project_in(x));
        let (values, index) = self.fsq.quantize(bounded);
        (self.project_out(values), index)
    }

    /// [`Self::forward`] for training: gradients ignore the rounding.
    ///
    /// Source: Bengio et al. 2013, arXiv:1308.3432 (straight-through estimator).
    ///
    /// # Shapes
    /// - `x`, output: `[B, N, H]`
    pub fn forward_straight(&self, x: Tensor<B, 3>) -> Tensor<B, 3> {
        // ANCHOR: straight
        let bounded = self.fsq.bound(self.project_in(x));
        let (values, _) = self.fsq.quantize(bounded.clone());
        self.project_out(bounded.clone() + (values - bounded).detach())
        // ANCHOR_END: straight
    }

    /// Returns the vectors of codes; every index must be below the codebook's size.
    ///
    /// # Shapes
    /// - `codes`: `B` rows with `N` codes each
    /// - output: `[B, N, H]`
    pub fn vectors(&self, codes: &[Vec<u32>], device: &B::Device) -> Tensor<B, 3> {
        let count = codes.first().map_or(0, Vec::len);
        let values: Vec<f32> = codes.iter().flatten().flat_map(|&i| self.fsq.values(i)).collect();
        let shape = [codes.len(), count, self.fsq.levels.len()];
        let values = TensorData::new(values, shape);
        self.project_out(Tensor::from_data(values, (device, DType::F32)))
    }

    /// Projects values to vectors.
    fn project_out(&self, values: Tensor<B, 3>) -> Tensor<B, 3> {
        self.project_out.enter(values).cast(DType::F32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn released() -> Fsq {
        Fsq::new(vec![8, 8, 8, 5, 5, 5])
    }

    #[test]
    fn the_released_codebook_has_64000_codes() {
        assert_eq!(released().codes(), 64_000);
        assert_eq!(released().basis(), [1, 8, 64, 512, 2560, 12_800]);
    }

    #[test]
    fn the_first_dimension_varies_fastest() {
        let seventh = 1.0 * (2.0 / 7.0) - 1.0;
        assert_eq!(released().values(1), [seventh, -1.0, -1.0, -1.0, -1.0, -1.0]);
        assert_eq!(released().values(63_999), [1.0; 6]);
        assert_eq!(released().values(12_800), [-1.0, -1.0, -1.0, -1.0, -1.0, -0.5]);
    }
}
