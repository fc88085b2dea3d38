//! Operations that depend on the time, in one pass over memory. Plain operations broadcast each
//! element separately.

use burn::tensor::{DType, TensorMetadata};
use burn_flex::{Flex, FlexTensor};
use rayon::prelude::*;

use super::{
    super::{primitive, reference, tensor},
    WORTH_SHARING, cleared, contiguous, from_values,
    gradient::Norm,
    level,
    rms_norm::NormRows,
};

/// Returns `[B, P, H]` if all `rows` have that shape, all of `per_item` are `[B, 1, H]`, and all
/// are f32.
fn shape(rows: &[&FlexTensor], per_item: &[&FlexTensor]) -> Option<[usize; 3]> {
    let all_f32 = rows.iter().chain(per_item).all(|of| of.dtype() == DType::F32);
    let [batch, length, width] = rows[0].shape().dims();
    let fits = |of: &&FlexTensor, length| of.shape().dims() == [batch, length, width];
    let fit = rows.iter().all(|of| fits(of, length)) && per_item.iter().all(|of| fits(of, 1));
    (all_f32 && fit && batch * length * width > 0).then_some([batch, length, width])
}

/// Returns the number of values in a piece of whole rows of one item.
fn piece(length: usize, width: usize) -> usize {
    width * (WORTH_SHARING / width).clamp(1, length)
}

/// Kernel of [`super::super::Backend::ada_norm`], for f32.
pub(super) fn ada_norm(
    x: FlexTensor,
    weight: FlexTensor,
    epsilon: f64,
    shift: FlexTensor,
    scale: FlexTensor,
) -> FlexTensor {
    let Some([batch, length, width]) =
        shape(&[&x], &[&shift, &scale]).filter(|_| weight.dtype() == DType::F32)
    else {
        let [shift, scale] = [shift, scale].map(tensor);
        return primitive(reference::ada_norm::<Flex>(
            tensor(x),
            tensor(weight),
            epsilon,
            shift,
            scale,
        ));
    };
    let [x, weight, shift, scale] = [x, weight, shift, scale].map(contiguous);
    let stretched = stretched(weight.storage(), scale.storage());
    let (piece, size) = (piece(length, width), length * width);
    let (x, shift) = (x.storage::<f32>(), shift.storage::<f32>());
    let lengths = x.chunks(size).flat_map(|item| item.chunks(piece)).map(<[f32]>::len);
    let pieces = size.div_ceil(piece);
    let values = cleared::in_parts(0.0, lengths, |index, y| {
        let (item, start) = (index / pieces, index % pieces * piece);
        let x = &x[item * size + start..][..y.len()];
        let [weight, shift] = [&stretched[..], shift].map(|of| &of[item * width..][..width]);
        level::arch().dispatch(NormRows { x, weight, epsilon, y: &mut *y });
        for y in y.chunks_exact_mut(width) {
            y.iter_mut().zip(shift).for_each(|(y, shift)| *y += shift);
        }
    });
    from_values(values, [batch, length, width])
}

/// Returns the norm's weight with each item's scale applied: `w (1 + scale)`.
fn stretched(weight: &[f32], scale: &[f32]) -> Vec<f32> {
    let of_item = |scale: &[f32]| -> Vec<f32> {
        weight.iter().zip(scale).map(|(weight, scale)| weight * (1.0 + scale)).collect()
    };
    scale.chunks_exact(weight.len()).flat_map(of_item).collect()
}

