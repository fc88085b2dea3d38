//! Texts to speech with a model of any family.
//!
//! [`open`] finds the model, [`SpeechModel::prepare`] checks everything before anything is loaded, and
//! [`Ready::speak`] speaks. [`open_on`] opens a model for a program whose networks stay in memory. A family is
//! one module here.
//!
//! | module | content |
//! |---|---|
//! | `dia2`, `magpie`, `qwen3_tts` | the families |
//! | `family` | methods that are alike in every family |
//! | `resident` | networks and voices that stay in memory |
//! | `fields`, `files` | fields of a request; files that change |
//! | `recent` | values that were used last |
//! | `reason` | errors for programs |

mod dia2;
mod family;
mod fields;
mod files;
mod kept;
mod magpie;
mod qwen3_tts;
mod reason;
mod recent;
mod resident;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use acestep_engine::{Engine, Error, Notice, Observe, files::Existing, texts::unix_lines};
use acestep_import::{Layout, Release};
use acestep_speech::{Spoken, Voices};

pub use fields::{FILES, Fields, TEXTS, check_files, is_content};
use fields::{check_fields, flag, given, taken, text, unix_texts};
pub use kept::{KeptVoiceInfo, check_name, read_kept, shadowing};
pub use reason::{Reason, reason};
pub use resident::{Arriving, Ready, SpeechOn, open_on};

use crate::SessionError;

/// The shortest recording that is read, in seconds; the networks may need more.
pub const LEAST_SECONDS: f64 = 0.05;

/// Returns the released models of all families, the default first.
pub fn releases() -> impl Iterator<Item = &'static Release> {
    Release::speech()
}

/// Returns name and description of the model inside the program.
pub fn built_in() -> (&'static str, &'static str) {
    let (name, _, about) = acestep_import::tiny_speech();
    (name, about)
}

/// Opens the model `choice`, else the model of the kept voice in `fields`, else the first of [`releases`] that
/// is installed and takes the recordings in `fields`, if one does.
///
/// # Errors
/// [`Error::Checkpoint`].
pub fn open(
    choice: Option<&str>,
    fields: &mut Fields,
    voices: Option<&Voices>,
    layout: &Layout,
) -> Result<Arc<dyn SpeechModel>, Error> {
    let kept = kept::model_of(choice, fields, voices);
    // A voice that Qwen3-TTS keeps names its model there.
    let is_open = kept.is_none() && !kept::is_kept(fields, voices);
    let able = || match fields.contains_key("speaker_1") {
        true => dia2::name_here(layout),
        false => fields.get("reference").and_then(|_| qwen3_tts::base_here(layout)),
    };
    let first = || able().or_else(|| layout.first_speech_model().map(|release| release.name));
    let choice = choice.or(kept.as_deref()).or_else(|| is_open.then(first).flatten());
    if let Some(model) = dia2::find(choice, fields, layout) {
        return Ok(Arc::new(model?));
    }
    if let Some(model) = magpie::find(choice, fields, layout) {
        return Ok(Arc::new(model?));
    }
    Ok(Arc::new(qwen3_tts::find_with(choice, fields, voices, layout)?))
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
) -> Result<Arc<dyn SpeechModel>, Error> {
    match choice {
        Some(_) => open(choice, &mut Fields::new(), None, layout),
        None if fields.contains_key("speaker_1") => dia2::first(layout),
        None => Ok(Arc::new(qwen3_tts::first_base(layout)?)),
    }
}

/// Receives the numbers of written and of all matrices of a network; false ends the work.
pub type Advanced<'a> = &'a dyn Fn(usize, usize) -> bool;

