//! Convolutions of many channels with sums in registers, without a matrix of patches.
//!
//! ```text
//! x -> windows that fit into the cache -> tiles of a few rows and three vectors of samples -> out
//! ```
//!
//! A window is a stretch of all input channels, with the margin that filters need; a core processes
//! one after the other. A transposed convolution is a plain filter for each phase of its output,
//! which is every `stride`-th sample. A strided convolution is a plain filter over each phase of
//! its input. The terms of a sum and their order depend neither on the windows nor on the number of
//! cores.
//!
//! If the CPU multiplies bf16, bf16 weights are multiplied with inputs rounded to bf16, and summed
//! in f32. Otherwise the weights are converted to f32.

mod amx;
mod filter;
mod finish;
mod gradient;
mod pack;
mod pairs;
mod residual;
mod share;
mod sound;
mod tile;

use burn::tensor::{DType, Tensor, TensorMetadata};
use burn_flex::{Flex, FlexTensor};

use crate::kernel;

use super::{
    super::{
        ConvGeometry, Convolution, FusedLayers, Packing, Weight, primitive, reference, tensor,
    },
    activation::ChannelActivation,
    contiguous, from_values, zeros,
};
use filter::{Filter, Taps};
use finish::Finish;
use pack::{Form, Order, Panels};
use share::{cut, share, together};
use sound::{Reach, Sound, with_rooms};
use tile::SAMPLES;

pub(super) use gradient::filter_gradient;
pub(super) use residual::residual_units;

/// Words of a window: with the weights of a tile they stay in a core's L2 cache.
const WINDOW: usize = 1 << 16;

/// Minimum samples of a window, even if it becomes larger than the cache: all weights are read again for each
/// window.
const LEAST: usize = 2 * SAMPLES;

/// Kernel of [`super::super::Backend::conv1d`], for f32 and for weights of bf16.
pub(super) fn conv1d<W: Into<Weight<Flex, 3>>>(
    x: FlexTensor,
    weight: W,
    bias: Option<FlexTensor>,
    geometry: ConvGeometry,
) -> FlexTensor {
    let layers = FusedLayers { past: None, activation: None, residual: None };
    primitive(fused_conv1d(tensor(x), (weight.into(), bias.map(tensor), geometry), layers))
}

