//! One token through all layers of a language model, in one operation if the backend supports it.

use burn::tensor::{DType, Tensor, ops::FloatTensor};

use super::super::{
    Backend, CachedLayer, LayerWeights, NewTokens, Weight, layers, primitive, tensor,
};

/// Number of tensors per layer: eleven weights, in the order of [`weights`], then keys and values.
pub(super) const TENSORS: usize = 13;

/// A decoding step: one token each for sequences in consecutive rows of the cache.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoding {
    pub(super) hidden: usize,
    pub(super) inner: usize,
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    /// Width of a head.
    pub(super) width: usize,
    /// The type of all tensors.
    pub(super) dtype: DType,
    /// Number of positions that the cache can hold.
    pub(super) capacity: usize,
    pub(super) first_row: usize,
    /// Position of each token.
    pub(super) positions: Vec<usize>,
    pub(super) epsilon: f64,
}

/// Backends that may support the fused decoding step, and have products of their own.
#[doc(hidden)]
pub trait Decodes: Backend {
    /// True if products of this type are not left to Burn; it must be known before one is recorded.
    fn has_product(device: &Self::Device, dtype: DType) -> bool;

    /// True if [`Self::decode`] supports such a step on this device.
    fn decodes(device: &Self::Device, decoding: &Decoding) -> bool;

    /// Returns the output of the last layer, `[rows, 1, H]`, then the updated caches, two per
    /// layer.
    fn decode(
        x: FloatTensor<Self>,
        rope: [FloatTensor<Self>; 2],
        layers: Vec<[FloatTensor<Self>; TENSORS]>,
        decoding: Decoding,
    ) -> Vec<FloatTensor<Self>>;
}

/// See [`super::super::cached_layers`].
pub(super) fn cached_layers<B: Decodes>(
    x: Tensor<B, 3>,
    layers: &mut dyn Iterator<Item = CachedLayer<'_, B>>,
    new_tokens: &NewTokens<'_, B>,
) -> Tensor<B, 3> {
    let all: Vec<_> = layers.collect();
    let Some((decoding, rope, fused)) = fused(&x, &all, new_tokens) else {
        return layers::reference(x, &mut all.into_iter(), new_tokens);
    };
    let mut places = Vec::new();
    let mut tensors = Vec::new();
    for (own, (_, caches)) in fused.into_iter().zip(all) {
        let mut of_layer: Vec<FloatTensor<B>> = weights(own);
        for cache in caches {
            // The operation must own the cache, or it would copy it. A placeholder stands in until
            // then.
            let stand_in =
                Tensor::from_primitive(burn::tensor::TensorPrimitive::Float(primitive(x.clone())));
            of_layer.push(primitive(std::mem::replace(cache, stand_in)));
            places.push(cache);
        }
        let mut of_layer = of_layer.into_iter();
        tensors.push(std::array::from_fn(|_| of_layer.next().expect("thirteen tensors")));
    }
    let rope = rope.map(primitive);
    let mut outputs = B::decode(primitive(x), rope, tensors, decoding).into_iter();
    let x = tensor(outputs.next().expect("what comes out of the last layer"));
    for (place, cache) in places.into_iter().zip(outputs) {
        *place = tensor(cache);
    }
    x
}

/// A step, its rotary tables, and the weights of its layers.
type Fused<B> = (Decoding, [Tensor<B, 2>; 2], Vec<LayerWeights<B>>);

