//! What an adapter adds to a linear map while it learns: a product of two thin matrices.
//!
//! `y = x W^T + s (x A^T) B^T`. In the beginning `B` is zero and nothing is added.
//!
//! Source: Hu et al. 2021, arXiv:2106.09685 (LoRA); PEFT `LoraLayer`, whose `s` is `alpha / rank`.

use burn::{
    module::{Initializer, Module, Param},
    tensor::{DType, Tensor},
};

use crate::{Backend, kernel};

/// The two matrices.
#[derive(Module, Debug)]
pub struct LowRank<B: Backend> {
    a: Param<Tensor<B, 2>>,
    b: Param<Tensor<B, 2>>,
    scale: f64,
}

impl<B: Backend> LowRank<B> {
    /// Nothing yet, for a map from `input` to `output` values.
    pub fn init([input, output]: [usize; 2], rank: usize, scale: f64, device: &B::Device) -> Self {
        let bound = (input as f64).powf(-0.5);
        Self {
            a: Initializer::Uniform { min: -bound, max: bound }.init([rank, input], device),
            b: Initializer::Zeros.init([output, rank], device),
            scale,
        }
    }

    /// `A`, `[rank, in]`, and `B`, `[out, rank]`.
    pub fn matrices(&self) -> [Tensor<B, 2>; 2] {
        [self.a.val(), self.b.val()]
    }

    /// What is added, computed in f32.
    ///
    /// # Shapes
    /// - `x`: `[.., in]`
    /// - output: `[.., out]`, in the type of `x`
    pub(super) fn forward<const D: usize>(&self, x: Tensor<B, D>) -> Tensor<B, D> {
        let dtype = x.dtype();
        let thin = kernel::linear(x.cast(DType::F32), self.a.val(), None);
        (kernel::linear(thin, self.b.val(), None) * self.scale).cast(dtype)
    }
}
