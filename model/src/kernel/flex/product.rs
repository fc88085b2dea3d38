//! The matrix product on all cores, with weights in f32, bf16 or int8.
//!
//! Up to [`MOST_ROWS`] rows, as in decoding, every weight is read once, at memory speed:
//! [`streamed`]. The sums of a row do not depend on the number of rows, so a batch gives the same
//! bits as its items alone. More rows, as of a prompt or a song, share panels of weights. They use
//! `tiles` for bf16 and int8 at level `amx`, otherwise `blocked`, or `bytes` for int8, if the CPU has the
//! AVX-512 instruction for the type. At levels `avx2` and `avx2-vnni`, and where ARM has an instruction for
//! the type, they use `panels`. Otherwise they use Burn's own product ([`shared`]).
//!
//! bf16 weights have half the bytes of f32, int8 weights little more than a quarter. The other
//! operand is f32, and stays f32 for few rows; with int8 weights it is rounded to int16, but not at level
//! `portable`. If the level has an instruction for the weights' type,
//! many rows are rounded to that type first, to bf16 at level `amx`. So a row among more than
//! [`MOST_ROWS`] differs by this rounding from the same row among few. Sums are always f32.

#[cfg(target_arch = "x86_64")]
pub(super) mod blocked;
#[cfg(target_arch = "x86_64")]
mod bytes;
mod gradients;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod panels;
mod shared;
pub(super) mod streamed;
#[cfg(target_arch = "x86_64")]
pub(super) mod tiles;
#[cfg(target_arch = "x86_64")]
pub(super) mod transpose;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod work_items;

pub(super) use gradients::product_gradients;

use burn::tensor::{DType, Element, TensorMetadata};
use burn_flex::{Flex, FlexTensor};
use pulp::bytemuck::Pod;

use super::{
    super::{primitive, reference, tensor},
    eight::Q8,
    matrix::Matrix,
};
use streamed::Weight;

#[cfg(any(target_arch = "x86_64", all(test, target_arch = "aarch64")))]
use super::level::{self, CpuLevel};
#[cfg(target_arch = "x86_64")]
use panels::integers::{Integers, pairs::Pairs, quads::Quads};

/// Maximum number of rows for which weights are read once, in memory order.
pub(super) const MOST_ROWS: usize = 16;

/// Number of weights below which one core finishes before another wakes up.
pub(super) const WORTH_SHARING: usize = 1 << 16;

/// Kernel of [`super::super::Backend::product`] and of [`super::super::Backend::packed_product`].
pub(super) fn product(x: FlexTensor, weight: impl Into<Matrix>) -> FlexTensor {
    let weight = weight.into();
    let (rows, [out, width]) = (x.shape()[0], weight.dims());
    let sizes = [rows, width, out];
    let is_ours = x.dtype() == DType::F32
        && matches!(weight.dtype(), DType::F32 | DType::BF16 | DType::I8)
        && sizes.iter().all(|&size| size > 0);
    match weight {
        Matrix::Plain(weight) if is_ours => of_floats(contiguous(x), contiguous(weight), sizes),
        Matrix::Q8(weight) if is_ours => of_q8(contiguous(x), weight, sizes),
        Matrix::Plain(weight) => primitive(reference::product::<Flex>(tensor(x), tensor(weight))),
        Matrix::Q8(weight) => {
            primitive(reference::product::<Flex>(tensor(x), tensor(weight.widened(0..out))))
        }
    }
}

fn of_floats(x: FlexTensor, weight: FlexTensor, sizes: [usize; 3]) -> FlexTensor {
    let [rows, width, _] = sizes;
    let inputs: &[f32] = values(&x, rows * width);
    let weight = Matrix::Plain(weight);
    if rows <= MOST_ROWS {
        if let Some(weights) = <f32 as Weight>::of(&weight) {
            return streamed::product(inputs, weights, sizes);
        }
        // Rows that begin in the middle of a word use the path for many rows.
        if let Some(words) = <u32 as Weight>::of(&weight) {
            return streamed::product(inputs, words, sizes);
        }
    }
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    if let Matrix::Plain(weight) = &weight
        && let Some(product) = of_many(inputs, weight, sizes)
    {
        return product;
    }
    shared::product(x, weight)
}

