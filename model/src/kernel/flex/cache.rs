//! Caches that take memory as they are filled, and writes in place.
//!
//! Flex 0.21's `slice_assign` always copies the whole destination, because it holds a second
//! reference while it writes. At `[2, 8, 4096, 128]` that takes 16 ms per layer and token; this
//! takes 3 us. New keys and values are read in the layout of their projection: 256 tokens take
//! 0.03 ms, with a copy first 1.2 ms.

use burn::tensor::{DType, TensorMetadata};
use burn_flex::FlexTensor;
use rayon::prelude::*;

use super::{super::Slot, WORTH_SHARING, contiguous, from_values, readable};

/// Kernel of [`super::super::empty_cache`], for f32.
///
/// Flex 0.21 copies its zeros once, so all of them take memory, and time: 0.6 s for 1,500 steps of Dia2 2B. The
/// system gives memory to these when they are first written.
pub(super) fn empty_cache(size: [usize; 4], dtype: DType) -> FlexTensor {
    match dtype {
        DType::F32 => from_values(vec![0.0; size.iter().product()], size),
        other => FlexTensor::zeros(size.into(), other),
    }
}

/// Kernel of [`super::super::cache_write`], for f32.
pub(super) fn cache_write(cache: FlexTensor, new: FlexTensor, slots: &[Slot]) -> FlexTensor {
    let mut cache = contiguous(cache);
    // A projection leaves the heads interleaved.
    let new = readable(new);
    let (size, step) = (cache.shape(), new.shape());
    let (rows, heads, capacity, width) = (size[0], size[1], size[2], size[3]);
    let t = step[2];
    assert!(
        step[0] == slots.len() && step[1] == heads && step[3] == width,
        "{step:?} for {} slots of {size:?}",
        slots.len()
    );
    let source = &new.storage::<f32>()[new.layout().start_offset()..];
    let strides = new.layout().strides();
    let place = |index: usize, axis: usize| index as isize * strides[axis];
    let target = cache.storage_mut::<f32>();
    for (item, &Slot { row, start }) in slots.iter().enumerate() {
        assert!(row < rows && start + t <= capacity, "row {row}, {start} + {t} of {size:?}");
        let write = |(head, target): (usize, &mut [f32])| {
            let target = target[start * width..][..t * width].chunks_exact_mut(width);
            for (position, target) in target.enumerate() {
                let from = place(item, 0) + place(head, 1) + place(position, 2);
                target.copy_from_slice(&source[from as usize..][..width]);
            }
        };
        let of_head = capacity * width;
        let target = &mut target[row * heads * of_head..][..heads * of_head];
        if heads * t * width < WORTH_SHARING {
            target.chunks_exact_mut(of_head).enumerate().for_each(write);
        } else {
            target.par_chunks_exact_mut(of_head).enumerate().for_each(write);
        }
    }
    cache
}

#[cfg(test)]
mod tests {
    use burn_flex::Flex;

    use super::{
        super::tests::{assert_close, at_every_level, random},
        *,
    };
    use crate::kernel::{primitive, reference, tensor};

    #[test]
    fn it_is_the_reference_however_the_new_ones_lie() {
        at_every_level(|| {
            let slots = [Slot { row: 2, start: 3 }, Slot { row: 0, start: 5 }];
            let cache = random([3, 2, 9, 4]);
            let new = random([2, 4, 2, 4]);
            let views = [new.clone().swap_dims(1, 2), new.swap_dims(1, 2).flip([3])];
            for new in views.into_iter().chain([random([5, 2, 4, 4]).narrow(0, 1, 2)]) {
                let expected = reference::cache_write(cache.clone(), new.clone(), &slots);
                let ours = cache_write(primitive(cache.clone()), primitive(new), &slots);
                assert_close(tensor::<Flex, 4>(ours), expected, 0.0);
            }
        });
    }

    #[test]
    #[should_panic(expected = "no room for 2 in 4")]
    fn a_position_beyond_the_capacity_is_refused() {
        let slots = [Slot { row: 0, start: 3 }];
        crate::kernel::cache_write(random([1, 1, 4, 8]), random([1, 1, 2, 8]), &slots);
    }
}