/// Kernel of [`super::super::Backend::fused_conv1d`], for f32 and for weights of bf16.
pub(super) fn fused_conv1d(
    x: Tensor<Flex, 3>,
    (weight, bias, geometry): Convolution<Flex>,
    layers: FusedLayers<Flex>,
) -> Tensor<Flex, 3> {
    let ConvGeometry { stride, dilation, groups, .. } = geometry;
    let taps = Taps::of(weight.clone(), stride, false);
    let ([batch, channels, samples], [outputs, _, count]) = (x.dims(), taps.shape);
    let known = layers.past.as_ref().map_or(0, |past| past.dims()[2]);
    let length = geometry.outputs(known + samples, count);
    if let Some(past) = &layers.past {
        assert_eq!(past.dims(), [batch, channels, known], "the past of another signal");
    }
    if let Some(residual) = &layers.residual {
        assert_eq!(residual.dims(), [batch, outputs, length], "the residual of another signal");
    }
    let is_plain = groups == 1 && (stride == 1 || dilation == 1);
    if taps.is_packed() && (length == 0 || batch == 0) {
        return tensor(from_values(vec![], [batch, outputs, length]));
    }
    let of = |x: &Tensor<Flex, 3>| primitive(x.clone());
    let others = [&layers.past, &layers.residual].into_iter().flatten();
    let is_f32 = others.chain(parameters(&layers)).all(|of| of.dtype() == DType::F32);
    let given = bias.clone().map(primitive);
    if !is_ours(&of(&x), &taps, &given) || !is_f32 || !is_plain || length == 0 {
        return match layers {
            FusedLayers { past: None, activation: None, residual: None } => {
                reference::conv1d(x, taps.plain(), bias, geometry)
            }
            layers => reference::fused_conv1d(x, (weight, bias, geometry), layers),
        };
    }
    let FusedLayers { past, activation, residual } = layers;
    let activations = activation.map(|activation| match activation {
        kernel::ConvActivation::Snake(parts) => {
            let [alpha, beta] = parts.map(primitive);
            ChannelActivation::snakes(alpha, beta)
        }
        kernel::ConvActivation::HalfSnake(alpha) => {
            ChannelActivation::half_snakes(primitive(alpha), channels)
        }
        kernel::ConvActivation::Elu => vec![ChannelActivation::Elu; channels],
    });
    let contiguous = |x: Tensor<Flex, 3>| contiguous(primitive(x));
    let (x, past, residual) = (contiguous(x), past.map(contiguous), residual.map(contiguous));
    let weight = taps.contiguous();
    let bias = given.map(super::contiguous);
    let bias = bias.as_ref().map(FlexTensor::storage::<f32>);
    let residual = residual.as_ref().map(FlexTensor::storage::<f32>);
    let (filter, mut reach) = filter1d(&weight, geometry);
    let Panels { form, at_once, .. } = filter.panels;
    reach.first -= known as isize;
    let sound = Sound {
        past: (past.as_ref().map_or(&[], FlexTensor::storage::<f32>), known),
        activations: activations.as_deref(),
        ..Sound::plain(x.storage::<f32>(), channels, samples)
    };

    let part = part(&sound, &reach, form).min(length.next_multiple_of(SAMPLES));
    let parts = length.div_ceil(part);
    let mut out = zeros(batch * outputs * length);
    let stretches = cut(&mut out, outputs, length, parts, |_| part);
    // The window of several work items is packed once.
    let is_shared = together(stretches.len(), outputs, at_once) < outputs;
    let windows = is_shared.then(|| sound.windows((batch, parts), part, &reach, form));
    share(stretches, at_once, |index, first, rows| {
        let (item, start) = (index / parts, index % parts * part);
        let count = part.min(length - start);
        with_rooms(|[room, _]| {
            let window = match &windows {
                Some(windows) => windows.at(index),
                None => sound.window(item, (start, count), &reach, form, room),
            };
            filter.run(first..first + rows.len(), window, count, |row, at, sums| {
                Finish { first: row, bias, curves: None }.apply(sums);
                for ((row, to), sums) in (row..).zip(&mut rows[row - first..]).zip(sums) {
                    if let Some(residual) = residual {
                        let of = &residual[(item * outputs + row) * length + start + at..];
                        let of = &of[..SAMPLES.min(count - at)];
                        sums.iter_mut().zip(of).for_each(|(sum, x)| *sum += x);
                    }
                    match to[at..].first_chunk_mut() {
                        Some(to) => *to = *sums,
                        None => to[at..].copy_from_slice(&sums[..count - at]),
                    }
                }
            });
        });
    });
    tensor(from_values(out, [batch, outputs, length]))
}

/// Returns the parameters of the activation.
fn parameters(layers: &FusedLayers<Flex>) -> impl Iterator<Item = &Tensor<Flex, 3>> {
    let parameters: &[_] = match &layers.activation {
        Some(kernel::ConvActivation::Snake(parameters)) => parameters,
        Some(kernel::ConvActivation::HalfSnake(alpha)) => std::slice::from_ref(alpha),
        Some(kernel::ConvActivation::Elu) | None => &[],
    };
    parameters.iter()
}

/// Returns the filter of a convolution, and its reach; the weight is contiguous.
fn filter1d(weight: &Taps, geometry: ConvGeometry) -> (Filter<'_>, Reach) {
    let ConvGeometry { stride, padding: [left, _], dilation, .. } = geometry;
    let order = Plain { shape: weight.shape, stride };
    let first = -(left as isize);
    let reach = Reach { first, stride, step: dilation, taps: order.shape()[2] };
    (Filter::of(weight, &order), reach)
}

/// Kernel of [`super::super::Backend::pack_filter`].
pub(super) fn pack_filter(weight: FlexTensor, packing: Packing) -> Option<FlexTensor> {
    let Packing { stride, is_transposed, precision } = packing;
    let shape = dims(&weight);
    let is_read = matches!(weight.dtype(), DType::F32 | DType::BF16);
    if !is_read || shape.contains(&0) {
        return None;
    }
    let weight = contiguous(weight);
    Some(match is_transposed {
        true => Filter::kept(&weight, &Phases { shape, stride }, precision),
        false => Filter::kept(&weight, &Plain { shape, stride }, precision),
    })
}