/// Returns the step, if the backend fuses it.
fn fused<B: Decodes>(
    x: &Tensor<B, 3>,
    layers: &[CachedLayer<'_, B>],
    new_tokens: &NewTokens<'_, B>,
) -> Option<Fused<B>> {
    // The kernel has no window.
    let rope = new_tokens.rope.clone().filter(|_| new_tokens.window.is_none())?;
    let weights = layers.iter().map(|(layer, _)| layer.fused_weights());
    let weights = weights.collect::<Option<Vec<_>>>()?;
    let decoding = decoding(x, weights.first()?, layers.first()?.1[0], new_tokens)?;
    B::decodes(&x.device(), &decoding).then_some((decoding, rope, weights))
}

/// Returns the sizes of a step, if it is one token per sequence with matching types.
fn decoding<B: Backend>(
    x: &Tensor<B, 3>,
    weights: &LayerWeights<B>,
    keys: &Tensor<B, 4>,
    new_tokens: &NewTokens<'_, B>,
) -> Option<Decoding> {
    let [slots, t, hidden] = x.dims();
    let ([width], [_, kv_heads, capacity, _]) = (weights.q_norm.dims(), keys.dims());
    let dtype = x.dtype();
    // The kernel would read the bytes of another type as this one.
    let LayerWeights { input_layernorm, q_proj, k_proj, v_proj, o_proj, q_norm, k_norm, .. } =
        weights;
    let LayerWeights { post_attention_layernorm, gate_proj, up_proj, down_proj, .. } = weights;
    let maps = [q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj].map(Weight::dtype);
    let norms = [input_layernorm, q_norm, k_norm, post_attention_layernorm].map(Tensor::dtype);
    let tables = new_tokens.rope.iter().flatten().map(Tensor::dtype);
    let mut others = maps.into_iter().chain(norms).chain(tables).chain([keys.dtype()]);
    let is_one = t == 1 && slots > 0 && others.all(|other| other == dtype);
    is_one.then(|| Decoding {
        hidden,
        inner: weights.gate_proj.dims()[0],
        heads: weights.q_proj.dims()[0] / width,
        kv_heads,
        width,
        dtype,
        capacity,
        first_row: new_tokens.slots[0].row,
        positions: new_tokens.slots.iter().map(|slot| slot.start).collect(),
        epsilon: weights.epsilon,
    })
}

/// Returns a layer's weights in the order of the operation.
fn weights<B: Backend>(of: LayerWeights<B>) -> Vec<FloatTensor<B>> {
    let LayerWeights { input_layernorm, q_proj, k_proj, v_proj, o_proj, q_norm, k_norm, .. } = of;
    let LayerWeights { post_attention_layernorm, gate_proj, up_proj, down_proj, .. } = of;
    let map = |weight: Weight<B, 2>| primitive(weight.plain().expect("no GPU packs weights"));
    vec![
        primitive(input_layernorm),
        map(q_proj),
        map(k_proj),
        map(v_proj),
        map(o_proj),
        primitive(q_norm),
        primitive(k_norm),
        primitive(post_attention_layernorm),
        map(gate_proj),
        map(up_proj),
        map(down_proj),
    ]
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    use super::*;
    use crate::kernel::{Mask, Slot, Visibility};
    use burn_flex::Flex;

    /// Returns true if a step is taken whose query norm and rotary tables have these types, the rest bf16.
    fn is_taken(of_norm: DType, of_tables: DType) -> bool {
        let device = burn_flex::FlexDevice;
        let vector = |dtype: DType| Tensor::<Flex, 1>::ones([2], (&device, dtype));
        let matrix = |dtype: DType| Tensor::<Flex, 2>::ones([2, 2], (&device, dtype));
        let (norm, map) = (|| vector(DType::BF16), || matrix(DType::BF16).into());
        let weights = LayerWeights {
            input_layernorm: norm(),
            q_proj: map(),
            k_proj: map(),
            v_proj: map(),
            o_proj: map(),
            q_norm: vector(of_norm),
            k_norm: norm(),
            post_attention_layernorm: norm(),
            gate_proj: map(),
            up_proj: map(),
            down_proj: map(),
            epsilon: 1e-6,
        };
        let new_tokens = NewTokens {
            slots: &[Slot { row: 0, start: 0 }],
            rope: Some([0, 1].map(|_| matrix(of_tables))),
            seen: 1,
            window: None,
            mask: Mask::by_position(Visibility::Full),
        };
        let x = Tensor::<Flex, 3>::ones([1, 1, 2], (&device, DType::BF16));
        let keys = Tensor::<Flex, 4>::ones([1, 1, 1, 2], (&device, DType::BF16));
        decoding(&x, &weights, &keys, &new_tokens).is_some()
    }

    #[test]
    fn a_step_has_one_type() {
        assert!(is_taken(DType::BF16, DType::BF16));
        assert!(!is_taken(DType::F32, DType::BF16));
        assert!(!is_taken(DType::BF16, DType::F32));
    }
}
