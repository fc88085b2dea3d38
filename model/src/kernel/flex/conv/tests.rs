//! Tests of filters against sums in f64, and of fused operations against the reference.

mod fused;

use crate::kernel::flex::level::tests::at_every_level;
use burn::tensor::{Tensor, bf16};

use super::{
    super::{
        super::{
            exact,
            residual::{self, Convolution, UnitTensors},
            weight::{Packing, Precision, pack_filter},
        },
        tests::{assert_close, random},
    },
    residual::keeps_shape,
    *,
};

fn packing(stride: usize, is_transposed: bool) -> Packing {
    Packing { stride, is_transposed, precision: Precision::InOrder }
}

/// Compares a kernel with exact sums over the inputs as it rounds them.
fn check(
    x: Tensor<Flex, 3>,
    weight: Tensor<Flex, 3>,
    bias: Option<Tensor<Flex, 1>>,
    geometry: ConvGeometry,
    is_transposed: bool,
) {
    let seen = if weight.dtype() == DType::BF16 { rounded(x.clone()) } else { x.clone() };
    let ([first, second, taps], given) = (weight.dims(), bias.clone().map(primitive));
    let (ours, expected, inputs) = match is_transposed {
        false => (
            conv1d(primitive(x), weight.clone(), given, geometry),
            exact::conv1d(seen, weight, bias, geometry),
            second,
        ),
        true => (
            conv_transpose1d(primitive(x), weight.clone(), given, geometry),
            exact::conv_transpose1d(seen, weight, bias, geometry),
            first,
        ),
    };
    assert_sums(tensor(ours), expected, inputs * taps);
}

/// Sizes and strides of the VAE, and odd ones: more taps than samples, one row, rows that fill no
/// panel, windows that end in the middle of a tile, channels that end in the middle of a stride.
#[test]
fn filters_are_the_reference() {
    at_every_level(|| {
        for ([batch, inputs, outputs], samples, taps, stride, padding, dilation) in [
            ([1, 1, 1], 1, 1, 1, 0, 1),
            ([2, 3, 5], 17, 3, 1, 1, 1),
            ([1, 8, 13], 100, 7, 1, 3, 1),
            ([1, 130, 24], 700, 7, 1, 27, 9),
            ([1, 64, 40], 49, 7, 1, 9, 3),
            ([1, 16, 2], 3, 7, 1, 3, 1),
            ([2, 128, 128], 1000, 1, 1, 0, 1),
            ([1, 2000, 9], 150, 3, 1, 0, 2),
            ([1, 4, 3], 40, 4, 2, 1, 1),
            ([1, 128, 130], 203, 4, 2, 1, 1),
            ([2, 5, 9], 333, 8, 4, 2, 1),
            ([1, 3, 16], 100, 12, 6, 3, 1),
            ([1, 300, 8], 999, 20, 10, 5, 1),
            ([1, 2, 3], 9, 3, 5, 0, 1),
            ([1, 2, 3], 2, 3, 4, 7, 1),
        ] {
            let x = random([batch, inputs, samples]);
            let (weight, bias) = (random([outputs, inputs, taps]), random([outputs]));
            let geometry = ConvGeometry { stride, padding: [padding; 2], dilation, groups: 1 };
            for bias in [None, Some(bias)] {
                check(x.clone(), weight.clone(), bias, geometry, false);
            }
        }
    });
}

/// Compares sums of `terms` products of normal numbers with exact sums, each one and their mean
/// square.
///
/// Partial sums grow as the root of their number, and their rounding errors accumulate as the root
/// again. So among thousands of long sums one may have a large error, but their mean square may
/// not.
fn assert_sums(ours: Tensor<Flex, 3>, exact: Tensor<Flex, 3>, terms: usize) {
    let allowed = |few: f32, many: f32| (few * (terms as f32).sqrt()).max(many * terms as f32);
    assert_close(ours.clone(), exact.clone(), allowed(3e-6, 8e-8));
    let apart = (ours - exact).square().mean().into_scalar().sqrt();
    assert!(apart < allowed(1.5e-6, 3e-8), "{terms}: {apart}");
}