/// The order of a convolution; its lines are channels, or the phases of each channel.
struct Plain {
    /// `[outputs, channels, taps]`
    shape: [usize; 3],
    stride: usize,
}

impl Order for Plain {
    fn shape(&self) -> [usize; 3] {
        let [outputs, channels, taps] = self.shape;
        [outputs, channels * self.stride, taps.div_ceil(self.stride)]
    }

    fn taps(&self) -> usize {
        self.shape[2]
    }

    fn row(&self, row: usize) -> [usize; 2] {
        [row * self.shape[1] * self.shape[2], 0]
    }

    fn line(&self, line: usize) -> [usize; 2] {
        match self.stride {
            1 => [line * self.shape[2], 0], // without divisions, for filters of one tap
            stride => [line / stride * self.shape[2], line % stride],
        }
    }

    fn tap(&self, tap: usize) -> usize {
        tap * self.stride
    }

    fn panels(&self) -> usize {
        1
    }
}

/// Kernel of [`super::super::Backend::conv_transpose1d`], for f32 and for weights of bf16.
pub(super) fn conv_transpose1d<W: Into<Weight<Flex, 3>>>(
    x: FlexTensor,
    weight: W,
    bias: Option<FlexTensor>,
    geometry: ConvGeometry,
) -> FlexTensor {
    let ConvGeometry { stride, padding: [padding, _], dilation, groups } = geometry;
    let weight = Taps::of(weight.into(), stride, true);
    let ([batch, channels, samples], [_, outputs, taps]) = (dims(&x), weight.shape);
    let length = geometry.transposed_outputs(samples, taps);
    if weight.is_packed() && (length == 0 || batch == 0) {
        return from_values(vec![], [batch, outputs, length]);
    }
    if !is_ours(&x, &weight, &bias) || dilation != 1 || groups != 1 || length == 0 {
        let bias = bias.map(tensor);
        let y = reference::conv_transpose1d::<Flex>(tensor(x), weight.plain(), bias, geometry);
        return primitive(y);
    }
    let (x, weight) = (contiguous(x), weight.contiguous());
    let bias = bias.map(contiguous);
    let bias = bias.as_ref().map(FlexTensor::storage::<f32>);
    let order = Phases { shape: weight.shape, stride };
    let filter = Filter::of(&weight, &order);
    let Panels { form, at_once, .. } = filter.panels;
    let reached = taps.div_ceil(stride);
    let (first, last) = (padding / stride, (length - 1 + padding) / stride);
    let moments = last - first + 1;
    // Samples of the first moment that lie before the output.
    let lead = padding - first * stride;
    let first = first as isize - (reached as isize - 1);
    let reach = Reach { first, stride: 1, step: 1, taps: reached };
    let sound = Sound::plain(x.storage::<f32>(), channels, samples);

    let part = part(&sound, &reach, form).min(moments.next_multiple_of(SAMPLES));
    let parts = moments.div_ceil(part);
    let mut out = zeros(batch * outputs * length);
    let before = |index: usize| if index == 0 { lead } else { 0 };
    let stretches = cut(&mut out, outputs, length, parts, |index| part * stride - before(index));
    // The window of several work items is packed once.
    let is_shared = together(stretches.len(), outputs, at_once) < outputs;
    let windows = is_shared.then(|| sound.windows((batch, parts), part, &reach, form));
    share(stretches, at_once, |stretch, output, rows| {
        let (item, index) = (stretch / parts, stretch % parts);
        let start = index * part;
        let count = part.min(moments - start);
        let range = output * stride..(output + rows.len()) * stride;
        with_rooms(|[room, _]| {
            let window = match &windows {
                Some(windows) => windows.at(stretch),
                None => sound.window(item, (start, count), &reach, form, room),
            };
            filter.run(range, window, count, |row, at, sums| {
                let mut spread = 0;
                if before(index) == 0 && row % stride == 0 {
                    let whole = sums.len() / stride * stride;
                    let to =
                        rows[row / stride - output..].iter_mut().map(|to| &mut to[at * stride..]);
                    let bias = |index| bias.map_or(0.0, |bias| bias[row / stride + index]);
                    let all = to.zip(sums[..whole].chunks(stride)).enumerate();
                    for (index, (to, sums)) in all {
                        spread += interleave(to, sums, bias(index));
                    }
                }
                for (row, sums) in (row + spread..).zip(&sums[spread..]) {
                    let bias = bias.map_or(0.0, |bias| bias[row / stride]);
                    let to = &mut rows[row / stride - output];
                    let place = at * stride + row % stride;
                    // Only the first sample may lie outside; the next one never does.
                    let skipped = before(index).saturating_sub(place).div_ceil(stride);
                    let place = (place + skipped * stride).saturating_sub(before(index));
                    let to = to.get_mut(place..).unwrap_or_default().iter_mut().step_by(stride);
                    to.zip(&sums[skipped.min(SAMPLES)..]).for_each(|(to, sum)| *to = sum + bias);
                }
            });
        });
    });
    from_values(out, [batch, outputs, length])
}

