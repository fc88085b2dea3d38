//! Conversion of weights to another type.

use burn::{
    module::{Module, ModuleMapper, Param},
    tensor::{DType, Tensor},
};

use crate::{Backend, nn::quantizing};

/// Returns the type in which a network with `weights` stores one of its parameters. Matrices,
/// filters and embedding tables are large and may be stored in a narrower type than the backend
/// computes in. All other parameters take part in elementwise operations, and have the type that
/// the backend computes in.
///
/// `name` is the parameter's own name and `layer` the type of its layer, as Burn's module visitors
/// report them.
pub fn kept_as<B: Backend>(name: &str, layer: &str, weights: DType) -> DType {
    match (name, layer) {
        ("weight", "Struct:Linear" | "Struct:Embedding") => weights,
        ("weight", "Struct:Conv1d" | "Struct:ConvTranspose1d") => match weights {
            // No convolution takes int8 weights.
            DType::I8 => DType::BF16,
            same => same,
        },
        ("weight", "Struct:LookupTable") => match weights {
            DType::I8 => DType::BF16,
            same => same,
        },
        _ => B::computes_in(weights),
    }
}

/// Rounds little-endian f32 values to the bits of bf16, to nearest even; NaN stays NaN.
///
/// It is here, not beside its callers, because this crate is optimised in every build: it converts
/// hundreds of megabytes before the first sound.
pub fn narrow_to_bf16(bytes: &[u8], values: &mut [u16]) {
    for (value, word) in values.iter_mut().zip(bytes.as_chunks().0) {
        *value = bits_of_bf16(u32::from_le_bytes(*word));
    }
}

/// Rounds values to the bits of bf16, as [`narrow_to_bf16`] does; `to` has the same length.
pub fn round_to_bf16(values: &[f32], to: &mut [u16]) {
    for (to, value) in to.iter_mut().zip(values) {
        *to = bits_of_bf16(value.to_bits());
    }
}

/// Rounds the bits of an f32.
#[inline(always)]
fn bits_of_bf16(bits: u32) -> u16 {
    let upper = bits >> 16;
    let rounded = bits.wrapping_add(0x7FFF + (upper & 1)) >> 16;
    let is_nan = bits & 0x7FFF_FFFF > 0x7F80_0000;
    // The bit keeps it a NaN if only lower bits said so.
    (if is_nan { upper | 0x40 } else { rounded }) as u16
}

/// Converts the float weights of `module` to `dtype`, each by the rule of [`kept_as`]; `I8` is
/// [`kernel::quantize_q8`]. Only random weights need it; a checkpoint's weights are converted while
/// they are read.
///
/// Lazy parameters are initialised one after the other, so the peak memory is the module plus one
/// tensor.
///
/// [`kernel::quantize_q8`]: crate::kernel::quantize_q8
pub fn cast<B: Backend, M: Module<B>>(module: M, dtype: DType) -> M {
    let cast = || module.map(&mut Cast { dtype, path: Vec::new() });
    if dtype == DType::I8 { quantizing(cast) } else { cast() }
}

struct Cast {
    dtype: DType,
    /// Names and types of the layers on the path to the parameter.
    path: Vec<[String; 2]>,
}

impl<B: Backend> ModuleMapper<B> for Cast {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<B, D>>) -> Param<Tensor<B, D>> {
        let [name, layer] = self.path.last().cloned().unwrap_or_default();
        param.map(|weight| match kept_as::<B>(&name, &layer, self.dtype) {
            // Quantised after this, by the weight itself.
            DType::I8 => weight,
            float => weight.cast(float),
        })
    }

    fn enter_module(&mut self, name: &str, layer: &str) {
        self.path.push([name, layer].map(str::to_owned));
    }

    fn exit_module(&mut self, _name: &str, _layer: &str) {
        self.path.pop();
    }
}
