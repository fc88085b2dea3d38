//! Burn's backend with the operations of the networks.

use burn::tensor::{
    DType, Tensor, TensorData,
    ops::{FloatTensor, IntTensor},
};

use super::{
    CachedLayer, ConvGeometry, Convolution, FusedLayers, Mask, NewTokens, Packed, Packing, Slot,
    SnakeParams, UnitTensors, Visibility, primitive, reference, tensor,
};

/// Burn's backend with this project's own operations.
///
/// Models are generic over this trait. An operation with a kernel on any backend is a method here,
/// and its default body is the reference. Most methods are rows of the table in
/// `kernel/operations.rs`.
pub trait Backend: burn::tensor::backend::Backend {
    /// Maximum number of rows of a product, and of queries of attention, that kernels compute each alone.
    /// Then the result of a row does not depend on the number of rows.
    const MOST_SEPARATE_ROWS: usize = 4;

    /// True if [`draw`](super::draw) has a kernel. Then the host need not wait for logits. On a CPU there is no
    /// wait, and the host draws with less work.
    const DRAWS: bool = false;

    /// Returns the computing type of a network with these weights. It is the type of the weights,
    /// unless the backend has kernels that read weights in a narrower type than their input.
    ///
    /// "Weights" means matrices, filters and embedding tables. Biases, norms and other parameters
    /// that are applied element by element have the computing type.
    fn computes_in(weights: DType) -> DType {
        weights
    }

    /// Runs `work` inside the thread pool, so that the consecutive operations of a token or a step
    /// do not wake it again.
    fn on_pool<R: Send>(work: impl FnOnce() -> R + Send) -> R {
        work()
    }

    /// Returns an empty cache of zeros, `[rows, kv_heads, capacity, D]`.
    fn empty_cache(size: [usize; 4], device: &Self::Device, dtype: DType) -> FloatTensor<Self> {
        primitive(Tensor::<Self, 4>::zeros(size, (device, dtype)))
    }

    /// Returns the words of a matrix in int8, `[out, words]`, see
    /// [`quantize_q8`](super::quantize_q8). Only backends that compute with int8 weights implement
    /// it, and the operations on packed matrices.
    fn quantize_q8(weight: FloatTensor<Self>) -> IntTensor<Self> {
        let _ = weight;
        panic!("{} does not compute with int8 weights", std::any::type_name::<Self>())
    }

    /// Returns the number of words of a row of `width` weights in int8. A backend with
    /// [`Self::quantize_q8`] implements it.
    fn q8_words(width: usize) -> usize {
        let _ = width;
        panic!("{} does not compute with int8 weights", std::any::type_name::<Self>())
    }

    /// Returns the tensor of `words`, which [`Self::quantize_q8`] made and a file kept:
    /// `[out, words]`, of the type `U32`. A backend with [`Self::quantize_q8`] implements it.
    fn q8_from_words(words: TensorData, device: &Self::Device) -> IntTensor<Self> {
        let _ = (words, device);
        panic!("{} does not compute with int8 weights", std::any::type_name::<Self>())
    }

    /// Returns the words of a prepacked filter, of two dimensions, see
    /// [`pack_filter`](super::pack_filter); `None` if the kernels of this backend read the filter as
    /// it is.
    fn pack_filter(weight: FloatTensor<Self>, packing: Packing) -> Option<IntTensor<Self>> {
        let _ = (weight, packing);
        None
    }

    /// [`embedding`](super::embedding) in a packed table.
    fn packed_embedding(weight: Packed<Self, 2>, ids: IntTensor<Self>) -> FloatTensor<Self> {
        let _ = ids;
        weight.unread()
    }

    /// [`Self::product`] with a packed matrix.
    fn packed_product(x: FloatTensor<Self>, weight: Packed<Self, 2>) -> FloatTensor<Self> {
        let _ = x;
        weight.unread()
    }

    /// [`Self::conv1d`] with a prepacked filter.
    fn packed_conv1d(
        x: FloatTensor<Self>,
        weight: Packed<Self, 3>,
        bias: Option<FloatTensor<Self>>,
        geometry: ConvGeometry,
    ) -> FloatTensor<Self> {
        let _ = (x, bias, geometry);
        weight.unread()
    }

    /// [`Self::conv_transpose1d`] with a prepacked filter.
    fn packed_conv_transpose1d(
        x: FloatTensor<Self>,
        weight: Packed<Self, 3>,
        bias: Option<FloatTensor<Self>>,
        geometry: ConvGeometry,
    ) -> FloatTensor<Self> {
        let _ = (x, bias, geometry);
        weight.unread()
    }

    /// See [`rounded_as`](super::rounded_as).
    fn rounded_as(x: FloatTensor<Self>, weights: DType) -> FloatTensor<Self> {
        let _ = weights;
        x
    }

    /// See [`fused_conv1d`](super::fused_conv1d).
    fn fused_conv1d(
        x: Tensor<Self, 3>,
        conv: Convolution<Self>,
        layers: FusedLayers<Self>,
    ) -> Tensor<Self, 3> {
        reference::fused_conv1d(x, conv, layers)
    }

    /// See [`residual_units`](super::residual_units).
    fn residual_units(
        x: Tensor<Self, 3>,
        units: Vec<UnitTensors<Self>>,
        next: SnakeParams<Self>,
        seen: &mut dyn FnMut(usize, &Tensor<Self, 3>),
    ) -> Tensor<Self, 3> {
        reference::residual_units(x, units, next, seen)
    }

    /// See [`cached_layers`](super::cached_layers).
    fn cached_layers(
        x: Tensor<Self, 3>,
        layers: &mut dyn Iterator<Item = CachedLayer<'_, Self>>,
        new_tokens: &NewTokens<'_, Self>,
    ) -> Tensor<Self, 3> {
        reference::cached_layers(x, layers, new_tokens)
    }

    operations! { methods }
}
