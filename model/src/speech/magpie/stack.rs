//! Layers with learned positions before them and a norm after them.
//!
//! Source: NeMo 3.0.0 `transformer_2501.py`, `Transformer`.

use std::ops::Range;

use burn::{module::Module, tensor::Tensor};

use super::{
    StackConfig,
    layer::{Cross, EPSILON, Layer, norm},
};
use crate::{
    Backend, NoTap, Place, Tap,
    kernel::{Mask, Slot, Visibility},
    nn::{Cache, KeysValues, LayerShape, LookupTable, Norm, Past, STEP, ids_in_rows},
};

/// Layers, positions and the norm after them.
#[derive(Module, Debug)]
pub(super) struct Stack<B: Backend> {
    pub(super) layers: Vec<Layer<B>>,
    position_embeddings: LookupTable<B>,
    norm_out: Option<Norm<B>>,
    heads: usize,
    width: usize,
}

impl<B: Backend> Stack<B> {
    /// Creates the layers; `cross` is the width of the memory, the heads and their width.
    pub(super) fn init(
        config: &StackConfig,
        cross: Option<[usize; 3]>,
        device: &B::Device,
    ) -> Self {
        let &StackConfig { n_layers, d_model, sa_n_heads, max_length_causal_mask, .. } = config;
        Self {
            layers: (0..n_layers).map(|_| Layer::init(config, cross, device)).collect(),
            position_embeddings: LookupTable::init(max_length_causal_mask, d_model, device),
            norm_out: config.has_norm_out().then(|| norm(d_model, device)),
            heads: sa_n_heads,
            width: d_model,
        }
    }

    /// Returns the number of positions.
    pub(super) fn positions(&self) -> usize {
        self.position_embeddings.rows()
    }

    /// Returns the width of a row.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// Adds the positions from `start` on.
    ///
    /// # Panics
    /// If the table has fewer positions.
    ///
    /// # Shapes
    /// - `x`, output: `[B, T, D]`
    pub(super) fn positioned(&self, x: Tensor<B, 3>, start: usize) -> Tensor<B, 3> {
        let end = start + x.dims()[1];
        assert!(end <= self.positions(), "{end} rows, but {} positions", self.positions());
        let ids = ids_in_rows(start as u32..end as u32, 1, &x.device());
        let rows = self.position_embeddings.forward(ids);
        let dtype = x.dtype();
        x + rows.cast(dtype)
    }

    /// Applies the norm after the layers, if there is one.
    pub(super) fn finished(&self, x: Tensor<B, 3>) -> Tensor<B, 3> {
        match &self.norm_out {
            Some(norm) => norm.forward(x),
            None => x,
        }
    }

    /// Creates an empty cache of `rows` sequences for at most `capacity` positions.
    pub(super) fn cache(&self, rows: usize, capacity: usize, place: &Place<B>) -> Cache<B> {
        let (heads, head_dim) = (self.heads, self.width / self.heads);
        let shape = LayerShape {
            hidden: self.width,
            intermediate: self.width,
            heads,
            kv_heads: heads,
            head_dim,
            epsilon: EPSILON,
        };
        Cache::new(&shape, self.layers.len(), rows, capacity, place)
    }

    /// Applies the layers from `first` on to whole sequences of their rows, without the norm. `seen` gets
    /// the weights of each layer with cross attention. Taps `layer{i}` and its parts.
    ///
    /// # Shapes
    /// - `x`, output: `[B, T, D]`
    pub(super) fn forward<'a, T: Tap<B>>(
        &self,
        first: usize,
        mut x: Tensor<B, 3>,
        cross: impl Fn(usize) -> Option<Cross<'a, B>>,
        mut seen: impl FnMut(usize, Tensor<B, 4>),
        tap: &mut T,
    ) -> Tensor<B, 3> {
        let mask = Mask::by_position(Visibility::Causal { first: 0 });
        for (index, layer) in self.layers.iter().enumerate().skip(first) {
            let name = format_args!("layer{index}");
            let (y, weights) = layer.forward(x, &mask, None, cross(index), name, tap);
            x = y;
            if let Some(weights) = weights {
                seen(index, weights);
            }
        }
        x
    }

    /// Applies the layers in `range` to the next positioned rows of the sequences `rows`, which
    /// have equal lengths in the cache. Does not advance it. `seen` gets the weights of each layer
    /// with cross attention.
    ///
    /// # Shapes
    /// - `x`, output: `[rows, T, D]`
    #[expect(clippy::too_many_arguments, reason = "each is another part of one step")]
    pub(super) fn forward_next<'a>(
        &self,
        range: Range<usize>,
        mut x: Tensor<B, 3>,
        rows: Range<usize>,
        start: usize,
        cache: &mut Cache<B>,
        cross: impl Fn(usize) -> Option<Cross<'a, B>>,
        mut seen: impl FnMut(usize, Tensor<B, 4>),
    ) -> Tensor<B, 3> {
        let slots: Vec<Slot> = rows.map(|row| Slot { row, start }).collect();
        let end = start + x.dims()[1];
        assert!(end <= cache.capacity(), "{end} rows, room for {}", cache.capacity());
        // The mask hides the positions up to the multiple.
        let all = end.next_multiple_of(STEP);
        let mask = Mask::by_position(Visibility::Causal { first: start });
        let layers = self.layers.iter().zip(cache.layers_mut()).enumerate();
        for (index, (layer, cache)) in layers.take(range.end).skip(range.start) {
            let past = Past { cache, slots: &slots, seen: all };
            let name = format_args!("");
            let (y, weights) = layer.forward(x, &mask, Some(past), cross(index), name, &mut NoTap);
            x = y;
            if let Some(weights) = weights {
                seen(index, weights);
            }
        }
        x
    }

    /// Prepares the memory for the cross attention of each layer.
    pub(super) fn memories(&self, memory: &Tensor<B, 3>) -> Vec<KeysValues<B>> {
        self.layers.iter().filter_map(|layer| layer.memory(memory.clone())).collect()
    }
}
