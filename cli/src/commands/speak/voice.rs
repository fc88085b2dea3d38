//! The voice of a run: named, of a recording, or kept; and the model that it needs.

use acestep_engine::{Audio, Error, Notice, Observe, audio::read};
use acestep_import::Qwen3Tts;
use acestep_model::{
    Backend,
    speech::qwen3_tts::{Files as _, ModelType},
};
use acestep_speech::{KeptVoice, Networks, Plan, Snapshot, Voice};
use anyhow::Result;

use super::{super::voice::voices, LEAST_SECONDS};
use crate::{
    args::{self, speak::Speak},
    error::CliError,
    settings,
};

/// The source of a voice.
pub(super) enum Source {
    /// A named speaker, a description, or none.
    Model,
    /// A recording, and its words.
    Recording(Audio, Option<String>),
    /// A kept voice.
    Kept(Box<KeptVoice>),
}

/// Opens the model: the typed one, else that of the kept voice, else the first installed one.
pub(super) fn model(args: &Speak) -> Result<Qwen3Tts> {
    let layout = settings::layout();
    let kept = args.voice.voice.as_deref().filter(|_| args.model.is_none()).and_then(|name| {
        let kept = voices().ok()?.read(name).ok()?;
        Qwen3Tts::find(Some(&kept.model), &layout).ok()
    });
    match kept {
        Some(model) => Ok(model),
        None => Ok(Qwen3Tts::find(args.model.as_deref(), &layout)?),
    }
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
        let Some(name) = &args.voice else { return Ok(Self::Model) };
        if model.config().tts_model_type == ModelType::Base {
            return Ok(Self::Kept(Box::new(voices()?.read(name)?)));
        }
        let is_speaker = model.config().talker_config.spk_id.contains_key(&name.to_lowercase());
        // A base model speaks with a kept voice: say so before the speakers are listed.
        if !is_speaker && voices().is_ok_and(|voices| voices.existing(name).is_ok()) {
            let message = format!("`{name}` is a kept voice, and `{}` takes none", model.name());
            let hint = "pass the --model that made it; `acestep voice list` names it";
            return Err(CliError::usage(message).hint(hint).into());
        }
        Ok(Self::Model)
    }

    /// True for the voice of a recording.
    pub(super) fn is_recording(&self) -> bool {
        !matches!(self, Self::Model)
    }

    /// Returns the kept voice, if it is one.
    pub(super) fn kept(&self) -> Option<Voice> {
        match self {
            Self::Kept(kept) => Some(kept.voice.clone()),
            Self::Model | Self::Recording(..) => None,
        }
    }

    /// Returns the voice, and its snapshot if it is kept for these networks.
    pub(super) fn voice<B: Backend>(
        &self,
        networks: &Networks<'_, B>,
        observe: &dyn Observe,
    ) -> Result<(Option<Voice>, Option<Snapshot<B>>), Error> {
        match self {
            Self::Model => Ok((None, None)),
            Self::Recording(audio, transcript) => {
                let voice = Voice::of_recording(audio, transcript.as_deref(), networks, observe)?;
                Ok((Some(voice), None))
            }
            Self::Kept(kept) => Ok((Some(kept.voice.clone()), kept.snapshot(networks)?)),
        }
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
