//! Names of data types.

use burn::tensor::DType;

/// Returns the name of a type on the command line: `f32`, `bf16`, `f16`, `q8`.
pub fn dtype_name(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "f32",
        DType::BF16 => "bf16",
        DType::F16 => "f16",
        DType::I8 => "q8",
        other => other.name(),
    }
}
