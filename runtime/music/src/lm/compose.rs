//! The two phases of the language model, which fill in the open settings of a request.
//!
//! ```text
//! request -> text phase: metadata, perhaps caption and lyrics -> codes phase -> request
//! ```
//!
//! Source: upstream `generate_with_stop_condition`, `create_sample_from_query`,
//! `format_sample_from_input`, `understand_audio_from_codes`; acestep.cpp `pipeline-lm.cpp`.

mod codes;
mod text;
mod understood;

use std::{sync::Arc, time::Duration};

use acestep_engine::{Error, Notice, progress::Observe};
use acestep_model::{Backend, LanguageCheckpoint, Place};

use super::{
    constrain::{UserValues, genres::GenreVocabulary},
    merge,
    metadata::Metadata,
    session,
    settings::LmSettings,
};
use crate::{Request, stage};
use codes::{check_length, codes_phase};
use text::text_phase;
pub use understood::{Understood, understand};

/// Task of the language model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LmMode {
    /// Missing metadata from caption and lyrics: upstream's first phase.
    Plan,
    /// Caption, lyrics and metadata from a description, the request's caption.
    Inspire,
    /// Metadata, and caption and lyrics rewritten in the format of the training data.
    Format,
    /// The user's own instruction; the answer has the format of [`LmMode::Inspire`].
    Custom {
        /// The instruction: the system message.
        system: String,
        /// The input: the user message.
        user: String,
    },
}

impl LmMode {
    /// Returns the default mode of a request: [`Self::Inspire`] without lyrics, else [`Self::Plan`].
    pub fn of(request: &Request) -> Self {
        let has_lyrics = request.words.lyrics.is_some() || request.words.instrumental == Some(true);
        if has_lyrics { Self::Plan } else { Self::Inspire }
    }
}

/// A request for the language model, with all settings decided.
#[derive(Debug, Clone)]
pub struct Composing<'a> {
    /// The user's request.
    pub request: &'a Request,
    /// The task.
    pub mode: LmMode,
    /// True to write audio codes, one list for each of the settings' seeds.
    pub writes_codes: bool,
    /// Settings of the language model.
    pub settings: &'a LmSettings,
    /// Genres to choose from; `None` = the answer has no genres.
    pub genres: Option<Arc<GenreVocabulary>>,
}

/// Result of [`compose`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Composed {
    /// The completed request; with codes, it does not need the language model again.
    pub request: Request,
    /// Metadata of the plan that precedes the codes.
    pub metadata: Metadata,
    /// One sentence for each change or addition to the user's request.
    pub changes: Vec<Notice>,
    /// The text answer, verbatim; empty if there was no text phase.
    pub text: String,
    /// All runs of the model, in order.
    pub calls: Vec<Call>,
    /// Duration of each phase.
    pub timing: Timing,
}

/// One run of the model, in tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Call {
    /// The prompt; with guidance, followed by the unconditional prompt.
    pub prompts: Vec<Vec<u32>>,
    /// The written tokens, one list for each song.
    pub written: Vec<Vec<u32>>,
}

/// Durations of the language model, without loading its weights.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timing {
    /// From the first prompt to the first token.
    pub first_token: Duration,
    /// Duration of the text phase.
    pub text: Duration,
    /// Tokens of the text phase.
    pub text_tokens: usize,
    /// Duration of the codes phase.
    pub codes: Duration,
    /// Number of audio codes of all songs.
    pub code_tokens: usize,
}

/// Runs the language model, which decides the open settings of `asked`.
///
/// # Errors
/// [`Error::Checkpoint`] if the model cannot be read; [`Error::PromptTooLong`];
/// [`Error::Scores`], [`Error::NeverStopped`], [`Error::Repeats`] and [`Error::NothingValid`] with
/// the output so far; [`Error::Cancelled`].
pub fn compose<B: Backend>(
    asked: &Composing<'_>,
    language: &dyn LanguageCheckpoint<B>,
    place: &Place<B>,
    observe: &dyn Observe,
) -> Result<Composed, Error> {
    let given = merge::user_values(asked.request, &asked.mode, asked.settings.prompt_style);
    let needs_text = needs_text(asked, &given);
    let mut begun = Composed {
        request: asked.request.clone(),
        metadata: merge::metadata(&given),
        ..Composed::default()
    };
    if asked.writes_codes {
        // If the length is known, check it before the model is loaded.
        check_length(begun.request.words.duration, asked.settings)?;
    } else if !needs_text {
        let text = "the language model is not asked: nothing that it may decide is open";
        begun.changes.push(Notice(text.into()));
        return Ok(begun);
    }
    if asked.mode != LmMode::Plan && !(asked.settings.cot_metas && asked.settings.cot_caption) {
        let text = "the language model writes caption and metadata together with the lyrics, \
                    whatever `use_cot_caption: false` and `use_cot_metas: false` say";
        begun.changes.push(Notice(text.into()));
    }
    let stage = if needs_text { stage::LM_TEXT } else { stage::LM_CODES };
    session::open(language, place, asked.settings, stage, observe, |writer| {
        let mut composed = begun.clone();
        if needs_text {
            text_phase(asked, &given, writer, &mut composed)?;
        }
        if asked.writes_codes {
            codes_phase(asked, writer, &mut composed)?;
        }
        Ok(composed)
    })
}

/// True if there is a text phase. As in upstream, a plan needs one only if a field is missing.
fn needs_text(asked: &Composing<'_>, given: &UserValues) -> bool {
    let language = &asked.request.language;
    let by_name = [language.use_cot_caption, language.use_cot_language].contains(&Some(true));
    match asked.mode {
        LmMode::Plan => {
            (asked.settings.cot_metas || by_name) && !merge::metadata(given).is_complete()
        }
        LmMode::Inspire | LmMode::Format | LmMode::Custom { .. } => true,
    }
}
