//! Operations of the autoencoder: snakes and filters.

use burn::tensor::{Tensor, TensorMetadata, ops::FloatTensor};
use burn_autodiff::{
    Autodiff, NodeId,
    checkpoint::{base::Checkpointer, strategy::CheckpointStrategy},
    grads::Gradients,
    ops::{Backward, Ops, OpsKind},
};

use super::super::{Backend, ConvGeometry, primitive, reference, tensor};

pub(super) fn snake<B: Backend, C: CheckpointStrategy>(
    x: FloatTensor<Autodiff<B, C>>,
    alpha: FloatTensor<Autodiff<B, C>>,
    beta: FloatTensor<Autodiff<B, C>>,
) -> FloatTensor<Autodiff<B, C>> {
    let nodes = [&x, &alpha, &beta].map(|of| of.node.clone());
    let kept = [&x, &alpha, &beta].map(|of| of.primitive.clone());
    let y = B::snake(x.primitive, alpha.primitive, beta.primitive);
    match Backward::<B, 3>::prepare::<C>(Snake, nodes).compute_bound().stateful() {
        OpsKind::Tracked(prepared) => prepared.finish(kept, y),
        OpsKind::UnTracked(prepared) => prepared.finish(y),
    }
}

#[derive(Debug)]
struct Snake;

impl<B: Backend> Backward<B, 3> for Snake {
    /// Input, `alpha` and `beta`.
    type State = [FloatTensor<B>; 3];

    fn backward(
        self,
        ops: Ops<Self::State, 3>,
        gradients: &mut Gradients,
        _checkpointer: &mut Checkpointer,
    ) {
        let gradient = gradients.consume::<B>(&ops.node);
        let [x, alpha, beta] = ops.state;
        let passed = B::snake_gradients(x, alpha, beta, gradient);
        for (parent, gradient) in ops.parents.into_iter().zip(passed) {
            if let Some(parent) = parent {
                gradients.register::<B>(parent.id, gradient);
            }
        }
    }
}

/// A convolution or a transposed convolution.
#[derive(Debug, Clone, Copy)]
struct Filter {
    geometry: ConvGeometry,
    transposed: bool,
}

impl Filter {
    fn forward<B: Backend>(
        self,
        x: FloatTensor<B>,
        weight: FloatTensor<B>,
        bias: Option<FloatTensor<B>>,
    ) -> FloatTensor<B> {
        match self.transposed {
            false => <B as Backend>::conv1d(x, weight, bias, self.geometry),
            true => <B as Backend>::conv_transpose1d(x, weight, bias, self.geometry),
        }
    }

    /// Returns the gradient of the input, of length `samples`.
    fn input_gradient<B: Backend>(
        self,
        weight: FloatTensor<B>,
        gradient: FloatTensor<B>,
        samples: usize,
    ) -> FloatTensor<B> {
        let ConvGeometry { stride, padding: [left, right], .. } = self.geometry;
        if self.transposed {
            // The gradient of a transposed convolution is a convolution; the weight already has its
            // layout.
            return <B as Backend>::conv1d(gradient, weight, None, self.geometry);
        }
        let taps = weight.shape()[2];
        if stride == 1 {
            // The filter is reversed, with inputs and outputs exchanged.
            let weight = tensor::<B, 3>(weight).swap_dims(0, 1).flip([2]);
            let most = self.geometry.reach(taps) - 1;
            let geometry = ConvGeometry { padding: [most - left, most - right], ..self.geometry };
            return <B as Backend>::conv1d(gradient, primitive(weight), None, geometry);
        }
        // Transposed convolution without padding; it may be shorter than the padded input, whose
        // last samples may belong to no output.
        let whole = ConvGeometry { padding: [0; 2], ..self.geometry };
        let spread = <B as Backend>::conv_transpose1d(gradient, weight, None, whole);
        let spread = tensor::<B, 3>(spread);
        let [batch, channels, reached] = spread.dims();
        let there = samples.min(reached - left);
        let spread = spread.narrow(2, left, there);
        if there == samples {
            return primitive(spread);
        }
        // Samples at the end that no output depends on get zeros.
        let place = (&spread.device(), spread.dtype());
        let rest = Tensor::zeros([batch, channels, samples - there], place);
        primitive(Tensor::cat(vec![spread, rest], 2))
    }

    /// Returns the gradient of the weight.
    fn weight_gradient<B: Backend>(
        self,
        x: FloatTensor<B>,
        gradient: FloatTensor<B>,
        taps: usize,
    ) -> FloatTensor<B> {
        match self.transposed {
            false => B::filter_gradient(x, gradient, taps, self.geometry),
            // A transposed convolution exchanges the roles of input and output.
            true => B::filter_gradient(gradient, x, taps, self.geometry),
        }
    }

