//! The search for a speech model: one directory with its codec in a folder.

use std::path::PathBuf;

use super::{Instead, Layout, first_place};
use crate::{
    Error, Release,
    families::{magpie::MODELS as MAGPIE_MODELS, qwen3_tts::MODELS},
};

impl Layout {
    /// Finds the speech model `choice`: a short name, a directory in the models directory, or a
    /// path. Without a choice, finds the first released one that is installed.
    ///
    /// # Errors
    /// [`Error::Absent`], which lists the searched places and the remedy; [`Error::Io`].
    pub fn resolve_speech_model(&self, choice: Option<&str>) -> Result<PathBuf, Error> {
        self.speech_model(choice, &MODELS)
    }

    /// [`Self::resolve_speech_model`] of Magpie TTS.
    ///
    /// # Errors
    /// As [`Self::resolve_speech_model`].
    pub fn resolve_magpie(&self, choice: Option<&str>) -> Result<PathBuf, Error> {
        self.speech_model(choice, &MAGPIE_MODELS)
    }

    /// Finds the speech model `choice` of the family with these `models`.
    fn speech_model(
        &self,
        choice: Option<&str>,
        models: &'static [Release],
    ) -> Result<PathBuf, Error> {
        let default = &models[0];
        let Some(choice) = choice else {
            let all =
                models.iter().flat_map(|model| self.candidates(model.name, Some(model), None));
            return first_place(all.collect(), "a speech model".to_owned(), Some(default), || {
                Instead::of("model", default.name, models)
            });
        };
        let is_known = |name: &str| name.eq_ignore_ascii_case(choice);
        let known = models.iter().find(|model| is_known(model.name) || is_known(model.directory));
        let candidates = self.candidates(choice, known, None);
        first_place(candidates, format!("speech model `{choice}`"), known, || {
            Instead::of("model", choice, models)
        })
    }
}
