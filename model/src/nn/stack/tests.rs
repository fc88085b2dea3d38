//! Tests of stacks of layers: fused kernels against the definition, and pieces against a whole.

use burn::tensor::DType;
use burn_flex::{Flex, FlexDevice};

use super::*;
use crate::{
    Place,
    nn::{
        Context, LayerShape, LayerSpec,
        layer::tests::{some_layer, some_spec},
        rng::Rng,
    },
    testing::{random, values},
};

/// Options that may be fused, or others; the same sizes for all layers.
fn some_layers(rng: &mut Rng) -> (LayerSpec, Vec<Layer<Flex>>) {
    let first = some_spec(rng);
    // The kernel for the CPU fuses maps of whole chunks of 32 rows.
    let whole = LayerShape {
        hidden: 32,
        intermediate: 96,
        heads: 4,
        kv_heads: 2,
        head_dim: 16,
        ..first.shape
    };
    let first = LayerSpec { shape: rng.of(&[whole, first.shape]), ..first };
    let layers = (0..4).map(|_| {
        let other = LayerSpec { shape: first.shape, ..some_spec(rng) };
        some_layer(&rng.of(&[other, LayerSpec::new(first.shape)]))
    });
    (first, layers.collect())
}

/// Returns the cache of four layers after `lengths` tokens, with random content.
fn some_cache(spec: &LayerSpec, lengths: &[usize]) -> Cache<Flex> {
    let place = Place::f32(FlexDevice);
    let mut cache = Cache::new(&spec.shape, 4, lengths.len(), 40, &place);
    for (row, &length) in lengths.iter().enumerate() {
        let part = || random([1, spec.shape.kv_heads, length, spec.shape.head_dim]);
        cache.set_row(row, (0..4).map(|_| [part(), part()]).collect());
    }
    cache
}

/// One token for each of several sequences, with windows and without: equal to the bit.
#[test]
fn fused_layers_are_the_definition_for_any_options() {
    let mut rng = Rng(21);
    let mut fused = 0;
    for round in 0..40 {
        let (spec, layers) = some_layers(&mut rng);
        let rope_theta = rng.of(&[None, Some(1e4), Some(1e4), Some(50.0)]);
        let positions = Positions { rope_theta, window: rng.of(&[None, Some(1), Some(7)]) };
        let cache = some_cache(&spec, [&[30][..], &[5, 30, 17]][round % 2]);
        let slots = cache.next(0..cache.rows());
        let x = random([slots.len(), 1, spec.shape.hidden]);
        let new_tokens = new_tokens(&x, &slots, positions, &cache);
        let by = |is_fused: bool| {
            let mut cache = cache.clone();
            let all = layers.iter().map(|layer| layer as &dyn CachingLayer<Flex>);
            let mut all = all.zip(cache.layers_mut());
            let y = match is_fused {
                true => kernel::cached_layers(x.clone(), &mut all, &new_tokens),
                false => kernel::reference::cached_layers(x.clone(), &mut all, &new_tokens),
            };
            drop(all);
            cache.advance(&slots, 1);
            let held: Vec<_> = (0..slots.len()).flat_map(|row| cache.row(row)).collect();
            let held: Vec<_> = held.into_iter().flatten().map(values).collect();
            (values(y), held)
        };
        fused += layers.iter().filter(|layer| layer.fused_weights().is_some()).count();
        assert!(by(true) == by(false), "{round}: {layers:?} {positions:?}");
    }
    assert!(fused > 40, "only {fused} layers were fused");
}

/// Pieces of one sequence, then single tokens of several: as each sequence at once, without a cache.
#[test]
fn pieces_and_steps_are_the_whole_sequence() {
    let mut rng = Rng(22);
    for round in 0..20 {
        let (spec, layers) = some_layers(&mut rng);
        let (theta, window) = (rng.of(&[None, Some(1e4)]), rng.of(&[None, Some(3), Some(9)]));
        let positions = Positions { rope_theta: theta, window };
        let place = Place { device: FlexDevice, dtype: DType::F32 };
        let mut cache = Cache::new(&spec.shape, layers.len(), 3, 30, &place);
        let lengths = [8, 20, 13];
        let whole = lengths.map(|length| random([1, length + 2, spec.shape.hidden]));
        let mut ours = [const { Vec::new() }; 3];
        for (row, x) in whole.iter().enumerate() {
            let mut first = 0;
            while first < lengths[row] {
                let count = rng.of(&[1, 4, 11]).min(lengths[row] - first);
                let piece = x.clone().narrow(1, first, count);
                if let Some(width) = window {
                    // Positions before the window may go.
                    cache.keep_last(row, width - 1 + rng.of(&[0, 1, 100]));
                }
                let slots = cache.next(row..row + 1);
                ours[row].push(forward_cached(&layers, piece, &slots, positions, &mut cache));
                first += count;
            }
        }
        for step in 0..2 {
            let next = whole.iter().zip(lengths);
            let next = next.map(|(x, length)| x.clone().narrow(1, length + step, 1)).collect();
            let slots = cache.next(0..3);
            let y = forward_cached(&layers, Tensor::cat(next, 0), &slots, positions, &mut cache);
            (0..3).for_each(|row| ours[row].push(y.clone().narrow(0, row, 1)));
        }
        for (x, ours) in whole.into_iter().zip(ours) {
            let length = x.dims()[1];
            let rope = theta.map(|theta| Rope::new(length, spec.shape.head_dim, theta, &place));
            let mask = Mask::by_position(match window {
                None => Visibility::Causal { first: 0 },
                Some(width) => Visibility::CausalWindow { first: 0, width },
            });
            let context = Context { rope: rope.as_ref(), mask: &mask };
            let expected = layers.iter().fold(x, |x, layer| layer.forward(x, &context, None));
            for (a, b) in values(Tensor::cat(ours, 1)).into_iter().zip(values(expected)) {
                assert!((a - b).abs() < 1e-4 * b.abs().max(1.0), "{round}: {a} {b} {layers:?}");
            }
        }
    }
}
