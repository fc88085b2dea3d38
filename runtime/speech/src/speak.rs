//! One text to speech: frames are decoded while they are written.

use std::time::{Duration, Instant};

use acestep_engine::{Audio, Error, Event, Notice, Observe, progress::check};
use acestep_model::Backend;

use crate::{
    frames::{Ending, Frames},
    guard::{Fault, Guard},
    networks::Networks,
    plan::Plan,
    sound::{Decoding, SAMPLE_RATE},
    stage,
};

/// Frames per chunk of sound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunks {
    /// Frames of the first chunk; few for an early first sound.
    pub first: usize,
    /// Frames of every other chunk; many cost less work.
    pub others: usize,
}

impl Default for Chunks {
    fn default() -> Self {
        Self { first: 1, others: 8 }
    }
}

/// The result of a run.
#[derive(Debug, Clone)]
pub struct Spoken {
    /// The sound, mono at 24 kHz.
    pub audio: Audio,
    /// The codes, one list per frame.
    pub frames: Vec<Vec<u32>>,
    /// The reason of the end.
    pub ended: Ended,
    /// The time that was taken.
    pub times: Times,
}

/// The reason of the end of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The talker wrote its end, or the limit was reached.
    Frames(Ending),
    /// A fault ended it.
    Fault(Fault),
}

impl Ended {
    /// Returns a notice, unless the talker ended by itself.
    pub fn notice(self) -> Option<Notice> {
        let why = match self {
            Self::Frames(Ending::Finished) => return None,
            Self::Frames(Ending::Limit) => {
                "the talker did not end within `max_new_tokens`: the speech may be cut".to_owned()
            }
            Self::Fault(fault) => {
                format!("{fault}: the speech ends there; another `seed` may help")
            }
        };
        Some(Notice(why))
    }
}

/// The time of each part of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Times {
    /// From the start to the first samples, loading included.
    pub first_sound: Duration,
    /// Loading and the prompt.
    pub prompt: Duration,
    /// Talker and code predictor.
    pub frames: Duration,
    /// The codec.
    pub codec: Duration,
    /// All of it.
    pub total: Duration,
}

/// Speaks a plan. `sink` receives the samples of each chunk as soon as it is decoded; the run waits
/// for it.
///
/// # Errors
/// The errors of loading, of the device and of `sink`; [`Error::Cancelled`];
/// [`Error::NotFinite`].
pub fn speak<B: Backend>(
    plan: &Plan,
    networks: &Networks<'_, B>,
    chunks: Chunks,
    observe: &dyn Observe,
    sink: &mut dyn FnMut(&[f32]) -> Result<(), Error>,
) -> Result<Spoken, Error> {
    let start = Instant::now();
    let mut times = Times::default();
    check(observe)?;
    observe.event(Event::Loading(stage::TALKER));
    let (mut frames, mut decoding) = networks.attempt(stage::TALKER, || {
        let context = plan.voice.as_ref().and_then(|voice| voice.context.as_ref());
        let before = context.map_or(&[][..], |context| &context.frames);
        Ok((Frames::begin(plan, networks)?, Decoding::begin(before, networks)?))
    })?;
    times.prompt = start.elapsed();
    let advanced = |done: usize| {
        observe.event(Event::Advanced { stage: stage::TALKER, done, total: plan.most_frames });
    };
    advanced(0);
    let (mut made, mut samples, mut guard) = (Vec::new(), Vec::new(), Guard::default());
    let ended = loop {
        let size = if made.is_empty() { chunks.first } else { chunks.others }.max(1);
        let begin = Instant::now();
        let mut chunk = Vec::with_capacity(size);
        while chunk.len() < size {
            check(observe)?;
            match networks.attempt(stage::TALKER, || frames.next().transpose())? {
                Some(frame) => chunk.push(frame),
                None => break,
            }
            advanced(made.len() + chunk.len());
        }
        times.frames += begin.elapsed();
        let begin = Instant::now();
        let sound = networks.attempt(stage::CODEC_DECODER, || decoding.decode(&chunk))?;
        times.codec += begin.elapsed();
        if !sound.is_empty() {
            if samples.is_empty() {
                times.first_sound = start.elapsed();
            }
            sink(&sound)?;
        }
        let fault = guard.add(&chunk, &sound);
        made.append(&mut chunk);
        samples.extend(sound);
        match (fault, frames.ending()) {
            (Some(fault), _) => break Ended::Fault(fault),
            (None, Some(ending)) => break Ended::Frames(ending),
            (None, None) => {}
        }
    };
    times.total = start.elapsed();
    observe.event(Event::Finished { stage: stage::TALKER, elapsed: times.total });
    let audio = Audio { channels: vec![samples], sample_rate: SAMPLE_RATE };
    Ok(Spoken { audio, frames: made, ended, times })
}
