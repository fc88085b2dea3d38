//! Tests of the fronts.

use burn_flex::Flex;

use super::*;

fn of(values: [f32; 4], dtype: DType) -> Tensor<Flex, 1> {
    Tensor::from_data(values, (&Default::default(), dtype))
}

fn values(x: Tensor<Flex, 1>) -> Vec<f32> {
    x.into_data().convert::<f32>().to_vec().expect("f32")
}

/// The maximum of f16 is 65504 = 2047 * 32; NaN stays NaN.
#[test]
fn a_residual_stream_ends_where_f16_does_and_not_in_infinity() {
    let x = || [60_000.0, -60_000.0, 1.0, f32::NAN];
    let sum = |dtype| values(add(of(x(), dtype), of(x(), dtype)));
    let f16 = sum(DType::F16);
    assert_eq!(f16[..3], [65_504.0, -65_504.0, 2.0]);
    assert!(f16[3].is_nan());
    assert_eq!(sum(DType::F32)[..3], [120_000.0, -120_000.0, 2.0]);
    // bf16 has steps of 512 there.
    assert_eq!(sum(DType::BF16)[..2], [119_808.0, -119_808.0]);

    let rows = |x: Tensor<Flex, 1>| x.reshape([1, 4, 1]);
    let two = Tensor::full([1, 1, 1], 2.0, (&Default::default(), DType::F16));
    let gated = add_gated(rows(of(x(), DType::F16)), two, rows(of(x(), DType::F16)));
    assert_eq!(values(gated.reshape([4]))[..3], [65_504.0, -65_504.0, 3.0]);
}

#[test]
fn what_is_beyond_a_bound_becomes_it_and_nan_stays_nan() {
    let of = |x: [f32; 4]| values(clamp(of(x, DType::F32), -0.5, 0.75));
    assert_eq!(of([-2.0, 3.0, -0.5, 0.25]), [-0.5, 0.75, -0.5, 0.25]);
    let odd = of([f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0]);
    assert!(odd[0].is_nan());
    assert_eq!(odd[1..], [0.75, -0.5, 0.0]);
}

/// A filter of 3 taps, and one of 4 that leaves 2 samples for each of none.
#[test]
fn a_sequence_of_length_0_has_an_output_of_length_0() {
    let device = Default::default();
    let x = |shape: [usize; 3]| Tensor::<Flex, 3>::ones(shape, &device);
    let plain = ConvGeometry::default();
    for samples in 0..3 {
        let y = conv1d(x([2, 4, samples]), x([4, 4, 3]), None, plain);
        assert_eq!(y.dims(), [2, 4, 0]);
    }
    let causal = ConvGeometry { stride: 2, padding: [0, 2], ..plain };
    assert_eq!(conv_transpose1d(x([2, 4, 0]), x([4, 4, 4]), None, causal).dims(), [2, 4, 0]);
    let rows = || x([2, 0, 4]);
    let matrix = Tensor::<Flex, 2>::ones([6, 4], &device);
    assert_eq!(linear(rows(), matrix, None).dims(), [2, 0, 6]);
    let (weight, gate) = (Tensor::<Flex, 1>::ones([4], &device), || x([2, 1, 4]));
    assert_eq!(ada_norm(rows(), weight, 1e-6, gate(), gate()).dims(), [2, 0, 4]);
    assert_eq!(add_gated(rows(), gate(), rows()).dims(), [2, 0, 4]);
    let heads = |length: usize| Tensor::<Flex, 4>::ones([1, 2, length, 4], &device);
    let [cos, sin] = [0, 1].map(|_| Tensor::<Flex, 2>::ones([0, 2], &device));
    assert_eq!(rotate(heads(0), cos, sin).dims(), [1, 2, 0, 4]);
    let mask = Mask::by_position(Visibility::Full);
    assert_eq!(attention(heads(0), heads(3), heads(3), &mask).dims(), [1, 2, 0, 4]);
}

#[test]
#[should_panic(expected = "linear of F32 and F16")]
fn an_operation_of_two_types_says_which() {
    let device = Default::default();
    let weight = Tensor::<Flex, 2>::zeros([3, 4], (&device, DType::F16));
    linear(Tensor::<Flex, 2>::zeros([1, 4], &device), weight, None);
}
