//! Places of a model's directories, and the search for them.
//!
//! ```text
//! models/acestep-v15-turbo/  config.json, model.safetensors, silence_latent.pt
//!        acestep-v15-*/      the same
//!        vae/                config.json, diffusion_pytorch_model.safetensors
//!        Qwen3-Embedding-0.6B/  config.json, model.safetensors, tokenizer.json
//!        acestep-5Hz-lm-*/   the same; 4B: shards and model.safetensors.index.json
//! ```
//!
//! A file can replace a missing directory: see `files`. The last place is the cache of the hub,
//! which holds pulled models: see [`crate::hub`].

use std::path::{Path, PathBuf, absolute};

pub(crate) use crate::known::{KNOWN_COMPANIONS, KNOWN_MODELS, KnownModel, TEXT_ENCODER, VAE};
use crate::{
    Error, built_in,
    error::{Places, Unknown},
    foreign,
    hub::{Hub, Piece, is_whole},
    kind::Kind,
};
use files::Found;

pub(crate) mod files;
pub(crate) mod language;

/// The three directories of a model, or the files that replace them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelPaths {
    /// The short name of a released model, else the name of its directory or file.
    pub name: String,
    /// Diffusion transformer, conditioner, audio codec, latent of silence.
    pub dit: PathBuf,
    /// Audio autoencoder.
    pub vae: PathBuf,
    /// Text encoder and tokenizer.
    pub text_encoder: PathBuf,
    /// Places of pieces that files of other programs may lack.
    pub pieces: Vec<PathBuf>,
}

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

    /// Finds the model `choice`: a short name, a directory or file in the models directory, or a
    /// path.
    ///
    /// The autoencoder and the text encoder are searched in the model itself, if it may hold them,
    /// then beside it, then in the models directories.
    ///
    /// # Errors
    /// [`Error::Absent`], which lists the searched places and the pull command;
    /// [`Error::Ambiguous`]; [`Error::Foreign`] and [`Error::WrongDirectory`] for a file that is
    /// not such a model; [`Error::Io`].
    pub fn resolve(&self, choice: &str) -> Result<ModelPaths, Error> {
        let of_file = files::model_of(choice);
        let known = KNOWN_MODELS.iter().find(|model| {
            [model.name, model.directory].contains(&choice)
                || of_file.as_deref() == Some(model.directory)
        });
        let candidates = self.candidates(choice, known, Kind::Dit);
        let dit =
            first_place(candidates, format!("model `{choice}`"), known, || unknown_model(choice))?;
        foreign::expect(&dit, Kind::Dit)?;
        if holds_models(&dit) {
            let found = "models, each in a directory of its own: it is a --models-dir".to_owned();
            return Err(Error::WrongDirectory { path: dit, wanted: "one model", found });
        }
        let directory = files::stem(&dit);
        // A file with another name was found by the name inside it.
        let known = known.or_else(|| KNOWN_MODELS.iter().find(|own| own.directory == directory));
        let name = known.map_or(directory, |model| model.name.to_owned());
        let [vae, text_encoder] = &KNOWN_COMPANIONS;
        let companion = |wanted, known| {
            self.companion(&dit, wanted, known).map_err(|error| match is_model(&dit) {
                true => error,
                // If it is not a model, missing companions are not the problem.
                false => Error::WrongDirectory {
                    path: dit.clone(),
                    wanted: "a model",
                    found: format!("neither {}", SAYS_SO.join(" nor ")),
                },
            })
        };
        let vae = companion(Kind::Vae, vae)?;
        let text_encoder = companion(Kind::TextEncoder, text_encoder)?;
        Ok(ModelPaths { name, dit, vae, text_encoder, pieces: self.models_dirs.clone() })
    }

    /// Returns the models directories.
    pub(crate) fn dirs(&self) -> &[PathBuf] {
        &self.models_dirs
    }

    /// True if `model` is in a models directory or in the hub's cache.
    pub fn has(&self, model: &KnownModel) -> bool {
        self.place(model).is_some()
    }

    /// Returns the place of `model`: a directory, or a file that replaces it.
    pub fn place(&self, model: &KnownModel) -> Option<PathBuf> {
        let kind = match model.name {
            "vae" => Kind::Vae,
            "text-encoder" => Kind::TextEncoder,
            _ if language::KNOWN_LANGUAGE_MODELS.contains(model) => Kind::LanguageModel,
            _ => Kind::Dit,
        };
        self.candidates(model.name, Some(model), kind).into_iter().find(|path| path.exists())
    }

    /// Returns the place of `piece` in a models directory; pulled ones do not count.
    pub fn own(&self, piece: &Piece) -> Option<PathBuf> {
        let mut places = self.models_dirs.iter().map(|dir| dir.join(piece.directory));
        places.find(|place| is_whole(place))
    }

    /// Returns the places of `name` in the models directories.
    pub(crate) fn among_models(&self, name: &str) -> impl Iterator<Item = PathBuf> {
        self.models_dirs.iter().map(move |dir| dir.join(name))
    }

    /// Returns the possible places of `choice`, a network of `kind`; `known` is the released model
    /// with that name, if there is one.
    fn candidates(&self, choice: &str, known: Option<&KnownModel>, kind: Kind) -> Vec<PathBuf> {
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
                candidates.extend(files::gguf(dir, directory, kind));
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
        candidates.extend(known.and_then(|model| self.in_hub(&model.piece())));
        candidates
    }

    fn is_in_hub(&self, path: &Path) -> bool {
        self.hub.as_ref().is_some_and(|hub| path.starts_with(hub.cache()))
    }

    /// Returns the place of `piece` in the hub's cache. If it is absent, returns a pattern for
    /// messages, which is no valid file name.
    fn in_hub(&self, piece: &Piece) -> Option<PathBuf> {
        let hub = self.hub.as_ref()?;
        Some(hub.find(piece).map_or_else(|| hub.pattern(piece), |found| found.path))
    }

    /// Finds the network `wanted`, the companion `known`, in `dit`, beside it, in the models
    /// directories, or in the hub's cache. A place with several candidates is skipped.
    fn companion(
        &self,
        dit: &Path,
        wanted: Kind,
        known: &'static KnownModel,
    ) -> Result<PathBuf, Error> {
        if foreign::holds(dit, wanted) {
            return Ok(dit.to_owned());
        }
        // ComfyUI has one directory for each kind of file, beside each other.
        let above = match (self.is_in_hub(dit), dit.is_file()) {
            // In the hub's cache, the neighbours are files that other programs fetched at that
            // commit.
            (true, _) => 0,
            (false, true) => 2,
            (false, false) => 1,
        };
        let mut places: Vec<_> = dit.ancestors().skip(1).take(above).map(Path::to_owned).collect();
        for place in &self.models_dirs {
            if !places.contains(place) {
                places.push(place.clone());
            }
        }
        let in_hub = self.in_hub(&known.piece());
        let in_hub_here = in_hub.clone().filter(|path| path.exists());
        if let (true, Some(path)) = (self.is_in_hub(dit), &in_hub_here) {
            return Ok(path.clone());
        }
        let (mut several, mut empty) = (Vec::new(), None);
        for place in &places {
            match files::companion(place, wanted) {
                Found::Nothing => (),
                Found::Empty(directory) => drop(empty.get_or_insert(directory)),
                Found::One(path) => return Ok(path),
                Found::Several(found) => several.extend(found),
            }
        }
        let what = format!("{} `{}`", known.about, known.directory);
        if !several.is_empty() {
            let remedy = files::remedy(wanted);
            return Err(Error::Ambiguous { what, found: several, remedy });
        }
        if let Some(path) = in_hub_here {
            return Ok(path);
        }
        // The error about a missing file in it is more helpful than one about a missing directory.
        if let Some(directory) = empty {
            return Ok(directory);
        }
        let candidates: Vec<_> =
            places.iter().map(|place| place.join(known.directory)).chain(in_hub).collect();
        first_place(candidates, what, Some(known), || unknown_model(known.name))
    }
}

