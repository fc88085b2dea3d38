//! The search for a model: the directory of the diffusion model, and its companions.

use std::path::{Path, PathBuf};

use super::{
    Instead, Layout,
    files::{self, Match},
    first_place,
};
use crate::{
    Error,
    families::{
        Release,
        acestep::{COMPANIONS, Kind, MODELS},
    },
    foreign, is_speech,
    listing::add_places,
};

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

impl Layout {
    /// Finds the model `choice`: a short name, a directory or file in the models directory, or a
    /// path.
    ///
    /// The autoencoder and the text encoder are searched in the model itself, if it may hold them,
    /// then beside it, then in the models directories.
    ///
    /// # Errors
    /// [`Error::Absent`], which lists the searched places and the remedy;
    /// [`Error::OtherKind`]; [`Error::Ambiguous`]; [`Error::Foreign`] and
    /// [`Error::WrongDirectory`] for a file that is not such a model; [`Error::Io`].
    pub fn resolve(&self, choice: &str) -> Result<ModelPaths, Error> {
        let (name, dit) = self.resolve_diffusion(choice)?;
        let [vae, text_encoder] = &COMPANIONS;
        let companion = |wanted, known| {
            self.companion(&dit, wanted, known).map_err(|error| match is_model(&dit) {
                true => error,
                // If it is not a model, missing companions are not the problem.
                false => Error::WrongDirectory {
                    path: dit.clone(),
                    wanted: "a model",
                    found: foreign::ggufs_in(&dit)
                        .unwrap_or_else(|| format!("neither {}", SAYS_SO.join(" nor "))),
                },
            })
        };
        let vae = companion(Kind::Vae, vae)?;
        let text_encoder = companion(Kind::TextEncoder, text_encoder)?;
        Ok(ModelPaths { name, dit, vae, text_encoder, pieces: self.models_dirs.clone() })
    }

    /// Finds the diffusion model of `choice`, as [`Self::resolve`]: its name and its place.
    pub(crate) fn resolve_diffusion(&self, choice: &str) -> Result<(String, PathBuf), Error> {
        let of_file = files::model_of(choice);
        let known = MODELS.iter().find(|model| {
            [model.name, model.directory].contains(&choice)
                || of_file.as_deref() == Some(model.directory)
        });
        let candidates = self.candidates(choice, known, Some(Kind::Dit));
        let dit =
            first_place(candidates, format!("model `{choice}`"), known, || unknown_model(choice));
        let dit = dit.map_err(|error| match is_speech(choice) {
            true => Error::OtherKind { name: choice.to_owned(), makes: "speech", wanted: "songs" },
            false => error,
        })?;
        foreign::expect(&dit, Kind::Dit)?;
        if holds_models(&dit) {
            let found = "models, each in a directory of its own".to_owned();
            return Err(Error::WrongDirectory { path: dit, wanted: "one model", found });
        }
        let directory = files::stem(&dit);
        // A file with another name was found by the name inside it.
        let known = known.or_else(|| MODELS.iter().find(|own| own.directory == directory));
        Ok((known.map_or(directory, |model| model.name.to_owned()), dit))
    }

    /// Finds the network `wanted`, the companion `known`, in `dit`, beside it, in the models
    /// directories, or in the hub's cache. A place with several candidates is skipped.
    fn companion(
        &self,
        dit: &Path,
        wanted: Kind,
        known: &'static Release,
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
        add_places(&mut places, &self.models_dirs);
        let in_hub = self.in_hub(known);
        let in_hub_here = in_hub.clone().filter(|path| path.exists());
        if let (true, Some(path)) = (self.is_in_hub(dit), &in_hub_here) {
            return Ok(path.clone());
        }
        let (mut several, mut empty) = (Vec::new(), None);
        for place in &places {
            match files::companion(place, wanted) {
                Match::Nothing => (),
                Match::Empty(directory) => drop(empty.get_or_insert(directory)),
                Match::One(path) => return Ok(path),
                Match::Several(found) => several.extend(found),
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
    let has = |model: &Release| place.join(model.directory).join("config.json").is_file();
    !is_model(place) && Release::all().any(has)
}

fn unknown_model(choice: &str) -> Instead {
    Instead::of("model", choice, &MODELS)
}
