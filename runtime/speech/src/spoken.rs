//! The result of speech, while it is made and whole: the same for every family.

use std::time::{Duration, Instant};

use acestep_engine::{Audio, Error, Notice, error::counted};
use serde::{Deserialize, Serialize};

use crate::guard::Fault;

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

/// Settings that change when sound comes and where it is, and never the sound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Frames per chunk of sound.
    pub chunks: Chunks,
    /// Runs at once, at least 1: they share each pass over the weights.
    pub batch_size: usize,
    /// Beginning of the work that the times count, if it is before the run: a voice may be read first.
    pub since: Option<Instant>,
    /// False to leave the samples out of the result. A speech of hours, whose samples are taken while they
    /// are made, then needs no memory for them.
    pub keeps_samples: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { chunks: Chunks::default(), batch_size: 8, since: None, keeps_samples: true }
    }
}

impl From<Chunks> for Options {
    fn from(chunks: Chunks) -> Self {
        Self { chunks, ..Self::default() }
    }
}

/// A result of some runs.
#[derive(Debug, Clone)]
pub enum StreamItem<T = Spoken> {
    /// The next samples of a run.
    Samples(Vec<f32>),
    /// The end of a run.
    Done(T),
}

/// Takes the results of a run, and passes its samples to `sink`.
pub(crate) fn finish<T>(
    run: impl Iterator<Item = Result<StreamItem<T>, Error>>,
    sink: &mut dyn FnMut(&[f32]) -> Result<(), Error>,
) -> Result<T, Error> {
    for made in run {
        match made? {
            StreamItem::Samples(samples) => sink(&samples)?,
            StreamItem::Done(done) => return Ok(done),
        }
    }
    unreachable!("a run ends with its result or an error")
}

/// The result of a run.
#[derive(Debug, Clone)]
pub struct Spoken {
    /// The sound, mono; without samples unless [`Options::keeps_samples`].
    pub audio: Audio,
    /// The codes, one list per frame.
    pub frames: Vec<Vec<u32>>,
    /// The words with their times in the sound, for a family that knows them.
    pub words: Vec<Word>,
    /// The segments of the text that were spoken.
    pub segments: Vec<Segment>,
    /// Number of segments that were not spoken, because of a fault in the one before.
    pub unspoken: usize,
    /// The time that was taken.
    pub times: Times,
}

/// A word of a sound.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Word {
    /// The word.
    pub text: String,
    /// Its beginning in seconds.
    pub start: f64,
    /// Its end in seconds.
    pub end: f64,
}

/// A spoken segment of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// The text.
    pub text: String,
    /// The seed of its draws.
    pub seed: u64,
    /// Its number of frames.
    pub frames: usize,
    /// The reason of its end.
    pub ended: EndReason,
}

impl Spoken {
    /// Returns the number of frames of all segments.
    pub fn frames(&self) -> usize {
        self.segments.iter().map(|segment| segment.frames).sum()
    }

    /// Returns the reason of the end: `end` if the model ended every segment itself. Else the reason of the
    /// first segment that it did not end: `context` if its steps ran out, `limit` for a limit of the request,
    /// `fault` for a fault.
    pub fn reason(&self) -> &'static str {
        let mut reasons = self.segments.iter().map(|segment| segment.ended.reason());
        reasons.find(|reason| *reason != END).unwrap_or(END)
    }

    /// Returns a notice for each segment that the model did not end by itself.
    pub fn notices(&self) -> Vec<Notice> {
        let one = self.segments.len() == 1;
        let of = |(index, segment): (usize, &Segment)| {
            let why = segment.ended.problem()?;
            let left = match self.unspoken {
                unspoken if unspoken > 0 && index + 1 == self.segments.len() => {
                    format!("; not spoken after it: {}", counted(unspoken, "segment"))
                }
                _ => String::new(),
            };
            let why = format!("{why}{left}");
            Some(Notice(if one { why } else { format!("segment {}: {why}", index + 1) }))
        };
        self.segments.iter().enumerate().filter_map(of).collect()
    }
}

/// The reason of an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// The model wrote its end, or the limit was reached.
    Frames(StopReason),
    /// A fault ended it.
    Fault(Fault),
}

/// The reason of an end that the model wrote.
const END: &str = "end";

impl EndReason {
    /// Returns `end` if the model wrote its end, `limit`, `context` if it has no positions left, or `fault`.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Frames(StopReason::Finished) => END,
            Self::Frames(StopReason::Context { .. }) => "context",
            Self::Frames(StopReason::Limit { .. }) => "limit",
            Self::Fault(_) => "fault",
        }
    }

    /// Returns the problem, unless the model ended by itself.
    fn problem(self) -> Option<String> {
        match self {
            Self::Frames(StopReason::Finished) => None,
            Self::Frames(StopReason::Limit { field } | StopReason::Context { field }) => {
                Some(format!("the model did not end within `{field}`: the speech may be cut"))
            }
            Self::Fault(fault) => {
                Some(format!("{fault}: the speech ends there; another `seed` may help"))
            }
        }
    }
}

/// The reason why the frames ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// The model wrote its end.
    Finished,
    /// The limit of frames was reached first.
    Limit {
        /// The field of the limit.
        field: &'static str,
    },
    /// The model has no positions left for more.
    Context {
        /// The field of its configuration.
        field: &'static str,
    },
}

/// The time of each part of a run. Runs side by side share the time of `frames`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Times {
    /// From the start of all runs to the first samples of this one, loading included.
    pub first_sound: Duration,
    /// Loading, the voice and the prompt.
    pub prompt: Duration,
    /// The language models that write the codes.
    pub frames: Duration,
    /// The codec.
    pub codec: Duration,
    /// All of it.
    pub total: Duration,
}
