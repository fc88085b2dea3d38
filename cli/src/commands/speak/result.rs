//! The figures of a run, as a line and as JSON.

use std::{path::Path, time::Duration};

use acestep_engine::Notice;
use acestep_speech::{Ended, Ending, Segment, Spoken};
use serde_json::{Value, json};

use crate::{fields, progress};

/// Returns one text as JSON.
pub(super) fn object(spoken: &Spoken, path: Option<&Path>, seed: u64) -> Value {
    let (times, seconds) = (spoken.times, spoken.audio.seconds());
    json!({
        "output": path.map(|path| path.display().to_string()),
        "seconds": seconds,
        "frames": spoken.frames.len(),
        "sample_rate": spoken.audio.sample_rate,
        "seed": seed,
        "real_time_factor": factor(times.total, seconds),
        "elapsed": {
            "total": times.total.as_secs_f64(),
            "first_sound": times.first_sound.as_secs_f64(),
            "prompt": times.prompt.as_secs_f64(),
            "frames": times.frames.as_secs_f64(),
            "codec": times.codec.as_secs_f64(),
        },
        "segments": spoken.segments.iter().map(segment).collect::<Vec<_>>(),
        "codes": spoken.frames,
    })
}

fn segment(segment: &Segment) -> Value {
    let ended = match segment.ended {
        Ended::Frames(Ending::Finished) => "finished".to_owned(),
        Ended::Frames(Ending::Limit) => "limit".to_owned(),
        Ended::Fault(fault) => fault.to_string(),
    };
    let Segment { text, seed, frames, .. } = segment;
    json!({ "text": text, "seed": seed, "frames": frames, "ended": ended })
}

/// Returns the object of one text with `notices`, or that of several.
pub(super) fn together(mut objects: Vec<Value>, notices: &[Notice]) -> Value {
    let notices = json!(fields::texts(notices));
    if objects.len() == 1 {
        let mut object = objects.remove(0);
        object["notices"] = notices;
        return object;
    }
    json!({ "lines": objects, "notices": notices })
}

/// Returns the last line: seconds of speech and taken, real-time factor, first sound, seed. Several
/// texts took `elapsed`: they are spoken side by side, so their times cannot be added.
pub(super) fn line(spoken: &[&Spoken], elapsed: Duration, seed: u64) -> String {
    let seconds: f64 = spoken.iter().map(|spoken| spoken.audio.seconds()).sum();
    let total = match spoken {
        [one] => one.times.total,
        _ => elapsed,
    };
    let first = spoken.iter().map(|spoken| spoken.times.first_sound).min().unwrap_or_default();
    format!(
        "{seconds:.2} s of speech in {} · real-time factor {:.2} · first sound after {} · seed {seed}",
        progress::seconds(total),
        factor(total, seconds),
        progress::seconds(first),
    )
}

fn factor(time: Duration, seconds: f64) -> f64 {
    time.as_secs_f64() / seconds.max(f64::MIN_POSITIVE)
}