/// Refuses a `batch_size` of several texts for a model that speaks one after the other.
///
/// # Errors
/// [`acestep_speech::SpeechError::UnknownField`].
pub fn check_batch(
    model: &dyn SpeechModel,
    engine: Engine,
    batch_size: Option<u32>,
) -> Result<(), Error> {
    let several = batch_size.filter(|&texts| texts > 1 && model.at_once(engine) == 1);
    let field = several.map(|texts| ("batch_size".to_owned(), serde_json::Value::from(texts)));
    check_fields(&field.into_iter().collect(), &[], model.takes(), model.name())
}

/// Files of quantised matrices that were written.
pub(crate) type Written = Result<Vec<PathBuf>, acestep_import::Error>;

/// An opened model of speech.
pub trait SpeechModel: Send + Sync {
    /// The name.
    fn name(&self) -> &str;

    /// Notices about its files.
    fn notices(&self) -> Vec<Notice>;

    /// True if its files are those that were opened.
    fn is_unchanged(&self) -> bool;

    /// Samples per second of its sound.
    fn sample_rate(&self) -> u32;

    /// Fields that its requests take, beside the text; those of files too.
    fn takes(&self) -> Vec<&'static str>;

    /// Names of its own voices.
    fn voices(&self) -> Vec<String> {
        Vec::new()
    }

    /// Languages that it speaks, as in the field `language`.
    fn languages(&self) -> Vec<String> {
        Vec::new()
    }

    /// The language of a text whose request names none; none if the model finds it out.
    fn default_language(&self) -> Option<&'static str> {
        None
    }

    /// True if results have the times of words.
    fn has_word_times(&self) -> bool {
        false
    }

    /// True if text may arrive while it speaks.
    fn can_append(&self) -> bool {
        false
    }

    /// The number of texts that are spoken side by side by default.
    fn at_once(&self, engine: Engine) -> usize {
        let _ = engine;
        1
    }

    /// Writes the matrices of its networks in int8 beside its weights, see [`crate::quantize`].
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    fn quantize(&self, engine: Engine, advanced: Advanced<'_>) -> Result<Vec<PathBuf>, Error>;

    /// Checks a request as far as that is possible without its files, whose fields may have any value.
    ///
    /// # Errors
    /// An unusable field or voice; a text that cannot be spoken.
    fn check(&self, text: &str, fields: &Fields, voices: Option<&Voices>) -> Result<(), Error>;

    /// Returns the numbers of its streams, for a log; none if the family has nothing to say.
    fn constants(&self) -> Option<String> {
        None
    }

    /// Returns short warm-up requests that use all that a usual request needs: texts and fields. None if one
    /// needs a file.
    fn warmups(&self, voices: Option<&Voices>) -> Vec<(String, Fields)>;

    /// Reads the voice and checks every request, for one run. Notices of the voice are added to `notices`.
    ///
    /// # Errors
    /// An unusable field, voice or file; [`Error::Checkpoint`]; [`Error::NoDevice`]; [`Error::Cancelled`].
    fn prepare(
        self: Arc<Self>,
        input: SpeechInput<'_>,
        engine: Engine,
        observe: &dyn Observe,
        notices: &mut Vec<Notice>,
    ) -> Result<Box<dyn Ready>, Error>;

    /// Reads recordings whose voice will be kept: `fields` are those of [`Self::prepare`].
    ///
    /// # Errors
    /// An unusable field or file; [`SessionError::KeepsNoVoices`]; [`SessionError::SpeechTooLarge`];
    /// [`Error::Cancelled`].
    fn prepare_voice(
        &self,
        fields: Fields,
        engine: Engine,
        observe: &dyn Observe,
        notices: &mut Vec<Notice>,
    ) -> Result<Box<dyn PreparedVoice + '_>, Error> {
        let _ = (fields, engine, observe, notices);
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
    fn describe(&self) -> KeptVoiceInfo;

    /// Writes the file, which appears whole or not at all.
    ///
    /// # Errors
    /// The errors of [`acestep_engine::write_whole`].
    fn write(&self, path: &Path, existing: Existing) -> Result<(), Error>;
}

/// Texts to speak with one voice.
#[derive(Debug, Clone)]
pub struct SpeechInput<'a> {
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

