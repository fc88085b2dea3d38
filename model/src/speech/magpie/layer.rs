//! One layer: self attention, in the decoder also attention to the text, and a feed-forward block of
//! two causal convolutions.
//!
//! Source: NeMo 3.0.0 `transformer_2501.py`, `TransformerLayer`, and `ffn_modules.py`,
//! `PositionwiseConvFF`. Checkpoint: the fields have the names of the tensors.

use std::fmt::Arguments;

use burn::{module::Module, tensor::Tensor};

use super::{
    StackConfig,
    attention::{CrossAttention, Prior, SelfAttention},
};
use crate::{
    Backend, Tap,
    kernel::{self, Mask},
    nn::{KeysValues, Linear, Norm, NormKind, Past},
};

/// Epsilon of every norm.
pub(super) const EPSILON: f64 = 1e-5;

/// Creates a layer norm without a bias over `width` values.
pub(super) fn norm<B: Backend>(width: usize, device: &B::Device) -> Norm<B> {
    Norm::init(NormKind::Layer { bias: false }, width, EPSILON, device)
}

/// One layer.
#[derive(Module, Debug)]
pub(super) struct Layer<B: Backend> {
    norm_self: Norm<B>,
    self_attention: SelfAttention<B>,
    norm_xattn_query: Option<Norm<B>>,
    norm_xattn_memory: Option<Norm<B>>,
    cross_attention: Option<CrossAttention<B>>,
    norm_pos_ff: Norm<B>,
    pos_ff: FeedForward<B>,
}

/// Two convolutions with GELU between them.
#[derive(Module, Debug)]
struct FeedForward<B: Backend> {
    proj: CausalConv<B>,
    o_net: CausalConv<B>,
}

/// A causal convolution without bias, as a product of rows: the inputs of all taps side by side.
///
/// The weight is `[out, in taps]`, which is the tensor `[out, in, taps]` of the file.
#[derive(Module, Debug)]
struct CausalConv<B: Backend> {
    conv: Linear<B>,
    taps: usize,
}

impl<B: Backend> CausalConv<B> {
    fn init([input, output]: [usize; 2], taps: usize, device: &B::Device) -> Self {
        Self { conv: Linear::init(input * taps, output, device), taps }
    }

    /// # Shapes
    /// - `x`: `[B, T, in]`
    /// - output: `[B, T, out]`
    fn forward(&self, x: Tensor<B, 3>) -> Tensor<B, 3> {
        if self.taps == 1 {
            return self.conv.forward(x);
        }
        let [batch, length, width] = x.dims();
        let before = Tensor::zeros([batch, self.taps - 1, width], (&x.device(), x.dtype()));
        let padded = Tensor::cat(vec![before, x], 1);
        // Rows and a transposition of two axes: a CPU copies neither number by number.
        let values = batch * length * width;
        let tap = |tap| padded.clone().narrow(1, tap, length).reshape([1, values]);
        let inputs = Tensor::cat((0..self.taps).map(tap).collect(), 0); // [taps, B T in]
        self.conv.forward(inputs.swap_dims(0, 1).reshape([batch, length, width * self.taps]))
    }
}

/// Inputs of the attention to the text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cross<'a, B: Backend> {
    pub(super) memory: &'a KeysValues<B>,
    pub(super) prior: Option<&'a Prior<B>>,
}

impl<B: Backend> Layer<B> {
    /// Creates a layer; `cross` is the width of the memory, the heads and their width.
    pub(super) fn init(
        config: &StackConfig,
        cross: Option<[usize; 3]>,
        device: &B::Device,
    ) -> Self {
        let &StackConfig { d_model, d_ffn, sa_n_heads, kernel_size, .. } = config;
        let norm = |width| norm(width, device);
        Self {
            norm_self: norm(d_model),
            self_attention: SelfAttention::init(d_model, sa_n_heads, device),
            norm_xattn_query: cross.map(|_| norm(d_model)),
            norm_xattn_memory: cross.map(|[memory, ..]| norm(memory)),
            cross_attention: cross.map(|[memory, heads, head_dim]| {
                CrossAttention::init([d_model, memory], heads, head_dim, device)
            }),
            norm_pos_ff: norm(d_model),
            pos_ff: FeedForward {
                proj: CausalConv::init([d_model, d_ffn], kernel_size, device),
                o_net: CausalConv::init([d_ffn, d_model], kernel_size, device),
            },
        }
    }

    /// Prepares the memory for [`Cross::memory`]; `None` if the layer has no cross attention.
    ///
    /// # Shapes
    /// - `memory`: `[1, L, M]`
    pub(super) fn memory(&self, memory: Tensor<B, 3>) -> Option<KeysValues<B>> {
        let norm = self.norm_xattn_memory.as_ref()?;
        Some(self.cross_attention.as_ref()?.keys_values(norm.forward(memory)))
    }

    /// Computes the layer over whole sequences, or with `past` over their next positions. Only the
    /// first row attends to the text: for the others the result is 0. Returns the rows and the
    /// weights of that attention. Taps `{name}.self_attn`, `{name}.cross_attn`, `{name}.cross_prob`,
    /// `{name}.ff` and `{name}`.
    ///
    /// # Shapes
    /// - `x`, output: `[B, T, D]`
    /// - weights: `[1, heads, T, L]`, f32
    pub(super) fn forward<T: Tap<B>>(
        &self,
        x: Tensor<B, 3>,
        mask: &Mask<B>,
        past: Option<Past<'_, B>>,
        cross: Option<Cross<'_, B>>,
        name: Arguments<'_>,
        tap: &mut T,
    ) -> (Tensor<B, 3>, Option<Tensor<B, 4>>) {
        let y = self.self_attention.forward(self.norm_self.forward(x.clone()), mask, past);
        tap.tap(format_args!("{name}.self_attn"), &y);
        let mut x = kernel::add(x, y);
        let mut seen = None;
        if let (Some(norm), Some(attention), Some(Cross { memory, prior })) =
            (&self.norm_xattn_query, &self.cross_attention, cross)
        {
            let [rows, length, width] = x.dims();
            let first = norm.forward(x.clone().narrow(0, 0, 1));
            let (y, weights) = attention.forward(first, memory, prior);
            let y = match rows {
                1 => y,
                _ => {
                    let zeros = Tensor::zeros([rows - 1, length, width], (&y.device(), y.dtype()));
                    Tensor::cat(vec![y, zeros], 0)
                }
            };
            tap.tap(format_args!("{name}.cross_attn"), &y);
            tap.tap(format_args!("{name}.cross_prob"), &weights);
            x = kernel::add(x, y);
            seen = Some(weights);
        }
        let inner =
            kernel::gelu_tanh(self.pos_ff.proj.forward(self.norm_pos_ff.forward(x.clone())));
        let y = self.pos_ff.o_net.forward(inner);
        tap.tap(format_args!("{name}.ff"), &y);
        let x = kernel::add(x, y);
        tap.tap(format_args!("{name}"), &x);
        (x, seen)
    }
}
