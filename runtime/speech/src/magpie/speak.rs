//! A text to speech: frames are decoded while they are written.

use std::{collections::VecDeque, fmt, time::Instant};

use acestep_engine::{Error, Event, Observe, progress::check, sampling::Draws};
use acestep_model::Backend;

use super::{
    choose::RandomSource,
    frames::{ChunkEnd, Frames, Stepped},
    networks::Networks,
    plan::Plan,
    sound::StreamingDecoder,
    stage,
    voiced::Voiced,
};
use crate::{
    guard::{Fault, Guard},
    spoken::{EndReason, Options, Segment, Spoken, StopReason, StreamItem, finish},
    track::Track,
};

/// The field of the limit of frames.
const LIMIT: &str = "max_decoder_steps";

/// Speaks a plan: an iterator over samples, and at the end the result.
///
/// Nothing is computed before it is asked for. An error, such as [`Error::Cancelled`], ends the run.
pub struct Speaking<'a, 'n, B: Backend> {
    networks: &'a Networks<'n, B>,
    observe: &'a dyn Observe,
    options: Options,
    plan: Plan,
    run: Frames<Voiced<B>>,
    decoding: StreamingDecoder<B>,
    track: Track,
    segments: Vec<Segment>,
    /// Segments that are not spoken because of a fault, if there was one.
    unspoken: Option<usize>,
    items: VecDeque<StreamItem>,
    is_over: bool,
}

impl<B: Backend> fmt::Debug for Speaking<'_, '_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Speaking").field("options", &self.options).field("run", &self.run).finish()
    }
}

impl<'a, 'n, B: Backend> Speaking<'a, 'n, B> {
    /// Loads the networks.
    ///
    /// # Errors
    /// The errors of loading and of the device; [`Error::Cancelled`].
    pub fn begin(
        plan: Plan,
        networks: &'a Networks<'n, B>,
        options: Options,
        observe: &'a dyn Observe,
    ) -> Result<Self, Error> {
        let sizes = networks.checkpoint().sizes();
        let source = RandomSource::Seeded(Box::new(Draws::new(plan.seed, sizes.code_rows())));
        Self::begin_with(source, plan, networks, options, observe)
    }

    /// As [`Self::begin`], with draws from `source` in place of the plan's seed.
    #[doc(hidden)]
    pub fn begin_with(
        source: RandomSource,
        plan: Plan,
        networks: &'a Networks<'n, B>,
        options: Options,
        observe: &'a dyn Observe,
    ) -> Result<Self, Error> {
        let start = options.since.unwrap_or_else(Instant::now);
        check(observe)?;
        observe.event(Event::Loading(stage::DECODER));
        let codes = networks.checkpoint().sizes().codes;
        let (run, decoding) = networks.catch(stage::DECODER, || {
            let voiced = Voiced::new(networks, plan.options)?;
            let run = Frames::new(voiced, plan.chunks.clone(), codes, plan.settings, source);
            Ok((run, StreamingDecoder::begin(networks)?))
        })?;
        let rate = networks.checkpoint().codec_config().frames_per_second();
        let speaking = Self {
            networks,
            observe,
            options,
            plan,
            run,
            decoding,
            track: Track::new(start, Guard::of_rate(rate), options),
            segments: Vec::new(),
            unspoken: None,
            items: VecDeque::new(),
            is_over: false,
        };
        speaking.advanced();
        Ok(speaking)
    }

    /// Takes a step. Returns false after the last one.
    fn step(&mut self) -> Result<bool, Error> {
        check(self.observe)?;
        let begin = Instant::now();
        let Self { networks, run, .. } = self;
        let stepped = networks.catch(stage::DECODER, || run.step())?;
        self.track.times.frames += begin.elapsed();
        let is_last = stepped.is_none();
        match stepped {
            Some(stepped) => self.take(stepped)?,
            None => self.decode()?,
        }
        if self.unspoken.is_none() && !is_last {
            return Ok(true);
        }
        self.end();
        Ok(false)
    }

