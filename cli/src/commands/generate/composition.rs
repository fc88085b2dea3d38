//! The language model's task in a song.

use std::sync::Arc;

use acestep_engine::{Engine, Error, Notice, device::memory::MemoryNeed};
use acestep_import::{LanguageModelDir, Layout, TINY};
use acestep_music::{
    Plan, Request,
    lm::{
        compose::{Ask, Composing},
        constrain::genres::GenreVocabulary,
        settings::{self, Settings, Thinking},
    },
    needs,
    request::{Language, Words},
};
use anyhow::Result;

use super::{Args, request::ResolvedRequest};
use crate::{
    commands::{language, memory},
    error::CliError,
    hint,
};

/// Task of the language model before the final plan.
pub(super) struct Composition {
    ask: Ask,
    /// True if it also writes audio codes, false for text only.
    pub(super) writes_codes: bool,
    pub(super) settings: Settings,
    /// Genres that it may name; `None` means that it names none.
    genres: Option<Arc<GenreVocabulary>>,
    pub(super) folder: LanguageModelDir,
}

impl Composition {
    /// Decides whether the language model is used, and checks its task. `plan` is the song without
    /// it, and `model` the model of the sound.
    pub(super) fn decide(
        args: &Args,
        asked: &mut ResolvedRequest,
        plan: &Plan,
        model: &str,
        layout: &Layout,
        engine: Engine,
    ) -> Result<Option<Self>> {
        let ResolvedRequest { request, notices, .. } = asked;
        let drawing = &args.language.drawing;
        let genres = drawing.genres.as_deref().map(language::read_genres).transpose()?;
        let thinking = match args.sampling.conditioning {
            Some(_) => Thinking::Off,
            None => Thinking::of(request, model == TINY),
        };
        if thinking == Thinking::Off {
            // Typed flags are checked anyway; values from a file must not stop the song.
            let mut typed = Language::default();
            args.language.put_over(&mut typed);
            let words = Words::default();
            drawing.bound(typed.plan(&words, &plan.noise.seeds, &mut vec![])?)?;
            notices.extend(without(args, request));
            return Ok(None);
        }
        let settings = request.language.plan(&request.words, &plan.noise.seeds, notices)?;
        let settings = drawing.bound(settings)?;
        let ask = settings::ask(request)?;
        let writes_codes = thinking == Thinking::Codes;
        if writes_codes {
            settings.check_lengths(request, &ask)?;
        }
        let folder = language::open(request.language.lm_model.as_deref(), model, layout, engine)
            .map_err(can_be_without)?;
        notices.extend(language::in_place_of(
            request.language.lm_model.as_deref(),
            folder.directory().root(),
        ));
        Ok(Some(Self { ask, writes_codes, settings, genres, folder }))
    }

    /// True if the language model decides the length of `request`.
    pub(super) fn decides_length(&self, request: &Request) -> bool {
        let decides = self.writes_codes || self.settings.cot_metas || self.ask != Ask::Plan;
        request.words.duration.is_none() && decides
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

    /// Returns its task for `request`.
    pub(super) fn composing<'a>(&'a self, request: &'a Request) -> Composing<'a> {
        Composing {
            request,
            ask: self.ask.clone(),
            writes_codes: self.writes_codes,
            settings: &self.settings,
            genres: self.genres.clone(),
        }
    }
}

/// Extends the hint of a missing language model: the song can be made without it.
fn can_be_without(error: anyhow::Error) -> anyhow::Error {
    match error.downcast() {
        Ok(absent @ acestep_import::Error::Absent { .. }) => {
            let remedy = hint::remedy(&absent).unwrap_or_default();
            let hint = format!("{remedy}\n      to make the song without it, pass --no-thinking");
            CliError::new(absent.to_string()).hint(hint).because(absent).into()
        }
        Ok(error) => error.into(),
        Err(error) => error,
    }
}

/// Returns a notice about flags for the language model that have no effect, because it is not used.
fn without(args: &Args, request: &Request) -> Option<Notice> {
    if args.sampling.conditioning.is_some() {
        return None;
    }
    let follows = request.follows_source();
    let remedy = match (request.source.has_codes(), request.language.thinking) {
        (true, _) => "the audio codes are there already",
        (false, _) if follows => "the song follows its source",
        (false, Some(false)) => "thinking is off",
        (false, _) => "pass --thinking to ask it",
    };
    if follows && args.thinking.typed() == Some(true) {
        return Some(Notice(format!("--thinking has no effect: {remedy}")));
    }
    if args.language.is_typed() {
        let text =
            format!("the language model does not run, so its flags have no effect: {remedy}");
        return Some(Notice(text));
    }
    let mode = request.language.lm_mode.as_deref().filter(|&mode| mode != "generate")?;
    (!request.source.has_codes()).then(|| {
        Notice(format!(
            "`lm_mode` {mode} has no effect without the language model, caption and lyrics are \
             used as they stand: {remedy}"
        ))
    })
}
