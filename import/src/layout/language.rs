//! The search for a language model: one directory without companions.

use std::path::{Path, PathBuf};

use super::{Instead, Layout, files, first_place};
use crate::{
    Error,
    families::{
        Release,
        acestep::{Kind, LANGUAGE_MODELS},
    },
    foreign,
};

/// The directory of a language model, or the file that replaces it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LanguagePath {
    /// The short name of a released model, else the name of its directory or file.
    pub name: String,
    /// Weights, configuration and tokenizer.
    pub path: PathBuf,
}

impl Layout {
    /// Finds the language model `choice`: a short name with or without `lm-`, a directory or file
    /// in the models directory, or a path. Without a choice, finds the first released one that is
    /// installed.
    ///
    /// # Errors
    /// [`Error::Absent`], which lists the searched places and the remedy; [`Error::Io`].
    pub fn resolve_language_model(&self, choice: Option<&str>) -> Result<LanguagePath, Error> {
        let [default, ..] = &LANGUAGE_MODELS;
        let kind = Some(Kind::LanguageModel);
        let (what, known, candidates) = match choice {
            Some(choice) => {
                let known = find(choice);
                (format!("language model `{choice}`"), known, self.candidates(choice, known, kind))
            }
            None => {
                let all = LANGUAGE_MODELS.iter();
                let all = all.flat_map(|model| self.candidates(model.name, Some(model), kind));
                ("the language model".to_owned(), Some(default), all.collect::<Vec<_>>())
            }
        };
        let choice = choice.unwrap_or(default.name);
        let instead = || Instead::of("lm_model", choice, &LANGUAGE_MODELS);
        let path = first_place(candidates, what, known, instead)?;
        foreign::expect(&path, Kind::LanguageModel)?;
        Ok(LanguagePath { name: name_of(&path), path })
    }
}

/// Returns the released language model of that name: `lm-4b`, `4B`, `acestep-5Hz-lm-4B`.
fn find(choice: &str) -> Option<&'static Release> {
    let of_file = files::model_of(choice);
    LANGUAGE_MODELS.iter().find(|model| {
        let size = model.name.strip_prefix("lm-").unwrap_or(model.name);
        [model.name, size, model.directory].iter().any(|name| name.eq_ignore_ascii_case(choice))
            || of_file.as_deref() == Some(model.directory)
    })
}

/// Returns the name of the model at `path`.
pub(crate) fn name_of(path: &Path) -> String {
    let directory = files::stem(path);
    let known = LANGUAGE_MODELS.iter().find(|model| model.directory == directory);
    known.map_or(directory, |model| model.name.to_owned())
}

#[cfg(test)]
mod tests;
