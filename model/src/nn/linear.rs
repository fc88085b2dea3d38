//! Linear maps and lookup tables, in the checkpoint's layout.
//!
//! Source: `torch.nn.Linear` and `torch.nn.Embedding`, as PyTorch's documentation defines them.

use std::fmt::Arguments;

use burn::{
    module::{Module, Param},
    tensor::{DType, Int, Tensor},
};

use super::{LowRank, WeightParam, random, random_weight};
use crate::{
    Backend, Tap,
    kernel::{self, Weight},
};

/// `x W^T + b`, plus the term of an adapter in training.
#[derive(Module, Debug)]
pub struct Linear<B: Backend> {
    weight: WeightParam<B, 2>,
    bias: Option<Param<Tensor<B, 1>>>,
    low_rank: Option<LowRank<B>>,
}

impl<B: Backend> Linear<B> {
    /// Creates a map without bias from `input` to `output` values, random with unit gain.
    pub fn init(input: usize, output: usize, device: &B::Device) -> Self {
        let std = (input as f64).powf(-0.5);
        Self { weight: random_weight([output, input], std, device), bias: None, low_rank: None }
    }

    /// Creates the same map with a bias.
    pub fn init_with_bias(input: usize, output: usize, device: &B::Device) -> Self {
        let bias = Some(random([output], 0.02, device));
        Self { bias, ..Self::init(input, output, device) }
    }

    /// Creates a map of the given weight, `[out, in]`.
    pub(super) fn of(weight: Weight<B, 2>) -> Self {
        Self { weight: weight.into(), bias: None, low_rank: None }
    }

    /// Returns the type of the weight.
    pub(crate) fn dtype(&self) -> DType {
        self.weight.dtype()
    }

    /// Returns the weight, `[out, in]`.
    pub(crate) fn weight(&self) -> Weight<B, 2> {
        self.weight.val()
    }

    /// Returns weight and bias.
    pub(crate) fn parts(&self) -> kernel::Map<B> {
        (self.weight.val(), self.bias.as_ref().map(Param::val))
    }

    /// [`Self::forward`] for input of any float type, for the first layer of a network.
    ///
    /// # Shapes
    /// - `x`: `[.., in]`
    /// - output: `[.., out]`, in the type that the weight is computed in
    pub fn enter<const D: usize>(&self, x: Tensor<B, D>) -> Tensor<B, D> {
        self.forward(x.cast(B::computes_in(self.dtype())))
    }

    /// # Shapes
    /// - `x`: `[.., in]`, of the type that the weight is computed in
    /// - output: `[.., out]`
    pub fn forward<const D: usize>(&self, x: Tensor<B, D>) -> Tensor<B, D> {
        let added = self.low_rank.as_ref().map(|low_rank| low_rank.forward(x.clone()));
        let y = kernel::linear(x, self.weight.val(), self.bias.as_ref().map(Param::val));
        match added {
            Some(added) => y + added,
            None => y,
        }
    }

    /// Returns the weight, if the map has no bias and no adapter.
    pub(super) fn alone(&self) -> Option<Weight<B, 2>> {
        (self.bias.is_none() && self.low_rank.is_none()).then(|| self.weight.val())
    }

    /// Computes `residual + gate forward(x)`, or without a gate `residual + forward(x)`; taps
    /// `forward(x)` as `name`.
    ///
    /// # Shapes
    /// - `residual`, output: `[B, P, out]`, `gate`: `[B, 1, out]`, `x`: `[B, P, in]`
    pub fn forward_added<T: Tap<B>>(
        &self,
        residual: Tensor<B, 3>,
        gate: Option<Tensor<B, 3>>,
        x: Tensor<B, 3>,
        name: Arguments<'_>,
        tap: &mut T,
    ) -> Tensor<B, 3> {
        // A fused operation has no such result to tap.
        if !T::LOOKS
            && let Some(weight) = self.alone()
        {
            return kernel::linear_added(residual, gate, x, weight);
        }
        let y = self.forward(x);
        tap.tap(name, &y);
        match gate {
            Some(gate) => kernel::add_gated(residual, gate, y),
            None => kernel::add(residual, y),
        }
    }

    /// Returns input and output width.
    pub fn widths(&self) -> [usize; 2] {
        let [output, input] = self.weight.dims();
        [input, output]
    }

    /// Sets or removes the adapter's term.
    pub fn adapt(&mut self, low_rank: Option<LowRank<B>>) {
        self.low_rank = low_rank;
    }
}

/// An embedding table with one row per token.
#[derive(Module, Debug)]
pub struct Embedding<B: Backend> {
    weight: WeightParam<B, 2>,
}

impl<B: Backend> Embedding<B> {
    /// Creates a random table.
    pub fn init(rows: usize, width: usize, device: &B::Device) -> Self {
        Self { weight: random_weight([rows, width], 0.02, device) }
    }

    /// Returns the type of the table.
    pub(crate) fn dtype(&self) -> DType {
        self.weight.dtype()
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.weight.dims()[0]
    }

    /// Returns the table.
    pub(crate) fn table(&self) -> Weight<B, 2> {
        self.weight.val()
    }

    /// # Shapes
    /// - `ids`: `[B, L]`
    /// - output: `[B, L, H]`
    pub fn forward(&self, ids: Tensor<B, 2, Int>) -> Tensor<B, 3> {
        kernel::embedding(self.weight.val(), ids)
    }
}

/// A table of rows that are only looked up, and never multiplied.
///
/// It keeps its type when the other weights become int8: a lookup reads few rows of the file, and
/// int8 would need all of it in memory.
#[derive(Module, Debug)]
pub struct LookupTable<B: Backend> {
    weight: Param<Tensor<B, 2>>,
}

impl<B: Backend> LookupTable<B> {
    /// Creates a random table.
    pub fn init(rows: usize, width: usize, device: &B::Device) -> Self {
        Self { weight: random([rows, width], 0.02, device) }
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.weight.lazy_shape().dims::<2>()[0]
    }

    /// # Shapes
    /// - `ids`: `[B, L]`
    /// - output: `[B, L, H]`, in the type that the table is computed in
    pub fn forward(&self, ids: Tensor<B, 2, Int>) -> Tensor<B, 3> {
        kernel::embedding(Weight::Plain(self.weight.val()), ids)
    }
}
