//! The search for the files of a Magpie TTS model and of its codec.

use std::path::{Path, PathBuf};

use super::Layout;
use crate::{
    Error, Release,
    error::Places,
    families::magpie::{CODEC, CODECS, WHOLE},
    foreign,
    listing::{files_in, folder_of},
    nemo,
};

/// Beginning of the names of the codec's archives.
const CODEC_NAME: &str = "nemo-nano-codec";

fn is_codec_archive(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(CODEC_NAME))
}

fn models_in(place: &Path) -> Vec<PathBuf> {
    let archives = files_in(place, "nemo").into_iter().filter(|path| !is_codec_archive(path));
    let ggufs = files_in(place, "gguf").into_iter().filter(|path| foreign::is_magpie(path));
    archives.chain(ggufs).collect()
}

pub(crate) fn is_model(path: &Path) -> bool {
    match path.is_dir() {
        true => !path.join("config.json").is_file() && !models_in(path).is_empty(),
        false => foreign::is_magpie(path) || nemo::is_archive(path) && !is_codec_archive(path),
    }
}

/// Returns the file of the model at `path`, a file or a directory with one.
pub(crate) fn model(path: &Path) -> Result<PathBuf, Error> {
    if !path.is_dir() {
        return Ok(path.to_owned());
    }
    match &models_in(path)[..] {
        [only] => Ok(only.clone()),
        [] => Err(Error::MissingPiece {
            path: path.to_owned(),
            piece: "model of Magpie TTS",
            looked_for: Places(vec![path.join("*.nemo"), path.join("*.gguf")]),
            tried: Vec::new(),
            remedy: "fetch the model's archive into that directory".to_owned(),
        }),
        several => Err(Error::Ambiguous {
            what: format!("the model in `{}`", path.display()),
            found: several.to_vec(),
            remedy: "pass the file itself as `model`".to_owned(),
        }),
    }
}

/// Returns the file of the codec of the model at `model`: that at `given`, or the one that lies near, or
/// in one of `places`.
pub(crate) fn codec(
    model: &Path,
    given: Option<&Path>,
    places: &[PathBuf],
) -> Result<PathBuf, Error> {
    let mut looked_for = Vec::new();
    if let Some(given) = given {
        if !given.is_dir() {
            return Ok(given.to_owned());
        }
        looked_for.push(given.to_owned());
    } else {
        let beside = folder_of(model);
        let [published] = &CODECS;
        let directory = published.directory;
        looked_for.extend([
            beside.to_owned(),
            beside.join(directory),
            beside.join("..").join(directory),
        ]);
        looked_for.extend(places.iter().flat_map(|place| [place.clone(), place.join(directory)]));
    }
    let is_codec = |path: &PathBuf| foreign::architecture(path).is_some_and(|own| own == CODEC);
    for place in &looked_for {
        let archives = files_in(place, "nemo").into_iter().filter(|path| is_codec_archive(path));
        let ggufs = files_in(place, "gguf").into_iter().filter(is_codec);
        if let Some(found) = archives.chain(ggufs).next() {
            return Ok(found);
        }
    }
    let looked_for = looked_for.iter().map(|place| place.join(format!("{CODEC_NAME}-*.nemo")));
    Err(Error::MissingPiece {
        path: model.to_owned(),
        piece: "codec",
        looked_for: Places(looked_for.collect()),
        tried: Vec::new(),
        remedy: "fetch `nanocodec` from the hub, or put its archive beside the model".to_owned(),
    })
}

impl Layout {
    /// Returns places of the codec that are not near a model.
    pub(crate) fn codec_places(&self) -> Vec<PathBuf> {
        let pulled = CODECS.iter().filter_map(|codec| self.place(codec));
        self.dirs().iter().cloned().chain(pulled).collect()
    }

    /// Returns the part that the installed `release` lacks: the model's file in its directory, or the codec.
    pub(super) fn lacked_by_magpie(&self, release: &Release) -> Vec<String> {
        let Some(place) = self.place(release) else { return vec![release.name.to_owned()] };
        let file = match model(&place) {
            Ok(file) => file,
            Err(Error::MissingPiece { .. }) => return vec!["*.nemo".to_owned()],
            // Nothing is missing. The error is told when it is opened.
            Err(_) => return Vec::new(),
        };
        let has_codec = foreign::architecture(&file).is_some_and(|own| own == WHOLE)
            || codec(&file, None, &self.codec_places()).is_ok();
        let lacked = CODECS.iter().filter(|_| !has_codec);
        lacked.map(|codec| codec.name.to_owned()).collect()
    }
}
