//! Windows: stretches of the input in the form that tiles read.

use std::cell::RefCell;

use pulp::bytemuck;
use rayon::prelude::*;

use super::{
    super::activation::ChannelActivation,
    amx::{self, LINES},
    pack::Form,
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
    /// Samples before the first, `[batch, channels, count]`, and their count.
    pub(super) past: (&'a [f32], usize),
    /// Activations of the channels, applied while they are read, but not to the past.
    pub(super) activations: Option<&'a [ChannelActivation]>,
}

impl<'a> Sound<'a> {
    /// Returns the input without past or activations.
    pub(super) fn plain(values: &'a [f32], channels: usize, samples: usize) -> Self {
        Self { values, channels, samples, past: (&[], 0), activations: None }
    }
}

/// The windows of all parts of an output, for several cores: each part needs its window for many rows.
pub(super) struct Windows {
    words: Vec<u32>,
    /// The index of the first word that begins with a line of the cache.
    first: usize,
    sizes: Sizes,
    reach: Reach,
}

impl Windows {
    /// Returns the window of a part.
    pub(super) fn at(&self, part: usize) -> Window<'_> {
        let size = self.sizes.words();
        let words = &self.words[self.first + part * size..][..size];
        self.sizes.window(words, &self.reach)
    }
}

/// The sizes of a window.
#[derive(Debug, Clone, Copy)]
struct Sizes {
    form: Form,
    lines: usize,
    samples: usize,
}

impl Sizes {
    fn is_by_sample(&self) -> bool {
        matches!(self.form, Form::Blocks | Form::Halves)
    }

    /// Words of a line, or of a sample in blocks.
    fn width(&self) -> usize {
        if self.is_by_sample() { amx::width(self.lines * self.form.parts()) } else { self.samples }
    }

    fn words(&self) -> usize {
        self.width() * if self.is_by_sample() { self.samples } else { self.lines }
    }

    /// Words of the pieces that are packed one after the other: a line, or some samples.
    fn piece(&self) -> usize {
        self.width() * if self.is_by_sample() { CHUNK } else { 1 }
    }

    fn window<'a>(&self, words: &'a [u32], reach: &Reach) -> Window<'a> {
        Window { words, width: self.width(), taps: reach.taps, step: reach.step }
    }
}

