//! Gradients of each operation against Burn's gradients of plain operations.

use burn::tensor::{
    Tensor, module,
    ops::{ConvTransposeOptions, PaddedConvOptions},
};
use burn_flex::Flex;

use super::super::{
    Mask, ada_norm, add_gated, attention, conv_transpose1d, conv1d, linear, reference, rms_norm,
    rotate, snake, swiglu,
};
use super::*;
use crate::testing;

type Learning = Autodiff<Flex>;

fn random<const D: usize>(shape: [usize; D]) -> Tensor<Learning, D> {
    Tensor::from_inner(testing::random(shape)).require_grad()
}

/// Reads the gradient of a tensor.
type Gradient = Box<dyn Fn(&burn_autodiff::grads::Gradients) -> Vec<f32>>;

fn of<const D: usize>(x: &Tensor<Learning, D>) -> Gradient {
    let x = x.clone();
    Box::new(move |gradients| {
        let gradient = x.grad(gradients).expect("a gradient");
        gradient.into_data().to_vec::<f32>().expect("f32")
    })
}

/// Compares the values of both, and the gradients of `inputs`. The loss weights every output
/// differently.
#[track_caller]
fn assert_same(ours: &Tensor<Learning, 3>, expected: &Tensor<Learning, 3>, inputs: &[Gradient]) {
    let values =
        |x: &Tensor<Learning, 3>| x.clone().inner().into_data().to_vec::<f32>().expect("f32");
    let weights = Tensor::from_inner(testing::random(ours.dims()));
    let gradients = [ours, expected].map(|y| (y.clone() * weights.clone()).sum().backward());
    let close = |a: Vec<f32>, b: Vec<f32>| {
        assert_eq!(a.len(), b.len());
        for (a, b) in a.iter().zip(b) {
            assert!((a - b).abs() < 2e-4 * b.abs().max(1.0), "{a} is not {b}");
        }
    };
    close(values(ours), values(expected));
    for input in inputs {
        let [a, b] = [0, 1].map(|which: usize| input(&gradients[which]));
        close(a, b);
    }
}

/// Compares a convolution with Burn's own, with a bias and without.
#[track_caller]
fn assert_same_conv(x: [usize; 3], weight: [usize; 3], geometry: ConvGeometry) {
    let ConvGeometry { stride, padding: [left, right], dilation, groups } = geometry;
    let options = PaddedConvOptions::asymmetric([stride], [left], [right], [dilation], groups);
    for bias in [None, Some(random([weight[0]]))] {
        let (x, weight) = (random(x), random(weight));
        let ours = conv1d(x.clone(), weight.clone(), bias.clone(), geometry);
        let expected = module::conv1d(x.clone(), weight.clone(), bias.clone(), options.clone());
        let inputs = [Some(of(&x)), Some(of(&weight)), bias.as_ref().map(of)];
        assert_same(&ours, &expected, &inputs.into_iter().flatten().collect::<Vec<_>>());
    }
}

/// Compares a transposed convolution with the part of Burn's whole one that its padding leaves.
#[track_caller]
fn assert_same_transposed(x: [usize; 3], weight: [usize; 3], geometry: ConvGeometry) {
    let ConvGeometry { stride, padding: [left, right], dilation, groups } = geometry;
    let (x, weight) = (random(x), random(weight));
    let ours = conv_transpose1d(x.clone(), weight.clone(), None, geometry);
    let options = ConvTransposeOptions::new([stride], [0], [0], [dilation], groups);
    let whole = module::conv_transpose1d(x.clone(), weight.clone(), None, options);
    let samples = whole.dims()[2] - left - right;
    assert_same(&ours, &whole.narrow(2, left, samples), &[of(&x), of(&weight)]);
}

#[test]
fn convolutions_pass_back_what_burns_do() {
    for ([channels, outputs, taps], [stride, padding, dilation], samples) in [
        ([3, 5, 7], [1, 3, 1], 40),
        ([4, 4, 7], [1, 9, 3], 33),
        ([2, 6, 8], [4, 2, 1], 64),
        ([2, 6, 8], [4, 2, 1], 66),
        ([5, 3, 1], [1, 0, 1], 12),
    ] {
        let geometry = ConvGeometry { stride, padding: [padding; 2], dilation, groups: 1 };
        assert_same_conv([2, channels, samples], [outputs, channels, taps], geometry);
    }
}

#[test]
fn transposed_convolutions_pass_back_what_burns_do() {
    for ([channels, outputs], [stride, padding], samples) in
        [([3, 5], [2, 1], 20), ([4, 2], [10, 5], 7), ([6, 3], [2, 0], 9)]
    {
        let geometry = ConvGeometry { stride, padding: [padding; 2], ..Default::default() };
        assert_same_transposed([2, channels, samples], [channels, outputs, 2 * stride], geometry);
    }
}

