//! The inputs of an operation on a device, and both ways to compute it.

use acestep_model::{
    Backend, Place,
    kernel::{
        self, CachingLayer, ConvGeometry, LayerWeights, Mask, NewTokens, Slot, Visibility,
        reference,
    },
    nn::Layer,
};
use burn::tensor::{DType, Int, Tensor, TensorData};
use half::{bf16, f16};

use super::operation::{Attention, Hidden, Operation, Output};

/// An operation with its inputs on a device.
pub(crate) struct Ready<B: Backend> {
    /// The operation as the networks call it.
    pub(crate) front: Box<dyn Fn() -> Output<B>>,
    /// The reference operations that define it.
    pub(crate) reference: Box<dyn Fn() -> Output<B>>,
}

const EPSILON: f64 = 1e-6;

/// The released codebook's levels, and its number of codes.
const LEVELS: &[u32] = &[8, 8, 8, 5, 5, 5];
const CODES: i32 = 64_000;

impl Operation {
    /// Puts the inputs on a device: values rounded to `rounding`, in the type of `place`.
    pub(crate) fn ready<B: Backend>(self, place: &Place<B>, rounding: DType) -> Ready<B> {
        let inputs = Inputs { place, rounding };
        match self {
            Self::RmsNorm([rows, width]) => {
                let (x, weight) = (inputs.tensor([rows, width], 1), inputs.tensor([width], 2));
                let ways =
                    [kernel::rms_norm::<B, 2> as fn(_, _, _) -> _, reference::rms_norm::<B, 2>];
                both(ways, move |compute| Output::Two(compute(x.clone(), weight.clone(), EPSILON)))
            }
            Self::AdaNorm([batch, length, width]) => {
                let x = inputs.tensor([batch, length, width], 1);
                let weight = inputs.tensor([width], 2);
                let [shift, scale] = [3, 4].map(|seed| inputs.tensor([batch, 1, width], seed));
                let ways =
                    [kernel::ada_norm::<B> as fn(_, _, _, _, _) -> _, reference::ada_norm::<B>];
                both(ways, move |compute| {
                    let [shift, scale] = [&shift, &scale].map(Clone::clone);
                    Output::Three(compute(x.clone(), weight.clone(), EPSILON, shift, scale))
                })
            }
            Self::NormRotate([batch, length, heads, width]) => {
                let x = inputs.tensor([batch, length, heads, width], 1);
                let weight = inputs.tensor([width], 2);
                let positions = if length == 1 { batch } else { length };
                let [cos, sin] = [3, 4].map(|seed| inputs.tensor([positions, width / 2], seed));
                let ways = [
                    kernel::norm_rotate::<B> as fn(_, _, _, _, _) -> _,
                    reference::norm_rotate::<B>,
                ];
                both(ways, move |compute| {
                    let [cos, sin] = [&cos, &sin].map(Clone::clone);
                    Output::Four(compute(x.clone(), weight.clone(), EPSILON, cos, sin))
                })
            }
            Self::Swiglu(sizes) => {
                let [gate, up] = [1, 2].map(|seed| inputs.tensor(sizes, seed));
                let ways = [kernel::swiglu::<B, 2> as fn(_, _) -> _, reference::swiglu::<B, 2>];
                both(ways, move |compute| Output::Two(compute(gate.clone(), up.clone())))
            }
            Self::Attend(attention) => attention.ready(&inputs),
            Self::Snake([batch, channels, samples]) => {
                let x = inputs.tensor([batch, channels, samples], 1);
                let [alpha, beta] = [2, 3].map(|seed| inputs.tensor([1, channels, 1], seed));
                let ways = [kernel::snake::<B> as fn(_, _, _) -> _, reference::snake::<B>];
                both(ways, move |compute| {
                    Output::Three(compute(x.clone(), alpha.clone(), beta.clone()))
                })
            }
            Self::AddSnake([batch, channels, samples]) => {
                let [x, y] = [1, 4].map(|seed| inputs.tensor([batch, channels, samples], seed));
                let [alpha, beta] = [2, 3].map(|seed| inputs.tensor([1, channels, 1], seed));
                let ways =
                    [kernel::add_snake::<B> as fn(_, _, _, _) -> _, reference::add_snake::<B>];
                both(ways, move |compute| {
                    let [alpha, beta] = [&alpha, &beta].map(Clone::clone);
                    Output::Pair(compute(x.clone(), y.clone(), alpha, beta))
                })
            }
            Self::ConvTranspose([batch, input, output, samples, stride]) => {
                let x = inputs.tensor([batch, input, samples], 1);
                let weight = inputs.tensor([input, output, 2 * stride], 2);
                let bias = inputs.tensor([output], 3);
                let geometry =
                    ConvGeometry { stride, padding: [stride.div_ceil(2); 2], ..Default::default() };
                let ways = [kernel::conv_transpose1d::<B>, reference::conv_transpose1d::<B>];
                both(ways, move |compute| {
                    let bias = Some(bias.clone());
                    Output::Three(compute(x.clone(), weight.clone(), bias, geometry))
                })
            }
            Self::Conv([batch, input, output, samples, taps, dilation]) => {
                let x = inputs.tensor([batch, input, samples], 1);
                let weight = inputs.tensor([output, input, taps], 2);
                let bias = inputs.tensor([output], 3);
                let padding = dilation * (taps - 1) / 2;
                let geometry =
                    ConvGeometry { padding: [padding; 2], dilation, ..Default::default() };
                let ways = [kernel::conv1d::<B> as fn(_, _, _, _) -> _, reference::conv1d::<B>];
                both(ways, move |compute| {
                    let bias = Some(bias.clone());
                    Output::Three(compute(x.clone(), weight.clone(), bias, geometry))
                })
            }
            Self::CacheWrite([rows, heads, capacity, width, new_rows, new]) => {
                let cache = inputs.tensor([rows, heads, capacity, width], 1);
                let written = inputs.tensor([new_rows, heads, new, width], 2);
                // Write to the last rows, but not to the last position.
                let slot = |item| Slot {
                    row: rows - new_rows + item,
                    start: (capacity - new) / (item + 1),
                };
                let slots: Vec<Slot> = (0..new_rows).map(slot).collect();
                let ways = [
                    kernel::cache_write::<B> as fn(_, _, &[Slot]) -> _,
                    reference::cache_write::<B>,
                ];
                both(ways, move |compute| {
                    Output::Four(compute(cache.clone(), written.clone(), &slots))
                })
            }
            Self::CodeTokens([count, channels, window, width]) => {
                let codes: Vec<i32> = (0..count as i32).map(|i| i * 7919 % CODES).collect();
                let codes =
                    Tensor::<B, 1, Int>::from_data(TensorData::new(codes, [count]), &place.device);
                let project = inputs.tensor([channels, LEVELS.len()], 1);
                let embed = inputs.tensor([width, channels], 2);
                let bias = inputs.tensor([width], 3);
                let places = inputs.tensor([window, width], 4);
                let ways = [kernel::code_tokens::<B>, reference::code_tokens::<B>];
                both(ways, move |compute| {
                    let embed = (embed.clone().into(), Some(bias.clone()));
                    let project = (project.clone().into(), None);
                    Output::Three(compute(codes.clone(), LEVELS, project, embed, places.clone()))
                })
            }
            Self::Draw([rows, ids, top_k]) => {
                let [logits, exponentials] =
                    [1, 2].map(|seed| inputs.tensor([rows, ids], seed).cast(DType::F32));
                let (logits, exponentials) = (logits * 8.0, exponentials.abs() + 0.01);
                let ways = [kernel::draw::<B> as fn(_, _, _, _) -> _, reference::draw::<B>];
                both(ways, move |compute| {
                    let ids = compute(logits.clone(), exponentials.clone(), 0.9, top_k);
                    Output::Two(ids.float())
                })
            }
            Self::CachedLayers(sizes) => cached_layers(sizes, &inputs),
            Self::Product([rows, input, output]) => {
                let x = inputs.tensor([rows, input], 1);
                let weight = inputs.tensor([output, input], 2);
                let front = |x, weight| kernel::linear::<B, 2>(x, weight, None);
                both([front as fn(_, _) -> _, reference::product::<B>], move |compute| {
                    Output::Two(compute(x.clone(), weight.clone()))
                })
            }
        }
    }
}

