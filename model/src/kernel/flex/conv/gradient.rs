//! The gradient of a filter: dot products along time, for several outputs and taps at once.
//!
//! The input uses the same windows as the convolution. So a tap is a shifted line, and both factors
//! of a product are contiguous.

use burn::tensor::DType;
use burn_flex::{Flex, FlexTensor};
use pulp::{Simd, WithSimd, bytemuck};
use rayon::prelude::*;

use super::{
    super::{
        super::{ConvGeometry, primitive, reference, tensor},
        contiguous, from_values,
    },
    dims,
    pack::Form,
    sound::{Reach, Sound, with_rooms},
    tile::{SAMPLES, Window},
};
use crate::kernel::flex::level;

/// Outputs that are multiplied at once.
const ROWS: usize = 4;

/// Taps that are multiplied at once: with the rows and one tap, all fit in registers.
const TAPS: usize = 6;

/// Samples of a stretch: the rows and taps of a block stay in a core's L1 cache.
const STRETCH: usize = 16 * SAMPLES;

/// Size of all partial sums, which are added in a fixed order for any number of cores. Large
/// filters have fewer partial sums, because adding them would take as long as computing them.
const SUMS: usize = 1 << 18;

/// Kernel of [`super::super::super::Backend::filter_gradient`], for f32.
pub(in super::super) fn filter_gradient(
    x: FlexTensor,
    gradient: FlexTensor,
    taps: usize,
    geometry: ConvGeometry,
) -> FlexTensor {
    let ConvGeometry { stride, padding: [left, _], dilation, groups } = geometry;
    let ([batch, channels, samples], [_, outputs, length]) = (dims(&x), dims(&gradient));
    let is_ours = [&x, &gradient].iter().all(|of| of.dtype() == DType::F32)
        && groups == 1
        && (stride == 1 || dilation == 1)
        && [batch, channels, samples, outputs, length, taps].iter().all(|&size| size > 0);
    if !is_ours {
        let (x, gradient) = (tensor(x), tensor(gradient));
        return primitive(reference::filter_gradient::<Flex>(x, gradient, taps, geometry));
    }
    let [x, gradient] = [x, gradient].map(contiguous);
    let slopes = gradient.storage::<f32>();
    let first = -(left as isize);
    // As in the convolution, every phase of the input is a line of its own.
    let steps = taps.div_ceil(stride);
    let reach = Reach { first, stride, step: dilation, taps: steps };
    let sound = Sound::plain(x.storage::<f32>(), channels, samples);

    let parts = length.div_ceil(STRETCH);
    let work = batch * parts;
    let columns = channels * stride * steps;
    let shares = (SUMS / (outputs * columns)).clamp(4, 16).min(work);
    let of_share = |share: usize| {
        let mut sums = vec![0.0; outputs * columns];
        let mut rows = Vec::new();
        for index in (share..work).step_by(shares) {
            let (item, start) = (index / parts, index % parts * STRETCH);
            let count = STRETCH.min(length - start);
            let width = count.next_multiple_of(SAMPLES);
            rows.clear();
            rows.resize(outputs * width, 0.0);
            for (output, row) in rows.chunks_exact_mut(width).enumerate() {
                let from = &slopes[(item * outputs + output) * length + start..][..count];
                row[..count].copy_from_slice(from);
            }
            with_rooms(|[room, _]| {
                let window = sound.window(item, (start, count), &reach, Form::Single, room);
                level::arch().dispatch(Stretch { rows: &rows, width, window, sums: &mut sums });
            });
        }
        sums
    };
    let mut shares: Vec<Vec<f32>> =
        (0..shares).into_par_iter().with_max_len(1).map(of_share).collect();
    let (first, others) = shares.split_at_mut(1);
    let sums = &mut first[0];
    for share in others {
        sums.iter_mut().zip(share).for_each(|(sum, share)| *sum += *share);
    }
    let mut out = vec![0.0; outputs * channels * taps];
    let lines = sums.chunks_exact(stride * steps).zip(out.chunks_exact_mut(taps));
    for (line, to) in lines {
        for (tap, to) in to.iter_mut().enumerate() {
            *to = line[tap % stride * steps + tap / stride];
        }
    }
    from_values(out, [outputs, channels, taps])
}

/// The products of a stretch, which are added to `sums`: `[outputs, lines, taps]`.
struct Stretch<'a> {
    /// `[outputs, width]`
    rows: &'a [f32],
    width: usize,
    window: Window<'a>,
    sums: &'a mut [f32],
}

