//! Clients of stream-dia2: the fields that they send, and the form of their samples.
//!
//! A message of samples has a byte before them: 0, and 1 in the last message of a text. It has
//! `chunk_frames` frames of 80 ms, the last one fewer if fewer are left. A field that this server does not
//! have is left out with a notice: the reference's servers ignore it, or know it. A field that names a voice
//! stays.

use acestep_session::speech::FILES;
use serde_json::{Map, Value};

use crate::preview::PreviewFormat;

/// Fields of every request.
const OF_ALL: [&str; 9] = [
    "append",
    "audio_format",
    "chunk_frames",
    "model",
    "seed",
    "text",
    "timestamps",
    "voice",
    "voice_only",
];
/// Fields about the recordings of a voice.
const OF_RECORDINGS: [&str; 2] = ["include_prefix", "max_prefix_duration"];
/// Milliseconds of a frame.
const FRAME: usize = 80;

/// Takes foreign fields out of a request. Returns a notice for each.
pub(super) fn known_alone(request: &mut Map<String, Value>, known: &[String]) -> Vec<String> {
    let mut notices = Vec::new();
    request.retain(|field, _| {
        // A voice that the model does not take is refused, so that no other one speaks.
        let is_known = [&OF_ALL[..], &FILES].iter().any(|own| own.contains(&&**field))
            || known.contains(field);
        if !is_known {
            notices.push(without_effect(field));
        }
        is_known
    });
    notices
}

fn without_effect(field: &str) -> String {
    format!("`{field}` has no effect here")
}

/// Makes a request of the fields of a client. `known` are those of the model. Returns notices about
/// fields that are left out.
pub(super) fn fit(request: &mut Map<String, Value>, known: &[String]) -> Vec<String> {
    let mut notices = known_alone(request, known);
    if !request.contains_key("speaker_1") {
        for field in OF_RECORDINGS {
            if request.remove(field).is_some_and(|value| value != Value::Bool(false)) {
                notices.push(without_effect(field));
            }
        }
    } else if request.get("include_prefix") == Some(&Value::Bool(true)) {
        // The state after the recordings has no sound of them.
        request.remove("snapshot");
    }
    if known.iter().any(|field| field == "initial_padding") {
        // As in the reference's servers; the command line has its program's.
        request.entry("initial_padding").or_insert_with(|| 0.into());
        request.entry("temperature").or_insert_with(|| 0.8.into());
    }
    request.insert("truncate".into(), true.into());
    notices
}

/// Samples on their way to messages with marks.
pub(super) struct Marked {
    /// Bytes of a message.
    size: usize,
    waiting: Vec<u8>,
}

impl Marked {
    /// Messages of `frames` frames.
    pub(super) fn new(format: PreviewFormat, frames: usize) -> Self {
        let samples = format.sample_rate as usize * FRAME / 1000;
        let bytes = samples * usize::from(format.channels) * size_of::<i16>();
        Self { size: (bytes * frames).max(1), waiting: Vec::new() }
    }

    /// Takes samples, after which more come if it `goes_on`. Returns the messages that are not the last one.
    pub(super) fn add(&mut self, samples: &[u8], goes_on: bool) -> Vec<Vec<u8>> {
        self.waiting.extend_from_slice(samples);
        let mut messages = Vec::new();
        // A whole message that may be the last one waits until more samples come, or none.
        let least = if goes_on { self.size } else { self.size + 1 };
        while self.waiting.len() >= least {
            let rest = self.waiting.split_off(self.size);
            messages.push(marked(0, &std::mem::replace(&mut self.waiting, rest)));
        }
        messages
    }

    pub(super) fn last(self) -> Vec<u8> {
        marked(1, &self.waiting)
    }
}

fn marked(mark: u8, samples: &[u8]) -> Vec<u8> {
    [&[mark], samples].concat()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().expect("an object").clone()
    }

    /// At 100 samples per second a frame has 8 samples of two bytes.
    #[test]
    fn row_32_messages_are_whole_frames_and_the_last_one_is_marked() {
        let format = PreviewFormat { sample_rate: 100, channels: 1 };
        let samples: Vec<u8> = (0..80).collect();
        for pieces in [1, 7, 16, 32, 50, 80] {
            let mut two = Marked::new(format, 2);
            let messages: Vec<_> =
                samples.chunks(pieces).flat_map(|part| two.add(part, false)).collect();
            assert_eq!(messages.len(), 2, "80 bytes are two messages of 32, and 16 more: {pieces}");
            assert_eq!(messages[0], marked(0, &samples[..32]));
            assert_eq!(messages[1], marked(0, &samples[32..64]));
            assert_eq!(two.last(), marked(1, &samples[64..]));
        }
        // A whole frame at the end has the mark too, and nothing but the mark is a message.
        let mut one = Marked::new(format, 1);
        assert_eq!(one.add(&samples[..32], false), [marked(0, &samples[..16])]);
        assert_eq!(one.last(), marked(1, &samples[16..32]));
        assert_eq!(Marked::new(format, 1).last(), [1]);
        // No message waits before which others are certain to come.
        let mut one = Marked::new(format, 1);
        assert_eq!(one.add(&samples[..16], true), [marked(0, &samples[..16])]);
        assert_eq!(one.add(&samples[16..32], false), Vec::<Vec<u8>>::new());
        assert_eq!(one.last(), marked(1, &samples[16..32]));
    }

    #[test]
    fn fields_of_a_voice_are_never_left_out() {
        let voice = json!({
            "speaker_1": "a", "words_1": [], "reference": "b", "voice": "c", "model": "d",
        });
        for known in [vec![], vec!["cfg_scale".to_owned()]] {
            let mut left = object(voice.clone());
            left.insert("both".to_owned(), true.into());
            assert_eq!(known_alone(&mut left, &known), ["`both` has no effect here"]);
            assert_eq!(Value::Object(left), voice);
        }
    }

    #[test]
    fn row_21_foreign_fields_are_left_out_with_a_notice() {
        let known = "cfg_scale include_prefix max_prefix_duration initial_padding temperature";
        let known: Vec<_> = known.split(' ').map(str::to_owned).collect();
        let mut request = object(json!({
            "text": "hello", "cfg_scale": 6.0, "both": true, "include_prefix": false,
            "max_prefix_duration": 10.0, "chunk_frames": 3,
        }));
        let notices = fit(&mut request, &known);
        let rest = json!({
            "text": "hello", "cfg_scale": 6.0, "chunk_frames": 3, "initial_padding": 0,
            "temperature": 0.8, "truncate": true,
        });
        assert_eq!(Value::Object(request), rest);
        assert_eq!(
            notices,
            ["`both` has no effect here", "`max_prefix_duration` has no effect here"]
        );
        // With recordings they have an effect.
        let mut request = object(json!({
            "text": "hello", "speaker_1": "a", "snapshot": true, "include_prefix": true,
            "max_prefix_duration": 10.0, "initial_padding": 4, "temperature": 0.5,
        }));
        let known = [&known[..], &["speaker_1".to_owned(), "snapshot".to_owned()]].concat();
        assert_eq!(fit(&mut request, &known), [""; 0]);
        let rest = json!({
            "text": "hello", "speaker_1": "a", "include_prefix": true, "max_prefix_duration": 10.0,
            "initial_padding": 4, "temperature": 0.5, "truncate": true,
        });
        assert_eq!(Value::Object(request), rest);
    }
}
