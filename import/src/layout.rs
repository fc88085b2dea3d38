//! Where a model's directories are, and how to get them.
//!
//! ```text
//! models/acestep-v15-turbo/  config.json, model.safetensors, silence_latent.pt
//!        acestep-v15-*/      the same
//!        vae/                config.json, diffusion_pytorch_model.safetensors
//!        Qwen3-Embedding-0.6B/  config.json, model.safetensors, tokenizer.json
//!        acestep-5Hz-lm-*/   the same; 4B: shards and model.safetensors.index.json
//! ```
//!
//! Where a directory is not there, a file that stands for it does: see `files`. Last comes the cache of
//! the hub, into which models are pulled: see [`crate::hub`].

use std::path::{Path, PathBuf, absolute};

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

/// The directory of the audio autoencoder, the same for all models.
pub const VAE: &str = "vae";
/// The directory of the text encoder, the same for all models.
pub const TEXT_ENCODER: &str = "Qwen3-Embedding-0.6B";
/// The repository with the turbo model, the autoencoder and the text encoder.
pub(crate) const MAIN_REPO: &str = "ACE-Step/Ace-Step1.5";

/// A released model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KnownModel {
    /// What `--model` calls it, or `--lm-model`.
    pub name: &'static str,
    /// Its directory among the models.
    pub directory: &'static str,
    /// Its repository on Hugging Face (and ModelScope).
    pub repo: &'static str,
    /// Gigabytes of its directory; a diffusion transformer needs about 1.9 besides.
    pub gigabytes: f32,
    /// One line for help texts.
    pub about: &'static str,
}

/// The released models, the default first.
pub const KNOWN_MODELS: [KnownModel; 9] = [
    known("turbo", "acestep-v15-turbo", MAIN_REPO, 4.8, "8 steps, no guidance"),
    known("base", "acestep-v15-base", "ACE-Step/acestep-v15-base", 4.8, "50 steps, all tasks"),
    known("sft", "acestep-v15-sft", "ACE-Step/acestep-v15-sft", 4.8, "50 steps, finer sound"),
    known(
        "turbo-shift1",
        "acestep-v15-turbo-shift1",
        "ACE-Step/acestep-v15-turbo-shift1",
        4.8,
        "turbo distilled at shift 1",
    ),
    known(
        "turbo-shift3",
        "acestep-v15-turbo-shift3",
        "ACE-Step/acestep-v15-turbo-shift3",
        4.8,
        "turbo distilled at shift 3",
    ),
    known(
        "turbo-continuous",
        "acestep-v15-turbo-continuous",
        "ACE-Step/acestep-v15-turbo-continuous",
        4.8,
        "turbo distilled at shifts 1 to 5",
    ),
    known(
        "xl-turbo",
        "acestep-v15-xl-turbo",
        "ACE-Step/acestep-v15-xl-turbo",
        10.0,
        "the larger turbo",
    ),
    known(
        "xl-base",
        "acestep-v15-xl-base",
        "ACE-Step/acestep-v15-xl-base",
        10.0,
        "the larger base",
    ),
    known("xl-sft", "acestep-v15-xl-sft", "ACE-Step/acestep-v15-xl-sft", 10.0, "the larger sft"),
];

/// What all models share beside the diffusion transformer.
pub const KNOWN_COMPANIONS: [KnownModel; 2] = [
    known("vae", VAE, MAIN_REPO, 0.7, "the audio autoencoder"),
    known("text-encoder", TEXT_ENCODER, MAIN_REPO, 1.2, "the text encoder"),
];

const fn known(
    name: &'static str,
    directory: &'static str,
    repo: &'static str,
    gigabytes: f32,
    about: &'static str,
) -> KnownModel {
    KnownModel { name, directory, repo, gigabytes, about }
}

/// The three directories of a model, or the files that stand for them.
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
    /// Where pieces may lie that other programs' files do not hold.
    pub pieces: Vec<PathBuf>,
}

/// The directories that hold models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    models_dirs: Vec<PathBuf>,
    hub: Option<Hub>,
}

impl Layout {
    /// Models lie in `models_dirs`; the first one that has what is wanted is taken.
    pub fn new(models_dirs: impl IntoIterator<Item = PathBuf>) -> Self {
        Self { models_dirs: models_dirs.into_iter().collect(), hub: None }
    }

    /// Models that lie in none of them are looked for in `hub`.
    #[must_use]
    pub fn with_hub(self, hub: Hub) -> Self {
        Self { hub: Some(hub), ..self }
    }

    /// The cache of the hub, if it is looked into.
    pub fn hub(&self) -> Option<&Hub> {
        self.hub.as_ref()
    }