impl Sound<'_> {
    fn sizes(&self, count: usize, reach: &Reach, form: Form) -> Sizes {
        let lines = form.lines(self.channels * reach.stride);
        let samples = count.next_multiple_of(SAMPLES) + reach.span();
        Sizes { form, lines, samples }
    }

    /// Returns the input window for `count` outputs from `start` on of `item`, padded with zeros.
    pub(super) fn window<'a>(
        &self,
        item: usize,
        (start, count): (usize, usize),
        reach: &Reach,
        form: Form,
        into: &'a mut Scratch,
    ) -> Window<'a> {
        let sizes = self.sizes(count, reach, form);
        let Scratch { words, lines } = into;
        let words = aligned(words, sizes.words());
        for (piece, to) in words.chunks_mut(sizes.piece()).enumerate() {
            self.piece((item, start), (piece, sizes), reach, lines, to);
        }
        sizes.window(words, reach)
    }

    /// Returns the windows of parts of `part` outputs, `parts` of each item, packed on all cores.
    pub(super) fn windows(
        &self,
        (items, parts): (usize, usize),
        part: usize,
        reach: &Reach,
        form: Form,
    ) -> Windows {
        let sizes = self.sizes(part, reach, form);
        let count = items * parts * sizes.words();
        // Zeros of the system: the cores that fill the windows touch them first.
        let mut words = vec![0; count + LINES - 1];
        let first = aligned(&mut words, count).as_ptr().addr();
        let first = (first - words.as_ptr().addr()) / size_of::<u32>();
        let windows = words[first..][..count].par_chunks_mut(sizes.words()).enumerate();
        windows.for_each(|(index, to)| {
            let (item, start) = (index / parts, index % parts * part);
            let pieces = to.par_chunks_mut(sizes.piece()).enumerate();
            pieces.for_each(|(piece, to)| {
                with_rooms(|[room, _]| {
                    self.piece((item, start), (piece, sizes), reach, &mut room.lines, to);
                });
            });
        });
        Windows { words, first, sizes, reach: *reach }
    }

    /// Packs a piece of a window.
    fn piece(
        &self,
        (item, start): (usize, usize),
        (piece, sizes): (usize, Sizes),
        reach: &Reach,
        lines: &mut Vec<f32>,
        to: &mut [u32],
    ) {
        match sizes.form {
            Form::Single => self.line(item, piece, start, reach, bytemuck::cast_slice_mut(to)),
            Form::Pairs => {
                grow(lines, 2 * to.len());
                let (low, high) = lines[..2 * to.len()].split_at_mut(to.len());
                self.line(item, 2 * piece, start, reach, low);
                self.line(item, 2 * piece + 1, start, reach, high);
                pairs::pack(low, high, to);
            }
            Form::Blocks | Form::Halves => {
                grow(lines, 2 * LINES * CHUNK);
                let lines = lines.as_chunks_mut::<CHUNK>().0;
                let (start, count) = (start + piece * CHUNK, to.len() / sizes.width());
                for first in (0..sizes.lines).step_by(LINES) {
                    for (line, to) in (2 * first..).zip(&mut lines[..2 * LINES]) {
                        self.line(item, line, start, reach, &mut to[..count]);
                    }
                    let lines = &mut lines[..2 * LINES];
                    amx::pack::<CHUNK, LINES>(lines, to, sizes.width(), first);
                    if sizes.form == Form::Halves {
                        amx::keep_rests(lines);
                        amx::pack::<CHUNK, LINES>(lines, to, sizes.width(), sizes.lines + first);
                    }
                }
            }
        }
    }

    /// Copies the part of one line that outputs from `start` on need; a line that does not exist is zeros.
    fn line(&self, item: usize, line: usize, start: usize, reach: &Reach, to: &mut [f32]) {
        let stride = reach.stride;
        let (channel, phase) = (line / stride, line % stride);
        if channel >= self.channels {
            return to.fill(0.0);
        }
        let row = item * self.channels + channel;
        let (past, known) = self.past;
        let from =
            [&past[row * known..][..known], &self.values[row * self.samples..][..self.samples]];
        let first = (start * stride + phase) as isize + reach.first;
        // The first sample of the line that is at least at `place` of the channel.
        let at = |place: isize| ((place - first).max(0) as usize).div_ceil(stride).min(to.len());
        let places = [-(known as isize), 0];
        let [begin, middle, end] = [at(places[0]), at(0), at(self.samples as isize)];
        to[..begin].fill(0.0);
        to[end..].fill(0.0);
        let stretches = [begin..middle, middle..end];
        for ((stretch, from), place) in stretches.into_iter().zip(from).zip(places) {
            let to = &mut to[stretch.clone()];
            if to.is_empty() {
                continue;
            }
            let from = &from[(first + (stretch.start * stride) as isize - place) as usize..];
            match stride {
                1 => to.copy_from_slice(&from[..to.len()]),
                _ => to.iter_mut().zip(from.iter().step_by(stride)).for_each(|(to, x)| *to = *x),
            }
        }
        if let Some(activations) = self.activations {
            activations[channel].apply(&mut to[middle..end]);
        }
    }
}

/// Buffers of a window; each core has its own.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    pub(super) words: Vec<u32>,
    /// The lines of a pair or of a block.
    lines: Vec<f32>,
}

/// Samples of a block that are packed at once: with its lines they stay in a core's L1 cache.
const CHUNK: usize = 12 * LINES;

/// Returns `count` words of a buffer, from a line of the cache on. They may be anything.
pub(super) fn aligned(words: &mut Vec<u32>, count: usize) -> &mut [u32] {
    grow(words, count + LINES - 1);
    let first = words.as_ptr().align_offset(LINES * size_of::<u32>());
    &mut words[first..][..count]
}

/// Makes the buffer as long as it must be. It never shrinks, so that it is not filled with zeros again.
fn grow<T: Default + Clone>(buffer: &mut Vec<T>, length: usize) {
    if buffer.len() < length {
        buffer.resize(length, T::default());
    }
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
