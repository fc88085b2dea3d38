//! Operations of the transformers: products, norms, gates, positions and attention.

use burn::tensor::ops::{BoolTensor, FloatTensor};
use burn_autodiff::{
    Autodiff, NodeId,
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};

use super::super::{Backend, Visibility};

type Tracked<B, C> = FloatTensor<Autodiff<B, C>>;

/// Registers gradients for the parents that need one.
fn register<B: Backend, const N: usize>(
    parents: [Option<NodeId>; N],
    passed: [FloatTensor<B>; N],
    gradients: &mut Gradients,
) {
    for (parent, gradient) in parents.into_iter().zip(passed) {
        if let Some(parent) = parent {
            gradients.register::<B>(parent, gradient);
        }
    }
}

/// Registers the backward pass of `operation` with its saved state `$kept`.
macro_rules! tracked {
    ($operation:expr, $count:literal, $nodes:expr, $kept:expr, $output:expr) => {
        match Backward::<B, $count>::prepare::<C>($operation, $nodes).compute_bound().stateful() {
            OpsKind::Tracked(prepared) => prepared.finish($kept, $output),
            OpsKind::UnTracked(prepared) => prepared.finish($output),
        }
    };
}

pub(super) fn product<B: Backend, C: CheckpointStrategy>(
    x: Tracked<B, C>,
    weight: Tracked<B, C>,
) -> Tracked<B, C> {
    let kept = [x.primitive.clone(), weight.primitive.clone()];
    let y = <B as Backend>::product(x.primitive, weight.primitive);
    tracked!(Product, 2, [x.node, weight.node], kept, y)
}

#[derive(Debug)]
struct Product;

impl<B: Backend> Backward<B, 2> for Product {
    /// Input and weight.
    type State = [FloatTensor<B>; 2];

    fn backward(self, ops: Ops<Self::State, 2>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let gradient = gradients.consume::<B>(&ops.node);
        let [x, weight] = ops.state;
        let parents = ops.parents.map(|parent| parent.map(|parent| parent.id));
        let wanted = parents.map(|parent| parent.is_some());
        let passed = B::product_gradients(x, weight, gradient, wanted);
        for (parent, gradient) in parents.into_iter().zip(passed) {
            if let (Some(parent), Some(gradient)) = (parent, gradient) {
                gradients.register::<B>(parent, gradient);
            }
        }
    }
}

pub(super) fn rms_norm<B: Backend, C: CheckpointStrategy>(
    x: Tracked<B, C>,
    weight: Tracked<B, C>,
    epsilon: f64,
) -> Tracked<B, C> {
    let kept = [x.primitive.clone(), weight.primitive.clone()];
    let y = <B as Backend>::rms_norm(x.primitive, weight.primitive, epsilon);
    tracked!(RmsNorm(epsilon), 2, [x.node, weight.node], kept, y)
}

#[derive(Debug)]
struct RmsNorm(f64);

impl<B: Backend> Backward<B, 2> for RmsNorm {
    /// Input and weight.
    type State = [FloatTensor<B>; 2];

    fn backward(self, ops: Ops<Self::State, 2>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let gradient = gradients.consume::<B>(&ops.node);
        let [x, weight] = ops.state;
        let passed = B::rms_norm_gradients(x, weight, self.0, gradient);
        register::<B, 2>(ops.parents.map(|of| of.map(|of| of.id)), passed, gradients);
    }
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
    let kept = [x.clone(), weight.clone(), scale.clone()];
    let y = <B as Backend>::ada_norm(x, weight, epsilon, shift.primitive, scale);
    tracked!(AdaNorm(epsilon), 4, nodes, kept, y)
}

#[derive(Debug)]
struct AdaNorm(f64);

impl<B: Backend> Backward<B, 4> for AdaNorm {
    /// Input, weight and scale.
    type State = [FloatTensor<B>; 3];

    fn backward(self, ops: Ops<Self::State, 4>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let gradient = gradients.consume::<B>(&ops.node);
        let [x, weight, scale] = ops.state;
        let passed = B::ada_norm_gradients(x, weight, self.0, scale, gradient);
        register::<B, 4>(ops.parents.map(|of| of.map(|of| of.id)), passed, gradients);
    }
}

