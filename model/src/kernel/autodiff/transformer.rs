//! Operations of the transformers: products, norms, gates, positions and attention.

use burn::tensor::ops::BoolTensor;
use burn_autodiff::checkpoint::strategy::CheckpointStrategy;

use super::{
    super::{Backend, Visibility},
    Tracked,
};

pub(super) fn product<B: Backend, C: CheckpointStrategy>(
    x: Tracked<B, C>,
    weight: Tracked<B, C>,
) -> Tracked<B, C> {
    let kept = [x.primitive.clone(), weight.primitive.clone()];
    let y = <B as Backend>::product(x.primitive, weight.primitive);
    tracked!(2, [x.node, weight.node], kept, y, |[x, weight], gradient, wanted| {
        B::product_gradients(x, weight, gradient, wanted)
    })
}

pub(super) fn rms_norm<B: Backend, C: CheckpointStrategy>(
    x: Tracked<B, C>,
    weight: Tracked<B, C>,
    epsilon: f64,
) -> Tracked<B, C> {
    let kept = (x.primitive.clone(), weight.primitive.clone(), epsilon);
    let y = <B as Backend>::rms_norm(x.primitive, weight.primitive, epsilon);
    tracked!(2, [x.node, weight.node], kept, y, |(x, weight, epsilon), gradient, _| {
        B::rms_norm_gradients(x, weight, epsilon, gradient).map(Some)
    })
}

pub(super) fn ada_norm<B: Backend, C: CheckpointStrategy>(
    x: Tracked<B, C>,
    weight: Tracked<B, C>,
    epsilon: f64,
    shift: Tracked<B, C>,
    scale: Tracked<B, C>,
) -> Tracked<B, C> {
    let nodes = [x.node, weight.node, shift.node, scale.node];
    let [x, weight, scale] = [x.primitive, weight.primitive, scale.primitive];
    let kept = (x.clone(), weight.clone(), scale.clone(), epsilon);
    let y = <B as Backend>::ada_norm(x, weight, epsilon, shift.primitive, scale);
    tracked!(4, nodes, kept, y, |(x, weight, scale, epsilon), gradient, _| {
        B::ada_norm_gradients(x, weight, epsilon, scale, gradient).map(Some)
    })
}

pub(super) fn add_gated<B: Backend, C: CheckpointStrategy>(
    x: Tracked<B, C>,
    gate: Tracked<B, C>,
    y: Tracked<B, C>,
) -> Tracked<B, C> {
    let kept = [gate.primitive.clone(), y.primitive.clone()];
    let nodes = [x.node, gate.node, y.node];
    let sum = <B as Backend>::add_gated(x.primitive, gate.primitive, y.primitive);
    tracked!(3, nodes, kept, sum, |[gate, y], gradient, _| {
        let [of_gate, of_y] = B::add_gated_gradients(gate, y, gradient.clone());
        [gradient, of_gate, of_y].map(Some)
    })
}

pub(super) fn swiglu<B: Backend, C: CheckpointStrategy>(
    gate: Tracked<B, C>,
    up: Tracked<B, C>,
) -> Tracked<B, C> {
    let kept = [gate.primitive.clone(), up.primitive.clone()];
    let y = <B as Backend>::swiglu(gate.primitive, up.primitive);
    tracked!(2, [gate.node, up.node], kept, y, |[gate, up], gradient, _| {
        B::swiglu_gradients(gate, up, gradient).map(Some)
    })
}

/// Cosines and sines get no gradient.
pub(super) fn rotate<B: Backend, C: CheckpointStrategy>(
    x: Tracked<B, C>,
    cos: Tracked<B, C>,
    sin: Tracked<B, C>,
) -> Tracked<B, C> {
    let [cos, sin] = [cos.primitive, sin.primitive];
    let kept = [cos.clone(), sin.clone()];
    let y = <B as Backend>::rotate(x.primitive, cos, sin);
    tracked!(1, [x.node], kept, y, |[cos, sin], gradient, _| {
        // The gradient is rotated by the opposite angle.
        [Some(<B as Backend>::rotate(gradient, cos, B::float_neg(sin)))]
    })
}

pub(super) fn attention<B: Backend, C: CheckpointStrategy>(
    q: Tracked<B, C>,
    k: Tracked<B, C>,
    v: Tracked<B, C>,
    keys: Option<BoolTensor<B>>,
    visibility: Visibility,
) -> Tracked<B, C> {
    let nodes = [q.node, k.node, v.node];
    let inputs = [q.primitive, k.primitive, v.primitive];
    let kept = (inputs.clone(), keys.clone(), visibility);
    let [q, k, v] = inputs;
    let y = <B as Backend>::attention(q, k, v, keys, visibility);
    tracked!(3, nodes, kept, y, |(inputs, keys, visibility), gradient, _| {
        B::attention_gradients(inputs, keys, visibility, gradient).map(Some)
    })
}
