//! A song in words.
//!
//! ```text
//! sound -> latents -> audio codes -> language model -> caption, metadata, lyrics
//! ```

use std::path::Path;

use acestep_engine::{
    Audio, Engine, Error, Notice, Observe, Residency, audio::read, device::memory::MemoryNeed,
    on_engine,
};
use acestep_import::{AceStep, Network};
use acestep_model::Backend;
use acestep_music::{
    Array3, LmSettings, Networks, Request, Understood, codes, codes_of, needs,
    tokenize::codes_of_stored,
};
use serde_json::{Value, json};

use crate::{language::TokenLimits, memory};

/// Returns the request of this task with `seed`: upstream's temperature for it, without top-p.
pub fn request(seed: u64) -> Request {
    Request::default().with(|r| {
        r.language.lm_temperature = Some(0.3);
        r.language.lm_top_p = Some(1.0);
        r.noise.seed = Some(vec![seed]);
    })
}

/// Returns the settings of the language model for `request`.
///
/// # Errors
/// [`Error::OutOfRange`].
pub fn settings(
    request: &Request,
    limits: TokenLimits,
    notices: &mut Vec<Notice>,
) -> Result<LmSettings, Error> {
    let seeds = request.noise.seed.as_deref().unwrap_or_default();
    limits.bound(request.language.plan(&request.words, seeds, notices)?)
}

/// The input: audio codes or sound.
#[derive(Debug)]
pub enum UnderstandInput {
    /// Audio codes.
    Codes(Vec<u32>),
    /// A sound, and the model that turns it into codes.
    Sound {
        /// The sound.
        audio: Audio,
        /// The model.
        folder: Box<AceStep>,
    },
}

impl UnderstandInput {
    /// Reads the sound at `path`.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] if the model lacks a network; the errors of [`read::song`].
    pub fn read(
        path: &Path,
        folder: AceStep,
        notices: &mut Vec<Notice>,
        observe: &dyn Observe,
    ) -> Result<Self, Error> {
        folder.require(Network::AudioCodec).map_err(Error::checkpoint)?;
        let vae = &folder.configs().vae;
        let least = vae.frames_per_second().recip();
        let (audio, more) = read::song(path, least, vae.sampling_rate, observe)?;
        notices.extend(more);
        Ok(Self::Sound { audio, folder: Box::new(folder) })
    }

    /// The model that turns sound into codes; `None` for codes.
    pub fn model(&self) -> Option<&AceStep> {
        match self {
            Self::Codes(_) => None,
            Self::Sound { folder, .. } => Some(folder),
        }
    }

    /// Returns the memory needed to make the codes, and the most tokens of a prompt with them.
    ///
    /// # Errors
    /// [`Error::Checkpoint`].
    pub fn needs(&self, engine: Engine) -> Result<(Vec<MemoryNeed>, usize), Error> {
        let (needs, codes) = match self {
            Self::Codes(codes) => (vec![], codes.len()),
            Self::Sound { audio, folder } => {
                let configs = folder.configs();
                let samples = audio.seconds() * f64::from(configs.vae.sampling_rate);
                let frames = (samples / configs.vae.hop() as f64).ceil() as usize;
                let codes = frames.div_ceil(configs.dit.pool_window_size);
                (memory::sizes(folder, engine).tokenization(frames)?, codes)
            }
        };
        Ok((needs, needs::prompt_tokens(0) + codes))
    }

    /// Returns the codes.
    ///
    /// # Errors
    /// The errors of [`codes_of`]; [`Error::NoDevice`].
    pub fn codes(self, engine: Engine, observe: &dyn Observe) -> Result<Vec<u32>, Error> {
        let (audio, folder) = match &self {
            Self::Codes(codes) => return Ok(codes.clone()),
            Self::Sound { audio, folder } => (audio, &**folder),
        };
        on_engine!(engine,
        for<'a>(audio: &'a Audio, folder: &'a AceStep, observe: &'a dyn Observe)
            -> Result<Vec<u32>, Error>,
        |place: B| {
            let networks = Networks::<B>::new(folder, place, Residency::WhileUsed);
            codes_with(audio, folder, &networks, observe)
        })?
    }
}

/// Returns the codes of a sound with the caller's networks, which are those of `folder`.
///
/// # Errors
/// The errors of [`codes_of`].
pub fn codes_with<B: Backend>(
    audio: &Audio,
    folder: &AceStep,
    networks: &Networks<'_, B>,
    observe: &dyn Observe,
) -> Result<Vec<u32>, Error> {
    let needed = [Network::VaeEncoder, Network::AudioCodec];
    folder.check::<B>(networks.device(), &needed).map_err(Error::checkpoint)?;
    codes_of(audio, networks, observe)
}

/// Returns the audio codes of latents, `[1, T, C]`.
///
/// # Errors
/// [`Error::Conflict`] for latents of another model; otherwise the errors of [`codes_with`].
pub fn codes_of_latents_with<B: Backend>(
    latents: &Array3,
    folder: &AceStep,
    networks: &Networks<'_, B>,
    observe: &dyn Observe,
) -> Result<Vec<u32>, Error> {
    folder.check::<B>(networks.device(), &[Network::AudioCodec]).map_err(Error::checkpoint)?;
    codes_of_stored(latents, networks, observe)
}

/// Returns the description as JSON; its first keys are those of upstream's object.
pub fn to_json(understood: &Understood, codes: &[u32], seed: u64) -> Value {
    let mut object = json!(understood.metadata);
    object["lyrics"] = understood.lyrics.clone().into();
    object["audio_codes"] = codes::to_list(codes).into();
    object["text"] = understood.text.clone().into();
    object["seed"] = seed.into();
    object
}

/// Returns the description as printable text: one value per line, the lyrics last.
pub fn text(understood: &Understood) -> String {
    let Understood { metadata, lyrics, .. } = understood;
    let lines = [
        ("caption", metadata.caption.clone()),
        ("bpm", metadata.bpm.as_ref().map(ToString::to_string)),
        ("keyscale", metadata.keyscale.clone()),
        ("timesignature", metadata.timesignature.clone()),
        ("duration", metadata.duration.as_ref().map(ToString::to_string)),
        ("language", metadata.language.clone()),
        ("genres", metadata.genres.clone()),
    ];
    let known = lines.into_iter().filter_map(|(what, value)| Some((what, value?)));
    let mut text: String = known.map(|(what, value)| format!("{what:<15}{value}\n")).collect();
    if !lyrics.is_empty() {
        text += &format!("\n{lyrics}\n");
    }
    printable(&text)
}

/// Returns `text` without control characters, which could move a terminal's cursor.
fn printable(text: &str) -> String {
    text.chars().filter(|&c| c == '\n' || !c.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_model_says_cannot_move_the_cursor() {
        assert_eq!(printable("a\x1b[2Jb\r\u{9b}c\nd\té\0"), "a[2Jbc\ndé");
    }
}
