//! The voice of a run: named, of a recording, or kept.

use acestep_engine::{Audio, Error, Notice, Observe, audio::read};
use acestep_import::Qwen3Tts;
use acestep_model::{Backend, speech::qwen3_tts::Files as _, speech::qwen3_tts::ModelType};
use acestep_speech::{KeptVoice, Networks, Snapshot, Voice};
use anyhow::Result;

use super::{super::voice::voices, LEAST_SECONDS};
use crate::{args, error::CliError};

/// The source of a voice.
pub(super) enum Source {
    /// A named speaker, a description, or none.
    Model,
    /// A recording, and its words.
    Recording(Audio, Option<String>),
    /// A kept voice. True if another language than its own is spoken.
    Kept(Box<KeptVoice>, bool),
}

impl Source {
    /// Reads the recording or the kept voice.
    pub(super) fn of(
        args: &args::speak::Voice,
        transcript: Option<String>,
        model: &Qwen3Tts,
        notices: &mut Vec<Notice>,
    ) -> Result<Self> {
        if let Some(path) = &args.reference {
            let (audio, more) = read::song(path, LEAST_SECONDS)?;
            notices.extend(more);
            return Ok(Self::Recording(audio, transcript));
        }
        let is_base = model.config().tts_model_type == ModelType::Base;
        match &args.voice {
            Some(name) if is_base => {
                let kept = voices()?.read(name)?;
                let language = args.language.as_deref().unwrap_or("auto");
                let is_other = !language.eq_ignore_ascii_case(&kept.language);
                Ok(Self::Kept(Box::new(kept), is_other))
            }
            Some(name)
                if !model.config().talker_config.spk_id.contains_key(&name.to_lowercase()) =>
            {
                // Another model speaks with a kept voice: say so before the speakers are listed.
                if voices().is_ok_and(|voices| voices.existing(name).is_ok()) {
                    let message =
                        format!("`{name}` is a kept voice, and `{}` takes none", model.name());
                    let hint = "pass the --model that made it; `acestep voice list` names it";
                    return Err(CliError::usage(message).hint(hint).into());
                }
                Ok(Self::Model)
            }
            _ => Ok(Self::Model),
        }
    }

    /// True for the voice of a recording.
    pub(super) fn is_recording(&self) -> bool {
        !matches!(self, Self::Model)
    }

    /// Returns the voice, and its state if it is kept for these networks.
    pub(super) fn voice<B: Backend>(
        &self,
        networks: &Networks<'_, B>,
        observe: &dyn Observe,
        notices: &mut Vec<Notice>,
    ) -> Result<(Option<Voice>, Option<Snapshot<B>>), Error> {
        match self {
            Self::Model => Ok((None, None)),
            Self::Recording(audio, transcript) => {
                let voice = Voice::of_recording(audio, transcript.as_deref(), networks, observe)?;
                Ok((Some(voice), None))
            }
            Self::Kept(kept, is_other_language) => {
                let snapshot = kept.snapshot(networks)?;
                let why = match (&snapshot, is_other_language) {
                    (None, _) => Some("it was made with other weights, another type or device"),
                    (Some(_), true) => Some("it was made for another language"),
                    (Some(_), false) => None,
                };
                notices.extend(why.map(|why| {
                    Notice(format!(
                        "the state of the voice cannot be used, for {why}: its prompt \
                                    is read anew, which takes longer"
                    ))
                }));
                Ok((Some(kept.voice.clone()), snapshot))
            }
        }
    }
}
