//! Convolutions of many channels as sums that stay in registers, without a matrix of patches.
//!
//! ```text
//! x -> windows that fit into the cache -> tiles of a few rows and three vectors of samples -> out
//! ```
//!
//! A window is a stretch of all input channels with what filters reach beyond it; a core takes one
//! after the other. A transposed convolution is the same for each phase of its output: every
//! `stride`-th sample follows a plain filter of its own.

mod filter;
mod tile;

use burn::tensor::{DType, TensorMetadata};
use burn_flex::{Flex, FlexTensor};
use rayon::prelude::*;

use super::{
    super::{Geometry, primitive, reference, tensor},
    contiguous, from_values,
};
use filter::Filter;
use tile::{MOST_SAMPLES, Window, rows_at_once};

/// Numbers of a window: with the weights of a tile they stay in a core's second cache.
const WINDOW: usize = 1 << 16;

/// Pieces of work for each core, so that none waits long for the last.
const SHARES: usize = 4;

/// Kernel of [`super::super::Backend::conv1d`], for f32 and filters that leave no sample out.
pub(super) fn conv1d(
    x: FlexTensor,
    weight: FlexTensor,
    bias: Option<FlexTensor>,
    geometry: Geometry,
) -> FlexTensor {
    let Geometry { stride, padding, dilation } = geometry;
    let ([batch, inputs, samples], [outputs, _, taps]) = (dims(&x), dims(&weight));
    let length = (samples + 2 * padding + 1).saturating_sub(dilation * (taps - 1) + 1);
    if !is_ours(&x, &weight, &bias) || stride != 1 || length == 0 {
        let bias = bias.map(tensor);
        return primitive(reference::conv1d::<Flex>(tensor(x), tensor(weight), bias, geometry));
    }
    let [x, weight] = [x, weight].map(contiguous);
    let bias = bias.map(contiguous);
    let bias = bias.as_ref().map(FlexTensor::storage::<f32>);
    let weights = weight.storage::<f32>();
    let filter = Filter::new(outputs, inputs, taps, rows_at_once(), |row, input, tap| {
        weights[(row * inputs + input) * taps + tap]
    });
    let reach = Reach { first: -(padding as isize), step: dilation, taps };
    let sound = Sound { values: x.storage::<f32>(), inputs, samples };

    let part = sound.part(&reach);
    let parts = length.div_ceil(part);
    let mut out = vec![0.0; batch * outputs * length];
    let stretches = cut(&mut out, outputs, length, parts, |_| part);
    share(stretches, |index, first, rows| {
        let (item, start) = (index / parts, index % parts * part);
        let count = part.min(length - start);
        let window = sound.window(item, start, count, &reach);
        let range = first..first + rows.len();
        filter.run(range, reach.over(&window, inputs), count, |row, at, sums| {
            let bias = bias.map_or(0.0, |bias| bias[row]);
            let to = rows[row - first][at..].iter_mut();
            to.zip(sums).for_each(|(to, sum)| *to = sum + bias);
        });
    });
    from_values(out, [batch, outputs, length])
}

/// Kernel of [`super::super::Backend::conv_transpose1d`], for f32.
pub(super) fn conv_transpose1d(
    x: FlexTensor,
    weight: FlexTensor,
    bias: Option<FlexTensor>,
    geometry: Geometry,
) -> FlexTensor {
    let Geometry { stride, padding, dilation } = geometry;
    let ([batch, inputs, samples], [_, outputs, taps]) = (dims(&x), dims(&weight));
    let length = ((samples.max(1) - 1) * stride + taps).saturating_sub(2 * padding);
    if !is_ours(&x, &weight, &bias) || dilation != 1 || length == 0 {
        let bias = bias.map(tensor);
        let y = reference::conv_transpose1d::<Flex>(tensor(x), tensor(weight), bias, geometry);
        return primitive(y);
    }
    let [x, weight] = [x, weight].map(contiguous);
    let bias = bias.map(contiguous);
    let bias = bias.as_ref().map(FlexTensor::storage::<f32>);
    let weights = weight.storage::<f32>();
    // ANCHOR: phases
    // Output `q stride + phase - padding` is the sum over `m` of `x[q - m] w[phase + m stride]`.
    let reached = taps.div_ceil(stride);
    let filter =
        Filter::new(outputs * stride, inputs, reached, rows_at_once(), |row, input, tap| {
            let (output, phase) = (row / stride, row % stride);
            let place = phase + (reached - 1 - tap) * stride;
            if place < taps { weights[(input * outputs + output) * taps + place] } else { 0.0 }
        });
    // ANCHOR_END: phases
    let (first, last) = (padding / stride, (length - 1 + padding) / stride);
    let moments = last - first + 1;
    // Samples of the first moment that lie before the output.
    let lead = padding - first * stride;
    let reach = Reach { first: first as isize - (reached as isize - 1), step: 1, taps: reached };
    let sound = Sound { values: x.storage::<f32>(), inputs, samples };

    let part = sound.part(&reach);
    let parts = moments.div_ceil(part);
    let mut out = vec![0.0; batch * outputs * length];
    let before = |index: usize| if index == 0 { lead } else { 0 };
    let stretches = cut(&mut out, outputs, length, parts, |index| part * stride - before(index));
    share(stretches, |index, output, rows| {
        let (item, index) = (index / parts, index % parts);
        let start = index * part;
        let count = part.min(moments - start);
        let window = sound.window(item, start, count, &reach);
        let range = output * stride..(output + rows.len()) * stride;
        filter.run(range, reach.over(&window, inputs), count, |row, at, sums| {
            let bias = bias.map_or(0.0, |bias| bias[row / stride]);
            let to = &mut rows[row / stride - output];
            let place = at * stride + row % stride;
            // Only the very first may lie outside, and its place in the next moment does not.
            let skipped = before(index).saturating_sub(place).div_ceil(stride);
            let place = (place + skipped * stride).saturating_sub(before(index));
            let to = to.get_mut(place..).unwrap_or_default().iter_mut().step_by(stride);
            to.zip(&sums[skipped.min(sums.len())..]).for_each(|(to, sum)| *to = sum + bias);
        });
    });
    from_values(out, [batch, outputs, length])
}

