//! Qwen3-TTS as a model of speech.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use acestep_engine::{Engine, Error, Notice, Observe, on_engine};
use acestep_import::{Layout, Qwen3Tts, TINY_SPEECH};
use acestep_model::speech::qwen3_tts::{Files, ModelType};
use acestep_speech::{
    Options, Voices,
    qwen3_tts::{FIELDS, Request, SAMPLE_RATE, check_transcript, language_of},
};
use serde_json::Value;

use super::{
    super::{
        Advanced, Fields, PreparedVoice, Ready, SpeechInput, SpeechModel, check_fields,
        family::of_family, flag, in_line, kept::made_by, taken, text,
    },
    Recording, Resident, VoiceSource, check, find, keep_request, positions,
};
use crate::SessionError;

/// Texts that a GPU speaks side by side by default: kernels for few rows take no more.
const AT_ONCE_ON_GPU: usize = 4;
/// Fields of a recording.
const RECORDING: [&str; 2] = ["reference", "transcript"];
/// Fields of a voice that is kept.
const OF_VOICES: [&str; 3] = ["reference", "transcript", "language"];

/// Opens a model as [`find`], with the field `fix_mistral_regex`.
///
/// # Errors
/// The errors of [`find`]; a field of another type.
pub(in super::super) fn find_with(
    choice: Option<&str>,
    fields: &mut Fields,
    voices: Option<&Voices>,
    layout: &Layout,
) -> Result<Qwen3Tts, Error> {
    let fix_mistral_regex = flag(fields, "fix_mistral_regex")?;
    let voice = fields.get("voice").and_then(Value::as_str);
    let model = find(choice, voice, voices, layout)?;
    Ok(model.with_fix_mistral_regex(fix_mistral_regex))
}

/// The fields of a request.
pub(super) struct Read {
    /// The settings of all texts.
    pub(super) first: Request,
    /// The file of a recording, and its words.
    pub(super) recording: Option<(PathBuf, Option<String>)>,
}

/// Reads the fields of a request.
///
/// # Errors
/// A field that the family does not have, or of another type; a transcript without words or its recording.
pub(super) fn read(mut fields: Fields, model: &Qwen3Tts) -> Result<Read, Error> {
    let reference = text(&mut fields, "reference")?;
    let transcript = text(&mut fields, "transcript")?;
    check_transcript(transcript.as_deref())?;
    check_fields(&fields, FIELDS, model.takes(), SpeechModel::name(model))?;
    let first = serde_json::from_value(Value::Object(fields))
        .map_err(|error| SessionError::SpeechFields { why: error.to_string() })?;
    let recording = match (reference, transcript) {
        (None, Some(_)) => {
            return Err(Error::Conflict("`transcript` has no `reference`".to_owned()));
        }
        (reference, transcript) => reference.map(|path| (PathBuf::from(path), transcript)),
    };
    Ok(Read { first, recording })
}

/// Drops the named voice of a request that has a recording, and says so. Clients of OpenAI's API always name
/// one.
pub(super) fn unused_voice(first: &mut Request, has_recording: bool, notices: &mut Vec<Notice>) {
    if let Some(name) = first.voice.take_if(|_| has_recording) {
        let text = format!("the voice `{name}` is not used: the request has a `reference`");
        notices.push(Notice(text));
    }
}

/// Returns a request for each text. A kept voice speaks its own language if the request names none.
pub(super) fn requests(
    first: &Request,
    voice: &VoiceSource,
    texts: Vec<String>,
    seed: u64,
    model: &Qwen3Tts,
) -> Vec<Request> {
    // Only a voice of the model itself has a name there.
    let name = first.voice.clone().filter(|_| !voice.is_recording());
    // A model without the language speaks without the state of the voice, which is said.
    let own = voice.language().and_then(|own| language_of(own, model.config()));
    let language = first.language.clone().or(own.map(str::to_owned));
    let request = |(text, index): (String, u64)| Request {
        text,
        seed: Some(seed.wrapping_add(index)),
        voice: name.clone(),
        language: language.clone(),
        ..first.clone()
    };
    texts.into_iter().zip(0..).map(request).collect()
}