/// Padding on one side, as in a causal filter, and groups. The transposed filter keeps its first
/// `stride` samples for each input.
#[test]
fn causal_and_grouped_convolutions_pass_back_what_burns_do() {
    for (padding, groups, stride) in
        [([12, 0], 1, 1), ([0, 7], 1, 1), ([3, 0], 1, 2), ([5, 1], 2, 1), ([1, 4], 2, 2)]
    {
        let dilation = if stride == 1 { 2 } else { 1 };
        let geometry = ConvGeometry { stride, padding, dilation, groups };
        assert_same_conv([2, 4, 40], [6, 4 / groups, 7], geometry);
        let geometry = ConvGeometry { stride, padding: [0, 4], dilation: 1, groups };
        assert_same_transposed([2, 4, 11], [4, 6 / groups, 4 + stride], geometry);
    }
}

/// Some outputs read padding alone. In the last case all do: the filter reads sample 0 of `[0, 0, x]`.
#[test]
fn padding_wider_than_the_filter_passes_back_what_burns_does() {
    for (padding, [stride, taps], samples) in
        [([5, 0], [1, 3], 12), ([4, 7], [1, 3], 2), ([9, 3], [4, 2], 1), ([2, 0], [4, 1], 1)]
    {
        let geometry = ConvGeometry { stride, padding, ..Default::default() };
        assert_same_conv([2, 4, samples], [6, 4, taps], geometry);
    }
}

#[test]
fn the_snake_passes_back_what_its_reference_does() {
    let (x, alpha, beta) = (random([2, 5, 70]), random([1, 5, 1]), random([1, 5, 1]));
    let ours = snake(x.clone(), alpha.clone(), beta.clone());
    let expected = reference::snake(x.clone(), alpha.clone(), beta.clone());
    assert_same(&ours, &expected, &[of(&x), of(&alpha), of(&beta)]);
}

#[test]
fn products_pass_back_what_their_reference_does() {
    for rows in [3, 700] {
        let (x, weight) = (random([1, rows, 5]), random([7, 5]));
        let ours = linear(x.clone(), weight.clone(), None);
        let expected = x.clone().matmul(weight.clone().transpose().unsqueeze());
        assert_same(&ours, &expected, &[of(&x), of(&weight)]);
    }
}

#[test]
fn norms_and_gates_pass_back_what_their_references_do() {
    let (x, weight) = (random([2, 9, 33]), random([33]));
    let ours = rms_norm(x.clone(), weight.clone(), 1e-6);
    let expected = reference::rms_norm(x.clone(), weight.clone(), 1e-6);
    assert_same(&ours, &expected, &[of(&x), of(&weight)]);
    let (gate, up) = (random([2, 9, 33]), random([2, 9, 33]));
    let ours = swiglu(gate.clone(), up.clone());
    let expected = reference::swiglu(gate.clone(), up.clone());
    assert_same(&ours, &expected, &[of(&gate), of(&up)]);
}

#[test]
fn what_the_time_decides_passes_back_what_its_references_do() {
    let (x, weight) = (random([2, 9, 33]), random([33]));
    let [shift, scale] = [0, 1].map(|_| random([2, 1, 33]));
    let ours = ada_norm(x.clone(), weight.clone(), 1e-6, shift.clone(), scale.clone());
    let normed = reference::rms_norm(x.clone(), weight.clone(), 1e-6);
    let expected = reference::modulate(normed, shift.clone(), scale.clone());
    assert_same(&ours, &expected, &[of(&x), of(&weight), of(&shift), of(&scale)]);
    let [x, y] = [0, 1].map(|_| random([2, 9, 33]));
    let gate = random([2, 1, 33]);
    let ours = add_gated(x.clone(), gate.clone(), y.clone());
    let expected = reference::add_gated(x.clone(), gate.clone(), y.clone());
    assert_same(&ours, &expected, &[of(&x), of(&gate), of(&y)]);
}

#[test]
fn turned_heads_pass_back_what_their_reference_does() {
    let x = random([2, 3, 5, 8]);
    let (cos, sin) = (random([5, 4]).detach(), random([5, 4]).detach());
    let ours = rotate(x.clone(), cos.clone(), sin.clone());
    let expected = reference::rotate(x.clone(), cos, sin);
    let rows = |x: Tensor<Learning, 4>| x.reshape([2, 15, 8]);
    assert_same(&rows(ours), &rows(expected), &[of(&x)]);
}

#[test]
fn attention_passes_back_what_its_reference_does() {
    for (visibility, [heads, kv_heads], [queries, keys], width) in [
        (Visibility::Full, [4, 2], [5, 9], 8),
        (Visibility::Full, [1, 1], [1, 1], 3),
        (Visibility::Causal { first: 0 }, [2, 1], [70, 70], 16),
        (Visibility::Window(3), [2, 2], [40, 40], 20),
        (Visibility::CausalWindow { first: 0, width: 7 }, [2, 2], [40, 40], 20),
        (Visibility::Full, [3, 1], [150, 133], 32),
    ] {
        let q = random([2, heads, queries, width]);
        let [k, v] = [0, 1].map(|_| random([2, kv_heads, keys, width]));
        let mask = Mask::by_position(visibility);
        let ours = attention(q.clone(), k.clone(), v.clone(), &mask);
        let expected = reference::attention(q.clone(), k.clone(), v.clone(), &mask);
        let rows = |x: Tensor<Learning, 4>| x.reshape([2, heads * queries, width]);
        assert_same(&rows(ours), &rows(expected), &[of(&q), of(&k), of(&v)]);
    }
}
