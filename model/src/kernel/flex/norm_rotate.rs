//! Norm and rotary position of every head, in one pass and in place.

use burn::tensor::{DType, TensorMetadata};
use burn_flex::{Flex, FlexTensor};
use pulp::{Simd, WithSimd};
use rayon::prelude::*;

use super::{
    super::{primitive, reference, tensor},
    WORTH_SHARING, contiguous, level,
    rms_norm::inverse_rms,
};

/// Kernel of [`super::super::Backend::norm_rotate`], for f32. Returns a view with interleaved
/// heads.
pub(super) fn norm_rotate(
    x: FlexTensor,
    weight: FlexTensor,
    epsilon: f64,
    cos: FlexTensor,
    sin: FlexTensor,
) -> FlexTensor {
    let [batch, length, heads, width] = x.shape().dims();
    let positions = cos.shape()[0];
    let is_ours = [&x, &weight, &cos, &sin].iter().all(|of| of.dtype() == DType::F32)
        && (positions == length || length == 1 && positions == batch)
        && width.is_multiple_of(2)
        && batch * length * heads * width > 0;
    if !is_ours {
        let [cos, sin] = [cos, sin].map(tensor);
        let (x, weight) = (tensor(x), tensor(weight));
        return primitive(reference::norm_rotate::<Flex>(x, weight, epsilon, cos, sin));
    }
    let mut x = contiguous(x);
    let [weight, cos, sin] = [weight, cos, sin].map(contiguous);
    let [weight, cos, sin] = [&weight, &cos, &sin].map(FlexTensor::storage::<f32>);
    let row = heads * width;
    let size = (WORTH_SHARING / row).max(1);
    let arch = level::arch();
    let turn = |(index, x): (usize, &mut [f32])| {
        arch.dispatch(PositionRange {
            x,
            row,
            first: index * size,
            weight,
            epsilon,
            tables: [cos, sin],
        });
    };
    let values = x.storage_mut::<f32>();
    if values.len() <= size * row {
        turn((0, values));
    } else {
        values.par_chunks_mut(size * row).enumerate().for_each(turn);
    }
    primitive(tensor::<Flex, 4>(x).swap_dims(1, 2))
}

/// All heads of a range of positions.
struct PositionRange<'a> {
    x: &'a mut [f32],
    /// Number of values per position.
    row: usize,
    /// The first position; positions wrap around at the end of the table.
    first: usize,
    /// The weight of a head.
    weight: &'a [f32],
    epsilon: f64,
    /// Cosines and sines, half a head each.
    tables: [&'a [f32]; 2],
}

impl WithSimd for PositionRange<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { x, row, first, weight, epsilon, tables } = self;
        let half = weight.len() / 2;
        let positions = tables[0].len() / half;
        let (weight_a, weight_b) = weight.split_at(half);
        for (index, row) in x.chunks_exact_mut(row).enumerate() {
            let start = (first + index) % positions * half;
            let [cos, sin] = tables.map(|table| &table[start..start + half]);
            for head in row.chunks_exact_mut(2 * half) {
                let inverse = inverse_rms(simd, head, epsilon);
                let (a, b) = head.split_at_mut(half);
                let [weight_a, weight_b] = [&weight_a[..half], &weight_b[..half]];
                for i in 0..half {
                    let x = a[i] * inverse * weight_a[i];
                    let y = b[i] * inverse * weight_b[i];
                    a[i] = x * cos[i] - y * sin[i];
                    b[i] = y * cos[i] + x * sin[i];
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{at_every_level, random};
    use super::*;

    /// Bit for bit, because decoding runs the two operations separately.
    #[test]
    fn it_is_the_norm_and_the_turn() {
        at_every_level(|| {
            let sizes = [(1, 1, 1, 2, 1), (2, 5, 3, 8, 5), (3, 1, 2, 64, 3), (1, 90, 16, 128, 90)];
            for (batch, length, heads, width, positions) in sizes {
                let x = random([batch, length, heads, width]);
                let weight = random([width]);
                let [cos, sin] = [0, 1].map(|_| random([positions, width / 2]));
                let expected = reference::norm_rotate(
                    x.clone(),
                    weight.clone(),
                    1e-6,
                    cos.clone(),
                    sin.clone(),
                );
                let [cos, sin] = [cos, sin].map(primitive);
                let ours = norm_rotate(primitive(x), primitive(weight), 1e-6, cos, sin);
                let expected = expected.into_data();
                assert_eq!(tensor::<Flex, 4>(ours).into_data(), expected, "{batch} x {length}");
            }
        });
    }
}
