//! The frames of a run on their way to sound, the same for every family.

use std::{mem, time::Instant};

use acestep_engine::{Audio, Error};

use crate::{
    guard::{Fault, Guard},
    spoken::{Chunks, Options, Segment, Spoken, Times},
};

/// The frames of a run, and their sound as far as it is decoded.
#[derive(Debug)]
pub(crate) struct Track {
    /// Frames without sound yet.
    pub(crate) chunk: Vec<Vec<u32>>,
    /// Frames with sound.
    pub(crate) frames: Vec<Vec<u32>>,
    /// Their samples, if the result has them.
    samples: Vec<f32>,
    pub(crate) guard: Guard,
    /// The beginning of the run.
    pub(crate) start: Instant,
    pub(crate) times: Times,
    options: Options,
}

impl Track {
    /// A run that began at `start`; its prompt is read.
    pub(crate) fn new(start: Instant, guard: Guard, options: Options) -> Self {
        let (chunk, frames, samples) = (Vec::new(), Vec::new(), Vec::new());
        let times = Times { prompt: start.elapsed(), ..Times::default() };
        Self { chunk, frames, samples, guard, start, times, options }
    }

    /// The number of frames of the next piece of sound.
    pub(crate) fn size(&self) -> usize {
        let Chunks { first, others } = self.options.chunks;
        if self.frames.is_empty() { first } else { others }.max(1)
    }

    /// True if the chunk is long enough, or ends with a loop.
    pub(crate) fn is_due(&self) -> bool {
        self.chunk.len() >= self.size() || self.guard.is_loop(&self.chunk)
    }

    /// Decodes the chunk by `decode`. Returns its samples and its fault as [`Self::take`].
    ///
    /// # Errors
    /// The errors of `decode`.
    pub(crate) fn decode(
        &mut self,
        since: Instant,
        decode: impl FnOnce(&[Vec<u32>]) -> Result<Vec<f32>, Error>,
    ) -> Result<(Option<Vec<f32>>, Option<Fault>), Error> {
        let begin = Instant::now();
        let sound = decode(&self.chunk)?;
        self.times.codec += begin.elapsed();
        let fault = self.guard.add(&self.chunk, &sound);
        Ok((self.take(sound, fault, since), fault.map(|(_, fault)| fault)))
    }

    /// Takes the sound of the chunk, up to a `fault` in it. Returns its samples, unless there are none. The time
    /// of the first ones counts from `since`.
    pub(crate) fn take(
        &mut self,
        mut sound: Vec<f32>,
        fault: Option<(usize, Fault)>,
        since: Instant,
    ) -> Option<Vec<f32>> {
        if let Some((frames, _)) = fault {
            sound.truncate(sound.len() / self.chunk.len() * frames);
            self.chunk.truncate(frames);
        }
        let is_first = self.frames.is_empty();
        self.frames.append(&mut self.chunk);
        if is_first && !sound.is_empty() {
            self.times.first_sound = since.elapsed();
        }
        if self.options.keeps_samples {
            self.samples.extend_from_slice(&sound);
        }
        Some(sound).filter(|sound| !sound.is_empty())
    }

    /// Ends the run: returns its result, without words.
    pub(crate) fn end(&mut self, segments: Vec<Segment>, sample_rate: u32) -> Spoken {
        self.times.total = self.start.elapsed();
        Spoken {
            audio: Audio { channels: vec![mem::take(&mut self.samples)], sample_rate },
            frames: mem::take(&mut self.frames),
            words: Vec::new(),
            segments,
            unspoken: 0,
            times: self.times,
        }
    }
}
