//! The language model's task, and its limits of tokens and lengths.

#[cfg(test)]
mod tests;

use acestep_engine::{Error, error::shortened};

use super::{compose::LmMode, constrain::Phase, sample::max_new_tokens};
use crate::{Request, request::length::MOST_SECONDS};

pub use crate::request::language::{LmSettings, Thinking};

const CODES_A_SECOND: f64 = 5.0;

/// Returns the task of the language model: from `lm_mode`, or else from the open fields.
///
/// # Errors
/// [`Error::RequestValue`] for an unknown mode.
pub fn lm_mode(request: &Request) -> Result<LmMode, Error> {
    match request.language.lm_mode.as_deref() {
        None | Some("generate") => Ok(LmMode::of(request)),
        Some("inspire") => Ok(LmMode::Inspire),
        Some("format") => Ok(LmMode::Format),
        Some(other) => Err(Error::RequestValue {
            key: "lm_mode".into(),
            value: format!("`{}`", shortened(other)),
            expected: "it must be one of generate, inspire, format".into(),
        }),
    }
}

impl LmSettings {
    /// Returns the token limits of the text phase, and of the codes phase for a song of `seconds`.
    pub fn token_limits(&self, seconds: Option<f64>) -> [usize; 2] {
        [self.limit(Phase::Cot, None), self.limit(Phase::Codes, seconds)]
    }

    /// Returns the limit on the tokens of an answer.
    pub(super) fn limit(&self, phase: Phase, seconds: Option<f64>) -> usize {
        max_new_tokens(seconds, phase, self.max_tokens, self.max_seq, MOST_SECONDS as u32)
    }

    /// Refuses codes for a song that is shorter than one code, and for several songs that could
    /// differ in length. Songs are made together, so that each network is loaded once.
    ///
    /// # Errors
    /// [`Error::Conflict`] that says how to fix the length.
    pub fn check_lengths(&self, request: &Request, mode: &LmMode) -> Result<(), Error> {
        if let Some(seconds) =
            request.words.duration.filter(|seconds| seconds * CODES_A_SECOND < 1.0)
        {
            let least = 1.0 / CODES_A_SECOND;
            return Err(Error::Conflict(format!(
                "audio codes are {least} s each, but the song has {seconds} s: make it longer, or \
                 leave them out with `thinking: false`, in a plan with `codes: false`"
            )));
        }
        let songs = self.seeds.len();
        if songs < 2 {
            return Ok(());
        }
        if !self.constrained {
            return Err(Error::Conflict(format!(
                "{songs} songs are made with one length, which `use_constrained_decoding: false` does not \
                 hold the language model to: leave it out, or make one song"
            )));
        }
        if request.words.duration.is_none() && *mode == LmMode::Plan && !self.cot_metas {
            return Err(Error::Conflict(format!(
                "{songs} songs are made with one length, which `use_cot_metas: false` leaves open: \
                 give a `duration`, or make one song"
            )));
        }
        Ok(())
    }
}
