//! Tests of layers with random options against their formula in f64, with and without a cache.

mod formula;

use burn::module::{ModuleMapper, Param};
use burn_flex::{Flex, FlexDevice};

use formula::{Formula, Rows, rows, sum};

use super::*;
use crate::{
    Place,
    kernel::{Slot, Visibility},
    nn::{Activation, Cache, NormKind, rng::Rng},
    testing::random,
};

const DEVICE: FlexDevice = FlexDevice;
const EPSILON: f64 = 1e-5;

/// Returns the options of some layer.
pub(in super::super) fn some_spec(rng: &mut Rng) -> LayerSpec {
    let kv_heads = rng.of(&[1, 2]);
    let shape = LayerShape {
        hidden: rng.of(&[16, 32]),
        intermediate: rng.of(&[32, 48]),
        heads: kv_heads * rng.of(&[1, 2]),
        kv_heads,
        head_dim: rng.of(&[8, 16]),
        epsilon: EPSILON,
    };
    LayerSpec {
        shape,
        norm: rng.of(&[
            NormKind::Rms,
            NormKind::Layer { bias: false },
            NormKind::Layer { bias: true },
        ]),
        head_norms: rng.of(&[true, false]),
        activation: rng.of(&[Activation::SwiGlu, Activation::Gelu]),
        layer_scale: rng.of(&[false, false, true]),
    }
}

/// Replaces norms and biases, which are nearly the same for all channels, by various numbers.
struct Various;

impl ModuleMapper<Flex> for Various {
    fn map_float<const D: usize>(
        &mut self,
        param: Param<Tensor<Flex, D>>,
    ) -> Param<Tensor<Flex, D>> {
        param.map(|x| if D == 1 { random(x.dims()) * 0.5 + 1.0 } else { x })
    }
}

pub(in super::super) fn some_layer(spec: &LayerSpec) -> Layer<Flex> {
    Layer::init(spec, &DEVICE).map(&mut Various)
}

#[track_caller]
fn assert_close(ours: &Rows, expected: &Rows, about: &str) {
    assert_eq!(ours.len(), expected.len());
    for (ours, expected) in ours.iter().flatten().zip(expected.iter().flatten()) {
        let error = (ours - expected).abs() / expected.abs().max(1.0);
        assert!(error < 5e-5, "{about}: {ours} is not {expected}");
    }
}

#[test]
fn a_layer_of_any_options_is_its_formula() {
    let mut rng = Rng(11);
    for round in 0..60 {
        let spec = some_spec(&mut rng);
        let layer = some_layer(&spec);
        let (length, theta) = (rng.of(&[1, 7, 20]), rng.of(&[None, Some(1e4), Some(50.0)]));
        let visibility = rng.of(&[
            Visibility::Full,
            Visibility::Causal { first: 0 },
            Visibility::Window(3),
            Visibility::CausalWindow { first: 0, width: 4 },
        ]);
        let x = random([1, length, spec.shape.hidden]);
        let sees = |i: usize, j: usize| visibility.seen(i, length).contains(&j);
        let expected = Formula::of(&layer, spec, theta, &sees).layer(rows(x.clone()));

        let rope =
            theta.map(|theta| Rope::new(length, spec.shape.head_dim, theta, &Place::f32(DEVICE)));
        let mask = Mask::by_position(visibility);
        let context = Context { rope: rope.as_ref(), mask: &mask };
        let about = format!("{round}: {spec:?} {visibility:?} {theta:?}");
        let first = layer.forward_first(x.clone(), &context);
        assert_close(&rows(first), &expected[..1].to_vec(), &about);
        assert_close(&rows(layer.forward(x, &context, None)), &expected, &about);
    }
}

/// It has no positions, and hides no key.
#[test]
fn attention_to_another_sequence_is_its_formula() {
    let mut rng = Rng(13);
    for round in 0..30 {
        let spec = some_spec(&mut rng);
        let layer = some_layer(&spec);
        let width = spec.shape.hidden;
        let (x, source) = (random([1, 7, width]), random([1, 9, width]));
        let formula = Formula::of(&layer, spec, None, &|_, _| false);
        let attended = formula.attention(&rows(x.clone()), &rows(source.clone()), false);
        let (residual, attention) = (random([1, 7, width]), &layer.self_attn);
        let expected = sum(rows(residual.clone()), attended);
        let mixed = attention.mixed_cross(x, &attention.keys_values(source));
        let ours = attention.add_output(residual, None, mixed, format_args!(""), &mut NoTap);
        assert_close(&rows(ours), &expected, &format!("{round}: {spec:?}"));
    }
}

/// The cache receives the sequence in pieces of random lengths.
#[test]
fn a_layer_with_a_cache_is_its_formula() {
    const LENGTH: usize = 23;
    let mut rng = Rng(12);
    for round in 0..40 {
        let spec = some_spec(&mut rng);
        let layer = some_layer(&spec);
        let theta = rng.of(&[None, Some(1e4), Some(50.0)]);
        let width = rng.of(&[1000, 5]);
        let x = random([1, LENGTH, spec.shape.hidden]);
        let sees = |i: usize, j: usize| j <= i && i - j < width;
        let expected = Formula::of(&layer, spec, theta, &sees).layer(rows(x.clone()));

        let place = Place::f32(DEVICE);
        let mut cache = Cache::new(&spec.shape, 1, 2, LENGTH, &place);
        let (mut ours, mut first) = (Vec::new(), 0);
        while first < LENGTH {
            let count = rng.of(&[1, 2, 6, 9]).min(LENGTH - first);
            let rope = theta
                .map(|theta| Rope::at(first..first + count, spec.shape.head_dim, theta, &place));
            let mask = Mask::by_position(Visibility::CausalWindow { first, width });
            let context = Context { rope: rope.as_ref(), mask: &mask };
            let slots = [Slot { row: 1, start: first }];
            let cache = cache.layers_mut().next().expect("a layer");
            let past = Past { cache, slots: &slots, seen: first + count };
            let piece = x.clone().narrow(1, first, count);
            ours.extend(rows(layer.forward(piece, &context, Some(past))));
            first += count;
        }
        assert_close(&ours, &expected, &format!("{round}: {spec:?} {theta:?} {width}"));
    }
}