impl WithSimd for Stretch<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { rows, width, window, sums } = self;
        let values: &[f32] = bytemuck::cast_slice(window.words);
        let columns = values.len() / window.width * window.taps;
        let outputs = rows.len() / width;
        let mut column = 0;
        while column < columns {
            let count = TAPS.min(columns - column);
            let mut lines = [&values[..width]; TAPS];
            for (index, line) in lines[..count].iter_mut().enumerate() {
                let (of, tap) = ((column + index) / window.taps, (column + index) % window.taps);
                *line = &values[of * window.width + tap * window.step..][..width];
            }
            let mut row = 0;
            while row < outputs {
                let here = ROWS.min(outputs - row);
                let mut slopes = [&rows[..width]; ROWS];
                for (index, slope) in slopes[..here].iter_mut().enumerate() {
                    *slope = &rows[(row + index) * width..][..width];
                }
                let mut products = [[0.0; TAPS]; ROWS];
                match (here, count) {
                    (1, 1) => block::<S, 1, 1>(simd, &slopes, &lines, &mut products),
                    (1, _) => block::<S, 1, TAPS>(simd, &slopes, &lines, &mut products),
                    (2, _) => block::<S, 2, TAPS>(simd, &slopes, &lines, &mut products),
                    (_, 1) => block::<S, ROWS, 1>(simd, &slopes, &lines, &mut products),
                    (_, 2) => block::<S, ROWS, 2>(simd, &slopes, &lines, &mut products),
                    (_, 3 | 4) => block::<S, ROWS, 4>(simd, &slopes, &lines, &mut products),
                    _ => block::<S, ROWS, TAPS>(simd, &slopes, &lines, &mut products),
                }
                for (index, products) in products[..here].iter().enumerate() {
                    let to = &mut sums[(row + index) * columns + column..][..count];
                    to.iter_mut().zip(products).for_each(|(to, product)| *to += product);
                }
                row += here;
            }
            column += count;
        }
    }
}

/// Computes dot products of `R` rows and `T` lines, all of the same whole number of vectors.
#[inline(always)]
fn block<S: Simd, const R: usize, const T: usize>(
    simd: S,
    rows: &[&[f32]; ROWS],
    lines: &[&[f32]; TAPS],
    to: &mut [[f32; TAPS]; ROWS],
) {
    // No closures here: they would not be compiled for the dispatched instruction set.
    let mut sums = [[simd.splat_f32s(0.0); T]; R];
    let mut slopes: [&[S::f32s]; R] = [&[]; R];
    for (of, row) in slopes.iter_mut().zip(rows) {
        *of = S::as_simd_f32s(row).0;
    }
    let mut taps: [&[S::f32s]; T] = [&[]; T];
    for (of, line) in taps.iter_mut().zip(lines) {
        *of = S::as_simd_f32s(line).0;
    }
    let vectors = slopes[0].len();
    for slopes in &slopes {
        assert_eq!(slopes.len(), vectors);
    }
    for taps in &taps {
        assert_eq!(taps.len(), vectors);
    }
    for index in 0..vectors {
        let mut held = [simd.splat_f32s(0.0); R];
        for (held, slopes) in held.iter_mut().zip(&slopes) {
            *held = slopes[index];
        }
        for (tap, taps) in taps.iter().enumerate() {
            let x = taps[index];
            for (sums, &slope) in sums.iter_mut().zip(&held) {
                sums[tap] = simd.mul_add_e_f32s(slope, x, sums[tap]);
            }
        }
    }
    for (to, sums) in to.iter_mut().zip(sums) {
        for (to, sum) in to.iter_mut().zip(sums) {
            *to = simd.reduce_sum_f32s(sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::kernel::flex::level::tests::at_every_level;
    use burn::tensor::Tensor;

    use super::super::super::tests::{assert_close, random};
    use super::*;

    #[test]
    fn it_is_the_reference_for_filters_of_every_kind() {
        at_every_level(|| {
            for ([batch, channels, samples], [outputs, taps], [stride, padding, dilation]) in [
                ([1, 1, 1], [1, 1], [1, 0, 1]),
                ([2, 3, 50], [5, 7], [1, 3, 1]),
                ([2, 2, 2000], [9, 7], [1, 27, 9]),
                ([3, 8, 901], [6, 1], [1, 0, 1]),
                ([2, 5, 960], [7, 8], [4, 2, 1]),
                ([2, 4, 961], [3, 4], [2, 1, 1]),
                ([1, 3, 100], [2, 20], [10, 5, 1]),
                ([1, 13, 37], [10, 3], [1, 1, 1]),
            ] {
                let geometry = ConvGeometry { stride, padding: [padding; 2], dilation, groups: 1 };
                let x = random([batch, channels, samples]);
                let length = geometry.outputs(samples, taps);
                let gradient = random([batch, outputs, length]);
                let expected =
                    reference::filter_gradient::<Flex>(x.clone(), gradient.clone(), taps, geometry);
                let (x, gradient) = (primitive(x), primitive(gradient));
                let ours: Tensor<Flex, 3> = tensor(filter_gradient(x, gradient, taps, geometry));
                assert_close(ours, expected, 2e-4);
            }
        });
    }
}
