//! Residual units, window by window: only their input and output pass through memory.
//!
//! ```text
//! x -> snake1 -> window -> conv1 -> snake2 -> window -> conv2 -> + x -> out
//! ```
//!
//! Both windows stay in a core's L2 cache.

use burn::tensor::{DType, Tensor, TensorMetadata};
use burn_flex::{Flex, FlexTensor};
use pulp::bytemuck;

use super::{
    super::{
        super::{
            ConvGeometry, primitive,
            residual::{self, Convolution, SnakeParams, UnitTensors},
            snake, tensor,
        },
        activation::ChannelActivation,
        contiguous, from_values,
        snake::Curve,
        zeros,
    },
    LEAST,
    amx::{self, LINES},
    dims,
    filter::Taps,
    filter1d,
    finish::Finish,
    is_ours,
    pack::Form,
    pairs,
    share::{cut, pieces, share_whole},
    sound::{Scratch, Sound, aligned, with_rooms},
    tile::{SAMPLES, Window},
};

/// Words of both windows.
const WINDOWS: usize = 1 << 17;

/// Kernel of [`super::super::super::Backend::residual_units`], for f32 and for weights of bf16.
pub(in super::super) fn residual_units(
    x: Tensor<Flex, 3>,
    units: Vec<UnitTensors<Flex>>,
    next: SnakeParams<Flex>,
    seen: &mut dyn FnMut(usize, &Tensor<Flex, 3>),
) -> Tensor<Flex, 3> {
    if !units.iter().all(|unit| keeps_shape(&x, unit)) {
        return residual::reference(x, units, next, seen);
    }
    let mut x = contiguous(primitive(x));
    let mut spare: Option<FlexTensor> = None;
    for (index, unit) in units.into_iter().enumerate() {
        // The previous unit's input buffer is reused for the next sum, if it is not shared.
        let mut sum = spare
            .filter(FlexTensor::is_unique)
            .unwrap_or_else(|| from_values(zeros(x.shape().num_elements()), dims(&x)));
        residual_unit(&x, unit, sum.storage_mut::<f32>());
        spare = Some(x);
        x = sum;
        let sum = tensor(x);
        seen(index, &sum);
        x = primitive(sum);
    }
    drop(spare);
    let [alpha, beta] = next;
    snake(tensor(x), alpha, beta)
}

/// True if this kernel supports the unit.
pub(super) fn keeps_shape(x: &Tensor<Flex, 3>, unit: &UnitTensors<Flex>) -> bool {
    let channels = x.dims()[1];
    let fits = |(weight, bias, geometry): &Convolution<Flex>| {
        let ConvGeometry { stride, padding: [left, right], groups, .. } = *geometry;
        let weight = Taps::of(weight.clone(), stride, false);
        let [outputs, inputs, taps] = weight.shape;
        let x = primitive(x.clone());
        let bias = bias.as_ref().map(|bias| primitive(bias.clone()));
        [outputs, inputs] == [channels; 2]
            && (stride, groups) == (1, 1)
            && left + right + 1 == geometry.reach(taps)
            && is_ours(&x, &weight, &bias)
    };
    let waves = unit.snake1.iter().chain(&unit.snake2);
    // Both windows have the form of the filters.
    let [form1, form2] = [&unit.conv1, &unit.conv2]
        .map(|conv| Taps::of(conv.0.clone(), conv.2.stride, false).form());
    let same = form1 == form2 && form1 != Form::Halves;
    let is_mixing = unit.conv2.0.dims()[2] == 1;
    let mut f32s = waves.map(Tensor::dtype);
    f32s.all(|of| of == DType::F32) && fits(&unit.conv1) && fits(&unit.conv2) && same && is_mixing
}

