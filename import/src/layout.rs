//! The search for published directories, and for files that replace them.
//!
//! ```text
//! models/acestep-v15-turbo/  config.json, model.safetensors, silence_latent.pt
//!        acestep-v15-*/      the same
//!        vae/                config.json, diffusion_pytorch_model.safetensors
//!        Qwen3-Embedding-0.6B/  config.json, model.safetensors, tokenizer.json
//!        acestep-5Hz-lm-*/   the same; 4B: shards and model.safetensors.index.json
//!        Qwen3-TTS-12Hz-*/   config.json, model.safetensors, vocab.json, speech_tokenizer/
//!        Dia2-*/             config.json, model.safetensors, tokenizer.json, dia2_assets.json
//!        mimi/               config.json, model.safetensors
//!        magpie_tts_*/       *.nemo
//!        nemo-nano-codec-*/  the same
//! ```
//!
//! | module | searches |
//! |---|---|
//! | `model` | a diffusion model and the networks that it needs |
//! | `language` | a language model |
//! | `speech` | a speech model |
//! | `magpie` | the files of a Magpie TTS model and of its codec |
//! | `files` | files that replace a missing directory |
//! | `presence` | the parts of a released model on this machine |
//!
//! The last place is the cache of the hub, which holds pulled models: see [`crate::hub`].

use std::path::{Path, PathBuf, absolute};

use crate::{
    Error, built_in,
    error::{Places, Unknown},
    families::{Release, acestep::Kind},
    foreign,
    hub::{Hub, is_whole},
};

pub(crate) mod files;
pub(crate) mod language;
pub(crate) mod magpie;
pub(crate) mod model;
mod presence;
mod speech;

pub use presence::{Presence, model_files};

/// The directories that hold models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    models_dirs: Vec<PathBuf>,
    hub: Option<Hub>,
}

impl Layout {
    /// Creates a layout of `models_dirs`; the first directory with a match is used.
    pub fn new(models_dirs: impl IntoIterator<Item = PathBuf>) -> Self {
        Self { models_dirs: models_dirs.into_iter().collect(), hub: None }
    }

    /// Adds `hub` as a place for models that are in none of the directories.
    #[must_use]
    pub fn with_hub(self, hub: Hub) -> Self {
        Self { hub: Some(hub), ..self }
    }

    /// Returns the cache of the hub, if it is searched.
    pub fn hub(&self) -> Option<&Hub> {
        self.hub.as_ref()
    }

    /// Returns the models directories.
    pub(crate) fn dirs(&self) -> &[PathBuf] {
        &self.models_dirs
    }

    /// True if `model` is in a models directory or in the hub's cache.
    pub fn has(&self, model: &Release) -> bool {
        self.place(model).is_some()
    }

    /// Returns the place of `model`: a directory, or a file that replaces it.
    pub fn place(&self, model: &Release) -> Option<PathBuf> {
        self.candidates(model.name, Some(model), model.kind).into_iter().find(|path| path.exists())
    }

    /// Returns the place of `release` in a models directory; pulled ones do not count.
    pub fn own(&self, release: &Release) -> Option<PathBuf> {
        let mut places = self.models_dirs.iter().map(|dir| dir.join(release.directory));
        places.find(|place| is_whole(place))
    }

    /// Returns the place of a model that was not released: among the models, else the path `choice`.
    pub fn place_called(&self, choice: &str) -> Option<PathBuf> {
        self.candidates(choice, None, None).into_iter().find(|path| path.exists())
    }

    /// True if `choice` is the name of a released or built-in model, or has a [place](Self::place_called).
    pub fn knows(&self, choice: &str) -> bool {
        Release::all().any(|model| model.is_called(choice))
            || built_in::all_built_in().any(|own| own.0 == choice)
            || self.place_called(choice).is_some()
    }

    /// Returns the path of `name` in the first models directory that has it.
    pub fn find(&self, name: &str) -> Option<PathBuf> {
        self.among_models(name).find(|path| path.exists())
    }

    /// Returns the places of `name` in the models directories.
    pub(crate) fn among_models(&self, name: &str) -> impl Iterator<Item = PathBuf> {
        self.models_dirs.iter().map(move |dir| dir.join(name))
    }