pub(super) fn add_gated<B: Backend, C: CheckpointStrategy>(
    x: Tracked<B, C>,
    gate: Tracked<B, C>,
    y: Tracked<B, C>,
) -> Tracked<B, C> {
    let kept = [gate.primitive.clone(), y.primitive.clone()];
    let nodes = [x.node, gate.node, y.node];
    let sum = <B as Backend>::add_gated(x.primitive, gate.primitive, y.primitive);
    tracked!(AddGated, 3, nodes, kept, sum)
}

#[derive(Debug)]
struct AddGated;

impl<B: Backend> Backward<B, 3> for AddGated {
    /// The gate and the gated input.
    type State = [FloatTensor<B>; 2];

    fn backward(self, ops: Ops<Self::State, 3>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let gradient = gradients.consume::<B>(&ops.node);
        let [gate, y] = ops.state;
        let [of_gate, of_y] = B::add_gated_gradients(gate, y, gradient.clone());
        let passed = [gradient, of_gate, of_y];
        register::<B, 3>(ops.parents.map(|of| of.map(|of| of.id)), passed, gradients);
    }
}

pub(super) fn swiglu<B: Backend, C: CheckpointStrategy>(
    gate: Tracked<B, C>,
    up: Tracked<B, C>,
) -> Tracked<B, C> {
    let kept = [gate.primitive.clone(), up.primitive.clone()];
    let y = <B as Backend>::swiglu(gate.primitive, up.primitive);
    tracked!(Swiglu, 2, [gate.node, up.node], kept, y)
}

#[derive(Debug)]
struct Swiglu;

impl<B: Backend> Backward<B, 2> for Swiglu {
    /// `gate` and `up`.
    type State = [FloatTensor<B>; 2];

    fn backward(self, ops: Ops<Self::State, 2>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let gradient = gradients.consume::<B>(&ops.node);
        let [gate, up] = ops.state;
        let passed = B::swiglu_gradients(gate, up, gradient);
        register::<B, 2>(ops.parents.map(|of| of.map(|of| of.id)), passed, gradients);
    }
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
    tracked!(Rotate, 1, [x.node], kept, y)
}

#[derive(Debug)]
struct Rotate;

impl<B: Backend> Backward<B, 1> for Rotate {
    /// Cosines and sines.
    type State = [FloatTensor<B>; 2];

    fn backward(self, ops: Ops<Self::State, 1>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let gradient = gradients.consume::<B>(&ops.node);
        let [cos, sin] = ops.state;
        // The gradient is rotated by the opposite angle.
        let passed = <B as Backend>::rotate(gradient, cos, B::float_neg(sin));
        register::<B, 1>(ops.parents.map(|of| of.map(|of| of.id)), [passed], gradients);
    }
}

pub(super) fn attention<B: Backend, C: CheckpointStrategy>(
    q: Tracked<B, C>,
    k: Tracked<B, C>,
    v: Tracked<B, C>,
    keys: Option<BoolTensor<B>>,
    visibility: Visibility,
) -> Tracked<B, C> {
    let inputs = [q.primitive.clone(), k.primitive.clone(), v.primitive.clone()];
    let kept = Attended { inputs, keys: keys.clone(), visibility };
    let y = <B as Backend>::attention(q.primitive, k.primitive, v.primitive, keys, visibility);
    tracked!(Attention, 3, [q.node, k.node, v.node], kept, y)
}

#[derive(Debug)]
struct Attention;

/// Queries, keys, values and the mask.
#[derive(Debug)]
struct Attended<B: Backend> {
    inputs: [FloatTensor<B>; 3],
    keys: Option<BoolTensor<B>>,
    visibility: Visibility,
}

impl<B: Backend> Clone for Attended<B> {
    fn clone(&self) -> Self {
        let Self { inputs, keys, visibility } = self;
        Self { inputs: inputs.clone(), keys: keys.clone(), visibility: *visibility }
    }
}

impl<B: Backend> Backward<B, 3> for Attention {
    type State = Attended<B>;

    fn backward(self, ops: Ops<Self::State, 3>, gradients: &mut Gradients, _: &mut Checkpointer) {
        let gradient = gradients.consume::<B>(&ops.node);
        let Attended { inputs, keys, visibility } = ops.state;
        let passed = B::attention_gradients(inputs, keys, visibility, gradient);
        register::<B, 3>(ops.parents.map(|of| of.map(|of| of.id)), passed, gradients);
    }
}
