//! Texts to speech with a model of any family.
//!
//! [`open`] finds the model, [`SpeechModel::prepare`] checks everything before anything is loaded, and
//! [`Prepared::speak`] speaks. A family is one module here.

pub mod dia2;
mod kept;
pub mod magpie;
pub mod qwen3_tts;

use std::path::Path;

use acestep_engine::{Engine, Error, Notice, Observe, files::Existing};
use acestep_import::Layout;
use acestep_speech::{Options, SpeechError, Spoken, Voices};
use serde_json::{Map, Value};

pub use kept::{KeptVoice, read_kept};

use crate::SessionError;

/// The shortest recording that is read, in seconds; the networks may need more.
pub const LEAST_SECONDS: f64 = 0.05;

/// Fields of a request by name, as in JSON: those of the model's family, `voice`, and files by their
/// paths.
pub type Fields = Map<String, Value>;

/// Opens the model `choice`, else that of the kept voice in `fields`, else the first installed one.
///
/// # Errors
/// [`Error::Checkpoint`].
pub fn open(
    choice: Option<&str>,
    fields: &mut Fields,
    voices: Option<&Voices>,
    layout: &Layout,
) -> Result<Box<dyn SpeechModel>, Error> {
    let kept = kept::model_of(choice, fields, voices);
    let choice = choice.or(kept.as_deref());
    let other = dia2::open(choice, layout).or_else(|| magpie::open(choice, fields, layout));
    other.unwrap_or_else(|| qwen3_tts::open(choice, fields, voices, layout))
}

/// Opens the model `choice` to keep a voice with, else the first installed one that takes the
/// recordings in `fields`.
///
/// # Errors
/// [`Error::Checkpoint`].
pub fn open_to_keep(
    choice: Option<&str>,
    fields: &Fields,
    layout: &Layout,
) -> Result<Box<dyn SpeechModel>, Error> {
    match choice {
        Some(_) => open(choice, &mut Fields::new(), None, layout),
        None if fields.contains_key("speaker_1") => dia2::first(layout),
        None => Ok(Box::new(qwen3_tts::first_base(layout)?)),
    }
}

/// An opened model of speech.
pub trait SpeechModel: Sync {
    /// The name.
    fn name(&self) -> &str;

    /// Notices about its files.
    fn notices(&self) -> Vec<Notice>;

    /// Samples per second of its sound.
    fn sample_rate(&self) -> u32;

    /// True if results have the times of words.
    fn has_word_times(&self) -> bool {
        false
    }

    /// The number of texts that are spoken side by side by default.
    fn at_once(&self, engine: Engine) -> usize;

    /// Reads the voice and checks every request. Notices of the voice are added to `notices`.
    ///
    /// # Errors
    /// An unusable field, voice or file.
    fn prepare(
        &self,
        wanted: Wanted<'_>,
        notices: &mut Vec<Notice>,
    ) -> Result<Box<dyn Prepared + '_>, Error>;

    /// Reads recordings whose voice will be kept: `fields` are those of [`Self::prepare`].
    ///
    /// # Errors
    /// An unusable field or file; [`SessionError::KeepsNoVoices`]; [`SessionError::SpeechTooLarge`].
    fn prepare_voice(
        &self,
        fields: Fields,
        engine: Engine,
        notices: &mut Vec<Notice>,
    ) -> Result<Box<dyn PreparedVoice + '_>, Error> {
        let _ = (fields, engine, notices);
        Err(SessionError::KeepsNoVoices { model: self.name().to_owned() }.into())
    }
}

/// Recordings whose voice will be kept.
pub trait PreparedVoice {
    /// Encodes the recordings.
    ///
    /// # Errors
    /// The errors of the networks; [`Error::NoDevice`].
    fn keep(&self, engine: Engine, observe: &dyn Observe) -> Result<Box<dyn VoiceFile>, Error>;
}

/// The content of the file of a kept voice.
pub trait VoiceFile {
    /// Describes the voice.
    fn describe(&self) -> KeptVoice;

    /// Writes the file, which appears whole or not at all.
    ///
    /// # Errors
    /// The errors of [`acestep_engine::write_whole`].
    fn write(&self, path: &Path, existing: Existing) -> Result<(), Error>;
}

/// Texts to speak with one voice.
#[derive(Debug)]
pub struct Wanted<'a> {
    /// The texts.
    pub texts: Vec<String>,
    /// The settings of all texts.
    pub fields: Fields,
    /// The seed of the first text; each of the others has the next one.
    pub seed: u64,
    /// The folder of kept voices.
    pub voices: Option<&'a Voices>,
    /// True if errors and notices name the text by its line.
    pub lines: bool,
}

/// Speech that was checked.
pub trait Prepared {
    /// Refuses a run that does not fit into memory.
    ///
    /// # Errors
    /// [`crate::SessionError::SpeechTooLarge`]; [`Error::Checkpoint`].
    fn check_memory(&self, engine: Engine, options: Options) -> Result<(), Error>;

    /// Speaks, and returns the notices of the texts.
    ///
    /// # Errors
    /// The errors of the run and of `sink`; [`Error::NoDevice`].
    fn speak(
        &self,
        engine: Engine,
        options: Options,
        observe: &dyn Observe,
        sink: &mut dyn Sink,
    ) -> Result<Vec<Notice>, Error>;
}

/// A receiver of sound.
pub trait Sink {
    /// Takes the next samples of a run.
    ///
    /// # Errors
    /// Any error ends all runs.
    fn samples(&mut self, samples: &[f32]) -> Result<(), Error>;

    /// Takes the result of run `index`.
    ///
    /// # Errors
    /// Any error ends all runs.
    fn done(&mut self, index: usize, spoken: Spoken) -> Result<(), Error>;
}

/// Returns a notice that names its line, if there are lines.
pub fn of_line(notice: &Notice, index: usize, lines: bool) -> Notice {
    match lines {
        true => Notice(format!("line {}: {}", index + 1, notice.0)),
        false => notice.clone(),
    }
}

/// Takes a text out of the fields.
///
/// # Errors
/// A value of another type.
pub(crate) fn text(fields: &mut Fields, field: &'static str) -> Result<Option<String>, Error> {
    match fields.remove(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(not_a(field, &other, "a text")),
    }
}

/// Takes true or false out of the fields.
///
/// # Errors
/// A value of another type.
pub(crate) fn flag(fields: &mut Fields, field: &'static str) -> Result<bool, Error> {
    match fields.remove(field) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(flag),
        Some(other) => Err(not_a(field, &other, "true or false")),
    }
}

fn not_a(field: &'static str, value: &Value, what: &str) -> Error {
    let (value, why) = (value.to_string(), format!("use {what}"));
    Error::BadValue { field, value, why, near: None }
}

/// Refuses a field that the model does not take.
///
/// # Errors
/// [`SpeechError::UnknownField`].
pub(crate) fn check_fields(fields: &Fields, known: &[&str], model: &str) -> Result<(), Error> {
    match fields.keys().find(|field| !known.contains(&field.as_str())) {
        None => Ok(()),
        Some(field) => {
            let (model, field) = (model.to_owned(), field.clone());
            let known = known.iter().map(|&known| known.to_owned()).collect();
            Err(SpeechError::UnknownField { model, field, known }.into())
        }
    }
}