/// Returns the values that a kernel multiplies in place of f32 inputs if weights are bf16.
///
/// Flex's own cast takes some numbers just above the midpoint of two bf16 for the midpoint.
fn rounded(x: Tensor<Flex, 3>) -> Tensor<Flex, 3> {
    if Form::of(DType::BF16, Precision::InOrder) == Form::Single {
        return x;
    }
    let shape = x.dims();
    let values = x.into_data().to_vec::<f32>().expect("f32");
    let values = values.into_iter().map(|value| bf16::from_f32(value).to_f32()).collect();
    tensor(from_values(values, shape))
}

/// A product of two bf16 is exact in f32, so only the sums are rounded, as in f32.
#[test]
fn weights_of_bf16_are_the_reference_over_rounded_inputs() {
    at_every_level(|| {
        for ([batch, inputs, outputs], samples, taps, stride, padding, dilation) in [
            ([1, 1, 1], 1, 1, 1, 0, 1),
            ([2, 3, 5], 17, 3, 1, 1, 1),
            ([1, 130, 24], 700, 7, 1, 27, 9),
            ([1, 65, 7], 49, 7, 1, 9, 3),
            ([2, 128, 128], 500, 1, 1, 0, 1),
            ([1, 5, 9], 333, 8, 4, 2, 1),
        ] {
            let x = random([batch, inputs, samples]);
            let weight = random([outputs, inputs, taps]).cast(DType::BF16);
            let geometry = ConvGeometry { stride, padding: [padding; 2], dilation, groups: 1 };
            check(x, weight, None, geometry, false);
        }
        for ([batch, inputs, outputs], samples, taps, stride, padding) in [
            ([2, 5, 3], 7, 20, 10, 5),
            ([1, 64, 33], 130, 12, 6, 3),
            ([1, 41, 16], 500, 8, 4, 2),
            ([1, 128, 128], 700, 4, 2, 1),
        ] {
            let x = random([batch, inputs, samples]);
            let weight = random([inputs, outputs, taps]).cast(DType::BF16);
            let geometry = ConvGeometry { stride, padding: [padding; 2], ..Default::default() };
            check(x, weight, None, geometry, true);
        }
    });
}

/// The f64 filters equal the reference, up to its rounding.
#[test]
fn exact_filters_are_the_reference() {
    at_every_level(|| {
        let x = random([2, 3, 17]);
        for (stride, padding, dilation) in [(1, 3, 3), (2, 1, 1), (3, 0, 2)] {
            let geometry = ConvGeometry { stride, padding: [padding; 2], dilation, groups: 1 };
            let (weight, bias) = (random([5, 3, 4]), Some(random([5])));
            let expected = reference::conv1d(x.clone(), weight.clone(), bias.clone(), geometry);
            assert_close::<3>(exact::conv1d(x.clone(), weight, bias, geometry), expected, 1e-5);
            let geometry = ConvGeometry { dilation: 1, ..geometry };
            let (weight, bias) = (random([3, 5, 8]), Some(random([5])));
            let expected =
                reference::conv_transpose1d(x.clone(), weight.clone(), bias.clone(), geometry);
            assert_close::<3>(
                exact::conv_transpose1d(x.clone(), weight, bias, geometry),
                expected,
                1e-5,
            );
        }
    });
}

/// Returns a unit whose branch is about as large as its input.
fn unit(channels: usize, taps: usize, dilation: usize, dtype: DType) -> UnitTensors<Flex> {
    let conv = |taps: usize, dilation: usize| {
        let scale = ((channels * taps) as f32).sqrt().recip();
        let weight = (random([channels, channels, taps]) * scale).cast(dtype);
        let padding = dilation * (taps / 2);
        let geometry = ConvGeometry { padding: [padding; 2], dilation, ..Default::default() };
        (weight.into(), Some(random([channels])), geometry)
    };
    let wave = || [random([1, channels, 1]) * 0.3, random([1, channels, 1]) * 0.3];
    UnitTensors { snake1: wave(), conv1: conv(taps, dilation), snake2: wave(), conv2: conv(1, 1) }
}

/// Channels, samples, taps, dilation: those of the VAE; fewer samples than the filter reaches; more
/// than one window; channels that fill neither panels nor pairs.
const UNITS: [([usize; 3], usize, usize); 7] = [
    ([1, 128, 2500], 7, 9),
    ([1, 128, 300], 7, 1),
    ([2, 256, 700], 7, 3),
    ([1, 1024, 150], 7, 9),
    ([2, 13, 5], 7, 9),
    ([1, 1, 1], 7, 3),
    ([3, 21, 100], 3, 1),
];

