//! The two GGUF files of qwentts.cpp: a talker, with the tokenizer and the speaker encoder, and the
//! codec that all talkers share.
//!
//! | key | value |
//! |---|---|
//! | `general.architecture` | `qwen3-tts`: a talker; `qwen3-tts-tokenizer`: the codec |
//! | `general.name` | the released directory, nearly: `Qwen3-TTS-12Hz-0.6B-custom_voice` |
//! | `qwen3-tts.*`, `qwen3-tts-tokenizer.*` | config.json, value by value: see `config` |
//! | `generation.*` | generation_config.json |
//! | `tokenizer.ggml.*` | the tokenizer: see `tokenizer` |
//!
//! The names of the tensors are in `families::qwen3_tts::gguf`.
//!
//! Source: qwentts.cpp `convert.py`, `tools/quantize.cpp`, of May to August 2026.

use std::{
    cmp::Reverse,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    super::Foreign,
    ARCHITECTURE, NAME,
    header::{self, Header},
};
use crate::{
    Directory, Error, ModelFormat, Tensors,
    error::Places,
    families::{
        of_architecture,
        qwen3_tts::{
            MODELS,
            gguf::{CODEC, TALKER},
        },
    },
    listing::{add_places, files_in, folder_of, rank},
};

mod config;
mod tokenizer;

/// Returns the error for a file without a tokenizer.
fn without_lists(of: &Foreign) -> Error {
    let reason = format!("it has no list `{}` or `{}`", super::TOKENS, super::MERGES);
    Error::Foreign { path: of.root.clone(), reason, remedy: MADE.to_owned() }
}

/// A remedy for a file with other values than the converter writes.
const MADE: &str = "take a file that convert.py of qwentts.cpp made of the release";

/// Names of a talker and of the codec, for messages.
const TALKER_FILE: &str = "qwen-talker-0.6b-base-Q8_0.gguf";
const CODEC_FILE: &str = "qwen-tokenizer-12hz-F32.gguf";

/// Opens the talker at `path`, a file or a directory with one, and its codec, which lies beside it or
/// in one of `places`. Returns `None` for a directory without GGUF files, and for other files.
pub(crate) fn open(path: &Path, places: &[PathBuf]) -> Result<Option<[Directory; 2]>, Error> {
    let talker = if path.is_file() {
        if super::super::recognise(path)? != Some(ModelFormat::Gguf) {
            return Ok(None);
        }
        expect(path, TALKER)?;
        path.to_owned()
    } else if path.join("config.json").is_file() || files_in(path, "gguf").is_empty() {
        return Ok(None);
    } else {
        talker_in(path)?
    };
    let codec = codec_of(&talker, places)?;
    let talker = read(&talker, |header, tensors| {
        let own = config::of_talker(header, tensors)?;
        Ok(own.into_iter().chain(tokenizer::texts(header)?).collect())
    })?;
    let codec = read(&codec, |header, _| Ok(vec![("config.json", config::of_codec(header)?)]))?;
    Ok(Some([talker, codec]))
}

/// The names of text files and their content; or the reason why there are none.
type Texts = Result<Vec<(&'static str, String)>, String>;

/// Reads the file at `path`, with `texts` for the files that stand beside a released one.
fn read(path: &Path, texts: impl FnOnce(&Header, &Tensors) -> Texts) -> Result<Directory, Error> {
    let (header, tensors) = super::parse(path)?;
    let texts = texts(&header, &tensors).map_err(|reason| Error::Foreign {
        path: path.to_owned(),
        reason,
        remedy: MADE.to_owned(),
    })?;
    let texts = texts.into_iter().map(|(name, text)| (name, path.to_owned(), text)).collect();
    let tensors = tensors.described_by("the values of its header");
    let foreign = Foreign::new(path, ModelFormat::Gguf, texts, tensors);
    Ok(Directory::Foreign(Arc::new(Foreign { missing: without_lists, ..foreign })))
}

/// Returns the most precise talker in `place` of the release whose directory is called `name`.
pub(crate) fn talker_called(place: &Path, name: &str) -> Option<PathBuf> {
    let is_it = |path: &PathBuf| {
        matches!(heading(path), Ok([Some(architecture), Some(inside)])
            if architecture == TALKER && is_name_of(&inside, name))
    };
    files_in(place, "gguf").into_iter().filter(is_it).min_by_key(|path| coarseness(path))
}

/// Returns the directory of the release that the talker at `path` was made of.
pub(crate) fn release_of(path: &Path) -> Option<&'static str> {
    let inside = super::name(path)?;
    MODELS.iter().map(|model| model.directory).find(|name| is_name_of(&inside, name))
}

