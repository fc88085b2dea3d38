//! Operations of the autoencoder: snakes and filters.

use burn::tensor::{Tensor, TensorMetadata, ops::FloatTensor};
use burn_autodiff::{Autodiff, checkpoint::strategy::CheckpointStrategy};

use super::{
    super::{Backend, ConvGeometry, primitive, reference, tensor},
    Tracked,
};

pub(super) fn snake<B: Backend, C: CheckpointStrategy>(
    x: Tracked<B, C>,
    alpha: Tracked<B, C>,
    beta: Tracked<B, C>,
) -> Tracked<B, C> {
    let nodes = [&x, &alpha, &beta].map(|of| of.node.clone());
    let kept = [&x, &alpha, &beta].map(|of| of.primitive.clone());
    let y = B::snake(x.primitive, alpha.primitive, beta.primitive);
    tracked!(3, nodes, kept, y, |[x, alpha, beta], gradient, _| {
        B::snake_gradients(x, alpha, beta, gradient).map(Some)
    })
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
        let most = self.geometry.reach(weight.shape()[2]) - 1;
        if stride == 1 && left.max(right) <= most {
            // The filter is reversed, with inputs and outputs exchanged.
            let weight = tensor::<B, 3>(weight).swap_dims(0, 1).flip([2]);
            let geometry = ConvGeometry { padding: [most - left, most - right], ..self.geometry };
            return <B as Backend>::conv1d(gradient, primitive(weight), None, geometry);
        }
        // Transposed convolution without padding; it may be shorter than the padded input, whose
        // last samples may belong to no output.
        let whole = ConvGeometry { padding: [0; 2], ..self.geometry };
        let spread = <B as Backend>::conv_transpose1d(gradient, weight, None, whole);
        let spread = tensor::<B, 3>(spread);
        let [batch, channels, reached] = spread.dims();
        // No output may reach beyond the padding on the left.
        let there = samples.min(reached.saturating_sub(left));
        // Samples at the end that no output depends on get zeros.
        let place = (&spread.device(), spread.dtype());
        let rest = || Tensor::zeros([batch, channels, samples - there], place);
        primitive(match there {
            0 => rest(),
            _ if there == samples => spread.narrow(2, left, there),
            _ => Tensor::cat(vec![spread.narrow(2, left, there), rest()], 2),
        })
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

    /// Returns the wanted gradients of input and weight.
    fn gradients<B: Backend>(
        self,
        [x, weight]: [FloatTensor<B>; 2],
        gradient: FloatTensor<B>,
        [wants_x, wants_weight]: [bool; 2],
    ) -> [Option<FloatTensor<B>>; 2] {
        let (samples, taps) = (x.shape()[2], weight.shape()[2]);
        let of_x = wants_x.then(|| self.input_gradient::<B>(weight, gradient.clone(), samples));
        let of_weight = wants_weight.then(|| self.weight_gradient::<B>(x, gradient, taps));
        [of_x, of_weight]
    }
}

/// A convolution, or with `TRANSPOSED` a transposed one.
pub(super) fn convolve<B: Backend, C: CheckpointStrategy, const TRANSPOSED: bool>(
    x: Tracked<B, C>,
    weight: Tracked<B, C>,
    bias: Option<Tracked<B, C>>,
    geometry: ConvGeometry,
) -> Tracked<B, C> {
    if geometry.groups > 1 {
        let (x, weight, bias) = (tensor(x), tensor(weight), bias.map(tensor));
        return primitive(match TRANSPOSED {
            false => reference::conv1d::<Autodiff<B, C>>(x, weight, bias, geometry),
            true => reference::conv_transpose1d::<Autodiff<B, C>>(x, weight, bias, geometry),
        });
    }
    let filter = Filter { geometry, transposed: TRANSPOSED };
    let kept = (filter, [x.primitive.clone(), weight.primitive.clone()]);
    let bias_values = bias.as_ref().map(|bias| bias.primitive.clone());
    let y = filter.forward::<B>(x.primitive, weight.primitive, bias_values);
    let Some(bias) = bias else {
        return tracked!(2, [x.node, weight.node], kept, y, |kept, gradient, wanted| {
            let (filter, inputs) = kept;
            filter.gradients::<B>(inputs, gradient, wanted)
        });
    };
    let nodes = [x.node, weight.node, bias.node];
    tracked!(3, nodes, kept, y, |(filter, inputs), gradient, wanted| {
        let [wants_x, wants_weight, wants_bias] = wanted;
        let of_bias = wants_bias.then(|| {
            let outputs = gradient.shape()[1];
            let sums = tensor::<B, 3>(gradient.clone()).sum_dim(2).sum_dim(0);
            primitive(sums.reshape([outputs]))
        });
        let [of_x, of_weight] = filter.gradients::<B>(inputs, gradient, [wants_x, wants_weight]);
        [of_x, of_weight, of_bias]
    })
}