fn dims(x: &FlexTensor) -> [usize; 3] {
    let shape = x.shape();
    [shape[0], shape[1], shape[2]]
}

fn is_ours(x: &FlexTensor, weight: &FlexTensor, bias: &Option<FlexTensor>) -> bool {
    let is_f32 = [x, weight].into_iter().chain(bias).all(|of| of.dtype() == DType::F32);
    is_f32 && [x, weight].iter().all(|of| of.shape().num_elements() > 0)
}

/// Which samples of the input an output of a filter is made of.
struct Reach {
    /// The first of the first output.
    first: isize,
    /// From one to the next.
    step: usize,
    taps: usize,
}

impl Reach {
    /// Samples beyond the first.
    fn span(&self) -> usize {
        self.step * (self.taps - 1)
    }

    fn over<'a>(&self, values: &'a [f32], inputs: usize) -> Window<'a> {
        let width = values.len() / inputs;
        Window { values, width, taps: self.taps, step: self.step }
    }
}

/// The input, `[batch, inputs, samples]`.
struct Sound<'a> {
    values: &'a [f32],
    inputs: usize,
    samples: usize,
}

impl Sound<'_> {
    /// Outputs of a window.
    fn part(&self, reach: &Reach) -> usize {
        let most = (WINDOW / self.inputs).saturating_sub(reach.span());
        (most / MOST_SAMPLES).max(1) * MOST_SAMPLES
    }

    /// What `count` outputs from `start` on reach of item `item`, with zeros where there is nothing.
    fn window(&self, item: usize, start: usize, count: usize, reach: &Reach) -> Vec<f32> {
        let Self { values, inputs, samples } = *self;
        let width = count.next_multiple_of(MOST_SAMPLES) + reach.span();
        let first = start as isize + reach.first;
        // Of the input, and where in the window.
        let from = first.clamp(0, samples as isize) as usize;
        let to = (first + width as isize).clamp(0, samples as isize) as usize;
        let place = (from as isize - first).clamp(0, width as isize) as usize;
        let mut window = vec![0.0; inputs * width];
        let channels = values[item * inputs * samples..].chunks(samples);
        for (row, channel) in window.chunks_mut(width).zip(channels) {
            row[place..place + (to - from)].copy_from_slice(&channel[from..to]);
        }
        window
    }
}

/// A stretch of all rows of an item.
type Stretch<'a> = Vec<&'a mut [f32]>;

/// Cuts every row of `out` into `parts` of `size(part)`, the last of what is left; item by item, and
/// part by part.
fn cut(
    out: &mut [f32],
    outputs: usize,
    length: usize,
    parts: usize,
    size: impl Fn(usize) -> usize,
) -> Vec<Stretch<'_>> {
    let mut stretches = Vec::new();
    for item in out.chunks_mut(outputs * length) {
        let mut of_item: Vec<Stretch<'_>> = (0..parts).map(|_| Vec::new()).collect();
        for mut row in item.chunks_mut(length) {
            for (index, stretch) in of_item.iter_mut().enumerate() {
                let is_last = index + 1 == parts;
                let here = if is_last { row.len() } else { size(index).min(row.len()) };
                let (piece, rest) = row.split_at_mut(here);
                stretch.push(piece);
                row = rest;
            }
        }
        stretches.extend(of_item);
    }
    stretches
}

