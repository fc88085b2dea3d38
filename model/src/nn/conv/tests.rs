//! Tests of convolutions against their formulas in f64, and of chunks against whole signals.

use burn::tensor::DType;
use burn_flex::Flex;

use super::*;
use crate::{
    kernel::exact,
    nn::{SnakeBeta, rng::Rng},
    testing::random as signal,
};

fn values(x: Tensor<Flex, 3>) -> Vec<f32> {
    x.cast(DType::F32).into_data().to_vec().expect("f32")
}

#[track_caller]
fn assert_close(ours: Tensor<Flex, 3>, expected: &[f32], about: &str) {
    let ours = values(ours);
    assert_eq!(ours.len(), expected.len(), "{about}");
    for (ours, expected) in ours.into_iter().zip(expected) {
        let error = (ours - expected).abs();
        assert!(error < 1e-5 * expected.abs().max(1.0), "{about}: {ours} is not {expected}");
    }
}

/// Padding on either side, dilation, groups up to one channel each (depthwise), and both packings.
#[test]
fn a_convolution_is_its_formula_for_any_geometry() {
    let mut rng = Rng(1);
    for round in 0..60 {
        let groups = rng.of(&[1, 1, 2, 3]);
        let channels = [groups * rng.of(&[1, 2, 8]), groups * rng.of(&[1, 3, 8])];
        let (taps, length) = (rng.of(&[1, 2, 3, 7]), rng.of(&[1, 5, 40, 130]));
        let stride = rng.of(&[1, 1, 2, 4]);
        let padding = [rng.of(&[0, 2, 9, 18]), rng.of(&[0, 1, 9])];
        let geometry = ConvGeometry { stride, padding, dilation: rng.of(&[1, 1, 3]), groups };
        let samples = geometry.outputs(length, taps);
        if samples == 0 {
            continue;
        }
        let conv = Conv1d::init_with_bias(channels, taps, geometry, &Default::default());
        let x = signal([2, channels[0], length]);
        let ours = conv.forward(x.clone());
        assert_eq!(ours.dims(), [2, channels[1], samples]);
        let (weight, bias, _) = conv.parts();
        let expected =
            exact::conv1d(x.clone(), weight.plain().expect("not packed"), bias, geometry);
        let expected = values(expected);
        assert_close(ours, &expected, &format!("{round} {channels:?} {taps} {geometry:?}"));
        let packed = conv.prepacked().forward(x);
        assert_close(packed, &expected, &format!("{round} {geometry:?}, packed"));
    }
}

/// Ends that are removed on either side, groups, and both packings.
#[test]
fn a_transposed_convolution_is_its_formula_for_any_geometry() {
    let mut rng = Rng(2);
    for round in 0..60 {
        let groups = rng.of(&[1, 1, 2, 3]);
        let channels = [groups * rng.of(&[1, 2, 8]), groups * rng.of(&[1, 3, 8])];
        let (stride, length) = (rng.of(&[1, 2, 4]), rng.of(&[1, 2, 5, 40]));
        let (taps, dilation) = (stride * rng.of(&[1, 2, 3]), rng.of(&[1, 1, 1, 2]));
        let padding = [rng.of(&[0, 0, 1, stride]), rng.of(&[0, 2, taps - stride])];
        let geometry = ConvGeometry { stride, padding, dilation, groups };
        let samples = geometry.transposed_outputs(length, taps);
        if samples == 0 {
            continue;
        }
        let conv = ConvTranspose1d::init_with_bias(channels, taps, geometry, &Default::default());
        let x = signal([2, channels[0], length]);
        let ours = conv.forward(x.clone());
        assert_eq!(ours.dims(), [2, channels[1], samples], "{geometry:?}");
        let (weight, bias, _) = conv.parts();
        let weight = weight.plain().expect("not packed");
        let expected = values(exact::conv_transpose1d(x.clone(), weight, bias, geometry));
        assert_close(ours, &expected, &format!("{round} {channels:?} {taps} {geometry:?}"));
        let packed = conv.prepacked().forward(x);
        assert_close(packed, &expected, &format!("{round} {geometry:?}, packed"));
    }
}

/// Returns the outputs of a signal that is cut into chunks of random sizes, also of none.
fn in_chunks(
    x: &Tensor<Flex, 3>,
    rng: &mut Rng,
    mut next: impl FnMut(Tensor<Flex, 3>) -> Tensor<Flex, 3>,
) -> Tensor<Flex, 3> {
    let [batch, channels, length] = x.dims();
    let (mut parts, mut first) = (Vec::new(), 0);
    while first < length {
        let count = rng.of(&[0, 1, 1, 2, 3, 7, 20]).min(length - first);
        let chunk = match count {
            0 => Tensor::zeros([batch, channels, 0], &Default::default()),
            _ => x.clone().narrow(2, first, count),
        };
        let y = next(chunk);
        parts.extend((y.dims()[2] > 0).then_some(y));
        first += count;
    }
    Tensor::cat(parts, 2)
}