/// Runs two tokens of several sequences, one after the other, so that the second attends to the
/// first.
fn cached_layers<B: Backend>(
    [layers, hidden, inner, heads, kv_heads, width, rows, position]: [usize; 8],
    inputs: &Inputs<'_, B>,
) -> Ready<B> {
    let x = inputs.tensor([rows, 1, hidden], 1);
    // Scale the weights so that outputs are as large as inputs.
    let map = |output: usize, input: usize, seed: u32| {
        inputs.tensor([output, input], seed) * (3.0 / input as f64).sqrt()
    };
    let network: Vec<Layer<B>> = (0..layers as u32)
        .map(|layer| {
            let seed = |i: u32| 2 + 20 * layer + i;
            Layer::from(LayerWeights {
                input_layernorm: inputs.tensor([hidden], seed(0)),
                q_proj: map(heads * width, hidden, seed(1)).into(),
                k_proj: map(kv_heads * width, hidden, seed(2)).into(),
                v_proj: map(kv_heads * width, hidden, seed(3)).into(),
                o_proj: map(hidden, heads * width, seed(4)).into(),
                q_norm: inputs.tensor([width], seed(5)) * 2.0,
                k_norm: inputs.tensor([width], seed(6)) * 2.0,
                post_attention_layernorm: inputs.tensor([hidden], seed(7)),
                gate_proj: map(inner, hidden, seed(8)).into(),
                up_proj: map(inner, hidden, seed(9)).into(),
                down_proj: map(hidden, inner, seed(10)).into(),
                epsilon: EPSILON,
            })
        })
        .collect();
    // Has space for both tokens, and an unused first row.
    let capacity = (position + 2).next_multiple_of(16);
    let cache = |seed| inputs.tensor([rows + 1, kv_heads, capacity, width], seed);
    let caches: Vec<[Tensor<B, 4>; 2]> =
        (0..layers as u32).map(|i| [cache(1000 + 2 * i), cache(1001 + 2 * i)]).collect();
    let rope = [3, 4].map(|seed| inputs.tensor([rows, width / 2], seed));
    let device = inputs.place.device.clone();
    both([true, false], move |&is_front| {
        let mut caches = caches.clone();
        let mut x = x.clone();
        for step in 0..2 {
            // Sequences of different lengths.
            let starts = (0..rows).map(|row| (position + step).saturating_sub(row * 7));
            let slots: Vec<Slot> =
                (1..).zip(starts).map(|(row, start)| Slot { row, start }).collect();
            let hears = |slot: &Slot| (0..capacity).map(|key| key <= slot.start).collect();
            let keys: Vec<Vec<bool>> = slots.iter().map(hears).collect();
            let mask = Mask { visibility: Visibility::Full, keys: kernel::flags(&keys, &device) };
            let rope = Some(rope.clone());
            let new_tokens = NewTokens { slots: &slots, rope, seen: capacity, window: None, mask };

            let all = network.iter().map(|layer| layer as &dyn CachingLayer<B>);
            let mut all = all.zip(caches.iter_mut().map(<[_; 2]>::each_mut));
            x = match is_front {
                true => kernel::cached_layers(x, &mut all, &new_tokens),
                false => reference::cached_layers(x, &mut all, &new_tokens),
            };
        }
        Output::Three(x)
    })
}