/// Kernel of [`super::super::Backend::ada_norm_gradients`], for f32.
pub(super) fn ada_norm_gradients(
    x: FlexTensor,
    weight: FlexTensor,
    epsilon: f64,
    scale: FlexTensor,
    gradient: FlexTensor,
) -> [FlexTensor; 4] {
    let Some([batch, length, width]) =
        shape(&[&x, &gradient], &[&scale]).filter(|_| weight.dtype() == DType::F32)
    else {
        let [x, scale, gradient] = [x, scale, gradient].map(tensor);
        let passed =
            reference::ada_norm_gradients::<Flex>(x, tensor(weight), epsilon, scale, gradient);
        let (of_x, of_weight, [of_shift, of_scale]) = passed;
        return [primitive(of_x), primitive(of_weight), primitive(of_shift), primitive(of_scale)];
    };
    let [x, weight, scale] = [x, weight, scale].map(contiguous);
    let mut gradient = contiguous(gradient);
    let (weights, scales) = (weight.storage::<f32>(), scale.storage::<f32>());
    let stretched = stretched(weights, scales);
    let (x, slopes) = (x.storage::<f32>(), gradient.storage_mut::<f32>());
    // For each item, the sums over its rows of `g` and of `g` times the normed input.
    let sums = summed::<2>(x, slopes, [length, width], |item, x, slope, [of_shift, of_weight]| {
        let weight = &stretched[item * width..][..width];
        slope.chunks_exact(width).for_each(|row| add(of_shift, row));
        level::arch().dispatch(Norm { x, weight, epsilon, slope, of_weight });
    });
    let mut of_weight = vec![0.0; width];
    let mut of_shift = Vec::with_capacity(batch * width);
    let mut of_scale = Vec::with_capacity(batch * width);
    for ([shift, normed], scale) in sums.iter().zip(scales.chunks_exact(width)) {
        of_shift.extend(shift);
        of_scale.extend(normed.iter().zip(weights).map(|(of, weight)| of * weight));
        let all = of_weight.iter_mut().zip(normed).zip(scale);
        all.for_each(|((sum, of), scale)| *sum += of * (1.0 + scale));
    }
    let per_item = [batch, 1, width];
    let of_weight = from_values(of_weight, [width]);
    [gradient, of_weight, from_values(of_shift, per_item), from_values(of_scale, per_item)]
}

/// Calls `work` with pieces of whole rows: the item's number, the piece of `x`, the piece of `slopes`, and
/// sums of a row to add to. Returns the sums of each item.
///
/// The number of pieces does not depend on the number of cores, so a sum is always the same.
fn summed<const N: usize>(
    x: &[f32],
    slopes: &mut [f32],
    [length, width]: [usize; 2],
    work: impl Fn(usize, &[f32], &mut [f32], &mut [Vec<f32>; N]) + Sync,
) -> Vec<[Vec<f32>; N]> {
    let (size, piece) = (length * width, piece(length, width));
    let zeros = || -> [Vec<f32>; N] { std::array::from_fn(|_| vec![0.0; width]) };
    let items = x.par_chunks(size).zip(slopes.par_chunks_mut(size)).enumerate();
    let item = |(item, (x, slopes)): (usize, (&[f32], &mut [f32]))| {
        let parts = x.par_chunks(piece).zip(slopes.par_chunks_mut(piece)).map(|(x, slopes)| {
            let mut sums = zeros();
            work(item, x, slopes, &mut sums);
            sums
        });
        let parts: Vec<[Vec<f32>; N]> = parts.collect();
        parts.into_iter().fold(zeros(), |mut sums, part| {
            sums.iter_mut().zip(part).for_each(|(sum, part)| add(sum, &part));
            sums
        })
    };
    items.map(item).collect()
}

fn add(sum: &mut [f32], row: &[f32]) {
    sum.iter_mut().zip(row).for_each(|(sum, of)| *sum += of);
}

/// Kernel of [`super::super::Backend::add_gated`], for f32.
pub(super) fn add_gated(x: FlexTensor, gate: FlexTensor, y: FlexTensor) -> FlexTensor {
    let Some([_, length, width]) = shape(&[&x, &y], &[&gate]) else {
        return primitive(reference::add_gated::<Flex>(tensor(x), tensor(gate), tensor(y)));
    };
    let [gate, y] = [gate, y].map(contiguous);
    let mut x = contiguous(x);
    let items = x.storage_mut::<f32>().par_chunks_mut(length * width);
    let items = items.zip(y.storage::<f32>().par_chunks(length * width));
    let piece = piece(length, width);
    items.zip(gate.storage::<f32>().par_chunks(width)).for_each(|((x, y), gate)| {
        x.par_chunks_mut(piece).zip(y.par_chunks(piece)).for_each(|(x, y)| {
            for (x, y) in x.chunks_exact_mut(width).zip(y.chunks_exact(width)) {
                x.iter_mut().zip(y).zip(gate).for_each(|((x, y), gate)| *x += y * gate);
            }
        });
    });
    x
}

