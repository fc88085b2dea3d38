//! Kept voices of any family.

use std::path::Path;

use acestep_engine::{Error, Notice, files::Existing};
use acestep_import::{Layout, Presence, Release};
use acestep_speech::{Voices, dia2::KeptSnapshot, qwen3_tts};
use serde_json::{Value, json};

use super::{Fields, VoiceFile, built_in, open, releases};
use crate::SessionError;

/// A description of a kept voice.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptVoiceInfo {
    /// Name of the model that made it.
    pub model: String,
    /// Language of its state, if the model has languages.
    pub language: Option<String>,
    /// Length of the recordings in seconds.
    pub seconds: f64,
    /// Words of the recordings, if they are kept: one text for each speaker.
    pub transcripts: Vec<String>,
    /// Frames of the recordings, 0 if only the speaker's vector is kept.
    pub frames: usize,
}

impl KeptVoiceInfo {
    /// Describes the voice called `name`, whose file is at `path`, as an object.
    pub fn to_json(&self, name: &str, path: &Path) -> Value {
        json!({
            "name": name,
            "model": self.model,
            "language": self.language,
            "seconds": self.seconds,
            "transcript": self.transcripts.first(),
            "transcripts": self.transcripts,
            "frames": self.frames,
            "path": path.display().to_string(),
            "bytes": path.metadata().map_or(0, |file| file.len()),
        })
    }

    /// Returns the words of all recordings; each speaker has a tag if there are two.
    pub fn words(&self) -> String {
        match &self.transcripts[..] {
            [] => "none".to_owned(),
            [one] => one.clone(),
            all => {
                let tagged = |(index, words): (usize, &String)| format!("[S{}] {words}", index + 1);
                all.iter().enumerate().map(tagged).collect::<Vec<_>>().join(" ")
            }
        }
    }
}

impl VoiceFile for qwen3_tts::KeptVoice {
    fn describe(&self) -> KeptVoiceInfo {
        let context = self.voice.context.as_ref();
        KeptVoiceInfo {
            model: self.model.clone(),
            language: Some(self.language.clone()),
            seconds: self.seconds,
            transcripts: context.map(|context| context.transcript.clone()).into_iter().collect(),
            frames: context.map_or(0, |context| context.frames.len()),
        }
    }

    fn write(&self, path: &Path, existing: Existing) -> Result<(), Error> {
        Self::write(self, path, existing)
    }
}

impl VoiceFile for KeptSnapshot {
    fn describe(&self) -> KeptVoiceInfo {
        let recordings = self.recordings();
        let words = |words: &[acestep_speech::Word]| {
            words.iter().map(|word| &*word.text).collect::<Vec<_>>().join(" ")
        };
        KeptVoiceInfo {
            model: self.model().to_owned(),
            language: None,
            seconds: self.seconds(),
            transcripts: recordings.iter().map(|recording| words(&recording.words)).collect(),
            frames: recordings.iter().map(|recording| recording.frames.len()).sum(),
        }
    }

    fn write(&self, path: &Path, existing: Existing) -> Result<(), Error> {
        Self::write(self, path, existing)
    }
}

/// Describes the voice called `name`.
///
/// # Errors
/// [`acestep_speech::SpeechError::NoSuchVoice`]; [`acestep_speech::SpeechError::BadVoice`];
/// [`Error::File`].
pub fn read_kept(voices: &Voices, name: &str) -> Result<KeptVoiceInfo, Error> {
    let path = voices.existing(name)?;
    Ok(match KeptSnapshot::is_at(&path) {
        true => KeptSnapshot::read(&path)?.describe(),
        false => qwen3_tts::KeptVoice::read(&path)?.describe(),
    })
}

/// Returns the names of the kept voices that `model` made.
pub(super) fn made_by(model: &str, voices: Option<&Voices>) -> Vec<String> {
    let Some(voices) = voices else { return Vec::new() };
    let is_own = |name: &String| read_kept(voices, name).is_ok_and(|kept| kept.model == model);
    voices.names().unwrap_or_default().into_iter().filter(is_own).collect()
}

/// True if the `voice` in the fields is a kept one.
pub(super) fn is_kept(fields: &Fields, voices: Option<&Voices>) -> bool {
    let voice = fields.get("voice").and_then(Value::as_str).zip(voices);
    voice.is_some_and(|(name, voices)| voices.existing(name).is_ok())
}

/// Returns the name of the model of the kept `voice` in the fields, if no model is chosen and the
/// voice is one of a dialogue.
pub(super) fn model_of(
    choice: Option<&str>,
    fields: &Fields,
    voices: Option<&Voices>,
) -> Option<String> {
    let name = fields.get("voice").and_then(Value::as_str).filter(|_| choice.is_none())?;
    KeptSnapshot::model_at(&voices?.existing(name).ok()?)
}

/// Refuses the `name` of a voice that a model of this machine has: `voice` could mean both.
///
/// # Errors
/// [`SessionError::VoiceOfModel`].
pub fn check_name(name: &str, layout: &Layout) -> Result<(), Error> {
    let is_here = |release: &&Release| layout.presence(release) == Presence::Whole;
    let models = releases().filter(is_here).map(|release| release.name);
    match models.chain([built_in().0]).find(|model| has_voice(model, name, layout)) {
        Some(model) => {
            let (name, model) = (name.to_owned(), model.to_owned());
            Err(SessionError::VoiceOfModel { name, model }.into())
        }
        None => Ok(()),
    }
}

/// Returns a notice for a kept `voice` in the fields with the name of a released named speaker, if no
/// model is chosen.
pub fn shadowing(
    choice: Option<&str>,
    fields: &Fields,
    voices: Option<&Voices>,
    layout: &Layout,
) -> Option<Notice> {
    let name = fields.get("voice").and_then(Value::as_str).filter(|_| choice.is_none())?;
    // The model inside the program has the released names, and is opened at once.
    let is_both = is_kept(fields, voices) && has_voice(built_in().0, name, layout);
    is_both.then(|| {
        Notice(format!(
            "the kept voice `{name}` speaks; for the named speaker, choose its model with `model`"
        ))
    })
}

/// True if the model has a voice of its own called `name`.
fn has_voice(model: &str, name: &str, layout: &Layout) -> bool {
    let is_name = |own: &String| own.eq_ignore_ascii_case(name);
    open(Some(model), &mut Fields::new(), None, layout)
        .is_ok_and(|model| model.voices().iter().any(is_name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_voice_and_a_named_speaker_are_told_apart() {
        let folder = tempfile::tempdir().expect("a folder");
        let voices = Voices::new(folder.path().to_owned());
        for name in ["serena", "me"] {
            std::fs::write(voices.path(name).expect("a name"), "").expect("a file");
        }
        let layout = Layout::new([]);
        let told = |choice, name: &str| {
            let fields = Fields::from_iter([("voice".to_owned(), name.into())]);
            shadowing(choice, &fields, Some(&voices), &layout).is_some()
        };
        assert!(told(None, "serena"));
        assert!(!told(Some("tiny-speech"), "serena") && !told(None, "me") && !told(None, "ryan"));
        let refused = check_name("Serena", &layout).expect_err("a named speaker").to_string();
        assert_eq!(refused, "`Serena` is a voice of the model `tiny-speech`");
        assert!(check_name("me", &layout).is_ok());
    }
}
