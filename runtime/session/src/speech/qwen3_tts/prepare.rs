//! Qwen3-TTS as a model of speech.

use std::path::Path;

use acestep_engine::{Audio, Engine, Error, Notice, Observe, audio::read};
use acestep_import::{Layout, Qwen3Tts, TINY_SPEECH};
use acestep_model::speech::qwen3_tts::Files as _;
use acestep_speech::{
    Options, Voices,
    qwen3_tts::{FIELDS, Request, SAMPLE_RATE},
};
use serde_json::Value;

use super::{
    super::{
        Fields, LEAST_SECONDS, Prepared, PreparedVoice, Sink, SpeechModel, VoiceFile, Wanted,
        check_fields, flag, text,
    },
    Speech, Voice, at_once, check_memory, check_recording, find, keep, keep_request, positions,
    speak,
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

    fn prepare_voice(
        &self,
        mut fields: Fields,
        engine: Engine,
        notices: &mut Vec<Notice>,
    ) -> Result<Box<dyn PreparedVoice + '_>, Error> {
        let (reference, transcript, language) = (
            text(&mut fields, "reference")?,
            text(&mut fields, "transcript")?,
            text(&mut fields, "language")?,
        );
        check_fields(&fields, &[], SpeechModel::name(self))?;
        let request = keep_request(language, self, engine)?;
        let Some(reference) = reference else {
            let why = "a voice of this model is made of a `reference`, and there is none";
            return Err(Error::Conflict(why.to_owned()));
        };
        let (recording, more) = read::song(Path::new(&reference), LEAST_SECONDS)?;
        notices.extend(more);
        check_recording(&recording)?;
        Ok(Box::new(Recording { model: self, request, recording, transcript }))
    }
}

/// A recording whose voice will be kept.
struct Recording<'a> {
    model: &'a Qwen3Tts,
    request: Request,
    recording: Audio,
    transcript: Option<String>,
}

impl PreparedVoice for Recording<'_> {
    fn keep(&self, engine: Engine, observe: &dyn Observe) -> Result<Box<dyn VoiceFile>, Error> {
        let heard = (&self.recording, self.transcript.as_deref());
        Ok(Box::new(keep(&self.request, heard, self.model, engine, observe)?))
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
