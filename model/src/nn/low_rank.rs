//! The low-rank term that an adapter adds to a linear map during training.
//!
//! `y = x W^T + s (x A^T) B^T`. `B` starts at zero, so the term is zero at first.
//!
//! Source: Hu et al. 2021, arXiv:2106.09685 (LoRA); PEFT `LoraLayer`, whose `s` is `alpha / rank`.

use burn::{
    module::{Module, Param},
    tensor::{DType, Tensor},
};

use crate::{Backend, kernel};

/// The two matrices and their scale.
#[derive(Module, Debug)]
pub struct LowRank<B: Backend> {
    a: Param<Tensor<B, 2>>,
    b: Param<Tensor<B, 2>>,
    scale: f64,
}

impl<B: Backend> LowRank<B> {
    /// Creates the term from its two matrices; with a `b` of zeros it adds nothing yet.
    ///
    /// # Shapes
    /// - `a`: `[rank, in]`, `b`: `[out, rank]`, both in f32
    pub fn new(a: Tensor<B, 2>, b: Tensor<B, 2>, scale: f64) -> Self {
        Self { a: Param::from_tensor(a), b: Param::from_tensor(b), scale }
    }

    /// Returns `A`, `[rank, in]`, and `B`, `[out, rank]`.
    pub fn matrices(&self) -> [Tensor<B, 2>; 2] {
        [self.a.val(), self.b.val()]
    }

    /// Computes the added term in f32.
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
