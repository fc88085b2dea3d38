//! Rotary positions in one pass, for heads in any memory order.

use burn::tensor::TensorMetadata;
use burn_flex::FlexTensor;
use rayon::prelude::*;

use super::{WORTH_SHARING, contiguous, from_values, readable, zeros};

/// Kernel of [`super::super::Backend::rotate`], for f32.
pub(super) fn rotate(x: FlexTensor, cos: FlexTensor, sin: FlexTensor) -> FlexTensor {
    let [batch, heads, length, width] = x.shape().dims();
    let (x, cos, sin) = (readable(x), contiguous(cos), contiguous(sin));
    let strides = x.layout().strides();
    let (cos, sin) = (cos.storage::<f32>(), sin.storage::<f32>());
    let half = width / 2;
    let offset = x.layout().start_offset();
    let values = x.storage::<f32>();
    let mut rotated = zeros(batch * heads * length * width);
    // One head of one sequence per call.
    let head = |(index, to): (usize, &mut [f32])| {
        let from = offset as isize
            + (index / heads) as isize * strides[0]
            + (index % heads) as isize * strides[1];
        for (position, to) in to.chunks_exact_mut(width).enumerate() {
            let start = (from + position as isize * strides[2]) as usize;
            let tables = [cos, sin].map(|table| &table[position * half..][..half]);
            rotate_head(&values[start..start + width], tables, to);
        }
    };
    if rotated.len() < WORTH_SHARING {
        rotated.chunks_mut(length * width).enumerate().for_each(head);
    } else {
        rotated.par_chunks_mut(length * width).enumerate().for_each(head);
    }
    from_values(rotated, [batch, heads, length, width])
}

/// Rotates one head at one position.
pub(super) fn rotate_head(head: &[f32], [cos, sin]: [&[f32]; 2], to: &mut [f32]) {
    let half = head.len() / 2;
    let ((a, b), (to_a, to_b)) = (head.split_at(half), to.split_at_mut(half));
    let (cos, sin) = (&cos[..half], &sin[..half]);
    for i in 0..half {
        to_a[i] = a[i] * cos[i] - b[i] * sin[i];
        to_b[i] = b[i] * cos[i] + a[i] * sin[i];
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{assert_close, at_every_level, random},
        *,
    };
    use crate::kernel::{primitive, reference, tensor};

    #[test]
    fn it_is_the_reference_also_of_views() {
        at_every_level(|| {
            for (batch, heads, length, width) in [(1, 1, 1, 2), (2, 3, 5, 8), (1, 16, 70, 64)] {
                let (cos, sin) = (random([length, width / 2]), random([length, width / 2]));
                for x in [
                    random([batch, length, heads, width]).swap_dims(1, 2),
                    // The values of a head are not adjacent.
                    random([batch, heads, width, length]).swap_dims(2, 3),
                ] {
                    let [of_x, of_cos, of_sin] =
                        [primitive(x.clone()), primitive(cos.clone()), primitive(sin.clone())];
                    let expected = reference::rotate(x, cos.clone(), sin.clone());
                    assert_close::<4>(tensor(rotate(of_x, of_cos, of_sin)), expected, 1e-6);
                }
            }
        });
    }
}