/// True if a file that is called `inside` was made of the release in the directory `name`.
fn is_name_of(inside: &str, name: &str) -> bool {
    inside.replace('_', "").eq_ignore_ascii_case(name)
}

/// A key that sorts files by precision: the type in the name, then the larger file, then the name.
fn coarseness(path: &Path) -> (usize, Reverse<u64>, PathBuf) {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let kind = stem.rsplit_once('-').and_then(|(_, kind)| rank(kind));
    (
        kind.unwrap_or(usize::MAX),
        Reverse(fs::metadata(path).map_or(0, |file| file.len())),
        path.to_owned(),
    )
}

/// Returns architecture and name of the GGUF file at `path`.
fn heading(path: &Path) -> Result<[Option<String>; 2], Error> {
    header::first_texts(path, [ARCHITECTURE, NAME])
}

/// Refuses the GGUF file at `path` if it is of another architecture.
fn expect(path: &Path, architecture: &str) -> Result<(), Error> {
    let [found, _] = heading(path)?;
    let found = found.unwrap_or_default();
    if found == architecture {
        return Ok(());
    }
    let reason = match of_architecture(&found) {
        Some(noun) => format!("it holds {noun}, and no talker"),
        None => format!("its architecture is `{found}`, which is no network of Qwen3-TTS"),
    };
    let remedy = format!("take a talker that qwentts.cpp made, such as `{TALKER_FILE}`");
    Err(Error::Foreign { path: path.to_owned(), reason, remedy })
}

/// Returns the talker in `place`, a directory with GGUF files.
fn talker_in(place: &Path) -> Result<PathBuf, Error> {
    let (mut talkers, mut others, mut unreadable) = (Vec::new(), Vec::new(), None);
    for path in files_in(place, "gguf") {
        match heading(&path) {
            Ok([Some(architecture), name]) if architecture == TALKER => talkers.push((name, path)),
            Ok([architecture, _]) => others.push((path, architecture.unwrap_or_default())),
            Err(error) => drop(unreadable.get_or_insert(error)),
        }
    }
    talkers.sort_by_key(|(_, path)| coarseness(path));
    let (first, rest) = match (&talkers[..], unreadable) {
        ([first, rest @ ..], _) => (first, rest),
        ([], Some(error)) => return Err(error),
        ([], None) => {
            let held = |(path, architecture): (PathBuf, String)| {
                let noun = of_architecture(&architecture).unwrap_or("another network");
                (path, format!("it holds {noun}"))
            };
            return Err(Error::MissingPiece {
                path: place.to_owned(),
                piece: "talker",
                looked_for: Places(vec![place.join("qwen-talker-*.gguf")]),
                tried: others.into_iter().map(held).collect(),
                remedy: format!("put a talker of qwentts.cpp there, such as `{TALKER_FILE}`"),
            });
        }
    };
    if rest.iter().any(|(name, _)| *name != first.0) {
        return Err(Error::Ambiguous {
            what: format!("the talker in `{}`", place.display()),
            found: talkers.into_iter().map(|(_, path)| path).collect(),
            remedy: "pass the file itself as `model`".to_owned(),
        });
    }
    Ok(first.1.clone())
}

/// Returns the most precise codec beside the talker at `path`, else in the first of `places` that has
/// one.
fn codec_of(path: &Path, places: &[PathBuf]) -> Result<PathBuf, Error> {
    let mut looked_for = vec![folder_of(path).to_owned()];
    add_places(&mut looked_for, places);
    let mut tried = Vec::new();
    for place in &looked_for {
        let mut codecs = Vec::new();
        for file in files_in(place, "gguf") {
            match heading(&file) {
                Ok([Some(architecture), _]) if architecture == CODEC => codecs.push(file),
                Ok(_) => (),
                Err(error) => tried.push((file, error.to_string())),
            }
        }
        if let Some(codec) = codecs.into_iter().min_by_key(|path| coarseness(path)) {
            return Ok(codec);
        }
    }
    let place = looked_for[0].display();
    let remedy = format!("put the codec of qwentts.cpp, `{CODEC_FILE}`, into `{place}`");
    let looked_for = looked_for.iter().map(|place| place.join("qwen-tokenizer-12hz-*.gguf"));
    Err(Error::MissingPiece {
        path: path.to_owned(),
        piece: "codec",
        looked_for: Places(looked_for.collect()),
        tried,
        remedy,
    })
}
