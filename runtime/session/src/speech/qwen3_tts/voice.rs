//! The voice of a run: named, of a recording, or kept; and the model that it needs.

use std::path::Path;

use acestep_engine::{Audio, Error, Notice, Observe, audio::read};
use acestep_import::{Layout, Qwen3Tts};
use acestep_model::{
    Backend,
    speech::qwen3_tts::{Files as _, ModelType},
};
use acestep_speech::{
    Voices,
    qwen3_tts::{KeptVoice, Networks, Plan, SAMPLE_RATE, Snapshot, Voice},
};

use super::super::LEAST_SECONDS;
use crate::SessionError;

/// The longest recording: the state of a kept voice grows with it.
pub(super) const MOST_SECONDS: f64 = 120.0;

/// The source of a voice.
#[derive(Debug)]
pub(super) enum VoiceSource {
    /// A named speaker, a description, or none.
    Model,
    /// A recording, and its words.
    Recording(Audio, Option<String>),
    /// A kept voice.
    Kept(Box<KeptVoice>),
}

/// Opens the model: the `choice`, else the kept `voice`'s, else the first installed one.
///
/// # Errors
/// [`Error::Checkpoint`].
pub(super) fn find(
    choice: Option<&str>,
    voice: Option<&str>,
    voices: Option<&Voices>,
    layout: &Layout,
) -> Result<Qwen3Tts, Error> {
    let kept = voice
        .filter(|_| choice.is_none())
        .and_then(|name| KeptVoice::model_at(&voices?.existing(name).ok()?));
    Qwen3Tts::find(choice.or(kept.as_deref()), layout).map_err(Error::checkpoint)
}

/// A voice on the device, for any number of runs with the same networks.
#[derive(Debug, Clone)]
pub(super) struct Loaded<B: Backend> {
    pub(super) voice: Option<Voice>,
    pub(super) snapshot: Option<Snapshot<B>>,
}

impl VoiceSource {
    /// Reads the recording at `path`.
    ///
    /// # Errors
    /// The errors of [`read::recording`]; [`SessionError::LongRecording`].
    pub(super) fn recording(
        path: &Path,
        transcript: Option<String>,
        observe: &dyn Observe,
        notices: &mut Vec<Notice>,
    ) -> Result<Self, Error> {
        let (audio, more) = read::recording(path, LEAST_SECONDS, SAMPLE_RATE, observe)?;
        notices.extend(more);
        match audio.seconds() > MOST_SECONDS {
            true => Err(SessionError::LongRecording { most: MOST_SECONDS }.into()),
            false => Ok(Self::Recording(audio, transcript)),
        }
    }

    /// Returns the voice called `name` of `model`: a base model has none but kept voices.
    ///
    /// # Errors
    /// [`SessionError::NoVoices`], [`SessionError::KeptVoice`]; the errors of [`KeptVoice::of`].
    pub(super) fn named(
        name: &str,
        model: &Qwen3Tts,
        voices: Option<&Voices>,
    ) -> Result<Self, Error> {
        if model.config().tts_model_type == ModelType::Base {
            let voices = voices.ok_or(SessionError::NoVoices)?;
            return Ok(Self::Kept(Box::new(KeptVoice::of(voices, name)?)));
        }
        let is_speaker = model.config().talker_config.speaker(name).is_some();
        // A base model speaks with a kept voice: say so before the speakers are listed.
        if !is_speaker && voices.is_some_and(|voices| voices.existing(name).is_ok()) {
            let (name, model) = (name.to_owned(), model.name().to_owned());
            return Err(SessionError::KeptVoice { name, model }.into());
        }
        Ok(Self::Model)
    }

    /// Returns the seconds of a recording that is encoded, and true if its words are encoded with it.
    pub(super) fn recorded(&self) -> Option<(f64, bool)> {
        let Self::Recording(audio, words) = self else { return None };
        Some((audio.seconds(), words.is_some()))
    }

    /// Bytes of the samples of a recording.
    pub(super) fn bytes(&self) -> u64 {
        let Self::Recording(audio, _) = self else { return 0 };
        audio.channels.iter().map(|samples| size_of_val(&samples[..]) as u64).sum()
    }

    /// True for the voice of a recording.
    pub(super) fn is_recording(&self) -> bool {
        !matches!(self, Self::Model)
    }

    /// Returns the language of the state of a kept voice.
    pub(super) fn language(&self) -> Option<&str> {
        let Self::Kept(kept) = self else { return None };
        Some(&kept.language)
    }

    /// Returns the kept voice, if it is one.
    pub(super) fn kept(&self) -> Option<Voice> {
        let Self::Kept(kept) = self else { return None };
        Some(kept.voice.clone())
    }

    /// Returns the voice for these networks: a recording is encoded, the state of a kept voice is copied to
    /// the device if it was made with them.
    ///
    /// # Errors
    /// The errors of [`Voice::of_recording`] and [`KeptVoice::snapshot`].
    pub(super) fn load<B: Backend>(
        &self,
        networks: &Networks<'_, B>,
        observe: &dyn Observe,
    ) -> Result<Loaded<B>, Error> {
        let (voice, snapshot) = match self {
            Self::Model => (None, None),
            Self::Recording(audio, transcript) => {
                let transcript = transcript.as_deref();
                let voice = Voice::of_recording(audio, transcript, networks, observe)?;
                (Some(voice), None)
            }
            Self::Kept(kept) => (Some(kept.voice.clone()), kept.snapshot(networks)?),
        };
        Ok(Loaded { voice, snapshot })
    }

    /// Returns a notice if a kept voice has a snapshot that the plans do not use.
    pub(super) fn unused<B: Backend>(
        &self,
        snapshot: Option<&Snapshot<B>>,
        plans: &[Plan],
    ) -> Option<Notice> {
        let Self::Kept(kept) = self else { return None };
        let why = match snapshot {
            None => "it was made with other weights, or in another type, program or device".into(),
            Some(snapshot) if !plans.iter().all(|plan| snapshot.serves(plan)) => {
                format!("it was made for language {} and upstream's usual layout", kept.language)
            }
            Some(_) => return None,
        };
        Some(Notice(format!(
            "the state of the voice cannot be used, for {why}: its prompt is read anew"
        )))
    }
}
