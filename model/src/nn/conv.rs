//! Convolutions along time, in the checkpoint's layout.
//!
//! Source: `torch.nn.Conv1d` and `torch.nn.ConvTranspose1d`, as PyTorch's documentation defines them.

mod stream;
#[cfg(all(test, feature = "cpu"))]
mod tests;

pub use stream::ConvState;

use burn::{
    module::{Module, Param},
    tensor::{DType, Tensor},
};

use super::{WeightParam, random, random_weight};
use crate::{
    Backend,
    kernel::{self, ConvGeometry, Packing, Precision},
};

/// Convolution `[B, in, S] -> [B, out, S']`.
#[derive(Module, Debug)]
pub struct Conv1d<B: Backend> {
    weight: WeightParam<B, 3>,
    bias: Option<Param<Tensor<B, 1>>>,
    #[module(skip)]
    geometry: ConvGeometry,
}

impl<B: Backend> Conv1d<B> {
    /// Creates a filter of `kernel` taps without bias.
    pub fn init(
        [input, output]: [usize; 2],
        kernel: usize,
        geometry: ConvGeometry,
        device: &B::Device,
    ) -> Self {
        let input = input / geometry.groups;
        let std = ((input * kernel) as f64).powf(-0.5);
        Self { weight: random_weight([output, input, kernel], std, device), bias: None, geometry }
    }

    /// Creates the same filter with a bias.
    pub fn init_with_bias(
        channels: [usize; 2],
        kernel: usize,
        geometry: ConvGeometry,
        device: &B::Device,
    ) -> Self {
        let bias = Some(random([channels[1]], 0.02, device));
        Self { bias, ..Self::init(channels, kernel, geometry, device) }
    }

    /// Returns it with prepacked weights, with sums in the order that is fastest, see
    /// [`kernel::pack_filter`].
    pub(crate) fn prepacked(self) -> Self {
        self.prepacked_for(Precision::Highest)
    }

    /// [`Self::prepacked`] for this precision.
    pub(crate) fn prepacked_for(self, precision: Precision) -> Self {
        let ConvGeometry { stride, dilation, groups, .. } = self.geometry;
        // The reference computes these, and it cannot read packed weights.
        if groups > 1 || stride > 1 && dilation > 1 {
            return self;
        }
        let packing = Packing { stride, is_transposed: false, precision };
        Self { weight: self.weight.prepacked(packing), ..self }
    }

    /// [`Self::prepacked`] for a plain convolution of one tap, with sums in the order of plain weights: the
    /// result is equal to the bit.
    pub(crate) fn prepacked_in_order(self) -> Self {
        let ConvGeometry { stride, groups, .. } = self.geometry;
        let [.., taps] = self.weight.dims();
        assert_eq!((taps, stride, groups), (1, 1, 1), "a plain convolution of one tap");
        let packing = Packing { stride, is_transposed: false, precision: Precision::InOrder };
        Self { weight: self.weight.prepacked(packing), ..self }
    }

    /// Returns the type of the weight.
    pub(crate) fn dtype(&self) -> DType {
        self.weight.dtype()
    }

    /// [`Self::forward`] for input of any float type, for the first layer of a network.
    ///
    /// # Shapes
    /// - `x`: `[B, in, S]`
    /// - output: `[B, out, S']`, in the type of the bias, or without one the type that the weight
    ///   is computed in
    pub fn enter(&self, x: Tensor<B, 3>) -> Tensor<B, 3> {
        self.forward(self.cast(x))
    }

    /// Casts `x` to the type in which this is computed.
    fn cast(&self, x: Tensor<B, 3>) -> Tensor<B, 3> {
        let of_bias = self.bias.as_ref().map(|bias| bias.val().dtype());
        x.cast(of_bias.unwrap_or_else(|| B::computes_in(self.dtype())))
    }

    /// # Shapes
    /// - `x`: `[B, in, S]`, of the type that the weight is computed in
    /// - output: `[B, out, S']`
    pub fn forward(&self, x: Tensor<B, 3>) -> Tensor<B, 3> {
        let (weight, bias, geometry) = self.parts();
        kernel::conv1d(x, weight, bias, geometry)
    }

    /// Returns weight, bias and geometry, for a kernel that fuses several layers.
    pub(crate) fn parts(&self) -> kernel::Convolution<B> {
        (self.weight.val(), self.bias.as_ref().map(Param::val), self.geometry)
    }
}

/// Transposed convolution `[B, in, S] -> [B, out, S']`.
#[derive(Module, Debug)]
pub struct ConvTranspose1d<B: Backend> {
    weight: WeightParam<B, 3>,
    bias: Option<Param<Tensor<B, 1>>>,
    #[module(skip)]
    geometry: ConvGeometry,
}

impl<B: Backend> ConvTranspose1d<B> {
    /// Creates a filter of `kernel` taps with a bias.
    pub fn init_with_bias(
        channels: [usize; 2],
        kernel: usize,
        geometry: ConvGeometry,
        device: &B::Device,
    ) -> Self {
        let bias = Some(random([channels[1]], 0.02, device));
        Self { bias, ..Self::init(channels, kernel, geometry, device) }
    }

    /// Creates the same filter without a bias.
    pub fn init(
        [input, output]: [usize; 2],
        kernel: usize,
        geometry: ConvGeometry,
        device: &B::Device,
    ) -> Self {
        let ConvGeometry { stride, groups, .. } = geometry;
        // Each output sample gets kernel / stride taps of each input channel of its group.
        let std = ((input / groups * kernel.div_ceil(stride)) as f64).powf(-0.5);
        Self {
            weight: random_weight([input, output / groups, kernel], std, device),
            bias: None,
            geometry,
        }
    }

    /// Returns it with prepacked weights, with sums in the order that is fastest, see
    /// [`kernel::pack_filter`].
    pub(crate) fn prepacked(self) -> Self {
        self.prepacked_for(Precision::Highest)
    }

    /// [`Self::prepacked`] for this precision.
    pub(crate) fn prepacked_for(self, precision: Precision) -> Self {
        let ConvGeometry { stride, dilation, groups, .. } = self.geometry;
        // The reference computes these, and it cannot read packed weights.
        if groups > 1 || dilation > 1 {
            return self;
        }
        let packing = Packing { stride, is_transposed: true, precision };
        Self { weight: self.weight.prepacked(packing), ..self }
    }

    /// # Shapes
    /// - `x`: `[B, in, S]`
    /// - output: `[B, out, S']`
    pub fn forward(&self, x: Tensor<B, 3>) -> Tensor<B, 3> {
        let (weight, bias, geometry) = self.parts();
        kernel::conv_transpose1d(x, weight, bias, geometry)
    }

    /// Returns the number of output samples per input sample.
    pub(crate) fn stride(&self) -> usize {
        self.geometry.stride
    }

    /// Returns weight, bias and geometry.
    fn parts(&self) -> kernel::Convolution<B> {
        (self.weight.val(), self.bias.as_ref().map(Param::val), self.geometry)
    }
}