/// Kernel of [`super::super::Backend::add_gated_gradients`], for f32.
pub(super) fn add_gated_gradients(
    gate: FlexTensor,
    y: FlexTensor,
    gradient: FlexTensor,
) -> [FlexTensor; 2] {
    let Some([batch, length, width]) = shape(&[&y, &gradient], &[&gate]) else {
        let (y, gradient) = (tensor(y), tensor(gradient));
        return reference::add_gated_gradients::<Flex>(tensor(gate), y, gradient).map(primitive);
    };
    let [gate, y] = [gate, y].map(contiguous);
    let mut gradient = contiguous(gradient);
    let (gates, slopes) = (gate.storage::<f32>(), gradient.storage_mut::<f32>());
    let y = y.storage::<f32>();
    let sums = summed::<1>(y, slopes, [length, width], |item, y, slope, [of_gate]| {
        let gate = &gates[item * width..][..width];
        for (y, slope) in y.chunks_exact(width).zip(slope.chunks_exact_mut(width)) {
            let all = of_gate.iter_mut().zip(slope).zip(y.iter().zip(gate));
            for ((sum, slope), (y, gate)) in all {
                *sum += *slope * y;
                *slope *= gate;
            }
        }
    });
    let of_gate: Vec<f32> = sums.into_iter().flatten().flatten().collect();
    [from_values(of_gate, [batch, 1, width]), gradient]
}

#[cfg(test)]
mod tests {
    use super::super::tests::{assert_close, at_every_level, random};
    use super::*;

    /// Shapes of one piece and of several.
    const SHAPES: [[usize; 3]; 4] = [[1, 1, 1], [3, 5, 40], [2, 90, 257], [2, 40, 1024]];

    #[test]
    fn the_norm_and_what_it_passes_back_are_the_reference() {
        at_every_level(|| {
            for [batch, length, width] in SHAPES {
                let [x, gradient] = [0, 1].map(|_| random([batch, length, width]));
                let [shift, scale] = [0, 1].map(|_| random([batch, 1, width]));
                let weight = random([width]);
                let expected = reference::ada_norm::<Flex>(
                    x.clone(),
                    weight.clone(),
                    1e-6,
                    shift.clone(),
                    scale.clone(),
                );
                let [x, gradient] = [x, gradient].map(primitive);
                let [shift, scale] = [shift, scale].map(primitive);
                let ours =
                    ada_norm(x.clone(), primitive(weight.clone()), 1e-6, shift, scale.clone());
                assert_close::<3>(tensor(ours), expected, 5e-6);

                let (of_x, of_weight, of_item) = reference::ada_norm_gradients::<Flex>(
                    tensor(x.clone()),
                    weight.clone(),
                    1e-6,
                    tensor(scale.clone()),
                    tensor(gradient.clone()),
                );
                let ours = ada_norm_gradients(x, primitive(weight), 1e-6, scale, gradient);
                let [ours_x, ours_weight, ours_shift, ours_scale] = ours;
                assert_close::<3>(tensor(ours_x), of_x, 5e-5);
                assert_close::<1>(tensor(ours_weight), of_weight, 2e-4);
                for (ours, expected) in [ours_shift, ours_scale].into_iter().zip(of_item) {
                    assert_close::<3>(tensor(ours), expected, 1e-4);
                }
            }
        });
    }

    #[test]
    fn the_gate_and_what_it_passes_back_are_the_reference() {
        at_every_level(|| {
            for [batch, length, width] in SHAPES {
                let [x, y, gradient] = [0, 1, 2].map(|_| random([batch, length, width]));
                let gate = random([batch, 1, width]);
                let expected = reference::add_gated::<Flex>(x.clone(), gate.clone(), y.clone());
                let [x, y, gradient] = [x, y, gradient].map(primitive);
                let ours = add_gated(x, primitive(gate.clone()), y.clone());
                assert_close::<3>(tensor(ours), expected, 2e-6);

                let expected = reference::add_gated_gradients::<Flex>(
                    gate.clone(),
                    tensor(y.clone()),
                    tensor(gradient.clone()),
                );
                let ours = add_gated_gradients(primitive(gate), y, gradient);
                for (ours, expected) in ours.into_iter().zip(expected) {
                    assert_close::<3>(tensor(ours), expected, 1e-4);
                }
            }
        });
    }
}
