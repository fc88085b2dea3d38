//! The search for a speech model: a directory with its codec in a folder or beside it.

use std::path::{Path, PathBuf};

use super::{Instead, Layout, Presence, first_place, magpie::is_model};
use crate::{
    Error, Release, built_in,
    families::{acestep, dia2, magpie, qwen3_tts::MODELS},
};

/// Returns the alternatives to `choice`: the released models of every family, and the one inside the
/// program.
fn instead(choice: &str) -> Instead {
    let names = Release::speech().map(|model| model.name).chain([built_in::TINY_SPEECH]);
    Instead::among("model", choice, names.collect())
}

impl Layout {
    /// Returns the speech model of any family that is used without a choice: the first one of
    /// [`Release::speech`] that is here, a whole one before one in part.
    pub fn first_speech_model(&self) -> Option<&'static Release> {
        let is_whole = |model: &&Release| self.presence(model) == Presence::Whole;
        let first = Release::speech().find(is_whole);
        first.or_else(|| Release::speech().find(|model| self.has(model)))
    }

    /// Finds the speech model `choice`: a short name, a directory in the models directory, or a
    /// path. Without a choice, finds the first released one that is installed.
    ///
    /// # Errors
    /// [`Error::Absent`], which lists the searched places and the remedy; [`Error::Io`].
    pub fn resolve_speech_model(&self, choice: Option<&str>) -> Result<PathBuf, Error> {
        self.resolve_among(&MODELS, choice, "speech model", None)
    }

    /// Finds the dialogue model `choice`, as [`Self::resolve_speech_model`].
    ///
    /// # Errors
    /// As [`Self::resolve_speech_model`].
    pub fn resolve_dialogue_model(&self, choice: Option<&str>) -> Result<PathBuf, Error> {
        self.resolve_among(&dia2::MODELS, choice, "dialogue model", None)
    }

    /// [`Self::resolve_speech_model`] of Magpie TTS.
    ///
    /// # Errors
    /// As [`Self::resolve_speech_model`].
    pub fn resolve_magpie(&self, choice: Option<&str>) -> Result<PathBuf, Error> {
        self.resolve_among(&magpie::MODELS, choice, "speech model", Some(is_model))
    }

    /// Finds `choice` among `models`. `is_model` is true for a path with a model of a family that has
    /// other names.
    fn resolve_among(
        &self,
        models: &'static [Release],
        choice: Option<&str>,
        noun: &str,
        is_model: Option<fn(&Path) -> bool>,
    ) -> Result<PathBuf, Error> {
        let Some(choice) = choice else {
            let all =
                models.iter().flat_map(|model| self.candidates(model.name, Some(model), None));
            let default = models.first();
            return first_place(all.collect(), format!("a {noun}"), default, || {
                instead(default.map_or("", |model| model.name))
            });
        };
        let known = models.iter().find(|model| model.is_called(choice));
        let mut candidates = self.candidates(choice, known, None);
        // An alias is no directory of a release, so a model of the user may lie at this path.
        if let (Some(is_model), Some(release)) = (is_model, known)
            && release.alias.eq_ignore_ascii_case(choice)
        {
            let own = self.candidates(choice, None, None).into_iter().find(|path| is_model(path));
            candidates.splice(..0, own);
        }
        let is_song = built_in::built_in(choice).is_some()
            || acestep::MODELS.iter().any(|model| model.is_called(choice));
        let place =
            first_place(candidates, format!("{noun} `{choice}`"), known, || instead(choice));
        place.map_err(|error| match is_song {
            true => Error::OtherKind { name: choice.to_owned(), makes: "songs", wanted: "speech" },
            false => error,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{layout, models},
        *,
    };

    #[test]
    fn an_unknown_name_is_told_with_the_models_of_every_family() {
        for choice in ["magpie-357", "dia2-2", "qwen9"] {
            let error = layout(&[]).resolve_speech_model(Some(choice)).expect_err("unknown");
            let Error::Absent { unknown: Some(unknown), remedy, .. } = error else {
                panic!("{error}")
            };
            assert_eq!(unknown.name, choice);
            for name in ["qwen3-tts-0.6b-base", "dia2-2b", "magpie-357m", "tiny-speech"] {
                assert!(unknown.names.contains(&name) && remedy.contains(name), "{remedy}");
            }
            // A model of songs does not speak.
            assert!(!unknown.names.contains(&"tiny"), "{remedy}");
        }
    }

    #[test]
    fn a_model_of_the_other_kind_is_told_as_one() {
        for choice in ["turbo", "tiny", "acestep-v15-base"] {
            let error = layout(&[]).resolve_speech_model(Some(choice)).expect_err("songs");
            assert_eq!(error.to_string(), format!("`{choice}` makes songs, not speech"));
        }
        for choice in ["tiny-speech", "dia2-1b", "magpie"] {
            let error = layout(&[]).resolve(choice).expect_err("speech");
            assert_eq!(error.to_string(), format!("`{choice}` makes speech, not songs"));
        }
    }

    #[test]
    fn a_family_has_an_other_name_and_the_name_of_its_directory() {
        let dir = models(&["magpie_tts_multilingual_357m"]);
        let expected = dir.path().join("magpie_tts_multilingual_357m");
        for name in ["magpie", "Magpie", "magpie-357m", "magpie_tts_multilingual_357m"] {
            let found = layout(&[&dir]).resolve_magpie(Some(name)).expect(name);
            assert_eq!(found, expected);
            assert_eq!(Release::named(name).map(|own| own.name), Some("magpie-357m"));
        }
        // No other release has another name: an empty one is none.
        assert_eq!(Release::named(""), None);
    }

    #[test]
    fn the_first_whole_model_of_any_family_is_used_without_a_choice() {
        const DIA2: &str = "Dia2-1B";
        let first = |names: &[&str]| {
            let dir = models(names);
            layout(&[&dir]).first_speech_model().map(|own| own.name)
        };
        assert_eq!(first(&[]), None);
        assert_eq!(first(&["magpie_tts_multilingual_357m"]), Some("magpie-357m"));
        // Its codec is absent, and that is told when it is opened.
        assert_eq!(first(&[DIA2]), Some("dia2-1b"));
        assert_eq!(first(&[DIA2, "mimi", "magpie_tts_multilingual_357m"]), Some("dia2-1b"));
        assert_eq!(first(&[DIA2, "Qwen3-TTS-12Hz-0.6B-Base"]), Some("qwen3-tts-0.6b-base"));
    }
}
