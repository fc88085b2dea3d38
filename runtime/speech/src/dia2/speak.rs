//! A plan to speech: frames are decoded while they are written.

use std::{collections::VecDeque, fmt, ops::Range, time::Instant};

use acestep_engine::{Error, Event, Observe, progress::check, sampling::Draws};
use acestep_model::Backend;

use super::{
    audible::{AudibleFrames, Beginning},
    begin::{fresh, of_snapshot},
    choose::Drawing,
    dialogue::{Dialogue, StreamItem},
    networks::{Networks, Pair},
    plan::{Plan, VoiceKind},
    run::{self, Run},
    script::Entry,
    snapshot::Snapshot,
    sound::{SAMPLE_RATE, StreamingDecoder},
    stage,
    step::Chooser,
    times::times,
};
use crate::{
    guard::{Fault, Guard},
    spoken::{Chunks, EndReason, Options, Segment, Spoken, StopReason, finish},
    track::Track,
};

/// Speaks a plan. `sink` receives the samples of each chunk as soon as it is decoded; the run waits
/// for it. A plan of a kept voice needs its `snapshot`.
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
) -> Result<Dialogue, Error> {
    finish(Speaking::begin(plan.clone(), snapshot, networks, chunks, observe)?, sink)
}

/// Speaks a plan: an iterator over samples, then the result.
///
/// Nothing is computed before it is asked for. An error, such as [`Error::Cancelled`], ends the run.
pub struct Speaking<'a, 'n, B: Backend> {
    networks: &'a Networks<'n, B>,
    observe: &'a dyn Observe,
    plan: Plan,
    run: Run<Pair<B>>,
    heard: AudibleFrames,
    /// Words of recordings at the beginning of the transcript that are not heard.
    silent_words: usize,
    decoding: StreamingDecoder<B>,
    track: Track,
    /// The next frame of the run.
    next: usize,
    /// Frames of recordings, whose codes are known.
    recorded: usize,
    /// The frames that are decoded as soon as the code of their first codebook is known: the first ones
    /// after the recordings.
    early: Range<usize>,
    /// Frames that are decoded and not heard.
    unheard: usize,
    items: VecDeque<StreamItem>,
    is_over: bool,
}

impl<B: Backend> fmt::Debug for Speaking<'_, '_, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Speaking").field("run", &self.run).finish_non_exhaustive()
    }
}

impl<'a, 'n, B: Backend> Speaking<'a, 'n, B> {
    /// Loads the networks, and reads the recordings of the plan. `options.batch_size` is not used: a
    /// dialogue is one run.
    ///
    /// # Errors
    /// The errors of loading and of the device; [`Error::Cancelled`]; [`Error::Conflict`] if the
    /// snapshot is not one of the plan.
    pub fn begin(
        plan: Plan,
        snapshot: Option<&Snapshot<B>>,
        networks: &'a Networks<'n, B>,
        options: impl Into<Options>,
        observe: &'a dyn Observe,
    ) -> Result<Self, Error> {
        let drawing = Box::new(Draws::new(plan.seed, 1));
        Self::begin_with(drawing, plan, snapshot, networks, options, observe)
    }

