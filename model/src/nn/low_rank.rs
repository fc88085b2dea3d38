//! The low-rank term that an adapter adds to a linear map during training.
//!
//! `y = x W^T + s (dropout(x) A^T) B^T`. `B` starts at zero, so the term is zero at first.
//!
//! Source: Hu et al. 2021, arXiv:2106.09685 (LoRA); PEFT `LoraLayer`, whose `s` is `alpha / rank`;
//! Srivastava et al. 2014, JMLR 15 (dropout).

use burn::{
    module::{Module, Param},
    tensor::{Bool, DType, Tensor, TensorData},
};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use rayon::prelude::*;

use crate::{Backend, kernel};

/// Values that one core draws: a song of 240 s has billions of them in a step.
const PART: usize = 1 << 16;

/// Zeros at random places of a term's input, during a training step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dropout {
    /// Probability of a zero, below 1; it is rounded to a multiple of 2^-16.
    pub chance: f64,
    /// Determines the places.
    pub seed: u64,
}

impl Dropout {
    /// Returns for each of `count` values whether it becomes zero.
    fn zeros(self, count: usize) -> Vec<bool> {
        let limit = (self.chance * 65_536.0).round() as u64;
        let mut zeros = vec![false; count];
        // The parts do not depend on the number of cores, so the places do not either.
        zeros.par_chunks_mut(PART).enumerate().for_each(|(part, zeros)| {
            let mut random = Pcg64::seed_from_u64(self.seed.wrapping_add(part as u64));
            // One draw is enough for four values.
            for zeros in zeros.chunks_mut(4) {
                let bits: u64 = random.random();
                for (zero, shift) in zeros.iter_mut().zip([0, 16, 32, 48]) {
                    *zero = ((bits >> shift) & 0xffff) < limit;
                }
            }
        });
        zeros
    }
}

/// The two matrices and their scale.
#[derive(Module, Debug)]
pub struct LowRank<B: Backend> {
    a: Param<Tensor<B, 2>>,
    b: Param<Tensor<B, 2>>,
    scale: f64,
    #[module(skip)]
    dropout: Option<Dropout>,
}

impl<B: Backend> LowRank<B> {
    /// Creates the term from its two matrices; with a `b` of zeros it adds nothing yet.
    ///
    /// # Shapes
    /// - `a`: `[rank, in]`, `b`: `[out, rank]`, both in f32
    pub fn new(a: Tensor<B, 2>, b: Tensor<B, 2>, scale: f64) -> Self {
        Self { a: Param::from_tensor(a), b: Param::from_tensor(b), scale, dropout: None }
    }

    /// Sets or removes the dropout of its input. The other values are scaled, so that their mean
    /// stays the same.
    #[must_use]
    pub fn with_dropout(self, dropout: Option<Dropout>) -> Self {
        Self { dropout, ..self }
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
        let x = x.cast(DType::F32);
        let (x, scale) = match self.dropout {
            None => (x, self.scale),
            Some(dropout) => {
                let shape = x.dims();
                let zeros = TensorData::new(dropout.zeros(shape.iter().product()), shape);
                let zeros = Tensor::<B, D, Bool>::from_data(zeros, &x.device());
                (x.mask_fill(zeros, 0.0), self.scale / (1.0 - dropout.chance))
            }
        };
        let thin = kernel::linear(x, self.a.val(), None);
        (kernel::linear(thin, self.b.val(), None) * scale).cast(dtype)
    }
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    use burn_flex::Flex;

    use super::*;

    /// With unit matrices the term is its scaled input: 0, or 1 / (1 - 0.25).
    #[test]
    fn dropout_zeroes_its_share_of_the_input_and_scales_the_rest() {
        let device = Default::default();
        let eye = || Tensor::<Flex, 2>::eye(4, &device);
        let term = LowRank::new(eye(), eye(), 1.0);
        let added = |seed: u64| -> Vec<f32> {
            let term = term.clone().with_dropout(Some(Dropout { chance: 0.25, seed }));
            let y = term.forward(Tensor::<Flex, 3>::ones([1, 250, 4], &device));
            y.into_data().to_vec().expect("f32")
        };
        let first = added(7);
        let zeros = first.iter().filter(|&&y| y == 0.0).count();
        // 250, and three standard deviations of 13.7.
        assert!((209..=291).contains(&zeros), "{zeros}");
        assert!(first.iter().all(|&y| y == 0.0 || (y - 4.0 / 3.0).abs() < 1e-6));
        assert!(first == added(7) && first != added(8));
    }
}
