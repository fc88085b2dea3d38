//! Layers over new tokens whose keys and values a cache holds.

use burn::tensor::Tensor;

use super::{Cache, Layer, Rope, STEP, place_of};
use crate::{
    Backend,
    kernel::{self, CachingLayer, Mask, NewTokens, Slot, Visibility, flags},
};

/// The positions of a stack of layers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Positions {
    /// Base of the rotary angles; `None` if the heads are not rotated.
    pub(crate) rope_theta: Option<f64>,
    /// Number of last positions that each position sees, its own included; `None` for all.
    pub(crate) window: Option<usize>,
}

/// Applies layers to new tokens and adds their keys and values to the cache: several tokens of one
/// sequence, or one token for each of several sequences.
///
/// # Panics
/// Several tokens for each of several sequences, or a cache without room for them.
///
/// # Shapes
/// - `x`, output: `[slots, t, H]`
pub(crate) fn forward_cached<B: Backend>(
    layers: &[Layer<B>],
    x: Tensor<B, 3>,
    slots: &[Slot],
    positions: Positions,
    cache: &mut Cache<B>,
) -> Tensor<B, 3> {
    let new_tokens = new_tokens(&x, slots, positions, cache);
    let t = x.dims()[1];
    let x = {
        let layers = layers.iter().map(|layer| layer as &dyn CachingLayer<B>);
        kernel::cached_layers(x, &mut layers.zip(cache.layers_mut()), &new_tokens)
    };
    cache.advance(slots, t);
    x
}

/// Returns positions and mask of the new tokens `x`.
fn new_tokens<'a, B: Backend>(
    x: &Tensor<B, 3>,
    slots: &'a [Slot],
    Positions { rope_theta, window }: Positions,
    cache: &Cache<B>,
) -> NewTokens<'a, B> {
    let [_, t, _] = x.dims();
    assert!(t == 1 || slots.len() == 1, "{t} tokens for each of {} sequences", slots.len());
    let ends: Vec<usize> = slots.iter().map(|slot| slot.start + t).collect();
    let seen = ends.iter().copied().max().unwrap_or(0);
    assert!(seen <= cache.capacity(), "{seen} tokens, room for {}", cache.capacity());
    let seen = seen.next_multiple_of(STEP);
    let mask = match (slots, window) {
        (&[Slot { start: first, .. }], None) => Mask::by_position(Visibility::Causal { first }),
        (&[Slot { start: first, .. }], Some(width)) => {
            Mask::by_position(Visibility::CausalWindow { first, width })
        }
        _ => {
            let row = |&end: &usize| {
                let first = window.map_or(0, |width| end.saturating_sub(width));
                (0..seen).map(|j| (first..end).contains(&j)).collect()
            };
            let keys = flags(&ends.iter().map(row).collect::<Vec<_>>(), &x.device());
            Mask { visibility: Visibility::Full, keys }
        }
    };
    let rope = rope_theta.map(|theta| {
        let first = |slot: &Slot| cache.dropped(slot.row) + slot.start;
        let positions = slots.iter().flat_map(|slot| first(slot)..first(slot) + t);
        Rope::at(positions, cache.head_dim(), theta, &place_of(x)).tables().into()
    });
    NewTokens { slots, rope, seen, window, mask }
}

#[cfg(all(test, feature = "cpu"))]
mod tests;
