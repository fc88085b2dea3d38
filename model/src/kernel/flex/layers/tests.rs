//! Tests of tokens through layers against the separate operations, bit for bit.

use super::{
    super::{
        super::{CachingLayer, Mask, Weight, flags, quantize_q8},
        tests::random,
    },
    *,
};
use crate::kernel::flex::level::tests::{at_every_level, at_every_level_on};
use crate::{nn, testing::values};

const D: usize = 16;

/// Widths of the residual stream, of queries, of keys, and inside the feed-forward block.
type Widths = [usize; 4];

fn weights([hidden, queries, keys, inner]: Widths, dtype: DType) -> LayerWeights<Flex> {
    let map = |out, width: usize| {
        let map = random([out, width]) * (width as f32).powf(-0.5);
        if dtype == DType::I8 { quantize_q8(map) } else { map.cast(dtype).into() }
    };
    LayerWeights {
        input_layernorm: random([hidden]),
        q_proj: map(queries, hidden),
        k_proj: map(keys, hidden),
        v_proj: map(keys, hidden),
        o_proj: map(hidden, queries),
        q_norm: random([D]),
        k_norm: random([D]),
        post_attention_layernorm: random([hidden]),
        gate_proj: map(inner, hidden),
        up_proj: map(inner, hidden),
        down_proj: map(hidden, inner),
        epsilon: 1e-6,
    }
}

/// True if the kernel supports the layer.
fn is_taken(weights: &LayerWeights<Flex>) -> bool {
    let parts = Parts::of(weights.clone());
    match weights.q_proj.dtype() {
        DType::F32 => Layer::<f32>::of(&parts).is_some(),
        DType::BF16 => Layer::<u32>::of(&parts).is_some(),
        _ => Layer::<Group>::of(&parts).is_some(),
    }
}

/// Applies two layers both ways, with caches that are not empty.
#[track_caller]
fn assert_same(widths: Widths, rows: usize, layers: &[LayerWeights<Flex>; 2]) {
    let device = Default::default();
    let (kv_heads, capacity, seen) = (widths[2] / D, 64, 48);
    let dtypes = [0, 1].map(|layer| layers[layer].q_proj.dtype());
    let start = random([rows + 2, kv_heads, capacity, D]);
    let x = random([rows, 1, widths[0]]);
    // Sequences of different lengths, from the second row of the cache on.
    let slots: Vec<Slot> =
        (0..rows).map(|row| Slot { row: row + 1, start: 40 - row * 2 }).collect();
    let is_one = rows == 1;
    let real = |slot: &Slot| (0..seen).map(|j| j <= slot.start).collect();
    let mask = Mask {
        visibility: match is_one {
            true => Visibility::Causal { first: slots[0].start },
            false => Visibility::Full,
        },
        keys: match is_one {
            true => None,
            false => flags(&slots.iter().map(real).collect::<Vec<_>>(), &device),
        },
    };
    let rope = [random([rows, D / 2]), random([rows, D / 2])];
    let layers = layers.clone().map(nn::Layer::from);
    let new_tokens = NewTokens { slots: &slots, rope: Some(rope), seen, window: None, mask };
    let taken = |is_ours: bool| {
        let mut caches = [0, 1].map(|_| [start.clone(), start.clone() * 2.0]);
        let all = layers.iter().map(|layer| layer as &dyn CachingLayer<Flex>);
        let mut both = all.zip(caches.iter_mut().map(<[_; 2]>::each_mut));
        let x = match is_ours {
            true => cached_layers(x.clone(), &mut both, &new_tokens),
            false => layers::reference(x.clone(), &mut both, &new_tokens),
        };
        (values(x), caches.map(|cache| cache.map(values)))
    };
    let (ours, our_caches) = taken(true);
    assert!(ours.iter().all(|number| number.is_finite()));
    let (expected, caches) = taken(false);
    assert_eq!(ours, expected, "{widths:?}, {rows} rows, {dtypes:?}");
    assert!(our_caches == caches, "{widths:?}, {rows} rows, {dtypes:?}");
    assert_ne!(caches[0][0], values(start), "keys were written");
}

#[test]
fn tokens_are_taken_as_by_one_operation_after_the_other() {
    at_every_level(|| {
        for dtype in [DType::F32, DType::BF16, DType::I8] {
            for rows in [1, 2, 5, 16] {
                // On one core and on all; a stream that does not fill an int8 group.
                for widths in [[32, 64, 32, 96], [96, 64, 64, 160], [320, 192, 96, 512]] {
                    let layers = [dtype; 2].map(|dtype| weights(widths, dtype));
                    assert!(layers.iter().all(is_taken));
                    assert_same(widths, rows, &layers);
                }
            }
        }
    });
}

/// A work item is then a part of a chunk.
#[test]
fn tokens_are_the_same_on_many_cores() {
    at_every_level_on(64, || {
        for dtype in [DType::F32, DType::BF16, DType::I8] {
            let widths = [320, 192, 96, 512];
            assert_same(widths, 2, &[dtype; 2].map(|dtype| weights(widths, dtype)));
        }
    });
}

/// Rows that are not whole chunks, more rows than the limit, layers of different types.
#[test]
fn what_is_not_taken_so_is_taken_one_by_one() {
    at_every_level(|| {
        let layers = |widths, dtypes: [DType; 2]| dtypes.map(|dtype| weights(widths, dtype));
        let uneven = layers([40, 64, 32, 96], [DType::BF16; 2]);
        assert!(!uneven.iter().any(is_taken));
        assert_same([40, 64, 32, 96], 2, &uneven);
        assert_same([32, 64, 32, 96], 17, &layers([32, 64, 32, 96], [DType::BF16; 2]));
        assert_same([32, 64, 32, 96], 2, &layers([32, 64, 32, 96], [DType::I8, DType::F32]));
    });
}

/// As in a mapped file: a weight is a view into a larger buffer.
#[test]
fn maps_are_read_where_they_lie() {
    at_every_level(|| {
        let widths = [32, 64, 32, 96];
        for dtype in [DType::F32, DType::BF16, DType::I8] {
            let layers = [0, 1].map(|_| {
                let whole = weights([32, 64, 96, 96], dtype);
                let part = |map: Weight<Flex, 2>| map.rows(32..64);
                LayerWeights { k_proj: part(whole.k_proj), v_proj: part(whole.v_proj), ..whole }
            });
            assert!(layers.iter().all(is_taken));
            assert_same(widths, 2, &layers);
        }
    });
}
