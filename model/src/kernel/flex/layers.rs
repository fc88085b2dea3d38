//! One token for each of a few sequences through all layers, in memory that is allocated once.
//!
//! ```text
//! norm | queries, keys, values | rotate, cache | attention | output
//! norm | gates and ups         | gate                      | down
//! ```
//!
//! The cores share the products and the attention if that pays: five times per layer, where
//! separate operations would share work eight times. The rest is little work for so few rows. All
//! results equal those of the separate operations bit for bit.

mod layer;
#[cfg(test)]
mod tests;

use burn::tensor::{DType, Tensor};
use burn_flex::{Flex, FlexTensor};

use super::{
    super::{CachedLayer, LayerWeights, NewTokens, Slot, Visibility, layers, primitive, tensor},
    contiguous,
    eight::Group,
    matrix::Matrix,
    product::{MOST_ROWS, streamed::Weight},
};
use layer::{Layer, Scratch};

/// Kernel of [`super::super::Backend::cached_layers`], for one token per sequence.
pub(super) fn cached_layers(
    x: Tensor<Flex, 3>,
    layers: &mut dyn Iterator<Item = CachedLayer<'_, Flex>>,
    new_tokens: &NewTokens<'_, Flex>,
) -> Tensor<Flex, 3> {
    let [rows, t, _] = x.dims();
    let is_known = t == 1 && rows <= MOST_ROWS && x.dtype() == DType::F32;
    let Some(tables) = new_tokens.rope.clone().filter(|_| is_known) else {
        return layers::reference(x, layers, new_tokens);
    };
    let tables = tables.map(|table| contiguous(primitive(table)));
    let real = new_tokens.mask.keys.clone().map(|keys| keys.into_primitive().to_contiguous());
    let tokens = Tokens {
        slots: new_tokens.slots,
        tables: [0, 1].map(|i| tables[i].storage()),
        seen: new_tokens.seen,
        real: real.as_ref().map(FlexTensor::storage),
        visibility: new_tokens.mask.visibility,
    };
    let mut room = Scratch::default();
    let mut x = contiguous(primitive(x));
    for (layer, mut cache) in layers {
        let is_done = layer.fused_weights().is_some_and(|weights| {
            let parts = Parts::of(weights);
            match parts.maps[0].dtype() {
                DType::F32 => through::<f32>(&parts, &tokens, &mut x, &mut cache, &mut room),
                // Two weights per word.
                DType::BF16 => through::<u32>(&parts, &tokens, &mut x, &mut cache, &mut room),
                DType::I8 => through::<Group>(&parts, &tokens, &mut x, &mut cache, &mut room),
                _ => false,
            }
        });
        if !is_done {
            x = contiguous(primitive(layer.forward_cached(tensor(x), cache, new_tokens)));
        }
    }
    tensor(x)
}

/// Applies a layer to `x` and returns true, if its weights have the layout that the kernel reads.
fn through<W: Weight>(
    parts: &Parts,
    tokens: &Tokens<'_>,
    x: &mut FlexTensor,
    cache: &mut [&mut Tensor<Flex, 4>; 2],
    room: &mut Scratch,
) -> bool {
    let Some(layer) = Layer::<W>::of(parts) else { return false };
    let [keys, values] = cache;
    if keys.dtype() != DType::F32 {
        return false;
    }
    let capacity = keys.dims()[2];
    let x: &mut [f32] = x.storage_mut();
    numbers_of(keys, |keys| {
        numbers_of(values, |values| layer.take(tokens, x, ([keys, values], capacity), room));
    });
    true
}

/// Changes a tensor in place if it is not shared.
#[expect(clippy::disallowed_methods, reason = "on a CPU an empty tensor needs no memory")]
fn numbers_of(x: &mut Tensor<Flex, 4>, change: impl FnOnce(&mut [f32])) {
    x.inplace(|x| {
        let mut x = contiguous(primitive(x));
        change(x.storage_mut());
        tensor(x)
    });
}

/// One token per sequence.
struct Tokens<'a> {
    slots: &'a [Slot],
    /// Cosines and sines, `[slots, D / 2]` each.
    tables: [&'a [f32]; 2],
    /// Number of cache positions to attend to.
    seen: usize,
    /// `[slots, seen]`, zero = hidden.
    real: Option<&'a [u8]>,
    visibility: Visibility,
}

/// [`LayerWeights`] as the CPU stores them.
struct Parts {
    /// Queries, keys, values, outputs; gates, ups, downs.
    maps: [Matrix; 7],
    /// Norms before attention, of queries, of keys, before the feed-forward block.
    norms: [FlexTensor; 4],
    epsilon: f64,
}

impl Parts {
    fn of(weights: LayerWeights<Flex>) -> Self {
        let LayerWeights { q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj, .. } =
            weights;
        let LayerWeights { input_layernorm, q_norm, k_norm, post_attention_layernorm, .. } =
            weights;
        let maps = [q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj];
        let norms = [input_layernorm, q_norm, k_norm, post_attention_layernorm];
        let epsilon = weights.epsilon;
        Self { maps: maps.map(Matrix::from), norms: norms.map(primitive), epsilon }
    }
}
