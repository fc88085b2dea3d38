//! Weights from one float type to another.

use burn::{
    module::{Module, ModuleMapper, Param},
    tensor::{DType, Tensor},
};

use crate::Backend;

/// `module` with all its float weights as `dtype`: how random weights come to their type, which
/// checkpoints do while they are read.
///
/// Parameters that were not initialised yet are, one after the other, so that the peak is the module
/// and one tensor.
pub fn cast<B: Backend, M: Module<B>>(module: M, dtype: DType) -> M {
    module.map(&mut Cast(dtype))
}

struct Cast(DType);

impl<B: Backend> ModuleMapper<B> for Cast {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        param.map(|weight| weight.cast(self.0))
    }
}
