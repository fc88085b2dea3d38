//! The GGUF files of the C++ ports of Magpie TTS: one with everything, or a model and a codec.
//!
//! | architecture | content | module |
//! |---|---|---|
//! | `magpie-tts` | model, codec and dictionaries, with all settings | `whole` |
//! | `magpie` | the model, with the English dictionary and few settings | `pair` |
//! | `nano-codec` | the codec | `pair` |
//!
//! Source: magpie-tts.cpp of LocalAI (July 2026), and magpie-tts.cpp of February 2026.

mod pair;
mod text;
mod whole;

use std::{collections::BTreeMap, path::Path};

use serde_json::{Map, Value as Json};

use super::{ARCHITECTURE, header, values::Values};
use crate::{
    Error, ModelFormat, Tensors,
    families::{
        magpie::{CODEC, MODEL, WHOLE},
        of_architecture,
    },
    nemo::Texts,
    single_file::{Codec, Opened, SingleFile},
};

/// A remedy for a file with other values than the converters write.
const MADE: &str = "take a file that the converter of magpie-tts.cpp made of the release";

/// The content of a file; or the reason why it cannot be used.
type Parsed<T> = Result<T, String>;

/// Returns the architecture of the GGUF file at `path`; `None` if it is another file, or cannot be
/// read.
pub(crate) fn architecture(path: &Path) -> Option<String> {
    let [architecture] = header::first_texts(path, [ARCHITECTURE]).ok()?;
    architecture
}

/// True if the GGUF file at `path` holds a model of Magpie TTS.
pub(crate) fn is_model(path: &Path) -> bool {
    architecture(path).is_some_and(|own| own == WHOLE || own == MODEL)
}

/// Opens the model in the GGUF file at `path`.
pub(crate) fn open(path: &Path) -> Result<Opened, Error> {
    let (header, tensors) = super::parse(path)?;
    let found = match header.text(ARCHITECTURE) {
        Some(own) if own == WHOLE => whole::opened(path, &header, tensors),
        Some(own) if own == MODEL => pair::model(path, &header, tensors),
        own => Err(other(own)),
    };
    found.map_err(|reason| foreign(path, reason))
}

/// Opens the codec in the GGUF file at `path`.
pub(crate) fn codec(path: &Path) -> Result<Codec, Error> {
    let (header, tensors) = super::parse(path)?;
    let found = match header.text(ARCHITECTURE) {
        Some(own) if own == CODEC => pair::codec(path, &header, tensors),
        own => Err(other(own)),
    };
    found.map_err(|reason| foreign(path, reason))
}

fn foreign(path: &Path, reason: String) -> Error {
    Error::Foreign { path: path.to_owned(), reason, remedy: MADE.to_owned() }
}

fn other(architecture: Option<&str>) -> String {
    let own = architecture.unwrap_or_default();
    match of_architecture(own) {
        Some(noun) => format!("it holds {noun}"),
        None => format!("its architecture is `{own}`, which is no network of Magpie TTS"),
    }
}

/// Returns the parts of a file as a directory of the released layout.
fn file(path: &Path, config: Json, tensors: Tensors, notices: Vec<String>) -> SingleFile {
    let tensors = tensors.described_by("the values of its header");
    let (path, config) = (path.to_owned(), config.to_string());
    SingleFile { path, format: ModelFormat::Gguf, config, tensors, notices }
}

/// Returns the reason why value `key` cannot be used, unless it is `expected`.
fn expect(values: &Values<'_>, key: &str, found: &Json, expected: &Json) -> Parsed<()> {
    let close = match (found.as_f64(), expected.as_f64()) {
        (Some(found), Some(expected)) => (found - expected).abs() <= 1e-6 * expected.abs(),
        _ => found == expected,
    };
    match close {
        true => Ok(()),
        false => Err(format!("`{}.{key}` is {found}, only {expected} is supported", values.prefix)),
    }
}

/// Returns files of the text; the names of voices are not in a file.
fn texts(
    path: &Path,
    artefacts: BTreeMap<String, Vec<u8>>,
    speakers: Option<Vec<(String, usize)>>,
) -> Texts {
    Texts { path: path.to_owned(), artefacts, speakers, speaker_map: None }
}

fn put(map: &mut Map<String, Json>, key: &str, value: impl Into<Json>) {
    map.insert(key.to_owned(), value.into());
}