impl SpeechInput<'_> {
    /// Returns the same with lines that end as in [`unix_lines`]: others have other tokens.
    fn with_unix_lines(mut self) -> Self {
        self.texts.iter_mut().for_each(|text| *text = unix_lines(text));
        unix_texts(&mut self.fields);
        self
    }
}

/// A receiver of sound.
pub trait Sink {
    /// Tells before samples of run `index` if more are certain to come after them. A family that never knows it
    /// does not call this.
    ///
    /// # Errors
    /// Any error ends all runs.
    fn goes_on(&mut self, index: usize, is_certain: bool) -> Result<(), Error> {
        let _ = (index, is_certain);
        Ok(())
    }

    /// Takes the next samples of run `index`.
    ///
    /// # Errors
    /// Any error ends all runs.
    fn samples(&mut self, index: usize, samples: &[f32]) -> Result<(), Error>;

    /// Takes the result of run `index`.
    ///
    /// # Errors
    /// Any error ends all runs.
    fn done(&mut self, index: usize, spoken: Spoken) -> Result<(), Error>;
}

/// Returns the error of text `index`, which names its line if there are several texts.
fn in_line(error: Error, index: usize, texts: usize) -> Error {
    match texts {
        1 => error,
        _ => SessionError::Line { line: index + 1, error: Box::new(error) }.into(),
    }
}

/// Returns a notice that names its line, if there are lines.
pub fn of_line(notice: &Notice, index: usize, lines: bool) -> Notice {
    match lines {
        true => Notice(format!("line {}: {}", index + 1, notice.0)),
        false => notice.clone(),
    }
}

/// Returns the notices with equal ones of several lines and segments only once, with their number.
pub fn gathered(notices: Vec<Notice>) -> Vec<Notice> {
    let mut groups: Vec<(Notice, usize)> = Vec::new();
    for notice in notices {
        match groups.iter_mut().find(|(first, _)| common(&first.0) == common(&notice.0)) {
            Some((_, count)) => *count += 1,
            None => groups.push((notice, 1)),
        }
    }
    let of = |(first, count): (Notice, usize)| match count {
        1 => first,
        _ => Notice(format!("{} ({count} times)", common(&first.0))),
    };
    groups.into_iter().map(of).collect()
}

/// Returns the text of a notice without its line and segment.
fn common(mut text: &str) -> &str {
    for noun in ["line ", "segment "] {
        let numbered = text.strip_prefix(noun).and_then(|rest| rest.split_once(": "));
        if let Some((_, rest)) = numbered.filter(|(number, _)| number.parse::<usize>().is_ok()) {
            text = rest;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The models are empty folders, so the error names the one that is opened.
    #[test]
    fn a_recording_is_for_an_installed_model_that_takes_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let layout = Layout::new([folder.path().to_owned()]);
        for name in ["Qwen3-TTS-12Hz-0.6B-CustomVoice", "Qwen3-TTS-12Hz-1.7B-Base", "Dia2-2B"] {
            std::fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        for (field, name) in
            [("instruct", "CustomVoice"), ("reference", "1.7B-Base"), ("speaker_1", "Dia2-2B")]
        {
            let mut fields = Fields::from_iter([(field.to_owned(), "a.wav".into())]);
            let error = open(None, &mut fields, None, &layout).err().expect("no model").to_string();
            assert!(error.contains(name), "{error}");
        }
    }

    #[test]
    fn equal_notices_of_lines_and_segments_are_said_once_with_their_number() {
        let all = ["a", "line 1: b", "line 2: segment 3: b", "segment 2: c", "line x: b", "b"];
        let found = gathered(all.map(|text| Notice(text.to_owned())).into());
        let found: Vec<_> = found.iter().map(|notice| &*notice.0).collect();
        assert_eq!(found, ["a", "b (3 times)", "segment 2: c", "line x: b"]);
    }
}