/// Returns the most prompt rows and frames of the requests.
///
/// # Errors
/// The errors of [`positions`]; several requests are named by their place.
pub(super) fn most_positions(
    requests: &[Request],
    voice: &VoiceSource,
    model: &Qwen3Tts,
) -> Result<usize, Error> {
    let mut most = 0;
    for (index, request) in requests.iter().enumerate() {
        let checked = positions(request, voice, model);
        most = most.max(checked.map_err(|error| in_line(error, index, requests.len()))?);
    }
    Ok(most)
}

impl SpeechModel for Qwen3Tts {
    of_family!(|model: Qwen3Tts| model => Qwen3Tts);

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

    fn takes(&self) -> Vec<&'static str> {
        match self.config().tts_model_type {
            ModelType::Base => taken(FIELDS, &["instruct"], &RECORDING),
            ModelType::CustomVoice => taken(FIELDS, &[], &[]),
            ModelType::VoiceDesign => taken(FIELDS, &["voice"], &[]),
        }
    }

    fn voices(&self) -> Vec<String> {
        match self.config().tts_model_type {
            ModelType::CustomVoice => self.config().talker_config.spk_id.keys().cloned().collect(),
            ModelType::Base | ModelType::VoiceDesign => Vec::new(),
        }
    }

    fn languages(&self) -> Vec<String> {
        let own = self.config().talker_config.languages().map(|(name, _)| name.to_owned());
        std::iter::once("auto".to_owned()).chain(own).collect()
    }

    fn at_once(&self, engine: Engine) -> usize {
        if engine.device.is_gpu() { AT_ONCE_ON_GPU } else { Options::default().batch_size }
    }

    fn check(&self, text: &str, fields: &Fields, voices: Option<&Voices>) -> Result<(), Error> {
        let Read { mut first, recording } = read(fields.clone(), self)?;
        first.text = text.to_owned();
        let has_recording = match (&recording, &first.voice) {
            (Some(_), _) => {
                first.voice = None;
                true
            }
            (None, Some(name)) if self.config().tts_model_type == ModelType::Base => {
                // It is read when it is needed: here its file must be there.
                voices.ok_or(SessionError::NoVoices)?.existing(name)?;
                first.voice = None;
                true
            }
            (None, Some(name)) => VoiceSource::named(name, self, voices)?.is_recording(),
            (None, None) => false,
        };
        check(&first, has_recording, self)
    }

    fn warmups(&self, voices: Option<&Voices>) -> Vec<(String, Fields)> {
        let warmup = |key: &str, value: &str| {
            let mut fields = Fields::new();
            fields.insert(key.to_owned(), value.into());
            fields.insert("max_new_tokens".to_owned(), 3.into());
            ("Yes.".to_owned(), fields)
        };
        match self.config().tts_model_type {
            ModelType::Base => {
                let own = made_by(SpeechModel::name(self), voices);
                own.iter().map(|name| warmup("voice", name)).collect()
            }
            ModelType::CustomVoice => {
                self.voices().iter().take(1).map(|name| warmup("voice", name)).collect()
            }
            ModelType::VoiceDesign => vec![warmup("instruct", "a calm voice")],
        }
    }

    fn prepare_voice(
        &self,
        mut fields: Fields,
        engine: Engine,
        observe: &dyn Observe,
        notices: &mut Vec<Notice>,
    ) -> Result<Box<dyn PreparedVoice + '_>, Error> {
        let (reference, transcript, language) = (
            text(&mut fields, "reference")?,
            text(&mut fields, "transcript")?,
            text(&mut fields, "language")?,
        );
        check_transcript(transcript.as_deref())?;
        check_fields(&fields, &[], OF_VOICES.into(), SpeechModel::name(self))?;
        let request = keep_request(language, self)?;
        let Some(reference) = reference else {
            let why = "a voice of this model is made of a `reference`, and there is none";
            return Err(Error::Conflict(why.to_owned()));
        };
        let source = VoiceSource::recording(Path::new(&reference), transcript, observe, notices)?;
        Ok(Box::new(Recording::new(self, request, source, engine)?))
    }
}

#[cfg(test)]
mod tests;
