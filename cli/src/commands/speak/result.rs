//! The figures of a run, as a line and as JSON.

use std::{path::Path, time::Duration};

use acestep_engine::Notice;
use acestep_speech::{Segment, Spoken, Times, Word};
use serde_json::{Value, json};

use crate::{fields, progress};

/// The figures of a text. Its sound is written, and not kept.
pub(super) struct Done {
    seconds: f64,
    sample_rate: u32,
    frames: usize,
    codes: Option<Vec<Vec<u32>>>,
    pub(super) words: Vec<Word>,
    segments: Vec<Segment>,
    unspoken: usize,
    times: Times,
    pub(super) notices: Vec<Notice>,
}

impl Done {
    /// Keeps the figures of `spoken`, whose sound has `samples`, and its codes if `with_codes`.
    pub(super) fn of(spoken: Spoken, samples: usize, with_codes: bool) -> Self {
        let notices = spoken.notices();
        let Spoken { audio, frames, words, segments, unspoken, times } = spoken;
        Self {
            seconds: samples as f64 / f64::from(audio.sample_rate),
            sample_rate: audio.sample_rate,
            frames: frames.len(),
            codes: with_codes.then_some(frames),
            words,
            segments,
            unspoken,
            times,
            notices,
        }
    }

    /// True if there is no sound.
    pub(super) fn is_silent(&self) -> bool {
        self.frames == 0
    }

    /// True if a limit of the request or of the model ended it.
    pub(super) fn is_cut(&self) -> bool {
        self.segments.iter().any(|of| ["limit", "context"].contains(&of.ended.reason()))
    }

    /// Returns the text as JSON; `path` is its file.
    pub(super) fn object(&self, path: Option<&Path>, seed: u64) -> Value {
        let Self { seconds, times, .. } = self;
        let path = path.filter(|_| !self.is_silent());
        json!({
            "output": path.map(|path| path.display().to_string()),
            "seconds": seconds,
            "frames": self.frames,
            "sample_rate": self.sample_rate,
            "seed": seed,
            "real_time_factor": factor(times.total, *seconds),
            "elapsed": {
                "total": times.total.as_secs_f64(),
                "first_sound": times.first_sound.as_secs_f64(),
                "prompt": times.prompt.as_secs_f64(),
                "frames": times.frames.as_secs_f64(),
                "codec": times.codec.as_secs_f64(),
            },
            "segments": self.segments.iter().map(segment).collect::<Vec<_>>(),
            "words": self.words,
            "unspoken_segments": self.unspoken,
            "codes": self.codes,
        })
    }
}

fn segment(segment: &Segment) -> Value {
    let Segment { text, seed, frames, ended, .. } = segment;
    json!({ "text": text, "seed": seed, "frames": frames, "reason": ended.reason() })
}

/// Returns the object of one text with `notices`, or of `lines`.
pub(super) fn together(mut objects: Vec<Value>, lines: bool, notices: &[Notice]) -> Value {
    let notices = json!(fields::texts(notices));
    if lines {
        return json!({ "lines": objects, "notices": notices });
    }
    let mut object = objects.pop().unwrap_or_default();
    object["notices"] = notices;
    object
}

/// Returns the last line: seconds of speech, seconds that everything took, real-time factor, first
/// sound, seed.
pub(super) fn line(done: &[&Done], elapsed: Duration, first_sound: Duration, seed: u64) -> String {
    let seconds: f64 = done.iter().map(|done| done.seconds).sum();
    format!(
        "{seconds:.2} s of speech in {} · real-time factor {:.2} · first sound after {} · seed {seed}",
        progress::seconds(elapsed),
        factor(elapsed, seconds).unwrap_or_default(),
        progress::seconds(first_sound),
    )
}

/// Returns the real-time factor; `None` without sound.
fn factor(time: Duration, seconds: f64) -> Option<f64> {
    (seconds > 0.0).then(|| time.as_secs_f64() / seconds)
}
