//! The language model's task in a song.

use std::sync::Arc;

use acestep_engine::{Engine, Error, device::memory::MemoryNeed};
use acestep_import::{LanguageModelDir, TINY};
use acestep_music::{
    LmSettings, Plan, Request,
    lm::{
        compose::{Composing, LmMode},
        constrain::genres::GenreVocabulary,
        settings::{self, Thinking},
    },
    needs,
};

use super::{Order, resolve::language_choice};
use crate::{SessionError, language, memory};

/// Task of the language model before the final plan.
#[derive(Debug)]
pub struct Composition {
    mode: LmMode,
    /// True if it also writes audio codes, false for text only.
    pub writes_codes: bool,
    /// Settings of the language model.
    pub settings: LmSettings,
    /// Genres that it may name; `None` means that it names none.
    genres: Option<Arc<GenreVocabulary>>,
    /// The language model; a caller may keep it for the next task.
    pub folder: Arc<LanguageModelDir>,
}

impl Composition {
    /// Decides whether the language model is used, and checks its task. `plan` is the song without
    /// it, and `model` the model of the sound.
    pub(super) fn decide(
        order: &mut Order<'_>,
        plan: &Plan,
        model: &str,
    ) -> Result<Option<Self>, Error> {
        let thinking = match order.conditioning {
            Some(_) => Thinking::Off,
            None => Thinking::of(&order.request, model == TINY),
        };
        if thinking == Thinking::Off {
            return Ok(None);
        }
        let Order { request, notices, limits, .. } = &mut *order;
        let settings = request.language.plan(&request.words, &plan.noise.seeds, notices)?;
        let settings = limits.bound(settings)?;
        let mode = settings::lm_mode(request)?;
        let writes_codes = thinking == Thinking::Codes;
        if writes_codes {
            settings.check_lengths(request, &mode)?;
        }
        let choice = language_choice(order, model);
        let folder = language::open(choice, order.layout, order.engine).map_err(can_be_without)?;
        let asked = order.request.language.lm_model.as_deref();
        order.notices.extend(language::in_place_of(asked, folder.directory().root()));
        let (genres, folder) = (order.genres.clone(), Arc::new(folder));
        Ok(Some(Self { mode, writes_codes, settings, genres, folder }))
    }

    /// True if the language model decides the length of `request`.
    pub(super) fn decides_length(&self, request: &Request) -> bool {
        let decides = self.writes_codes || self.settings.cot_metas || self.mode != LmMode::Plan;
        request.words.duration.is_none() && decides
    }

    /// True if it may write lyrics.
    pub(super) fn writes_lyrics(&self) -> bool {
        self.mode != LmMode::Plan
    }

    /// Returns its memory needs.
    pub(super) fn needs(
        &self,
        request: &Request,
        plan: &Plan,
        engine: Engine,
    ) -> Result<Vec<MemoryNeed>, Error> {
        let prompt = needs::prompt_tokens(plan.words.caption.len() + plan.words.lyrics.len());
        let (seconds, codes) = (request.words.duration, self.writes_codes);
        memory::language(&self.folder, &self.settings, prompt, seconds, codes, engine)
    }

    /// Returns its task for `request`, for [`language::compose_all`].
    pub fn composing<'a>(&'a self, request: &'a Request) -> Composing<'a> {
        Composing {
            request,
            mode: self.mode.clone(),
            writes_codes: self.writes_codes,
            settings: &self.settings,
            genres: self.genres.clone(),
        }
    }
}

/// True if there is no such model on this machine.
pub(super) fn is_absent(error: &Error) -> bool {
    let Error::Checkpoint(inner) = error else { return false };
    matches!(inner.downcast_ref(), Some(acestep_import::Error::Absent { .. }))
}

/// Replaces the error of a missing language model: the song can be made without it.
fn can_be_without(error: Error) -> Error {
    match error {
        Error::Checkpoint(inner) if inner.is::<acestep_import::Error>() => match inner.downcast() {
            Ok(absent) if matches!(*absent, acestep_import::Error::Absent { .. }) => {
                SessionError::NoLanguageModel(*absent).into()
            }
            Ok(other) => Error::Checkpoint(other),
            Err(other) => Error::Checkpoint(other),
        },
        other => other,
    }
}
