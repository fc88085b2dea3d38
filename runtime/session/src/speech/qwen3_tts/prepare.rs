//! Qwen3-TTS as a model of speech.

use std::path::Path;

use acestep_engine::{Engine, Error, Notice, Observe};
use acestep_import::{Layout, Qwen3Tts, TINY_SPEECH};
use acestep_model::speech::qwen3_tts::Files as _;
use acestep_speech::{
    Options, Voices,
    qwen3_tts::{FIELDS, Request, SAMPLE_RATE},
};
use serde_json::Value;

use super::{
    super::{Fields, Prepared, Sink, SpeechModel, Wanted, check_fields, flag, text},
    Speech, Voice, at_once, check_memory, find, positions, speak,
};
use crate::SessionError;

/// Opens a model as [`find`], with the field `fix_mistral_regex`.
///
/// # Errors
/// The errors of [`find`]; a field of another type.
pub(in super::super) fn open(
    choice: Option<&str>,
    fields: &mut Fields,
    voices: Option<&Voices>,
    layout: &Layout,
) -> Result<Box<dyn SpeechModel>, Error> {
    let fix_mistral_regex = flag(fields, "fix_mistral_regex")?;
    let voice = fields.get("voice").and_then(Value::as_str);
    let model = find(choice, voice, voices, layout)?;
    Ok(Box::new(model.with_fix_mistral_regex(fix_mistral_regex)))
}

impl SpeechModel for Qwen3Tts {
    fn name(&self) -> &str {
        acestep_model::speech::qwen3_tts::Files::name(self)
    }

    fn notices(&self) -> Vec<Notice> {
        let mut notices = Vec::new();
        if SpeechModel::name(self) == TINY_SPEECH {
            let text = "tiny-speech is a random network: it makes noise, to prove the program";
            notices.push(Notice(text.into()));
        }
        notices.extend(Self::notices(self).into_iter().map(Notice));
        notices
    }

    fn sample_rate(&self) -> u32 {
        SAMPLE_RATE
    }

    fn at_once(&self, engine: Engine) -> usize {
        at_once(engine)
    }

    fn prepare(
        &self,
        wanted: Wanted<'_>,
        notices: &mut Vec<Notice>,
    ) -> Result<Box<dyn Prepared + '_>, Error> {
        let Wanted { texts, mut fields, seed, voices, lines } = wanted;
        let (reference, transcript) =
            (text(&mut fields, "reference")?, text(&mut fields, "transcript")?);
        check_fields(&fields, FIELDS, SpeechModel::name(self))?;
        let first: Request = serde_json::from_value(Value::Object(fields))
            .map_err(|error| SessionError::SpeechFields { why: error.to_string() })?;
        // Each of them keeps one core busy: the vocabulary is read beside the voice. Its error comes
        // with the first text.
        let voice = std::thread::scope(|scope| -> Result<Voice, Error> {
            scope.spawn(|| drop(self.tokenizer()));
            Ok(match (&reference, &first.voice) {
                (Some(path), _) => Voice::recording(Path::new(path), transcript, notices)?,
                (None, Some(name)) => Voice::named(name, self, voices)?,
                (None, None) => Voice::Model,
            })
        })?;
        let own = first.voice.clone().filter(|_| !voice.is_recording());
        let request = |(text, index): (String, u64)| Request {
            text,
            seed: Some(seed.wrapping_add(index)),
            voice: own.clone(),
            ..first.clone()
        };
        let requests: Vec<Request> = texts.into_iter().zip(0..).map(request).collect();
        let mut most = 0;
        for (index, request) in requests.iter().enumerate() {
            let checked = positions(request, &voice, self);
            most = most.max(if requests.len() > 1 {
                checked.map_err(|error| SessionError::Line {
                    line: index + 1,
                    error: Box::new(error),
                })?
            } else {
                checked?
            });
        }
        Ok(Box::new(Speaker { model: self, requests, voice, positions: most, lines }))
    }
}

/// Requests for a model, which were checked.
struct Speaker<'a> {
    model: &'a Qwen3Tts,
    requests: Vec<Request>,
    voice: Voice,
    /// The most prompt rows and frames of a run.
    positions: usize,
    lines: bool,
}

impl Prepared for Speaker<'_> {
    fn check_memory(&self, engine: Engine, options: Options) -> Result<(), Error> {
        check_memory(self.model, engine, options, self.positions)
    }

    fn speak(
        &self,
        engine: Engine,
        options: Options,
        observe: &dyn Observe,
        sink: &mut dyn Sink,
    ) -> Result<Vec<Notice>, Error> {
        let Self { model, requests, voice, lines, .. } = self;
        let speech = Speech { requests, voice, options, lines: *lines };
        speak(speech, model, engine, observe, sink)
    }
}
