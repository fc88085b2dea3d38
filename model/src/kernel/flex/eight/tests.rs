use crate::kernel::flex::level::tests::at_every_level;
use burn::tensor::Tensor;

use super::{super::super::Weight, *};
use crate::{kernel, testing};

fn eight(weight: Tensor<Flex, 2>) -> Weight<Flex, 2> {
    kernel::quantize_q8(weight)
}

fn widened(weight: Weight<Flex, 2>) -> Vec<f32> {
    let Weight::Packed(weight) = weight else { panic!("a matrix in int8") };
    let rows = weight.dims()[0];
    Q8::of(weight).widened(0..rows).storage::<f32>().to_vec()
}

fn back(weight: Tensor<Flex, 2>) -> Vec<f32> {
    widened(eight(weight))
}

fn random(shape: [usize; 2]) -> Tensor<Flex, 2> {
    testing::random(shape) * 3.0
}

#[test]
fn a_weight_is_off_by_at_most_half_a_step_of_its_block() {
    at_every_level(|| {
        for [rows, width] in [[1, 1], [3, 31], [2, 128], [5, 129], [4, 480], [2, 1024]] {
            let weight = random([rows, width]);
            let exact = weight.clone().into_data().to_vec::<f32>().expect("f32");
            let got = back(weight);
            for (exact, got) in exact.chunks(width).zip(got.chunks(width)) {
                for (exact, got) in exact.chunks(BLOCK).zip(got.chunks(BLOCK)) {
                    let most = exact.iter().fold(0.0f32, |most, x| most.max(x.abs()));
                    let step = most / 127.0;
                    for (a, b) in exact.iter().zip(got) {
                        assert!((a - b).abs() <= step * 0.50001, "{rows} {width}: {a} {b}");
                        // The largest is exact, up to the rounding of the scale.
                        assert!(a.abs() < most || (a - b).abs() <= most * 1e-6, "{a} {b}");
                    }
                }
            }
        }
    });
}

/// A Q8_0 file keeps its exact values, although it is converted to floats on the way.
#[test]
fn what_was_in_eight_bits_is_not_rounded_again() {
    at_every_level(|| {
        use burn::tensor::f16;
        let scales = [1.0, 0.003, 7e-5, 123.0].map(|scale| f16::from_f32(scale).to_f32());
        let weight: Vec<f32> = (0..GROUP as i32)
            .map(|i| if i % 32 == 5 { -127 } else { i * 37 % 255 - 127 } as f32)
            .zip(scales.iter().flat_map(|&scale| [scale; BLOCK]))
            .map(|(q, scale)| q * scale)
            .collect();
        let tensor = |values: &[f32]| {
            Tensor::<Flex, 1>::from_floats(values, &Default::default()).reshape([1, GROUP])
        };
        assert_eq!(back(tensor(&weight)), weight);
    });
}

#[test]
fn bf16_is_rounded_from_what_it_is() {
    at_every_level(|| {
        let weight = random([3, 200]).cast(DType::BF16);
        assert_eq!(back(weight.clone()), back(weight.cast(DType::F32)));
    });
}

#[test]
fn zeros_stay_and_what_is_no_number_is_not_hidden() {
    at_every_level(|| {
        let mut values = vec![0.0; 3 * BLOCK];
        values[40] = f32::NAN;
        values[70] = f32::INFINITY;
        let weight = Tensor::<Flex, 1>::from_floats(values.as_slice(), &Default::default());
        let got = back(weight.reshape([1, 3 * BLOCK]));
        assert!(got[..BLOCK].iter().all(|&x| x == 0.0));
        assert!(got[BLOCK..].iter().all(|x| x.is_nan()));
    });
}

#[test]
fn rows_of_a_part_are_those_of_the_whole() {
    at_every_level(|| {
        let whole = eight(random([9, 200]));
        let part = widened(whole.clone().rows(3..5));
        assert_eq!(part, widened(whole)[3 * 200..5 * 200]);
    });
}