#[test]
fn residual_units_are_the_reference() {
    at_every_level(|| {
        for (shape, taps, dilation) in UNITS {
            let units = || [dilation, 1].map(|dilation| unit(shape[1], taps, dilation, DType::F32));
            let (units, next) = (units().to_vec(), unit(shape[1], 1, 1, DType::F32).snake1);
            // A view, and a shared input.
            let x: Tensor<Flex, 3> = random([shape[0], shape[2], shape[1]]).swap_dims(1, 2);
            let mut sums = Vec::new();
            let expected =
                residual::reference(x.clone(), units.clone(), next.clone(), &mut |_, sum| {
                    sums.push(sum.clone());
                });
            let mut ours = Vec::new();
            let last = residual_units(x.clone(), units.clone(), next.clone(), &mut |_, sum| {
                ours.push(sum.clone());
            });
            for (ours, sum) in ours.into_iter().zip(sums) {
                assert_close(ours, sum, 2e-5);
            }
            assert_close(last.clone(), expected, 4e-5);
            // Without other references, every sum is written over the input.
            let again = residual_units(x, units, next, &mut |_, _| {});
            assert_eq!(again.into_data(), last.into_data());
        }
    });
}

/// Each filter's input is rounded. If our snake differs from the reference in the last bit, it may
/// round to the neighbouring bf16, about once in a thousand. Between 2 and 4 that is a step of
/// 1 / 64, with a weight of up to four times `1 / sqrt(channels)` in the sum of the second filter.
/// So a few sums may be that far away, but the mean square stays below the rounding itself,
/// 1 / 512 per filter.
#[test]
fn residual_units_of_bf16_are_the_reference_over_rounded_inputs() {
    at_every_level(|| {
        for (shape, taps, dilation) in UNITS {
            let unit = unit(shape[1], taps, dilation, DType::BF16);
            let next = unit.snake1.clone();
            let x: Tensor<Flex, 3> = random(shape);
            let snake =
                |x, [alpha, beta]: [Tensor<Flex, 3>; 2]| rounded(reference::snake(x, alpha, beta));
            let of = unit.clone();
            let conv = |x, (weight, bias, geometry): Convolution<Flex>| {
                reference::conv1d(x, weight.plain().expect("not packed"), bias, geometry)
            };
            let branch =
                conv(snake(conv(snake(x.clone(), of.snake1), of.conv1), of.snake2), of.conv2);
            let expected = x.clone() + branch;
            let mut ours = None;
            residual_units(x, vec![unit], next, &mut |_, sum| ours = Some(sum.clone()));
            let ours = ours.expect("one unit");
            assert_close(ours.clone(), expected.clone(), 0.25 / (shape[1] as f32).sqrt());
            let apart = (ours - expected).square().mean().into_scalar().sqrt();
            assert!(apart < 5e-4, "{apart}");
        }
    });
}

/// The same audio alone, as the second of two, and as the end of a longer one: bit for bit.
#[test]
fn a_sum_does_not_depend_on_what_is_computed_with_it() {
    at_every_level(|| {
        for dtype in [DType::F32, DType::BF16] {
            let (unit, next) = (unit(24, 7, 3, dtype), unit(24, 1, 1, dtype).snake1);
            let of = |x: Tensor<Flex, 3>| {
                residual_units(x, vec![unit.clone()], next.clone(), &mut |_, _| {})
            };
            let x: Tensor<Flex, 3> = random([1, 24, 7000]);
            let alone = of(x.clone());
            let both = of(Tensor::cat(vec![x.clone() * 0.5, x.clone()], 0)).narrow(0, 1, 1);
            assert_eq!(both.into_data(), alone.clone().into_data());
            // Beyond the filter's reach of nine samples.
            let tail = of(x.narrow(2, 100, 6900)).narrow(2, 9, 6891);
            assert_eq!(tail.into_data(), alone.narrow(2, 109, 6891).into_data());
        }
    });
}

