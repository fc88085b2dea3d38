//! Texts to speech: frames are decoded while they are written.

use std::{collections::VecDeque, fmt, time::Instant};

use acestep_engine::{Error, Event, Observe, progress::check};
use acestep_model::Backend;

use super::{
    frames::{Frames, PromptCache, RunStep},
    networks::Networks,
    plan::Plan,
    snapshot::Snapshot,
    sound::{SAMPLE_RATE, StreamingDecoder},
    stage,
};
use crate::{
    guard::{Fault, Guard},
    spoken::{Chunks, EndReason, Options, Segment, Spoken, StreamItem, finish},
    track::Track,
};

/// Speaks a plan. `sink` receives the samples of each chunk as soon as it is decoded; the run waits
/// for it. `snapshot` belongs to the plan's voice, if it is known.
///
/// # Errors
/// The errors of [`Speaking`] and of `sink`.
pub fn speak<B: Backend>(
    plan: &Plan,
    snapshot: Option<&Snapshot<B>>,
    networks: &Networks<'_, B>,
    chunks: Chunks,
    observe: &dyn Observe,
    sink: &mut dyn FnMut(&[f32]) -> Result<(), Error>,
) -> Result<Spoken, Error> {
    let run = Speaking::begin(vec![plan.clone()], snapshot, networks, chunks.into(), observe)?;
    finish(run.map(|made| made.map(|(_, made)| made)), sink)
}

/// Speaks several plans, some of them side by side: an iterator over samples and results, with the
/// number of the plan.
///
/// Nothing is computed before it is asked for. An error, such as [`Error::Cancelled`], ends all runs.
pub struct Speaking<'a, 'n, B: Backend> {
    networks: &'a Networks<'n, B>,
    observe: &'a dyn Observe,
    snapshot: Option<&'a Snapshot<B>>,
    options: Options,
    frames: Frames<B>,
    waiting: VecDeque<(usize, Plan)>,
    runs: Vec<Run<B>>,
    items: VecDeque<(usize, StreamItem)>,
    start: Instant,
    failed: Option<Error>,
    is_over: bool,
    /// Frames so far, and about the most.
    progress: [usize; 2],
}

/// A run that has begun.
struct Run<B: Backend> {
    id: usize,
    plan: Plan,
    decoding: StreamingDecoder<B>,
    track: Track,
    segments: Vec<Segment>,
}

impl<B: Backend> fmt::Debug for Speaking<'_, '_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { options, progress, .. } = self;
        f.debug_struct("Speaking").field("options", options).field("progress", progress).finish()
    }
}

impl<'a, 'n, B: Backend> Speaking<'a, 'n, B> {
    /// Loads the networks. `snapshot` belongs to the voice of all plans, if it is known.
    ///
    /// # Errors
    /// The errors of loading and of the device; [`Error::Cancelled`].
    pub fn begin(
        plans: Vec<Plan>,
        snapshot: Option<&'a Snapshot<B>>,
        networks: &'a Networks<'n, B>,
        options: Options,
        observe: &'a dyn Observe,
    ) -> Result<Self, Error> {
        let start = options.since.unwrap_or_else(Instant::now);
        check(observe)?;
        observe.event(Event::Loading(stage::TALKER));
        let rows = options.batch_size.clamp(1, plans.len().max(1));
        let frames = networks.catch(stage::TALKER, || Frames::new(rows, networks))?;
        let most = |plan: &Plan| plan.most_frames * (1 + plan.following.len());
        let progress = [0, plans.iter().map(most).sum()];
        let speaking = Self {
            networks,
            observe,
            snapshot,
            options: Options { batch_size: rows, ..options },
            frames,
            waiting: plans.into_iter().enumerate().collect(),
            runs: Vec::new(),
            items: VecDeque::new(),
            start,
            failed: None,
            is_over: false,
            progress,
        };
        speaking.advanced();
        Ok(speaking)
    }

    /// Takes a step of all runs. Returns false if there is none.
    fn step(&mut self) -> Result<bool, Error> {
        check(self.observe)?;
        while self.runs.len() < self.options.batch_size
            && let Some((id, plan)) = self.waiting.pop_front()
        {
            self.add(id, plan)?;
        }
        if self.runs.is_empty() {
            let elapsed = self.start.elapsed();
            self.observe.event(Event::Finished { stage: stage::TALKER, elapsed });
            return Ok(false);
        }
        let begin = Instant::now();
        let Self { networks, frames, .. } = self;
        let steps = networks.catch(stage::TALKER, || frames.step())?;
        let elapsed = begin.elapsed();
        self.runs.iter_mut().for_each(|run| run.track.times.frames += elapsed);
        for (id, step) in steps {
            self.take(id, step)?;
        }
        self.advanced();
        Ok(true)
    }