/// Computes the product by panels, if the CPU has the instructions.
#[cfg(target_arch = "x86_64")]
fn of_many(inputs: &[f32], weight: &FlexTensor, sizes: [usize; 3]) -> Option<FlexTensor> {
    use half::{bf16, slice::HalfFloatSliceExt};

    let count = sizes[1] * sizes[2];
    match weight.dtype() {
        DType::F32 => {
            let weights: &[f32] = values(weight, count);
            match blocked::OfF32::new() {
                Some(dot) => Some(blocked::product(dot, inputs, weights, sizes)),
                None => of_floats_in_panels(inputs, weights, sizes),
            }
        }
        DType::BF16 => {
            let weights: &[u16] = values::<bf16>(weight, count).reinterpret_cast();
            if let Some(tiles) = tiles::Tiles::new() {
                let rows = tiles::Bf16 { weights, width: sizes[1] };
                return Some(tiles::product(tiles, inputs, &rows, sizes));
            }
            match blocked::OfBf16::new() {
                Some(dot) => Some(blocked::product(dot, inputs, weights, sizes)),
                None => of_floats_in_panels(inputs, weights, sizes),
            }
        }
        _ => None,
    }
}

/// Computes the product by panels, if the CPU has the instructions.
#[cfg(target_arch = "aarch64")]
fn of_many(inputs: &[f32], weight: &FlexTensor, sizes: [usize; 3]) -> Option<FlexTensor> {
    use half::{bf16, slice::HalfFloatSliceExt};

    match weight.dtype() {
        DType::BF16 => {
            let weights: &[bf16] = values(weight, sizes[1] * sizes[2]);
            panels::neon::of_bf16(inputs, weights.reinterpret_cast(), sizes)
        }
        _ => None,
    }
}

/// Computes the product by FMA, if the CPU has vectors of 8 lanes and no longer ones.
#[cfg(target_arch = "x86_64")]
fn of_floats_in_panels<T: panels::floats::Number>(
    inputs: &[f32],
    weights: &[T],
    sizes: [usize; 3],
) -> Option<FlexTensor> {
    let floats = panels::floats::Floats { weights, width: sizes[1] };
    is_avx2().then(|| panels::product(&floats, inputs, sizes))
}

/// True if the level in use has AVX2 without AVX-512.
#[cfg(target_arch = "x86_64")]
fn is_avx2() -> bool {
    level::has(CpuLevel::Avx2) && !level::has(CpuLevel::Avx512)
}

fn of_q8(x: FlexTensor, weight: Q8, sizes: [usize; 3]) -> FlexTensor {
    let [rows, width, _] = sizes;
    let inputs: &[f32] = values(&x, rows * width);
    if rows <= MOST_ROWS {
        return streamed::product(inputs, weight.rows().groups(), sizes);
    }
    #[cfg(target_arch = "x86_64")]
    if let Some(tiles) = tiles::Tiles::new() {
        return tiles::product(tiles, inputs, &weight.rows(), sizes);
    }
    #[cfg(target_arch = "x86_64")]
    if let Some(dot) = bytes::Dot::new() {
        return bytes::product(dot, inputs, weight.rows(), sizes);
    }
    #[cfg(target_arch = "x86_64")]
    if is_avx2() {
        if let Some(quads) = Quads::new() {
            return panels::product(&Integers::of(weight.rows(), quads), inputs, sizes);
        }
        if let Some(pairs) = Pairs::new() {
            return panels::product(&Integers::of(weight.rows(), pairs), inputs, sizes);
        }
    }
    #[cfg(target_arch = "aarch64")]
    if let Some(product) = panels::neon::of_q8(inputs, weight.rows(), sizes) {
        return product;
    }
    shared::product(x, Matrix::Q8(weight))
}

/// A view into a larger tensor is not copied.
fn contiguous(x: FlexTensor) -> FlexTensor {
    if x.is_contiguous() { x } else { x.to_contiguous() }
}

/// Returns the numbers of a contiguous tensor.
fn values<E: Element + Pod>(x: &FlexTensor, count: usize) -> &[E] {
    &x.storage::<E>()[x.layout().start_offset()..][..count]
}

#[cfg(test)]
mod tests;