/// Computes one unit of `x` into `out`.
fn residual_unit(x: &FlexTensor, unit: UnitTensors<Flex>, out: &mut [f32]) {
    let [batch, channels, samples] = dims(x);
    let curves =
        |[alpha, beta]: SnakeParams<Flex>| Curve::of_channels(primitive(alpha), primitive(beta));
    let [curves1, curves2] = [unit.snake1, unit.snake2].map(curves);
    let parts = |(weight, bias, geometry): Convolution<Flex>| {
        let bias = bias.map(|bias| contiguous(primitive(bias)));
        (Taps::of(weight, geometry.stride, false).contiguous(), bias, geometry)
    };
    let [(weight1, bias1, geometry1), (weight2, bias2, geometry2)] =
        [unit.conv1, unit.conv2].map(parts);
    let (filter1, reach) = filter1d(&weight1, geometry1);
    let (filter2, _) = filter1d(&weight2, geometry2);
    let bias1 = bias1.as_ref().map(FlexTensor::storage::<f32>);
    let bias2 = bias2.as_ref().map(FlexTensor::storage::<f32>);
    let form = filter1.panels.form;
    let values = x.storage::<f32>();
    let activations: Vec<_> = curves1.into_iter().map(ChannelActivation::Snake).collect();
    let activations = Some(&activations[..]);
    let sound = Sound { activations, ..Sound::plain(values, channels, samples) };

    let part = part(form.lines(channels), reach.span(), batch * samples);
    let parts = samples.div_ceil(part);
    let stretches = cut(out, channels, samples, parts, |_| part);
    share_whole(stretches, |index, rows| {
        let (item, start) = (index / parts, index % parts * part);
        let count = part.min(samples - start);
        with_rooms(|[wide, mixed]| {
            let window = sound.window(item, (start, count), &reach, form, wide);
            let mut second = Second::new(channels, count, form, mixed);
            filter1.run(0..channels, window, count, |row, at, sums| {
                Finish { first: row, bias: bias1, curves: Some(&curves2) }.apply(sums);
                second.put(row, at, sums);
            });
            filter2.run(0..channels, second.window(), count, |row, at, sums| {
                Finish { first: row, bias: bias2, curves: None }.apply(sums);
                for (row, sums) in (row..).zip(sums) {
                    let x = &values[(item * channels + row) * samples..][start + at..];
                    let to = rows[row][at..].iter_mut().zip(x);
                    to.zip(sums).for_each(|((to, x), sum)| *to = x + *sum);
                }
            });
        });
    });
}

/// Returns the number of samples of a window, for `total` samples.
fn part(lines: usize, span: usize, total: usize) -> usize {
    let most = (WINDOWS / lines).saturating_sub(span) / 2;
    let enough = total.div_ceil(pieces()).next_multiple_of(SAMPLES);
    (most / SAMPLES * SAMPLES).max(LEAST).min(enough)
}

/// The input of the second filter, written by the first.
struct Second<'a> {
    words: &'a mut [u32],
    width: usize,
    form: Form,
}

impl<'a> Second<'a> {
    fn new(channels: usize, count: usize, form: Form, room: &'a mut Scratch) -> Self {
        let (samples, lines) = (count.next_multiple_of(SAMPLES), form.lines(channels));
        let (words, width) = match form {
            Form::Single | Form::Pairs => (aligned(&mut room.words, lines * samples), samples),
            Form::Blocks | Form::Halves => {
                let width = amx::width(lines);
                let words = aligned(&mut room.words, samples * width);
                if lines > channels.div_ceil(2) {
                    words.fill(0);
                }
                (words, width)
            }
        };
        Self { words, width, form }
    }

    /// Stores the sums of rows from `row` on, whole panels.
    fn put(&mut self, row: usize, at: usize, sums: &[[f32; SAMPLES]]) {
        if self.form == Form::Blocks {
            let to = &mut self.words[at * self.width..][..SAMPLES * self.width];
            let mut all = [[0.0; SAMPLES]; LINES];
            let sums = match sums.len() {
                LINES => sums,
                rows => {
                    all[..rows].copy_from_slice(sums);
                    &all
                }
            };
            return amx::pack::<SAMPLES, { LINES / 2 }>(sums, to, self.width, row / 2);
        }
        let lines = self.words.chunks_exact_mut(self.width).skip(self.form.lines(row));
        let places = lines.map(|line| &mut line[at..at + SAMPLES]);
        match self.form {
            Form::Single => places.zip(sums).for_each(|(to, sums)| {
                to.copy_from_slice(bytemuck::cast_slice(sums));
            }),
            Form::Blocks | Form::Halves => unreachable!("blocks are above"),
            Form::Pairs => places.zip(sums.chunks(2)).for_each(|(to, sums)| {
                let high: &[f32] = sums.get(1).map_or(&[], |high| high);
                pairs::pack(&sums[0], high, to);
            }),
        }
    }

    fn window(&self) -> Window<'_> {
        Window { words: self.words, width: self.width, taps: 1, step: 1 }
    }
}