    /// Returns the possible places of `choice`, a network of `kind`, or a speech model without one;
    /// `known` is the released model with that name, if there is one.
    fn candidates(
        &self,
        choice: &str,
        known: Option<&Release>,
        kind: Option<Kind>,
    ) -> Vec<PathBuf> {
        let is_path = choice.contains(['/', '\\']) || [".", "..", ""].contains(&choice);
        let mut candidates = Vec::new();
        if known.is_some() && files::model_of(choice).is_some() {
            // Prefer this exact file to another file of the same model; the program reports a
            // replacement.
            candidates.extend(self.models_dirs.iter().map(|dir| dir.join(choice)));
            candidates.push(PathBuf::from(choice));
        }
        if !is_path {
            let directory = known.map_or(choice, |model| model.directory);
            for dir in &self.models_dirs {
                candidates.push(dir.join(directory));
                candidates.extend(match (kind, known) {
                    (Some(kind), _) => files::gguf(dir, directory, kind),
                    (None, Some(_)) => foreign::talker(dir, directory),
                    (None, None) => None,
                });
                if known.is_none() && !choice.is_empty() {
                    let more =
                        ["checkpoints", "diffusion_models"].map(|own| dir.join(own).join(choice));
                    let more = more.into_iter().chain([dir.join(format!("{choice}.gguf"))]);
                    candidates.extend(more.filter(|path| path.is_file()));
                }
            }
        }
        if known.is_none() && !choice.is_empty() {
            candidates.push(PathBuf::from(choice));
        }
        candidates.extend(known.and_then(|model| self.in_hub(model)));
        candidates
    }

    fn is_in_hub(&self, path: &Path) -> bool {
        self.hub.as_ref().is_some_and(|hub| path.starts_with(hub.cache()))
    }

    /// Returns the place of `release` in the hub's cache. If it is absent, returns a pattern for
    /// messages, which is no valid file name.
    fn in_hub(&self, release: &Release) -> Option<PathBuf> {
        let hub = self.hub.as_ref()?;
        Some(hub.find(release).map_or_else(|| hub.pattern(release), |found| found.path))
    }
}

/// Alternatives to an unknown name.
struct Instead {
    remedy: String,
    unknown: Unknown,
}

impl Instead {
    /// Returns the alternatives to `choice`, which `field` names: the `known` models of songs and the
    /// built-in ones.
    fn of(field: &str, choice: &str, known: &[Release]) -> Self {
        let built_in = built_in::BUILT_IN_MODELS.iter().map(|model| model.name);
        Self::among(field, choice, known.iter().map(|model| model.name).chain(built_in).collect())
    }

    /// Returns `names` as the alternatives to `choice`, which `field` names.
    fn among(field: &str, choice: &str, names: Vec<&'static str>) -> Self {
        let all = names.join(", ");
        let remedy =
            format!("`{field}` takes a path, a directory among the models, or one of {all}");
        Self { remedy, unknown: Unknown { name: choice.to_owned(), names } }
    }
}

/// Returns the first of `candidates` that exists, as an absolute path, so that `.` has a parent and
/// a name. The error names the released model, or the alternatives to an unknown model.
fn first_place(
    candidates: Vec<PathBuf>,
    what: String,
    known: Option<&'static Release>,
    instead: impl FnOnce() -> Instead,
) -> Result<PathBuf, Error> {
    let Some(path) = candidates.iter().find(|path| path.exists()) else {
        let (remedy, unknown) = match known {
            Some(model) => (fetch(model), None),
            None => {
                let Instead { remedy, unknown } = instead();
                (remedy, Some(Box::new(unknown)))
            }
        };
        let looked_for = Places(candidates);
        return Err(Error::Absent { what, looked_for, remedy, known, unknown });
    };
    absolute(path).map_err(|source| Error::Io { path: path.clone(), source })
}

/// Returns the remedy for the absent `model`.
fn fetch(model: &Release) -> String {
    format!("fetch `{}` of `{}` from the hub", model.directory, model.repo)
}

/// Returns the last component of `path`.
fn directory_name(path: &Path) -> String {
    path.file_name()
        .map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests;