/// Does `work(stretch, first row, rows)` for all rows of all stretches, on all cores.
fn share(mut stretches: Vec<Stretch<'_>>, work: impl Fn(usize, usize, &mut [&mut [f32]]) + Sync) {
    let rows = stretches.first().map_or(0, Vec::len);
    let groups = (rayon::current_num_threads() * SHARES).div_ceil(stretches.len().max(1));
    // Whole panels.
    let together = rows.div_ceil(groups).next_multiple_of(rows_at_once());
    let work = &work;
    let each = |(index, rows): (usize, &mut Stretch<'_>)| {
        rows.par_chunks_mut(together).enumerate().for_each(|(group, rows)| {
            work(index, group * together, rows);
        });
    };
    stretches.par_iter_mut().enumerate().for_each(each);
}

#[cfg(test)]
mod tests {
    use burn::tensor::Tensor;

    use super::super::tests::{assert_close, random};
    use super::*;

    /// Channels, samples, taps and geometries of the VAE, and odd ones: more taps than samples, one
    /// row, rows that fill no panel, windows that end in the middle of a tile.
    #[test]
    fn filters_are_the_reference() {
        for ([batch, inputs, outputs], samples, taps, padding, dilation) in [
            ([1, 1, 1], 1, 1, 0, 1),
            ([2, 3, 5], 17, 3, 1, 1),
            ([1, 8, 13], 100, 7, 3, 1),
            ([1, 130, 24], 700, 7, 27, 9),
            ([1, 64, 40], 49, 7, 9, 3),
            ([1, 16, 2], 3, 7, 3, 1),
            ([2, 128, 128], 1000, 1, 0, 1),
            ([1, 2000, 9], 60, 3, 0, 2),
        ] {
            let x = random([batch, inputs, samples]);
            let (weight, bias) = (random([outputs, inputs, taps]), random([outputs]));
            let geometry = Geometry { stride: 1, padding, dilation };
            for bias in [None, Some(bias)] {
                let expected = reference::conv1d(x.clone(), weight.clone(), bias.clone(), geometry);
                let [x, weight] = [&x, &weight].map(|of| primitive(of.clone()));
                let ours = conv1d(x, weight, bias.map(primitive), geometry);
                let allowed = 3e-6 * ((inputs * taps) as f32).sqrt();
                assert_close::<3>(tensor(ours), expected, allowed);
            }
        }
    }

    #[test]
    fn filters_that_leave_samples_out_are_the_reference() {
        let (x, weight) = (random([1, 4, 40]), random([3, 4, 4]));
        let geometry = Geometry { stride: 2, padding: 1, dilation: 1 };
        let expected = reference::conv1d(x.clone(), weight.clone(), None, geometry);
        let ours = conv1d(primitive(x), primitive(weight), None, geometry);
        assert_close::<3>(tensor(ours), expected, 1e-6);
    }

    /// Every stride of the VAE with its padding, and what lies at the edges of what may be.
    #[test]
    fn transposed_filters_are_the_reference() {
        for ([batch, inputs, outputs], samples, taps, stride, padding) in [
            ([1, 1, 1], 1, 1, 1, 0),
            ([2, 5, 3], 7, 20, 10, 5),
            ([1, 64, 33], 130, 12, 6, 3),
            ([1, 40, 16], 500, 8, 4, 2),
            ([1, 128, 128], 700, 4, 2, 1),
            ([1, 3, 2], 9, 5, 3, 0),
            ([1, 3, 2], 9, 2, 3, 1),
            ([1, 2, 9], 2, 7, 2, 3),
            ([2, 1500, 4], 50, 4, 2, 2),
        ] {
            let x = random([batch, inputs, samples]);
            let (weight, bias) = (random([inputs, outputs, taps]), random([outputs]));
            let geometry = Geometry { stride, padding, dilation: 1 };
            for bias in [None, Some(bias)] {
                let expected =
                    reference::conv_transpose1d(x.clone(), weight.clone(), bias.clone(), geometry);
                let [x, weight] = [&x, &weight].map(|of| primitive(of.clone()));
                let ours = conv_transpose1d(x, weight, bias.map(primitive), geometry);
                let allowed = 3e-6 * ((inputs * taps) as f32).sqrt();
                assert_close::<3>(tensor(ours), expected, allowed);
            }
        }
    }

    #[test]
    fn views_are_read_as_they_are_seen() {
        let x: Tensor<Flex, 3> = random([1, 90, 8]).swap_dims(1, 2);
        let weight: Tensor<Flex, 3> = random([8, 6, 3]).swap_dims(0, 1);
        let geometry = Geometry { stride: 1, padding: 1, dilation: 1 };
        let expected = reference::conv1d(x.clone(), weight.clone(), None, geometry);
        let ours = conv1d(primitive(x), primitive(weight), None, geometry);
        assert_close::<3>(tensor(ours), expected, 1e-5);
    }
}