impl Attention {
    fn ready<B: Backend>(self, inputs: &Inputs<'_, B>) -> Ready<B> {
        let Self { batch, heads, kv_heads, queries, keys, width, visibility, .. } = self;
        // Larger queries by a factor of four: some keys get more weight than others.
        let q = inputs.tensor([batch, heads, queries, width], 1) * 4.0;
        let [k, v] = [2, 3].map(|seed| inputs.tensor([batch, kv_heads, keys, width], seed));
        let mask =
            Mask { visibility, keys: kernel::flags(&self.real_keys(), &inputs.place.device) };
        let ways =
            [kernel::attention::<B> as fn(_, _, _, &Mask<B>) -> _, reference::attention::<B>];
        both(ways, move |compute| Output::Four(compute(q.clone(), k.clone(), v.clone(), &mask)))
    }

    /// Returns for each item which keys are not padding.
    fn real_keys(self) -> Vec<Vec<bool>> {
        let keys = self.keys;
        let is_real = |item: usize, key: usize| match self.hidden {
            Hidden::Nothing => true,
            Hidden::End => key < keys - (keys / 5) * (item + 1),
            Hidden::Start => key >= (keys / 5) * (item + 1),
            Hidden::SecondItem => item != 1,
        };
        (0..self.batch).map(|item| (0..keys).map(|key| is_real(item, key)).collect()).collect()
    }
}