/// As in a codec that streams: all padding is before the input.
#[test]
fn causal_residual_units_are_the_reference() {
    at_every_level(|| {
        let mut unit = unit(24, 7, 3, DType::F32);
        unit.conv1.2.padding = [18, 0];
        let x: Tensor<Flex, 3> = random([2, 24, 300]);
        assert!(keeps_shape(&x, &unit));
        let next = [random([1, 24, 1]) * 0.3, random([1, 24, 1]) * 0.3];
        let ours = residual_units(x.clone(), vec![unit.clone()], next.clone(), &mut |_, _| {});
        assert_close(ours, residual::reference(x, vec![unit], next, &mut |_, _| {}), 1e-4);
    });
}

/// Every stride of the VAE with its padding, and the limits of the allowed sizes.
#[test]
fn transposed_filters_are_the_reference() {
    at_every_level(|| {
        for ([batch, inputs, outputs], samples, taps, stride, padding) in [
            ([1, 1, 1], 1, 1, 1, 0),
            ([2, 5, 3], 7, 20, 10, 5),
            ([1, 64, 33], 130, 12, 6, 3),
            ([1, 40, 16], 500, 8, 4, 2),
            ([1, 128, 128], 700, 4, 2, 1),
            ([1, 3, 2], 9, 5, 3, 0),
            ([1, 3, 2], 9, 2, 3, 1),
            ([1, 2, 9], 2, 7, 2, 3),
            ([2, 1500, 4], 50, 4, 2, 2),
            // Several items share their windows among several work items.
            ([2, 20, 70], 90, 4, 2, 1),
        ] {
            let x = random([batch, inputs, samples]);
            let (weight, bias) = (random([inputs, outputs, taps]), random([outputs]));
            let geometry = ConvGeometry { stride, padding: [padding; 2], ..Default::default() };
            for bias in [None, Some(bias)] {
                check(x.clone(), weight.clone(), bias, geometry, true);
            }
        }
    });
}

#[test]
fn views_are_read_as_they_are_seen() {
    at_every_level(|| {
        let x: Tensor<Flex, 3> = random([1, 90, 8]).swap_dims(1, 2);
        let weight: Tensor<Flex, 3> = random([8, 6, 3]).swap_dims(0, 1);
        let geometry = ConvGeometry { padding: [1; 2], ..Default::default() };
        check(x, weight, None, geometry, false);
    });
}

fn padded(samples: usize) -> ConvGeometry {
    ConvGeometry { padding: [samples; 2], ..ConvGeometry::default() }
}

/// Prepacked, as the filters of a network are after loading.
#[test]
fn packed_filters_give_the_same_to_the_bit() {
    at_every_level(|| {
        for dtype in [DType::F32, DType::BF16] {
            for (stride, padding, dilation, taps) in
                [(1, 0, 1, 1), (1, 3, 1, 7), (1, 9, 3, 7), (4, 2, 1, 8)]
            {
                for [inputs, outputs] in [[1, 3], [24, 13], [64, 40]] {
                    let geometry =
                        ConvGeometry { stride, padding: [padding; 2], dilation, groups: 1 };
                    let x = random([2, inputs, 90]);
                    let bias = Some(primitive(random([outputs])));
                    for is_transposed in [false, true] {
                        let kernel = match is_transposed {
                            true => conv_transpose1d::<Weight<Flex, 3>>,
                            false => conv1d::<Weight<Flex, 3>>,
                        };
                        if is_transposed && dilation > 1 {
                            continue;
                        }
                        let shape = match is_transposed {
                            true => [inputs, outputs, taps],
                            false => [outputs, inputs, taps],
                        };
                        let weight = random(shape).cast(dtype);
                        let packed = pack_filter(weight.clone(), packing(stride, is_transposed));
                        assert_eq!((packed.dims(), packed.dtype()), (shape, dtype));
                        assert!(matches!(packed, Weight::Packed(_)), "{dtype:?}");
                        let of =
                            |weight| kernel(primitive(x.clone()), weight, bias.clone(), geometry);
                        let [plain, ours] =
                            [weight.into(), packed].map(|weight| tensor::<Flex, 3>(of(weight)));
                        assert_eq!(ours.into_data(), plain.into_data(), "{shape:?} {geometry:?}");
                    }
                }
            }
            // More weights than a core holds at once, in so many items that its rows stay together.
            let (x, weight) = (random([8, 520, 9]), random([64, 520, 7]).cast(dtype));
            let packed = pack_filter(weight.clone(), packing(1, false));
            let [plain, ours] = [weight.into(), packed].map(|weight: Weight<Flex, 3>| {
                tensor::<Flex, 3>(conv1d(primitive(x.clone()), weight, None, padded(3)))
            });
            assert_eq!(ours.into_data(), plain.into_data());

            let (mut unit, next) = (unit(24, 7, 3, dtype), unit(24, 1, 1, dtype).snake1);
            let x: Tensor<Flex, 3> = random([1, 24, 700]);
            let of = |unit: &UnitTensors<Flex>| {
                residual_units(x.clone(), vec![unit.clone()], next.clone(), &mut |_, _| {})
            };
            let plain = of(&unit);
            for conv in [&mut unit.conv1, &mut unit.conv2] {
                let weight = conv.0.clone().plain().expect("not packed");
                conv.0 = pack_filter(weight, packing(1, false));
            }
            assert_eq!(of(&unit).into_data(), plain.into_data());
        }
    });
}

