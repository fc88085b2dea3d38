//! Products by the kernel for drivers in software, compared with the CPU.

use acestep_model::{Backend, kernel::variants};
use burn::tensor::{DType, Tensor};
use burn_flex::Flex;

use super::testing::{Plain, primitive, random, read, same, tensor};

/// Both sides, either transposed in memory.
fn sides<B: Backend, const D: usize>(
    [left, right]: [[usize; D]; 2],
    [turned, flipped]: [bool; 2],
    dtype: DType,
    device: &B::Device,
) -> [Tensor<B, D>; 2] {
    let side = |mut shape: [usize; D], is_turned: bool, seed| match is_turned {
        true => {
            shape.swap(D - 2, D - 1);
            random::<B, D>(shape, seed, dtype, device).swap_dims(D - 2, D - 1)
        }
        false => random::<B, D>(shape, seed, dtype, device),
    };
    [side(left, turned, 1), side(right, flipped, 2)]
}

fn check<const D: usize>(shapes: [[usize; D]; 2]) {
    let card = burn_wgpu::WgpuDevice::DefaultDevice;
    for turned in [[false, false], [false, true], [true, false], [true, true]] {
        for (dtype, tolerance) in [(DType::F32, 2e-6), (DType::F16, 2e-3)] {
            let [left, right] = sides::<Flex, D>(shapes, turned, dtype, &burn_flex::FlexDevice);
            let expected = read(left.cast(DType::F32).matmul(right.cast(DType::F32)));
            let [left, right] = sides::<Plain, D>(shapes, turned, dtype, &card).map(primitive);
            let got = read::<Plain, D>(tensor(variants::plain_product(left, right)));
            same(&format!("{shapes:?} {turned:?} {dtype:?}"), &expected, &got, tolerance);
        }
    }
}

#[test]
fn products_of_every_size_and_order() {
    // The last is large, so its blocks are.
    let sizes = [[1, 1, 1], [5, 24, 7], [70, 100, 33], [3, 300, 65], [130, 100, 83]];
    for [rows, terms, columns] in sizes {
        check([[rows, terms], [terms, columns]]);
    }
    check([[1, 6, 5], [1, 5, 3]]);
    check([[3, 6, 5], [1, 5, 3]]);
    check([[2, 3, 4, 5], [2, 3, 5, 6]]);
    check([[2, 1, 4, 5], [1, 3, 5, 6]]);
    check([[2, 0], [0, 3]]);
}
