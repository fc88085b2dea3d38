//! Tests of convolutions with the layers around them, and of numbers in two halves.

use super::*;
use crate::kernel::{ConvActivation as Layer, fused_conv};

fn activations(channels: usize) -> [Option<Layer<Flex>>; 4] {
    let of = |channels: usize| random([1, channels, 1]) * 0.3;
    let snake = Layer::Snake([of(channels), of(channels)]);
    [None, Some(snake), Some(Layer::HalfSnake(of(channels / 2) + 2.0)), Some(Layer::Elu)]
}

fn layers(
    past: Option<Tensor<Flex, 3>>,
    activation: &Option<Layer<Flex>>,
    residual: Option<Tensor<Flex, 3>>,
) -> FusedLayers<Flex> {
    FusedLayers { past, activation: activation.clone(), residual }
}

/// Few samples of many channels, whose window is packed once for several work items; several windows; one
/// channel; a past that is longer than the signal; a view.
#[test]
fn a_fused_convolution_is_the_reference() {
    at_every_level(|| {
        for ([batch, inputs, outputs], samples, taps, dilation, stride) in [
            ([1, 200, 96], 20, 7, 3, 1),
            ([2, 24, 13], 3000, 7, 9, 1),
            ([2, 27, 27], 100, 11, 1, 1),
            ([1, 1, 1], 1, 3, 5, 1),
            ([2, 6, 5], 40, 6, 1, 3),
        ] {
            let before = dilation * (taps - 1);
            for activation in activations(inputs) {
                let x: Tensor<Flex, 3> = random([batch, samples, inputs]).swap_dims(1, 2);
                let past = Some(random([batch, inputs, before]));
                let scale = ((inputs * taps) as f32).sqrt().recip();
                let weight = random([outputs, inputs, taps]) * scale;
                let geometry = ConvGeometry { stride, dilation, ..Default::default() };
                let length = geometry.outputs(before + samples, taps);
                let residual = Some(random([batch, outputs, length]));
                let conv = (Weight::Plain(weight), Some(random([outputs])), geometry);
                let layers = layers(past, &activation, residual);
                let ours = fused_conv1d(x.clone(), conv.clone(), layers.clone());
                assert_close(ours, fused_conv::reference(x, conv, layers), 4e-5);
            }
        }
    });
}

/// The past that a whole signal has, as zeros and as padding, in f32 and bf16, also packed.
#[test]
fn chunks_of_a_fused_convolution_are_the_whole_to_the_bit() {
    at_every_level(|| {
        for (dtype, precision) in [
            (DType::F32, Precision::InOrder),
            (DType::F32, Precision::High),
            (DType::BF16, Precision::Highest),
        ] {
            let (channels, taps, dilation, samples) = (40, 7, 3, 900);
            let before = dilation * (taps - 1);
            let weight = random([channels, channels, taps]).cast(dtype);
            let packing = Packing { stride: 1, is_transposed: false, precision };
            let weight = pack_filter(weight, packing);
            let geometry =
                |left: usize| ConvGeometry { padding: [left, 0], dilation, ..Default::default() };
            let x: Tensor<Flex, 3> = random([1, channels, samples]);
            for activation in activations(channels) {
                let of = |x: Tensor<Flex, 3>, past, left: usize| {
                    let residual = Some(x.clone());
                    let conv = (weight.clone(), None, geometry(left));
                    fused_conv1d(x, conv, layers(past, &activation, residual))
                };
                let whole = of(x.clone(), None, before);
                let active = match &activation {
                    Some(layer) => layer.clone().forward(x.clone()),
                    None => x.clone(),
                };
                let mut parts = Vec::new();
                let mut known = Tensor::zeros([1, channels, before], &Default::default());
                for (first, count) in [(0, 1), (1, 10), (11, 500), (511, 389)] {
                    let part = x.clone().narrow(2, first, count);
                    parts.push(of(part, Some(known.clone()), 0));
                    known = Tensor::cat(vec![known, active.clone().narrow(2, first, count)], 2);
                    known = known.clone().narrow(2, known.dims()[2] - before, before);
                }
                let ours = Tensor::cat(parts, 2);
                assert_eq!(ours.into_data(), whole.into_data(), "{dtype:?} {precision:?}");
            }
        }
    });
}

/// Beside exact sums: within the bound of three products, and more than a hundred times as near as bf16.
#[test]
fn two_halves_of_a_number_keep_16_bits() {
    at_every_level(|| {
        for ([inputs, outputs], samples, taps, stride) in
            [([27, 27], 200, 11, 1), ([70, 33], 60, 3, 1), ([12, 40], 90, 8, 4)]
        {
            let packing = Packing { stride, is_transposed: false, precision: Precision::High };
            let x: Tensor<Flex, 3> = random([2, inputs, samples]);
            let weight: Tensor<Flex, 3> = random([outputs, inputs, taps]);
            let geometry = ConvGeometry { stride, ..Default::default() };
            let of = |weight: Weight<Flex, 3>| {
                tensor::<Flex, 3>(conv1d(primitive(x.clone()), weight, None, geometry))
            };
            let ours = of(pack_filter(weight.clone(), packing));
            let exact = exact::conv1d(x.clone(), weight.clone(), None, geometry);
            let sizes = exact::conv1d(x.clone().abs(), weight.clone().abs(), None, geometry);
            let apart =
                |of: Tensor<Flex, 3>| (of - exact.clone()).square().mean().into_scalar().sqrt();
            let farthest = ((ours.clone() - exact.clone()).abs() / sizes).max().into_scalar();
            assert!(farthest < 3.0 / f32::from(u16::MAX), "{farthest}");
            let of_bf16 = of(weight.cast(DType::BF16).cast(DType::F32).into());
            let (ours, of_bf16) = (apart(ours), apart(of_bf16));
            assert!(ours * 100.0 < of_bf16, "{ours} beside {of_bf16}");
        }
    });
}

/// A unit whose filters have two forms; only one is packed.
#[test]
fn units_of_two_forms_are_the_reference() {
    at_every_level(|| {
        let of = unit(24, 7, 3, DType::BF16);
        let mut mixed = of.clone();
        let weight = of.conv2.0.clone().plain().expect("not packed");
        let packing = Packing { stride: 1, is_transposed: false, precision: Precision::Highest };
        mixed.conv2.0 = pack_filter(weight, packing);
        let (x, next) = (random([1, 24, 300]), unit(24, 1, 1, DType::F32).snake1);
        let [ours, plain] = [mixed, of]
            .map(|unit| residual_units(x.clone(), vec![unit], next.clone(), &mut |_, _| {}));
        assert_close(ours, plain, 0.05);
    });
}
