//! Weights from one float type to another.

use burn::{
    module::{Module, ModuleMapper, Param},
    tensor::{DType, Tensor},
};

use crate::{Backend, kernel};

/// The type in which a network of `weights` keeps one of its parameters: the matrices, filters and
/// tables of tokens are what is large, and may be narrower than what the backend computes with; all
/// others are added or multiplied number by number, in the type that it computes in.
///
/// A parameter is known by its own name, its layer's, and the type of its layer, as Burn's visitors
/// of modules are told them.
pub fn kept_as<B: Backend>(name: &str, layer: &str, weights: DType) -> DType {
    match (name, layer) {
        ("weight", "Struct:Linear" | "Struct:Embedding") => weights,
        ("weight", "Struct:Conv1d" | "Struct:ConvTranspose1d") => match weights {
            // Nothing convolves with eight bits.
            DType::I8 => DType::BF16,
            same => same,
        },
        _ => B::computes_in(weights),
    }
}

/// `weight`, of any shape, as `dtype`, one that [`kept_as`] gives: `I8` is [`kernel::eight_bits`].
pub fn kept<B: Backend, const D: usize>(weight: Tensor<B, D>, dtype: DType) -> Tensor<B, D> {
    debug_assert!(weight.dtype().is_float() || weight.dtype() == DType::I8, "words in order");
    match dtype {
        DType::I8 => kernel::eight_bits(weight),
        float => weight.cast(float),
    }
}

/// `module` with its float weights as `dtype`, each as [`kept_as`] says: how random weights come to
/// their type, which checkpoints do while they are read.
///
/// Parameters that were not initialised yet are, one after the other, so that the peak is the module
/// and one tensor.
pub fn cast<B: Backend, M: Module<B>>(module: M, dtype: DType) -> M {
    module.map(&mut Cast { dtype, path: Vec::new() })
}

struct Cast {
    dtype: DType,
    /// Names and types of layers down to the parameter.
    path: Vec<[String; 2]>,
}

impl<B: Backend> ModuleMapper<B> for Cast {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        let [name, layer] = self.path.last().cloned().unwrap_or_default();
        let dtype = kept_as::<B>(&name, &layer, self.dtype);
        param.map(|weight| kept(weight, dtype))
    }

    fn enter_module(&mut self, name: &str, layer: &str) {
        self.path.push([name, layer].map(str::to_owned));
    }

    fn exit_module(&mut self, _name: &str, _layer: &str) {
        self.path.pop();
    }
}