/// Files that mark a directory as a model: of a release, of diffusers.
const SAYS_SO: [&str; 2] = ["config.json", "model_index.json"];

/// True if `place` is a file, or a directory with the mark of a model.
fn is_model(place: &Path) -> bool {
    place.is_file() || SAYS_SO.iter().any(|own| place.join(own).is_file())
}

/// True if `place` is not a model, but a directory of released models.
fn holds_models(place: &Path) -> bool {
    let has = |model: &KnownModel| place.join(model.directory).join("config.json").is_file();
    !is_model(place) && KNOWN_MODELS.iter().chain(&KNOWN_COMPANIONS).any(has)
}

/// Returns the alternatives to an unknown model.
fn unknown_model(choice: &str) -> Instead {
    Instead::of("--model", choice, &KNOWN_MODELS)
}

/// Alternatives to an unknown name.
struct Instead {
    remedy: String,
    unknown: Unknown,
}

impl Instead {
    /// Returns the alternatives to `choice`, which `flag` names: the `known` and the built-in
    /// models.
    fn of(flag: &str, choice: &str, known: &[KnownModel]) -> Self {
        let built_in = built_in::BUILT_IN_MODELS.iter().map(|model| model.name);
        let names: Vec<_> = known.iter().map(|model| model.name).chain(built_in).collect();
        let all = names.join(", ");
        let remedy = format!("{flag} takes a path, a directory among the models, or one of {all}");
        Self { remedy, unknown: Unknown { name: choice.to_owned(), names } }
    }
}

/// Returns the first of `candidates` that exists, as an absolute path, so that `.` has a parent and
/// a name. The error names the pull command, or the alternatives to an unknown model.
fn first_place(
    candidates: Vec<PathBuf>,
    what: String,
    known: Option<&'static KnownModel>,
    instead: impl FnOnce() -> Instead,
) -> Result<PathBuf, Error> {
    let Some(path) = candidates.iter().find(|path| path.exists()) else {
        let (remedy, unknown) = match known {
            Some(model) => (format!("run `acestep model pull {}`", model.name), None),
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

/// Returns the last component of `path`.
fn directory_name(path: &Path) -> String {
    path.file_name()
        .map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests;
