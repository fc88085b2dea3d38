//! The language model alone: a description or a request becomes a request for a song.

use std::sync::Arc;

use acestep_engine::{Engine, Error, Notice, device::memory::MemoryNeed};
use acestep_import::{LanguageModelDir, TINY};
use acestep_music::{
    Composed, LmSettings, Request, SongError,
    lm::{
        compose::{Composing, LmMode},
        constrain::genres::GenreVocabulary,
    },
    lyrics::is_sung,
    needs,
    plan::VOICE_AND_NONE,
    request::{Words, singing},
};

use crate::{
    SessionError,
    language::{self, TokenLimits},
    memory,
};

/// A checked task for the language model.
#[derive(Debug, Clone)]
pub struct Writing {
    /// The request to complete.
    pub request: Request,
    /// The task.
    pub mode: LmMode,
    /// True if audio codes are written too.
    pub writes_codes: bool,
    /// Settings of the language model.
    pub settings: LmSettings,
    /// One seed for each song.
    pub seeds: Vec<u64>,
    /// Notices so far.
    pub notices: Vec<Notice>,
}

impl Writing {
    /// Checks the task. Text and metadata are drawn once for all songs.
    ///
    /// # Errors
    /// If there is nothing to write about; a value out of range; settings that exclude each other.
    pub fn new(
        mut request: Request,
        mode: LmMode,
        writes_codes: bool,
        limits: TokenLimits,
        mut notices: Vec<Notice>,
    ) -> Result<Self, Error> {
        let seeds = request.noise.seeds()?;
        check_words(&request.words, &mode)?;
        if request.source.has_codes() {
            let what =
                if writes_codes { "gets new ones" } else { "is planned again, without codes" };
            let text = format!("the request's audio codes are not used: it {what}");
            notices.push(Notice(text));
        }
        request.source.audio_codes = None;
        let kind = request.source.task()?;
        if writes_codes && kind.has_source() {
            return Err(SessionError::FollowsSong(kind.name()).into());
        }
        let drawn = if writes_codes { &seeds[..] } else { seeds.get(..1).unwrap_or_default() };
        let settings = request.language.plan(&request.words, drawn, &mut notices)?;
        let settings = limits.bound(settings)?;
        if writes_codes {
            settings.check_lengths(&request, &mode)?;
        }
        Ok(Self { request, mode, writes_codes, settings, seeds, notices })
    }

    /// Adds notices about the opened model, and refuses one that does not fit into memory.
    ///
    /// # Errors
    /// As [`memory::check`]; [`Error::Checkpoint`].
    pub fn check(&mut self, folder: &LanguageModelDir, engine: Engine) -> Result<(), Error> {
        let choice = self.request.language.lm_model.as_deref();
        self.notices.extend(language::in_place_of(choice, folder.directory().root()));
        self.notices.extend(folder.notices().into_iter().map(Notice));
        if folder.name() == TINY {
            let text =
                "tiny is a random network: what it writes is nonsense, made to prove the program";
            self.notices.push(Notice(text.into()));
        }
        memory::check(&self.needs(folder, engine)?, false, engine)
    }

    /// Returns the memory needs of the language model.
    fn needs(&self, folder: &LanguageModelDir, engine: Engine) -> Result<Vec<MemoryNeed>, Error> {
        let Self { request, mode, settings, writes_codes, .. } = self;
        let Words { caption, lyrics, duration, .. } = &request.words;
        let own = match mode {
            LmMode::Custom { system, user } => system.len() + user.len(),
            LmMode::Plan | LmMode::Inspire | LmMode::Format => 0,
        };
        let words: usize = [caption, lyrics].into_iter().flatten().map(String::len).sum();
        let prompt = needs::prompt_tokens(words + own);
        memory::language(folder, settings, prompt, *duration, *writes_codes, engine)
    }

    /// Returns the task for [`language::compose_all`].
    pub fn composing(&self, genres: Option<Arc<GenreVocabulary>>) -> Composing<'_> {
        let Self { request, mode, writes_codes, settings, .. } = self;
        Composing { request, mode: mode.clone(), writes_codes: *writes_codes, settings, genres }
    }

    /// Returns the request for a song, without keys that only steer the language model. A notice
    /// about its lyrics joins the changes.
    pub fn finished(&self, composed: &mut Composed) -> Request {
        let seeds = self.seeds.clone();
        let request =
            composed.request.without_language_model().with(|r| r.noise.seed = Some(seeds));
        if let (Some(lyrics), Some(seconds)) = (&request.words.lyrics, request.words.duration) {
            composed.changes.extend(singing::notice(lyrics, seconds));
        }
        request
    }
}

/// Refuses an empty request, and a request with both a voice and none.
fn check_words(words: &Words, mode: &LmMode) -> Result<(), Error> {
    let is_sung = words.lyrics.as_deref().is_some_and(is_sung);
    if words.instrumental == Some(true) && is_sung && *mode != LmMode::Inspire {
        return Err(Error::Conflict(VOICE_AND_NONE.into()));
    }
    match mode {
        LmMode::Custom { .. } => Ok(()),
        LmMode::Inspire if words.caption.as_deref().is_none_or(|of| of.trim().is_empty()) => {
            Err(SessionError::NoDescription.into())
        }
        _ if words.are_blank() => Err(SongError::NothingAsked.into()),
        _ => Ok(()),
    }
}

/// Fields of a request that other programs read alone, by the names that they use.
pub const FIELDS: [&str; 7] =
    ["caption", "lyrics", "bpm", "duration", "keyscale", "timesignature", "language"];

/// Returns the values of [`FIELDS`]; an undecided one is empty.
pub fn values(request: &Request) -> [String; 7] {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    [
        text(&request.words.caption),
        text(&request.words.lyrics),
        request.words.bpm.map(|bpm| bpm.to_string()).unwrap_or_default(),
        request.words.duration.map(|seconds| seconds.to_string()).unwrap_or_default(),
        text(&request.words.keyscale),
        text(&request.words.timesignature),
        text(&request.words.vocal_language),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_its_value_alone() {
        let request = Request::default().with(|r| {
            r.words.caption = Some("two\nlines".into());
            r.words.bpm = Some(120);
            r.words.duration = Some(33.5);
        });
        assert_eq!(values(&request), ["two\nlines", "", "120", "33.5", "", "", ""]);
    }
}