    /// As [`Self::begin`], with another source of draws than the seed of the plan. `options.batch_size` is
    /// not used: a dialogue is one run.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub fn begin_with(
        drawing: Box<dyn Drawing>,
        plan: Plan,
        snapshot: Option<&Snapshot<B>>,
        networks: &'a Networks<'n, B>,
        options: impl Into<Options>,
        observe: &'a dyn Observe,
    ) -> Result<Self, Error> {
        let options = options.into();
        let start = options.since.unwrap_or_else(Instant::now);
        check(observe)?;
        let Plan { guidance, text, audio, .. } = plan;
        let snapshot = match (&plan.voice, snapshot) {
            (VoiceKind::Kept, Some(snapshot)) if snapshot.serves(&plan) => Some(snapshot),
            (VoiceKind::Own | VoiceKind::Recorded(_), None) => None,
            _ => return Err(Error::Conflict("the snapshot is not that of the plan".to_owned())),
        };
        observe.event(Event::Loading(stage::SPEECH));
        let pair = networks.catch(stage::SPEECH, || networks.pair())?;
        let (state, known) = match snapshot {
            Some(snapshot) => (of_snapshot(snapshot, &plan, &pair, networks)?, snapshot.known),
            None => (fresh(&plan, &pair, networks, observe)?, 0),
        };
        let first = state.step;
        let beginning = match &plan.voice {
            // The codec reads what was before, so that the sound goes on from it.
            VoiceKind::Kept => Beginning::At(0),
            _ if plan.include_prefix => Beginning::At(0),
            _ if plan.streams.ahead > 0 => Beginning::At(first),
            _ => Beginning::Word { less: plan.initial_padding, otherwise: first },
        };
        let (decoding, next) = match snapshot {
            Some(snapshot) => (snapshot.decoding.clone(), snapshot.decoded),
            None => {
                (networks.catch(stage::CODEC_DECODER, || StreamingDecoder::begin(networks))?, 0)
            }
        };
        let (recorded, from) = match &plan.voice {
            VoiceKind::Own => (0, 0),
            VoiceKind::Recorded(prefix) => (prefix.frames.len(), prefix.frames.len()),
            VoiceKind::Kept => (known, first),
        };
        let early = from..from + plan.early;
        let silent_words = match &plan.voice {
            VoiceKind::Recorded(prefix) if !plan.include_prefix => {
                prefix.entries.iter().filter(|entry| !entry.is_break()).count()
            }
            _ => 0,
        };
        let chooser = Chooser { guidance, text, audio, drawing };
        let most = plan.most_steps;
        let run = Run::new(state, (known, most), chooser, plan.streams.clone(), pair);
        let speaking = Self {
            networks,
            observe,
            heard: AudibleFrames::new(beginning),
            silent_words,
            decoding,
            track: Track::new(start, Guard::default(), options),
            next,
            recorded,
            early,
            unheard: if snapshot.is_some() { first - next } else { 0 },
            items: VecDeque::new(),
            is_over: false,
            run,
            plan,
        };
        speaking.advanced();
        Ok(speaking)
    }

    /// The steps, with facts that are not in the result.
    pub fn run(&self) -> &Run<Pair<B>> {
        &self.run
    }

    /// Adds entries to the script, so that the run goes on.
    pub fn append(&mut self, entries: impl IntoIterator<Item = Entry>) {
        self.run.append(entries);
    }

    /// True if the next step may depend on entries that are not there: see [`super::StateMachine::wants_entries`].
    pub fn wants_entries(&self) -> bool {
        self.run.ending().is_none() && self.run.state().machine.wants_entries()
    }

    /// True if more samples are certain to come after the last ones of [`Self::take_item`]: the next frame is
    /// complete before the run can end.
    pub fn goes_on(&self) -> bool {
        !self.is_over && self.run.state().frames() + self.run.steps_left() > self.next
    }

    /// Takes the next result of the steps so far.
    pub fn take_item(&mut self) -> Option<StreamItem> {
        self.items.pop_front()
    }

    /// Takes one step; nothing after the end.
    ///
    /// # Errors
    /// As the iterator; an error ends the run.
    pub fn advance(&mut self) -> Result<(), Error> {
        if self.is_over {
            return Ok(());
        }
        self.step().inspect_err(|_| self.is_over = true)
    }

    /// Takes a step, and decodes a chunk if it is complete.
    fn step(&mut self) -> Result<(), Error> {
        check(self.observe)?;
        let begin = Instant::now();
        let Self { networks, run, .. } = self;
        let step = networks.catch(stage::SPEECH, || run.advance())?;
        self.track.times.frames += begin.elapsed();
        if let Some(step) = step
            && step.text.main == self.plan.streams.ids.new_word
        {
            self.heard.word(step.step);
        }
        while let Some(frame) = self.next_frame() {
            self.next += 1;
            self.track.chunk.extend(self.heard.add(frame));
        }
        let ending = self.run.ending();
        if ending.is_some() {
            self.track.chunk.extend(self.heard.end());
        }
        self.advanced();
        let is_long = self.track.chunk.len() >= self.unheard + self.track.size();
        let is_due = is_long || ending.is_some() || self.is_loop();
        let fault = if is_due { self.decode()? } else { None };
        match (fault, ending) {
            (Some(fault), _) => self.end(EndReason::Fault(fault)),
            (None, Some(ending)) => self.end(EndReason::Frames(ended(ending))),
            (None, None) => (),
        }
        Ok(())
    }

    fn next_frame(&self) -> Option<Vec<u32>> {
        let Range { start, end } = self.early;
        if start == end || self.next >= end {
            return self.run.frame(self.next);
        }
        // The frames before are those of recordings, or are not heard. They wait: else a pause would follow.
        self.run.begun_frame(start.max(self.next))?;
        match self.next < self.recorded {
            true => self.run.state().grid.frame(self.next),
            false => self.run.begun_frame(self.next),
        }
    }

    /// Decodes the frames that have no sound yet. Returns a fault if there is one.
    fn decode(&mut self) -> Result<Option<Fault>, Error> {
        let begin = Instant::now();
        let Self { networks, decoding, track, .. } = self;
        let mut sound = networks.catch(stage::CODEC_DECODER, || decoding.decode(&track.chunk))?;
        track.times.codec += begin.elapsed();
        let unheard = self.unheard.min(track.chunk.len());
        self.unheard -= unheard;
        track.chunk.drain(..unheard);
        sound.drain(..unheard * decoding.samples_per_frame());
        let fault = self.watch(&sound);
        let samples = self.track.take(sound, fault, self.track.start);
        self.items.extend(samples.map(StreamItem::Samples));
        Ok(fault.map(|(_, fault)| fault))
    }

    /// True if the frames that have no sound yet end with a loop: it is noticed before a long chunk is
    /// complete.
    fn is_loop(&self) -> bool {
        let heard = self.track.chunk.get(self.unheard..).unwrap_or_default();
        let watched = heard.iter().enumerate().filter(|&(index, _)| self.is_watched(index));
        self.track.guard.is_loop(watched.map(|(_, frame)| frame))
    }

    /// True if a fault is looked for in a frame of the chunk, the first one that is heard being 0. Breaks of
    /// the script, the rest before its first word, and the user's own recordings may be as long as they like.
    fn is_watched(&self, index: usize) -> bool {
        let frame = self.first() + self.track.frames.len() + index;
        let recorded = match &self.plan.voice {
            VoiceKind::Recorded(prefix) => prefix.frames.len(),
            VoiceKind::Own | VoiceKind::Kept => 0,
        };
        let first_word = self.run.start() + self.plan.initial_padding;
        frame >= recorded.max(first_word) && !self.run.state().machine.is_break(frame)
    }

    /// Looks for a fault in the frames of the chunk: its number of frames, the last one at fault.
    fn watch(&mut self, sound: &[f32]) -> Option<(usize, Fault)> {
        let per_frame = self.decoding.samples_per_frame();
        for (index, samples) in sound.chunks(per_frame).enumerate() {
            if !self.is_watched(index) {
                continue;
            }
            let Track { chunk, guard, .. } = &mut self.track;
            if let Some((_, fault)) = guard.add(std::slice::from_ref(&chunk[index]), samples) {
                return Some((index + 1, fault));
            }
        }
        None
    }

    /// The step of the first frame that is heard.
    fn first(&self) -> usize {
        match self.plan.voice {
            VoiceKind::Kept => self.run.start(),
            VoiceKind::Own | VoiceKind::Recorded(_) => self.heard.first().unwrap_or_default(),
        }
    }

    fn end(&mut self, ended: EndReason) {
        self.is_over = true;
        let machine = &self.run.state().machine;
        let transcript = machine.transcript();
        let transcript = transcript.get(self.silent_words..).unwrap_or_default();
        let rate = self.plan.streams.frame_rate;
        let words = times(transcript, self.first(), self.track.frames.len(), rate);
        let left = machine.left();
        let segment = Segment {
            text: self.plan.script.clone(),
            seed: self.plan.seed,
            frames: self.track.frames.len(),
            ended,
        };
        let first = self.first();
        let mut spoken = Spoken { words, ..self.track.end(vec![segment], SAMPLE_RATE) };
        let (frames, elapsed) = (&mut spoken.frames, spoken.times.total);
        self.observe.event(Event::Finished { stage: stage::SPEECH, elapsed });
        // The codes that were missing when a frame was decoded. A run that ended before they were known
        // leaves the frame out.
        for number in self.early.clone() {
            let Some(index) = number.checked_sub(first).filter(|index| *index < frames.len())
            else {
                continue;
            };
            match self.run.frame(number) {
                Some(frame) => frames[index] = frame,
                None => frames.truncate(index),
            }
        }
        self.items.push_back(StreamItem::Done(Dialogue { spoken, left }));
    }

    fn advanced(&self) {
        let (start, step) = (self.run.start(), self.run.state().step);
        let room = self.plan.streams.most_steps.saturating_sub(start);
        let (done, total) = (step - start, self.plan.most_steps.min(room).max(1));
        self.observe.event(Event::Advanced { stage: stage::SPEECH, done, total });
    }
}

impl<B: Backend> Iterator for Speaking<'_, '_, B> {
    type Item = Result<StreamItem, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.items.is_empty() && !self.is_over {
            if let Err(error) = self.advance() {
                return Some(Err(error));
            }
        }
        self.take_item().map(Ok)
    }
}

fn ended(ending: run::RunEnd) -> StopReason {
    match ending {
        run::RunEnd::Finished => StopReason::Finished,
        run::RunEnd::Context => StopReason::Context { field: "max_context_steps" },
        run::RunEnd::Limit => StopReason::Limit { field: "max_steps" },
    }
}