    /// Finds the model that `choice` names: a short name, a directory or file among the models, or a
    /// path.
    ///
    /// The autoencoder and the text encoder are looked for in it, if it may hold them, then beside
    /// it, then among the models.
    ///
    /// # Errors
    /// [`Error::Absent`], which lists where was looked and says what to pull; [`Error::Ambiguous`];
    /// [`Error::Foreign`] and [`Error::WrongDirectory`] for a file that is no such model;
    /// [`Error::Io`].
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
        // A file of another name was found by what it calls itself.
        let known = known.or_else(|| KNOWN_MODELS.iter().find(|own| own.directory == directory));
        let name = known.map_or(directory, |model| model.name.to_owned());
        let [vae, text_encoder] = &KNOWN_COMPANIONS;
        let companion = |wanted, known| {
            self.companion(&dit, wanted, known).map_err(|error| match is_model(&dit) {
                true => error,
                // What is no model lacks no companions.
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

    /// The directories.
    pub(crate) fn dirs(&self) -> &[PathBuf] {
        &self.models_dirs
    }

    /// Whether something lies among the models or in the hub's cache that `model` names.
    pub fn has(&self, model: &KnownModel) -> bool {
        self.place(model).is_some()
    }

    /// What `model` names: a directory, or a file that stands for it.
    pub fn place(&self, model: &KnownModel) -> Option<PathBuf> {
        let kind = match model.name {
            "vae" => Kind::Vae,
            "text-encoder" => Kind::TextEncoder,
            _ if language::KNOWN_LANGUAGE_MODELS.contains(model) => Kind::LanguageModel,
            _ => Kind::Dit,
        };
        self.candidates(model.name, Some(model), kind).into_iter().find(|path| path.exists())
    }

    /// Where `piece` lies if it is in a directory of models, and was not pulled.
    pub fn own(&self, piece: &Piece) -> Option<PathBuf> {
        let mut places = self.models_dirs.iter().map(|dir| dir.join(piece.directory));
        places.find(|place| is_whole(place))
    }

    /// Where `name` lies if it is among the models.
    pub(crate) fn among_models(&self, name: &str) -> impl Iterator<Item = PathBuf> {
        self.models_dirs.iter().map(move |dir| dir.join(name))
    }

    /// Where `choice` may lie, a network of `kind`, which is the name of the `known` model if there is
    /// one.
    fn candidates(&self, choice: &str, known: Option<&KnownModel>, kind: Kind) -> Vec<PathBuf> {
        let is_path = choice.contains(['/', '\\']) || [".", "..", ""].contains(&choice);
        let mut candidates = Vec::new();
        if known.is_some() && files::model_of(choice).is_some() {
            // That very file before another of the same model, which the program tells of.
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

    /// Where `piece` lies in the hub's cache, else where it would: a pattern, which no file has for a
    /// name.
    fn in_hub(&self, piece: &Piece) -> Option<PathBuf> {
        let hub = self.hub.as_ref()?;
        Some(hub.find(piece).map_or_else(|| hub.pattern(piece), |found| found.path))
    }

    /// Finds the network `wanted`, which is `known`, in `dit`, beside it, among the models, else in the
    /// hub's cache; a place with several decides nothing.
    fn companion(
        &self,
        dit: &Path,
        wanted: Kind,
        known: &'static KnownModel,
    ) -> Result<PathBuf, Error> {
        if foreign::holds(dit, wanted) {
            return Ok(dit.to_owned());
        }
        // ComfyUI's files lie in directories by kind, one beside the other.
        let above = match (self.is_in_hub(dit), dit.is_file()) {
            // Beside what was pulled lies whatever any program has fetched of that commit.
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
        // What is missing in it says more than that nothing is there.
        if let Some(directory) = empty {
            return Ok(directory);
        }
        let candidates: Vec<_> =
            places.iter().map(|place| place.join(known.directory)).chain(in_hub).collect();
        first_place(candidates, what, Some(known), || unknown_model(known.name))
    }
}

/// What says of a directory that it is a model: the released one's, that of diffusers.
const SAYS_SO: [&str; 2] = ["config.json", "model_index.json"];

/// Whether `place` is a file, or a directory that says that it is a model.
fn is_model(place: &Path) -> bool {
    place.is_file() || SAYS_SO.iter().any(|own| place.join(own).is_file())
}

/// Whether `place` is no model, but a directory with released ones in it.
fn holds_models(place: &Path) -> bool {
    let has = |model: &KnownModel| place.join(model.directory).join("config.json").is_file();
    !is_model(place) && KNOWN_MODELS.iter().chain(&KNOWN_COMPANIONS).any(has)
}

/// What there is instead of a model that is not known.
fn unknown_model(choice: &str) -> Instead {
    Instead::of("--model", choice, &KNOWN_MODELS)
}

/// What there is instead of a name that is not known.
struct Instead {
    remedy: String,
    unknown: Unknown,
}

impl Instead {
    /// Of `choice`, which `flag` names, and of which `known` and what is built in have the names.
    fn of(flag: &str, choice: &str, known: &[KnownModel]) -> Self {
        let built_in = built_in::BUILT_IN_MODELS.iter().map(|model| model.name);
        let names: Vec<_> = known.iter().map(|model| model.name).chain(built_in).collect();
        let all = names.join(", ");
        let remedy = format!("{flag} takes a path, a directory among the models, or one of {all}");
        Self { remedy, unknown: Unknown { name: choice.to_owned(), names } }
    }
}

/// The first of `candidates` that exists; absolute, so that `.` has a parent and a name. Else what to
/// pull, or for a model that is not known what there is instead.
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

/// The last part of `path`.
fn directory_name(path: &Path) -> String {
    path.file_name()
        .map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests;
