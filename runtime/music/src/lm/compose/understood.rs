//! Audio codes to words.

use std::sync::Arc;

use acestep_engine::{Error, progress::Observe};
use acestep_model::{Backend, LanguageCheckpoint, Place};

use super::{
    super::{
        constrain::{Phase, Rules, genres::GenreVocabulary},
        guard,
        metadata::Metadata,
        parse, prompt, session,
        settings::LmSettings,
        vocabulary,
    },
    Composed, Timing,
    codes::MOST_CODES,
    text::{without_end, write_text},
};
use crate::{Request, request::length::MOST_SECONDS, stage};

/// Description of audio codes by the language model.
#[derive(Debug, Clone, PartialEq)]
pub struct Understood {
    /// Caption, tempo, key, metre, language, length.
    pub metadata: Metadata,
    /// The sung text, as far as the model recognised it.
    pub lyrics: String,
    /// The answer, verbatim.
    pub text: String,
    /// Duration of the run.
    pub timing: Timing,
}

impl Understood {
    /// Returns the request for a song like it, with its `codes`; it has only values that can be used.
    pub fn to_request(&self, codes: &[u32]) -> Request {
        let usable = self.metadata.usable();
        Request::default().with(|r| {
            r.words.caption = self.metadata.caption.clone();
            r.words.lyrics = Some(self.lyrics.clone());
            r.words.bpm = usable.bpm.map(i64::from);
            r.words.keyscale = usable.keyscale;
            r.words.timesignature = usable.timesignature;
            r.words.vocal_language = usable.vocal_language.map(str::to_owned);
            r.source.audio_codes = Some(vec![codes.to_vec()]);
        })
    }
}

/// Describes the song of the audio codes `codes`.
///
/// # Errors
/// As [`compose`](super::compose).
pub fn understand<B: Backend>(
    codes: &[u32],
    settings: &LmSettings,
    genres: Option<Arc<GenreVocabulary>>,
    language: &dyn LanguageCheckpoint<B>,
    place: &Place<B>,
    observe: &dyn Observe,
) -> Result<Understood, Error> {
    if codes.len() > MOST_CODES {
        return Err(Error::OutOfRange {
            field: "audio_codes",
            value: format!("({} codes)", codes.len()),
            range: format!("at most {MOST_CODES}, those of {MOST_SECONDS} s"),
        });
    }
    if let Some(code) = codes.iter().find(|&&code| code >= vocabulary::MOST_CODES) {
        return Err(Error::OutOfRange {
            field: "audio_codes",
            value: code.to_string(),
            range: format!("codes from 0 to {}", vocabulary::MOST_CODES - 1),
        });
    }
    session::open(language, place, settings, stage::LM_TEXT, observe, |writer| {
        let mut composed = Composed::default();
        let rules = Rules {
            enabled: settings.constrained,
            skip_genres: genres.is_none(),
            genres: genres.clone(),
            ..Rules::new(Phase::Understand)
        };
        let text = write_text(writer, &prompt::understand(codes), rules, settings, &mut composed)?;
        let words = without_end(writer, &text);
        let (metadata, lyrics) = (parse::metadata(words), parse::lyrics(words));
        guard::require_metadata(&metadata, &text)?;
        Ok(Understood { lyrics, metadata, text, timing: composed.timing })
    })
}
