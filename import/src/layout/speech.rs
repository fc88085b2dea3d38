//! The search for a speech model: a directory with its codec in a folder or beside it.

use std::path::PathBuf;

use super::{Instead, Layout, first_place};
use crate::{
    Error, Release,
    families::{dia2, magpie, qwen3_tts::MODELS},
};

impl Layout {
    /// Finds the speech model `choice`: a short name, a directory in the models directory, or a
    /// path. Without a choice, finds the first released one that is installed.
    ///
    /// # Errors
    /// [`Error::Absent`], which lists the searched places and the remedy; [`Error::Io`].
    pub fn resolve_speech_model(&self, choice: Option<&str>) -> Result<PathBuf, Error> {
        self.resolve_among(&MODELS, choice, "speech model")
    }

    /// Finds the dialogue model `choice`, as [`Self::resolve_speech_model`].
    ///
    /// # Errors
    /// As [`Self::resolve_speech_model`].
    pub fn resolve_dialogue_model(&self, choice: Option<&str>) -> Result<PathBuf, Error> {
        self.resolve_among(&dia2::MODELS, choice, "dialogue model")
    }

    /// [`Self::resolve_speech_model`] of Magpie TTS.
    ///
    /// # Errors
    /// As [`Self::resolve_speech_model`].
    pub fn resolve_magpie(&self, choice: Option<&str>) -> Result<PathBuf, Error> {
        self.resolve_among(&magpie::MODELS, choice, "speech model")
    }

    fn resolve_among(
        &self,
        models: &'static [Release],
        choice: Option<&str>,
        noun: &str,
    ) -> Result<PathBuf, Error> {
        let Some(choice) = choice else {
            let all =
                models.iter().flat_map(|model| self.candidates(model.name, Some(model), None));
            let default = models.first();
            return first_place(all.collect(), format!("a {noun}"), default, || {
                Instead::of("model", default.map_or("", |model| model.name), models)
            });
        };
        let is_known = |name: &str| name.eq_ignore_ascii_case(choice);
        let known = models.iter().find(|model| is_known(model.name) || is_known(model.directory));
        let candidates = self.candidates(choice, known, None);
        first_place(candidates, format!("{noun} `{choice}`"), known, || {
            Instead::of("model", choice, models)
        })
    }
}