/// Dilated, strided and depthwise, also with prepacked weights: equal to the bit.
#[test]
fn chunks_of_any_sizes_are_one_signal() {
    let mut rng = Rng(3);
    for round in 0..40 {
        let groups = rng.of(&[1, 1, 4]);
        let channels = [groups * rng.of(&[1, 2]), groups * rng.of(&[1, 3])];
        let (stride, dilation) = rng.of(&[(1, 1), (1, 3), (2, 1), (5, 1)]);
        let taps = rng.of(&[stride, stride + 2, 2 * stride + 3]);
        let left = dilation * (taps - 1) + 1 - stride;
        let geometry = ConvGeometry { stride, padding: [left, 0], dilation, groups };
        let conv = Conv1d::init_with_bias(channels, taps, geometry, &Default::default());
        let conv = if round % 2 == 0 { conv } else { conv.prepacked() };
        let x = signal([2, channels[0], 60 + round % stride]);
        let mut state = ConvState::default();
        let ours = in_chunks(&x, &mut rng, |chunk| conv.forward_next(chunk, &mut state));
        let whole = conv.forward(x);
        assert_eq!(ours.into_data(), whole.into_data(), "{round} {taps} {geometry:?}");
    }
}

/// Behind an activation, beside a residual, and both: equal to the bit, and near the layers alone.
#[test]
fn chunks_of_a_fused_convolution_are_one_signal() {
    let mut rng = Rng(5);
    for round in 0..30 {
        let channels = rng.of(&[1, 2, 5]);
        let (taps, dilation) = (rng.of(&[1, 3, 7]), rng.of(&[1, 3, 9]));
        let geometry =
            ConvGeometry { padding: [dilation * (taps - 1), 0], dilation, ..Default::default() };
        let conv =
            Conv1d::<Flex>::init_with_bias([channels; 2], taps, geometry, &Default::default());
        let conv = if round % 2 == 0 { conv } else { conv.prepacked() };
        let snake = SnakeBeta::init(channels, &Default::default());
        let x = signal([2, channels, 60]);
        let residual = |x: &Tensor<Flex, 3>| (round % 3 == 0).then(|| x.clone());
        let of = |x: Tensor<Flex, 3>, state: &mut ConvState<Flex>| {
            conv.forward_next_fused(x.clone(), snake.fused(), residual(&x), state)
        };
        let mut state = ConvState::default();
        let ours = in_chunks(&x, &mut rng, |chunk| of(chunk, &mut state));
        let whole = of(x.clone(), &mut ConvState::default());
        assert_eq!(ours.into_data(), whole.clone().into_data(), "{round} {taps} {geometry:?}");
        let alone = conv.forward(snake.forward(x.clone()));
        let alone = residual(&x).map_or(alone.clone(), |x| x + alone);
        let apart = (whole - alone).abs().max().into_scalar();
        assert!(apart < 1e-5, "{apart}");
    }
}

/// Filters of one to three strides, depthwise too: equal to the bit.
#[test]
fn chunks_of_any_sizes_are_one_signal_transposed() {
    let mut rng = Rng(4);
    for round in 0..40 {
        let groups = rng.of(&[1, 1, 4]);
        let channels = [groups * rng.of(&[1, 2]), groups * rng.of(&[1, 3])];
        let stride = rng.of(&[1, 2, 4, 5]);
        let taps = stride * rng.of(&[1, 2, 3]) + rng.of(&[0, 0, 1]);
        let geometry = ConvGeometry { stride, padding: [0, taps - stride], dilation: 1, groups };
        let conv = ConvTranspose1d::init_with_bias(channels, taps, geometry, &Default::default());
        let conv = if round % 2 == 0 { conv } else { conv.prepacked() };
        let x = signal([2, channels[0], 30]);
        let mut state = ConvState::default();
        let ours = in_chunks(&x, &mut rng, |chunk| conv.forward_next(chunk, &mut state));
        let whole = conv.forward(x);
        assert_eq!(whole.dims()[2], 30 * stride);
        assert_eq!(ours.into_data(), whole.into_data(), "{round} {taps} {geometry:?}");
    }
}

#[test]
fn a_copy_of_the_state_continues_the_same_signal() {
    let geometry = ConvGeometry { padding: [4, 0], dilation: 2, ..Default::default() };
    let conv = Conv1d::<Flex>::init_with_bias([2, 3], 3, geometry, &Default::default());
    let mut state = ConvState::default();
    let _ = conv.forward_next(signal([1, 2, 9]), &mut state);
    let (mut copy, next) = (state.clone(), signal([1, 2, 5]));
    let first = conv.forward_next(next.clone(), &mut state);
    let _ = conv.forward_next(signal([1, 2, 4]), &mut state);
    assert_eq!(conv.forward_next(next, &mut copy).into_data(), first.into_data());
}

#[test]
#[should_panic(expected = "is not causal")]
fn a_convolution_that_looks_ahead_is_no_stream() {
    let geometry = ConvGeometry { padding: [1, 1], ..Default::default() };
    let conv = Conv1d::<Flex>::init_with_bias([1, 1], 3, geometry, &Default::default());
    let _ = conv.forward_next(signal([1, 1, 5]), &mut ConvState::default());
}
