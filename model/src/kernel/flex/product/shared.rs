//! Many rows by Burn's product, with a part of the weights per core: Flex itself uses several cores
//! only for many rows.

use burn::tensor::{DType, Tensor, TensorMetadata, bf16};
use burn_flex::{Flex, FlexTensor};
use rayon::prelude::*;

use super::{
    super::{
        super::{primitive, reference, tensor},
        from_values,
        matrix::Matrix,
    },
    WORTH_SHARING, values,
};
use crate::kernel::flex::level;

/// Maximum number of rows for which Flex uses a single core for a product with the weights first.
const FEW_ROWS: usize = 512;

/// Weights per converted part, so that there is no second copy of all of them.
const WIDENED: usize = 1 << 21;

/// Computes `x W^T`.
///
/// # Shapes
/// - `x`: `[rows, width]` in f32, `weight`: `[out, width]`, output: `[rows, out]`
pub(super) fn product(x: FlexTensor, weight: Matrix) -> FlexTensor {
    let (rows, [out, width]) = (x.shape()[0], weight.dims());
    let is_narrow = weight.dtype() != DType::F32;
    let weight = match weight {
        Matrix::Plain(weight) if rows > FEW_ROWS && !is_narrow => {
            return primitive(reference::product::<Flex>(tensor(x), tensor(weight)));
        }
        weight => weight,
    };
    let cores = rayon::current_num_threads().min(out * width * rows / WORTH_SHARING).max(1);
    let most = if is_narrow { (WIDENED / width).max(1) } else { out };
    let part = out.div_ceil(cores).min(most);
    let starts: Vec<usize> = (0..out).step_by(part).collect();
    let parts: Vec<FlexTensor> = starts
        .into_par_iter()
        .map(|start| {
            let count = part.min(out - start);
            let weight = match &weight {
                Matrix::Plain(weight) if is_narrow => widened(&weight.narrow(0, start, count)),
                Matrix::Plain(weight) => weight.narrow(0, start, count),
                Matrix::Q8(weight) => weight.widened(start..start + count),
            };
            let [x, weight]: [Tensor<Flex, 2>; 2] = [x.clone(), weight].map(tensor);
            primitive(weight.matmul(x.transpose())) // [part, rows]
        })
        .collect();

    // Transposed here, in blocks: the reader of a transposed view would copy it element by element.
    let mut values = vec![0.0; rows * out];
    values.par_chunks_mut(BLOCK * out).enumerate().for_each(|(block, values)| {
        for (index, from) in parts.iter().enumerate() {
            let to = index * part;
            transpose(from.storage::<f32>(), rows, block * BLOCK, &mut values[to..], out);
        }
    });
    from_values(values, [rows, out])
}

/// Converts bf16 to f32; Flex's own cast works element by element.
fn widened(weight: &FlexTensor) -> FlexTensor {
    let [rows, width] = [0, 1].map(|axis| weight.shape()[axis]);
    let numbers: &[bf16] = values(weight, rows * width);
    let wide = |number: &bf16| f32::from_bits(u32::from(number.to_bits()) << 16);
    let widen = || numbers.iter().map(wide).collect();
    from_values(level::arch().dispatch(widen), [rows, width])
}

/// Rows and columns that are transposed at a time: a cache line holds 16 numbers.
const BLOCK: usize = 16;

/// Writes columns `first..` of `from`, which has `columns` columns, as rows of `to`, `stride`
/// apart.
fn transpose(from: &[f32], columns: usize, first: usize, to: &mut [f32], stride: usize) {
    let count = BLOCK.min(columns - first);
    for (block, from) in from.chunks(BLOCK * columns).enumerate() {
        for column in 0..count {
            let from = from.iter().skip(first + column).step_by(columns);
            let to = &mut to[column * stride + block * BLOCK..];
            to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
        }
    }
}