    /// Registers the gradients of input and weight.
    fn pass_back<B: Backend>(
        self,
        [x_node, weight_node]: [Option<NodeId>; 2],
        [x, weight]: [FloatTensor<B>; 2],
        gradient: FloatTensor<B>,
        gradients: &mut Gradients,
    ) {
        let (samples, taps) = (x.shape()[2], weight.shape()[2]);
        if let Some(node) = x_node {
            let of_input = self.input_gradient::<B>(weight, gradient.clone(), samples);
            gradients.register::<B>(node, of_input);
        }
        if let Some(node) = weight_node {
            let of_weight = self.weight_gradient::<B>(x, gradient, taps);
            gradients.register::<B>(node, of_weight);
        }
    }
}

pub(super) fn conv1d<B: Backend, C: CheckpointStrategy>(
    x: FloatTensor<Autodiff<B, C>>,
    weight: FloatTensor<Autodiff<B, C>>,
    bias: Option<FloatTensor<Autodiff<B, C>>>,
    geometry: ConvGeometry,
) -> FloatTensor<Autodiff<B, C>> {
    if geometry.groups > 1 {
        let (x, weight, bias) = (tensor(x), tensor(weight), bias.map(tensor));
        return primitive(reference::conv1d::<Autodiff<B, C>>(x, weight, bias, geometry));
    }
    convolve::<B, C>(Filter { geometry, transposed: false }, x, weight, bias)
}

pub(super) fn conv_transpose1d<B: Backend, C: CheckpointStrategy>(
    x: FloatTensor<Autodiff<B, C>>,
    weight: FloatTensor<Autodiff<B, C>>,
    bias: Option<FloatTensor<Autodiff<B, C>>>,
    geometry: ConvGeometry,
) -> FloatTensor<Autodiff<B, C>> {
    if geometry.groups > 1 {
        let (x, weight, bias) = (tensor(x), tensor(weight), bias.map(tensor));
        return primitive(reference::conv_transpose1d::<Autodiff<B, C>>(x, weight, bias, geometry));
    }
    convolve::<B, C>(Filter { geometry, transposed: true }, x, weight, bias)
}

fn convolve<B: Backend, C: CheckpointStrategy>(
    filter: Filter,
    x: FloatTensor<Autodiff<B, C>>,
    weight: FloatTensor<Autodiff<B, C>>,
    bias: Option<FloatTensor<Autodiff<B, C>>>,
) -> FloatTensor<Autodiff<B, C>> {
    let kept = [x.primitive.clone(), weight.primitive.clone()];
    let bias_values = bias.as_ref().map(|bias| bias.primitive.clone());
    let y = filter.forward::<B>(x.primitive, weight.primitive, bias_values);
    match bias {
        Some(bias) => {
            let nodes = [x.node, weight.node, bias.node];
            match Backward::<B, 3>::prepare::<C>(filter, nodes).compute_bound().stateful() {
                OpsKind::Tracked(prepared) => prepared.finish(kept, y),
                OpsKind::UnTracked(prepared) => prepared.finish(y),
            }
        }
        None => {
            let nodes = [x.node, weight.node];
            match Backward::<B, 2>::prepare::<C>(filter, nodes).compute_bound().stateful() {
                OpsKind::Tracked(prepared) => prepared.finish(kept, y),
                OpsKind::UnTracked(prepared) => prepared.finish(y),
            }
        }
    }
}

/// Backward pass with a bias.
impl<B: Backend> Backward<B, 3> for Filter {
    /// Input and weight.
    type State = [FloatTensor<B>; 2];

    fn backward(
        self,
        ops: Ops<Self::State, 3>,
        gradients: &mut Gradients,
        _checkpointer: &mut Checkpointer,
    ) {
        let gradient = gradients.consume::<B>(&ops.node);
        let [x, weight, bias] = ops.parents.map(|parent| parent.map(|parent| parent.id));
        if let Some(bias) = bias {
            let outputs = gradient.shape()[1];
            let sums = tensor::<B, 3>(gradient.clone()).sum_dim(2).sum_dim(0);
            gradients.register::<B>(bias, primitive(sums.reshape([outputs])));
        }
        self.pass_back::<B>([x, weight], ops.state, gradient, gradients);
    }
}

/// Backward pass without a bias.
impl<B: Backend> Backward<B, 2> for Filter {
    /// Input and weight.
    type State = [FloatTensor<B>; 2];

    fn backward(
        self,
        ops: Ops<Self::State, 2>,
        gradients: &mut Gradients,
        _checkpointer: &mut Checkpointer,
    ) {
        let gradient = gradients.consume::<B>(&ops.node);
        let parents = ops.parents.map(|parent| parent.map(|parent| parent.id));
        self.pass_back::<B>(parents, ops.state, gradient, gradients);
    }
}