    fn take(&mut self, stepped: Stepped) -> Result<(), Error> {
        self.track.chunk.extend(stepped.frames);
        if let Some(ended) = stepped.ended {
            let ended = match ended {
                ChunkEnd::Finished | ChunkEnd::Spoken => EndReason::Frames(StopReason::Finished),
                ChunkEnd::Limit => EndReason::Frames(StopReason::Limit { field: LIMIT }),
                ChunkEnd::HalfEnd => {
                    // A fault in the frames before it comes first.
                    self.decode()?;
                    if self.unspoken.is_some() {
                        return Ok(());
                    }
                    self.unspoken = Some(self.plan.texts.len() - self.segments.len() - 1);
                    EndReason::Fault(Fault::HalfEnd)
                }
            };
            let before: usize = self.segments.iter().map(|segment| segment.frames).sum();
            self.segments.push(Segment {
                text: self.plan.texts[self.segments.len()].clone(),
                seed: self.plan.seed,
                frames: self.frames() - before,
                ended,
            });
        }
        if self.track.is_due() {
            self.decode()?;
        }
        self.advanced();
        Ok(())
    }

    /// Decodes the frames that have no sound yet, and ends the speech at a fault in them.
    fn decode(&mut self) -> Result<(), Error> {
        let Self { networks, decoding, track, .. } = self;
        let (samples, fault) = track.decode(track.start, |chunk| {
            networks.catch(stage::CODEC_DECODER, || decoding.decode(chunk))
        })?;
        self.items.extend(samples.map(StreamItem::Samples));
        if let Some(fault) = fault {
            self.fail(fault);
        }
        Ok(())
    }

    /// Ends the speech at a fault in the last frame. Segments whose frames were not decoded do not
    /// count, so that the result does not depend on the sizes of chunks.
    fn fail(&mut self, fault: Fault) {
        let (mut index, mut frames) = (0, self.track.frames.len());
        while let Some(before) = self.segments.get(index).filter(|own| own.frames < frames) {
            frames -= before.frames;
            index += 1;
        }
        self.segments.truncate(index);
        let (text, seed) = (self.plan.texts[index].clone(), self.plan.seed);
        self.segments.push(Segment { text, seed, frames, ended: EndReason::Fault(fault) });
        self.unspoken = Some(self.plan.texts.len() - self.segments.len());
    }

    fn end(&mut self) {
        let sample_rate = self.networks.checkpoint().codec_config().sample_rate as u32;
        let spoken = self.track.end(std::mem::take(&mut self.segments), sample_rate);
        let elapsed = spoken.times.total;
        self.observe.event(Event::Finished { stage: stage::DECODER, elapsed });
        let unspoken = self.unspoken.unwrap_or(0);
        self.items.push_back(StreamItem::Done(Spoken { unspoken, ..spoken }));
    }

    /// The number of frames so far.
    fn frames(&self) -> usize {
        self.track.frames.len() + self.track.chunk.len()
    }

    fn advanced(&self) {
        let done = self.frames();
        let total = (self.plan.settings.most_frames * self.plan.chunks.len()).max(done);
        self.observe.event(Event::Advanced { stage: stage::DECODER, done, total });
    }
}

impl<B: Backend> Iterator for Speaking<'_, '_, B> {
    type Item = Result<StreamItem, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.items.is_empty() && !self.is_over {
            match self.step() {
                Ok(goes_on) => self.is_over = !goes_on,
                Err(error) => {
                    self.is_over = true;
                    return Some(Err(error));
                }
            }
        }
        self.items.pop_front().map(Ok)
    }
}

/// Speaks a plan. `sink` receives the samples of each chunk as soon as it is decoded; the run waits
/// for it.
///
/// # Errors
/// The errors of [`Speaking`] and of `sink`.
pub fn speak<B: Backend>(
    plan: Plan,
    networks: &Networks<'_, B>,
    options: Options,
    observe: &dyn Observe,
    sink: &mut dyn FnMut(&[f32]) -> Result<(), Error>,
) -> Result<Spoken, Error> {
    finish(Speaking::begin(plan, networks, options, observe)?, sink)
}