#[test]
#[should_panic(expected = "is_transposed: false, precision: InOrder } } for stride 4")]
fn a_filter_packed_for_another_convolution_is_refused() {
    let packed = pack_filter(random([8, 4, 8]), packing(2, false));
    let geometry = ConvGeometry { stride: 4, padding: [2; 2], ..Default::default() };
    conv1d(primitive(random([1, 4, 40])), packed, None, geometry);
}

/// Beside the same filter in the usual order, in one piece and in two.
#[test]
fn a_filter_in_any_order_differs_by_rounding_only_and_not_by_where_a_sound_is_cut() {
    for (inputs, outputs, taps, stride, is_transposed) in [
        (64, 40, 7, 1, false),
        (32, 1, 7, 1, false),
        (96, 96, 1, 1, false),
        (64, 24, 6, 3, true),
        (32, 48, 16, 8, true),
    ] {
        let shape = match is_transposed {
            true => [inputs, outputs, taps],
            false => [outputs, inputs, taps],
        };
        let geometry = ConvGeometry { stride, ..Default::default() };
        let kernel = match is_transposed {
            true => conv_transpose1d::<Weight<Flex, 3>>,
            false => conv1d::<Weight<Flex, 3>>,
        };
        let (x, weight) = (random([1, inputs, 200]), random(shape).cast(DType::BF16));
        let packed = |precision: Precision| {
            let packing = Packing { stride, is_transposed, precision };
            pack_filter(weight.clone(), packing)
        };
        let of = |x: Tensor<Flex, 3>, precision: Precision| {
            tensor::<Flex, 3>(kernel(primitive(x), packed(precision), None, geometry))
        };
        let whole = of(x.clone(), Precision::Highest);
        assert_close(
            whole.clone(),
            of(x.clone(), Precision::InOrder),
            1e-4 * (inputs * taps) as f32,
        );
        let length = whole.dims()[2];
        // Past what the missing inputs change.
        let (start, lost) = (if is_transposed { 70 * stride } else { 70 }, taps);
        let part =
            of(x.narrow(2, 70, 130), Precision::Highest).narrow(2, lost, length - start - lost);
        let expected = whole.narrow(2, start + lost, length - start - lost);
        assert_eq!(part.into_data(), expected.into_data(), "{shape:?}");
    }
}

/// The reference pads one side in the type of its input. Whole numbers have exact sums in f16.
#[test]
fn the_reference_pads_one_side_in_f16() {
    at_every_level(|| {
        let (x, weight): (Tensor<Flex, 3>, Tensor<Flex, 3>) =
            ((random([1, 4, 20]) * 3.0).round(), (random([3, 4, 5]) * 3.0).round());
        for padding in [[4, 0], [1, 3]] {
            let geometry = ConvGeometry { padding, ..Default::default() };
            let [narrow, wide] = [DType::F16, DType::F32].map(|dtype| {
                let (x, weight) = (x.clone().cast(dtype), weight.clone().cast(dtype));
                reference::conv1d(x, weight, None, geometry).cast(DType::F32)
            });
            assert_eq!(narrow.dims(), [1, 3, 20]);
            assert_eq!(narrow.into_data(), wide.into_data());
        }
    });
}