/// Wraps two functions of one signature into one call.
fn both<B: Backend, F: 'static>(
    [front, reference]: [F; 2],
    call: impl Fn(&F) -> Output<B> + Clone + 'static,
) -> Ready<B> {
    let again = call.clone();
    Ready { front: Box::new(move || call(&front)), reference: Box::new(move || again(&reference)) }
}

struct Inputs<'a, B: Backend> {
    place: &'a Place<B>,
    rounding: DType,
}

impl<B: Backend> Inputs<'_, B> {
    /// Returns pseudo-random values in -1..1 that are the same on every device and in every run.
    fn tensor<const D: usize>(&self, shape: [usize; D], seed: u32) -> Tensor<B, D> {
        let values = values(shape.iter().product(), seed, self.rounding);
        Tensor::<B, D>::from_data(TensorData::new(values, shape), &self.place.device)
            .cast(self.place.dtype)
    }
}

fn values(count: usize, seed: u32, rounding: DType) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        f64::from(state) as f32 / u32::MAX as f32 * 2.0 - 1.0
    };
    let round = |x: f32| match rounding {
        DType::F16 => f16::from_f32(x).to_f32(),
        DType::BF16 => bf16::from_f32(x).to_f32(),
        _ => x,
    };
    (0..count).map(|_| round(next())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_are_rounded_to_the_type_that_is_compared() {
        let exact = values(100, 3, DType::F32);
        assert!(exact.iter().all(|x| x.abs() <= 1.0) && exact.iter().any(|x| x.abs() > 0.9));
        for (dtype, unit) in [(DType::F16, 2f32.powi(-12)), (DType::BF16, 2f32.powi(-9))] {
            let rounded = values(100, 3, dtype);
            assert_ne!(rounded, exact);
            assert!(rounded.iter().zip(&exact).all(|(a, b)| (a - b).abs() <= unit), "{dtype:?}");
        }
    }

    #[test]
    fn padding_hides_more_of_the_second_item_and_all_of_it_where_asked() {
        let attention = |hidden| Attention {
            batch: 2,
            heads: 1,
            kv_heads: 1,
            queries: 5,
            keys: 5,
            width: 4,
            visibility: Visibility::Full,
            hidden,
        };
        let (yes, no) = (true, false);
        let end = attention(Hidden::End).real_keys();
        assert_eq!(end, [[yes, yes, yes, yes, no], [yes, yes, yes, no, no]]);
        let start = attention(Hidden::Start).real_keys();
        assert_eq!(start, [[no, yes, yes, yes, yes], [no, no, yes, yes, yes]]);
        assert_eq!(attention(Hidden::SecondItem).real_keys(), [[yes; 5], [no; 5]]);
    }
}