// ANCHOR: phases
/// The order of a transposed convolution: row `output stride + phase` is the filter of a phase.
///
/// Output `q stride + phase - padding` is the sum over `m` of `x[q - m] w[phase + m stride]`.
struct Phases {
    /// `[channels, outputs, taps]`
    shape: [usize; 3],
    stride: usize,
}

impl Order for Phases {
    fn shape(&self) -> [usize; 3] {
        let [channels, outputs, taps] = self.shape;
        [outputs * self.stride, channels, taps.div_ceil(self.stride)]
    }

    fn taps(&self) -> usize {
        self.shape[2]
    }

    fn row(&self, row: usize) -> [usize; 2] {
        [row / self.stride * self.shape[2], row % self.stride]
    }

    fn line(&self, line: usize) -> [usize; 2] {
        [line * self.shape[1] * self.shape[2], 0]
    }

    fn tap(&self, tap: usize) -> usize {
        (self.shape()[2] - 1 - tap) * self.stride
    }

    fn panels(&self) -> usize {
        16
    }
}
// ANCHOR_END: phases

/// Writes the sums of all phases of an output, interleaved; returns 0 if the caller must do it.
fn interleave(to: &mut [f32], phases: &[[f32; SAMPLES]], bias: f32) -> usize {
    fn of<const N: usize>(to: &mut [f32], phases: &[[f32; SAMPLES]; N], bias: f32) -> usize {
        for (moment, to) in to.as_chunks_mut::<N>().0.iter_mut().take(SAMPLES).enumerate() {
            for (to, sums) in to.iter_mut().zip(phases) {
                *to = sums[moment] + bias;
            }
        }
        N
    }
    match phases.len() {
        8 if to.len().is_multiple_of(8) => of(to, phases.first_chunk::<8>().expect("8"), bias),
        2 if to.len().is_multiple_of(2) => of(to, &[phases[0], phases[1]], bias),
        4 if to.len().is_multiple_of(4) => {
            of(to, &[phases[0], phases[1], phases[2], phases[3]], bias)
        }
        _ => 0,
    }
}

fn dims(x: &FlexTensor) -> [usize; 3] {
    let shape = x.shape();
    [shape[0], shape[1], shape[2]]
}

fn is_ours(x: &FlexTensor, weight: &Taps, bias: &Option<FlexTensor>) -> bool {
    let is_f32 = std::iter::once(x).chain(bias).all(|of| of.dtype() == DType::F32);
    let is_empty = x.shape().num_elements() == 0 || weight.shape.contains(&0);
    is_f32 && weight.is_read() && !is_empty
}

/// Returns the number of outputs per window.
fn part(sound: &Sound<'_>, reach: &Reach, form: Form) -> usize {
    let lines = form.lines(sound.channels * reach.stride) * form.parts();
    let most = (WINDOW / lines).saturating_sub(reach.span());
    (most / SAMPLES * SAMPLES).max(LEAST)
}

#[cfg(test)]
mod tests;
