//! Stretches of the input, as tiles read them.

use std::cell::RefCell;

use pulp::bytemuck;

use super::{
    super::snake::Curve,
    filter::Form,
    pairs,
    tile::{SAMPLES, Window},
};

/// Which samples of the input an output of a filter is made of.
///
/// A filter that moves by `stride` samples is one that moves by one, over `stride` times as many
/// lines: line `channel stride + phase` is every `stride`-th sample of the channel.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reach {
    /// The first of the first output.
    pub(super) first: isize,
    pub(super) stride: usize,
    /// Of a line, from one tap to the next.
    pub(super) step: usize,
    pub(super) taps: usize,
}

impl Reach {
    /// Samples of a line beyond the first.
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
    /// What its channels go through on their way.
    pub(super) curves: Option<&'a [Curve]>,
}

impl Sound<'_> {
    /// What `count` outputs from `start` on reach of item `item`, with zeros where there is nothing.
    pub(super) fn window<'a>(
        &self,
        item: usize,
        (start, count): (usize, usize),
        reach: &Reach,
        form: Form,
        into: &'a mut Room,
    ) -> Window<'a> {
        let width = count.next_multiple_of(SAMPLES) + reach.span();
        let lines = self.channels * reach.stride;
        let Room { words, low, high } = into;
        words.resize(form.lines(lines) * width, 0);
        for (index, to) in words.chunks_exact_mut(width).enumerate() {
            match form {
                Form::Single => self.line(item, index, start, reach, bytemuck::cast_slice_mut(to)),
                Form::Pairs => {
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

    /// What outputs from `start` on reach of one line.
    fn line(&self, item: usize, line: usize, start: usize, reach: &Reach, to: &mut [f32]) {
        let stride = reach.stride;
        let (channel, phase) = (line / stride, line % stride);
        let from = &self.values[(item * self.channels + channel) * self.samples..][..self.samples];
        let first = (start * stride + phase) as isize + reach.first;
        // Of the line, where the channel's samples begin and end.
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

/// Where a window is made; a core keeps its own.
#[derive(Debug, Default)]
pub(super) struct Room {
    pub(super) words: Vec<u32>,
    low: Vec<f32>,
    high: Vec<f32>,
}

thread_local! {
    static ROOMS: RefCell<[Room; 2]> = RefCell::default();
}

/// Does `work` with room for two windows.
pub(super) fn with_rooms<T>(work: impl FnOnce(&mut [Room; 2]) -> T) -> T {
    // Not borrowed while at work, so that work within work finds room of its own.
    let mut rooms = ROOMS.take();
    let done = work(&mut rooms);
    ROOMS.set(rooms);
    done
}