    /// Begins run `id`.
    fn add(&mut self, id: usize, plan: Plan) -> Result<(), Error> {
        // The first runs count the time of loading too.
        let start = if self.progress[0] == 0 { self.start } else { Instant::now() };
        let Self { networks, frames, snapshot, .. } = self;
        let decoding = networks.catch(stage::TALKER, || {
            frames.begin(id, &plan, prefix(*snapshot));
            match snapshot {
                Some(snapshot) => Ok(snapshot.decoding.clone()),
                None => StreamingDecoder::of_plan(&plan, networks),
            }
        })?;
        let track = Track::new(start, Guard::default(), self.options);
        self.runs.push(Run { id, plan, decoding, track, segments: Vec::new() });
        Ok(())
    }

    fn take(&mut self, id: usize, step: RunStep) -> Result<(), Error> {
        let index = self.runs.iter().position(|run| run.id == id).expect("a run that has begun");
        let track = &mut self.runs[index].track;
        let ending = match step {
            RunStep::Frame(frame) => {
                track.chunk.push(frame);
                self.progress[0] += 1;
                None
            }
            RunStep::End(ending) => Some(ending),
        };
        let fault = match ending.is_some() || track.is_due() {
            true => self.decode(index)?,
            false => None,
        };
        match (fault, ending) {
            (Some(fault), _) => {
                self.frames.end(id);
                self.end_segment(index, EndReason::Fault(fault))
            }
            (None, Some(ending)) => self.end_segment(index, EndReason::Frames(ending)),
            (None, None) => Ok(()),
        }
    }

    /// Decodes the frames of a run that have no sound yet. Returns a fault if there is one.
    fn decode(&mut self, index: usize) -> Result<Option<Fault>, Error> {
        let Self { networks, runs, start, items, .. } = self;
        let Run { id, decoding, track, .. } = &mut runs[index];
        let (samples, fault) = track.decode(*start, |chunk| {
            networks.catch(stage::CODEC_DECODER, || decoding.decode(chunk))
        })?;
        items.extend(samples.map(|samples| (*id, StreamItem::Samples(samples))));
        Ok(fault)
    }

    /// Ends a segment: begins the next one, or ends the run.
    fn end_segment(&mut self, index: usize, ended: EndReason) -> Result<(), Error> {
        let Self { networks, frames, snapshot, .. } = self;
        let run = &mut self.runs[index];
        let before: usize = run.segments.iter().map(|segment| segment.frames).sum();
        let own = &run.track.frames[before..];
        let following = match ended {
            EndReason::Fault(_) => None,
            EndReason::Frames(_) => run.plan.next(own, networks.checkpoint())?,
        };
        let (text, seed, own) = (run.plan.text.clone(), run.plan.seed, own.len());
        run.segments.push(Segment { text, seed, frames: own, ended });
        if let Some(plan) = following {
            networks.catch(stage::TALKER, || {
                frames.begin(run.id, &plan, prefix(*snapshot));
                Ok(())
            })?;
            run.plan = plan;
            return Ok(());
        }
        let Run { id, plan, mut track, segments, .. } = self.runs.remove(index);
        let unspoken = plan.following.len();
        let spoken = Spoken { unspoken, ..track.end(segments, SAMPLE_RATE) };
        self.items.push_back((id, StreamItem::Done(spoken)));
        Ok(())
    }

    fn advanced(&self) {
        let [done, most] = self.progress;
        let total = most.max(done);
        self.observe.event(Event::Advanced { stage: stage::TALKER, done, total });
    }
}

fn prefix<B: Backend>(snapshot: Option<&Snapshot<B>>) -> Option<&PromptCache<B>> {
    snapshot.map(|snapshot| &snapshot.prefix)
}

impl<B: Backend> Iterator for Speaking<'_, '_, B> {
    type Item = Result<(usize, StreamItem), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.items.is_empty() && !self.is_over {
            match self.step() {
                Ok(goes_on) => self.is_over = !goes_on,
                Err(error) => (self.failed, self.is_over) = (Some(error), true),
            }
        }
        // Results that were complete before an error come first.
        match self.items.pop_front() {
            Some(item) => Some(Ok(item)),
            None => self.failed.take().map(Err),
        }
    }
}
