//! Pieces that a file lacks: its tokenizer, the latent of silence.
//!
//! They are searched beside the file and in the models directories, there also in the directories
//! of released models and in GGUF files. Pieces that do not fit are skipped, and reported if
//! nothing else fits.

use std::{
    fs,
    path::{Path, PathBuf},
};

use burn::tensor::TensorData;

use super::{
    Foreign, Text, gguf,
    vocabulary::{self, Unfit},
};
use crate::{
    Directory, Error,
    error::Places,
    families::acestep::{Kind, LANGUAGE_MODELS, MODELS, TEXT_ENCODER},
    listing::{add_places, files_in},
    pointer, silence,
};

/// Files of a released tokenizer: one complete file, or a pair.
const WHOLE: &str = "tokenizer.json";
const HALVES: [&str; 2] = ["vocab.json", "merges.txt"];

/// Files that were found but do not fit, each with the reason.
pub(super) type Tried = Vec<(PathBuf, String)>;

/// Returns the directory of the file at `path`, its parent, and `places`: ComfyUI sorts models into
/// directories by kind.
pub(super) fn near(path: &Path, places: &[PathBuf]) -> Vec<PathBuf> {
    let mut near: Vec<PathBuf> = path.ancestors().skip(1).take(2).map(Path::to_owned).collect();
    // A bare name has an empty directory, which means the working directory.
    near.retain(|place| !place.as_os_str().is_empty());
    add_places(&mut near, places);
    near
}

/// Result of the search for a tokenizer.
#[derive(Debug, Default)]
pub(super) struct Tokenizer {
    /// Its files; empty if none fits.
    pub(super) texts: Vec<Text>,
    pub(super) looked_for: Vec<PathBuf>,
    pub(super) tried: Tried,
    /// True if a text-only tokenizer fills the table, so that no audio code has a row.
    pub(super) has_no_codes: bool,
}

/// Returns the first tokenizer nearby that fits a network of `kind` with `rows` rows in its table.
pub(super) fn tokenizer(kind: Kind, rows: usize, near: &[PathBuf]) -> Tokenizer {
    let mut found = Tokenizer { looked_for: tokenizer_places(kind, near), ..Default::default() };
    for place in found.looked_for.clone() {
        for names in [&[WHOLE][..], &HALVES] {
            if found.texts.is_empty() && names.iter().all(|name| place.join(name).is_file()) {
                let texts = texts(&place, names).map_err(Unfit::from);
                let texts = texts.and_then(|texts| fitting((kind, rows), texts));
                found.take(place.join(names[0]), texts);
            }
        }
        if !found.texts.is_empty() {
            return found;
        }
    }
    for (path, texts) in near.iter().flat_map(|place| of_gguf(place)) {
        found.take(path, fitting((kind, rows), texts.into()));
        if !found.texts.is_empty() {
            break;
        }
    }
    found
}

/// Returns `texts`, a complete tokenizer or a pair of files, if they fit the network.
fn fitting(network: (Kind, usize), texts: Vec<Text>) -> Result<Vec<Text>, Unfit> {
    match &texts[..] {
        [(.., ids), (.., merges)] => vocabulary::check_pair(network, ids, merges)?,
        _ => vocabulary::check_whole(network, &texts[0].2)?,
    }
    Ok(texts)
}

impl Tokenizer {
    fn take(&mut self, path: PathBuf, texts: Result<Vec<Text>, Unfit>) {
        match texts {
            Ok(texts) => self.texts = texts,
            Err(unfit) => {
                self.has_no_codes |= unfit == Unfit::NoCodes;
                self.tried.push((path, unfit.reason()));
            }
        }
    }
}

/// Reads the files `names` of `place`.
fn texts(place: &Path, names: &[&'static str]) -> Result<Vec<Text>, String> {
    let mut texts = Vec::new();
    for &name in names {
        let path = place.join(name);
        let bytes = fs::read(&path).map_err(|error| format!("{name}: {error}"))?;
        if pointer::is_one(&bytes) {
            return Err(format!("{name} {}", pointer::REASON));
        }
        let text = String::from_utf8(bytes).map_err(|error| format!("{name}: {error}"))?;
        let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
        texts.push((name, path, text));
    }
    Ok(texts)
}

/// Returns the base vocabularies of the GGUF files of `place`.
fn of_gguf(place: &Path) -> impl Iterator<Item = (PathBuf, [Text; 2])> {
    files_in(place, "gguf").into_iter().filter_map(|path| {
        let is_one = |kind| gguf::is_a(&path, kind);
        if !is_one(Kind::TextEncoder) && !is_one(Kind::LanguageModel) {
            return None;
        }
        let texts = gguf::vocabulary(&path)?;
        Some((path, texts))
    })
}

fn tokenizer_places(kind: Kind, near: &[PathBuf]) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for place in near {
        all.push(place.clone());
        if kind == Kind::LanguageModel {
            let known = LANGUAGE_MODELS.iter().map(|model| place.join(model.directory));
            all.extend(known.filter(|path| path.is_dir()));
        }
        all.push(place.join(TEXT_ENCODER));
    }
    all
}

pub(super) fn no_tokenizer(of: &Foreign) -> Error {
    let place = of.looked_for.first().map_or_else(|| Path::new("."), PathBuf::as_path);
    Error::MissingPiece {
        path: of.root.clone(),
        piece: "tokenizer",
        looked_for: Places(of.looked_for.clone()),
        tried: of.tried.clone(),
        remedy: format!(
            "put tokenizer.json, or vocab.json and merges.txt, of the release into `{}`: those of \
             {TEXT_ENCODER}, or of the language model for that",
            place.display()
        ),
    }
}

/// Returns the first latent of silence nearby with `channels` channels, `[1, T, C]`.
///
/// # Errors
/// The searched places, and the files that do not fit.
pub(super) fn silence(
    near: &[PathBuf],
    channels: usize,
) -> Result<TensorData, (Vec<PathBuf>, Tried)> {
    let mut tried = Tried::new();
    let mut looked_for = Vec::new();
    for place in near {
        let known = MODELS.iter().map(|model| place.join(model.directory));
        let known = known.filter(|path| path.is_dir());
        for place in [place.clone()].into_iter().chain(known) {
            let directory = Directory::Disk(place.clone());
            if let Some(file) = silence::file_in(&directory) {
                match silence::read(&directory, channels) {
                    Ok(latent) => return Ok(latent),
                    Err(error) => tried.push((place.join(file), error.to_string())),
                }
            }
            looked_for.push(place.join(silence::PT));
        }
    }
    let files = near.iter().flat_map(|place| files_in(place, "gguf"));
    for path in files.filter(|path| gguf::is_a(path, Kind::Dit)) {
        match gguf::silence(&path, channels) {
            None => (),
            Some(Ok(latent)) => return Ok(latent),
            Some(Err(error)) => tried.push((path, error.to_string())),
        }
    }
    Err((looked_for, tried))
}

/// Returns the error for a missing latent of silence.
pub(super) fn no_silence(of: &Foreign, looked_for: Vec<PathBuf>, tried: Tried) -> Error {
    let place = looked_for.first().and_then(|path| path.parent()).unwrap_or(Path::new("."));
    let remedy = format!(
        "put silence_latent.pt of the model's release into `{}`: `hf download \
         ACE-Step/Ace-Step1.5 acestep-v15-turbo/silence_latent.pt` fetches it and says where it lies",
        place.display()
    );
    Error::MissingPiece {
        path: of.root.clone(),
        piece: "latent of silence",
        looked_for: Places(looked_for),
        tried,
        remedy,
    }
}
