//! Windows: stretches of the input in the form that tiles read.

use std::cell::RefCell;

use pulp::bytemuck;

use super::{
    super::snake::Curve,
    filter::Form,
    pairs,
    tile::{SAMPLES, Window},
};

/// The input samples that each output of a filter depends on.
///
/// A filter with stride `stride` is a filter with stride 1 over `stride` times as many lines. Line
/// `channel stride + phase` is every `stride`-th sample of the channel.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reach {
    /// The first input sample of the first output.
    pub(super) first: isize,
    pub(super) stride: usize,
    /// Distance between taps within a line.
    pub(super) step: usize,
    pub(super) taps: usize,
}

impl Reach {
    /// Returns the number of samples that a line needs beyond the first.
    pub(super) fn span(&self) -> usize {
        self.step * (self.taps - 1)
    }
}

/// The input, `[batch, channels, samples]`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sound<'a> {
    pub(super) values: &'a [f32],
    pub(super) channels: usize,
    pub(super) samples: usize,
    /// Snakes that are applied to the channels while they are read.
    pub(super) curves: Option<&'a [Curve]>,
}

impl Sound<'_> {
    /// Returns the input window for `count` outputs from `start` on of `item`, padded with zeros.
    pub(super) fn window<'a>(
        &self,
        item: usize,
        (start, count): (usize, usize),
        reach: &Reach,
        form: Form,
        into: &'a mut Scratch,
    ) -> Window<'a> {
        let width = count.next_multiple_of(SAMPLES) + reach.span();
        let lines = self.channels * reach.stride;
        let Scratch { words, low, high } = into;
        words.resize(form.lines(lines) * width, 0);
        for (index, to) in words.chunks_exact_mut(width).enumerate() {
            match form {
                Form::Single => self.line(item, index, start, reach, bytemuck::cast_slice_mut(to)),
                Form::Pairs | Form::Blocks => {
                    low.resize(width, 0.0);
                    self.line(item, 2 * index, start, reach, low);
                    high.clear();
                    if 2 * index + 1 < lines {
                        high.resize(width, 0.0);
                        self.line(item, 2 * index + 1, start, reach, high);
                    }
                    pairs::pack(low, high, to);
                }
            }
        }
        Window { words, width, taps: reach.taps, step: reach.step }
    }

    /// Copies the part of one line that outputs from `start` on need.
    fn line(&self, item: usize, line: usize, start: usize, reach: &Reach, to: &mut [f32]) {
        let stride = reach.stride;
        let (channel, phase) = (line / stride, line % stride);
        let from = &self.values[(item * self.channels + channel) * self.samples..][..self.samples];
        let first = (start * stride + phase) as isize + reach.first;
        // The range of the line in which the channel has samples.
        let before = first.min(0).unsigned_abs().div_ceil(stride).min(to.len());
        let first = (first + (before * stride) as isize).max(0) as usize;
        let there = self.samples.saturating_sub(first).div_ceil(stride).min(to.len() - before);
        to[..before].fill(0.0);
        to[before + there..].fill(0.0);
        let to = &mut to[before..before + there];
        if stride == 1 {
            to.copy_from_slice(&from[first.min(self.samples)..][..there]);
        } else {
            let from = from.get(first..).unwrap_or_default().iter().step_by(stride);
            to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
        }
        if let Some(curves) = self.curves {
            curves[channel].bend(to);
        }
    }
}

/// Buffers of a window; each core has its own.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    pub(super) words: Vec<u32>,
    low: Vec<f32>,
    high: Vec<f32>,
}

thread_local! {
    static ROOMS: RefCell<[Scratch; 2]> = RefCell::default();
}

/// Runs `work` with buffers for two windows.
pub(super) fn with_rooms<T>(work: impl FnOnce(&mut [Scratch; 2]) -> T) -> T {
    // The buffers are taken out of the cell, so that nested work gets its own.
    let mut rooms = ROOMS.take();
    let done = work(&mut rooms);
    ROOMS.set(rooms);
    done
}
