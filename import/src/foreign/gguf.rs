//! A GGUF file of acestep.cpp. It holds everything that its network needs, unless pieces were
//! missing at its conversion.
//!
//! | key | value |
//! |---|---|
//! | `general.architecture` | `acestep-dit`, `acestep-lm`, `acestep-text-enc` or `acestep-vae` |
//! | `general.name` | the directory that it was made from: `acestep-v15-turbo` |
//! | `acestep.config_json` | the complete released config.json |
//! | `acestep.is_turbo` | present only if true |
//! | `tokenizer.ggml.tokens`, `.merges` | vocab.json and merges.txt: the base vocabulary |
//!
//! Tensors keep their released names; quantised tensors of one row lose leading sizes of 1.
//! `silence_latent` of a diffusion model is `[T, C]` in f32.
//!
//! Source: acestep.cpp `convert.py`, `tools/quantize.cpp`, `src/model-registry.h`.

use std::path::{Path, PathBuf};

use burn::tensor::TensorData;
use serde_json::{Map, Value as Json};

use super::{
    Foreign, ModelFormat, Silence, Text,
    pieces::{self, near},
    sizes,
};
use crate::{
    Directory, Error, Tensors,
    families::{
        acestep::{ARCHITECTURES, Kind},
        of_architecture,
    },
    silence,
    tokenizer::END_OF_TEXT,
};
use header::Header;
use reader::Value;

mod header;
pub(super) mod magpie;
pub(super) mod qwentts;
mod reader;
mod values;

const ARCHITECTURE: &str = "general.architecture";
const NAME: &str = "general.name";
const TYPE: &str = "general.type";
const CONFIG: &str = "acestep.config_json";
const IS_TURBO: &str = "acestep.is_turbo";
const TOKENS: &str = "tokenizer.ggml.tokens";
const MERGES: &str = "tokenizer.ggml.merges";
const SILENCE: &str = "silence_latent";

/// Opens the file at `path`, which must be of the kind `wanted`; `places` are searched for its
/// pieces, if it was converted without them.
pub(super) fn open(path: &Path, wanted: Kind, places: &[PathBuf]) -> Result<Foreign, Error> {
    let (header, mut tensors) = parse(path)?;
    check(path, kind(path, header.text(ARCHITECTURE))?, wanted)?;
    // acestep.cpp's converter adds `model.` to every name of a language model that lacks it.
    if wanted == Kind::LanguageModel {
        tensors = tensors.renamed(|name| match name {
            "model.lm_head.weight" => "lm_head.weight".to_owned(),
            other => other.to_owned(),
        })?;
    }
    let near = near(path, places);
    let mut texts = vec![("config.json", path.to_owned(), config(path, &header)?)];
    let mut missing = pieces::Tokenizer::default();
    let mut silence = Silence::default();
    match wanted {
        Kind::TextEncoder | Kind::LanguageModel => match tokenizer(path, &header)? {
            Some(own) => texts.extend(own),
            None => {
                missing = pieces::tokenizer(wanted, sizes::rows(&tensors)?, &near);
                texts.append(&mut missing.texts);
            }
        },
        Kind::Dit => {
            if tensors.has(SILENCE) {
                silence.held = Some((tensors.clone(), SILENCE));
                tensors.leave_out(SILENCE);
            }
            silence.near = near;
        }
        Kind::Vae => (),
    }
    let tensors = tensors.described_by("its `acestep.config_json`");
    let foreign = Foreign::new(path, ModelFormat::Gguf, texts, tensors);
    let (looked_for, tried) = (missing.looked_for, missing.tried);
    Ok(Foreign { silence, looked_for, tried, ..foreign })
}

/// Refuses the file at `path` if it is not of the kind `wanted`.
pub(super) fn expect(path: &Path, wanted: Kind) -> Result<(), Error> {
    let [architecture] = header::first_texts(path, [ARCHITECTURE])?;
    check(path, kind(path, architecture.as_deref())?, wanted)
}

fn check(path: &Path, kind: Kind, wanted: Kind) -> Result<(), Error> {
    if kind == wanted {
        return Ok(());
    }
    let (wanted, found) = (wanted.name(), kind.name().to_owned());
    Err(Error::WrongDirectory { path: path.to_owned(), wanted, found })
}

/// True if the file at `path` is of the kind `wanted`; false if it cannot be read.
pub(super) fn is_a(path: &Path, wanted: Kind) -> bool {
    super::is_gguf(path) && expect(path, wanted).is_ok()
}

/// Returns the name stored in the file at `path`: the directory that it was made from.
pub(super) fn name(path: &Path) -> Option<String> {
    let [name] = header::first_texts(path, [NAME]).ok()?;
    name
}

/// Returns a noun phrase for the network of any family in the file at `path`.
pub(super) fn noun(path: &Path) -> Option<&'static str> {
    let [architecture] = header::first_texts(path, [ARCHITECTURE]).ok()?;
    of_architecture(&architecture?)
}

/// Tells if the file at `path` is an adapter of llama.cpp, and which network of this model it is;
/// `None` if it cannot be read.
pub(crate) fn identify(path: &Path) -> Option<(bool, Option<Kind>)> {
    let [kind, architecture] = header::first_texts(path, [TYPE, ARCHITECTURE]).ok()?;
    let network = kind_of(&architecture.unwrap_or_default());
    Some((kind.is_some_and(|kind| kind == "adapter"), network))
}

/// Returns vocab.json and merges.txt of the file at `path`, if it has them.
pub(super) fn vocabulary(path: &Path) -> Option<[Text; 2]> {
    let (header, _) = parse(path).ok()?;
    tokenizer(path, &header).ok()?
}

/// Returns the latent of silence of the file at `path`, if it has one.
pub(super) fn silence(path: &Path, channels: usize) -> Option<Result<TensorData, Error>> {
    let (_, tensors) = parse(path).ok()?;
    tensors
        .has(SILENCE)
        .then(|| silence::of_tensor(path, &tensors, SILENCE, channels).transpose())?
}

/// Returns the tensors of any GGUF file at `path`.
#[cfg(test)]
pub(crate) fn tensors(path: &Path) -> Result<Tensors, Error> {
    parse(path).map(|(_, tensors)| tensors)
}

/// False if the file at `path` is cut or its header is damaged; true if its types or version are unknown.
pub(super) fn is_whole(path: &Path) -> bool {
    matches!(parse(path), Ok(_) | Err(Error::Foreign { .. }))
}

fn parse(path: &Path) -> Result<(Header, Tensors), Error> {
    let bytes = Directory::open_file(path)?;
    let mut header = header::parse(path, bytes.all())?;
    let entries = std::mem::take(&mut header.tensors);
    Ok((header, Tensors::from_entries(path.to_owned(), bytes, entries)))
}

fn kind(path: &Path, architecture: Option<&str>) -> Result<Kind, Error> {
    let architecture = architecture.unwrap_or_default();
    kind_of(architecture).ok_or_else(|| Error::Foreign {
        path: path.to_owned(),
        reason: match of_architecture(architecture) {
            Some(noun) => format!("it holds {noun}, which makes no songs"),
            None => {
                format!("its architecture is `{architecture}`, which is no network of ACE-Step 1.5")
            }
        },
        remedy: format!(
            "take files that acestep.cpp made, whose architecture is one of {}",
            ARCHITECTURES.map(|(name, _)| name).join(", ")
        ),
    })
}

fn kind_of(architecture: &str) -> Option<Kind> {
    let known = ARCHITECTURES.iter().find(|(name, _)| *name == architecture);
    known.map(|(_, kind)| *kind)
}

/// Returns the config.json, completed with other values of the file.
fn config(path: &Path, header: &Header) -> Result<String, Error> {
    let text = header.text(CONFIG).ok_or_else(|| Error::Foreign {
        path: path.to_owned(),
        reason: format!("it has no value `{CONFIG}`"),
        remedy: "take a file that acestep.cpp's convert.py made of this year's release".into(),
    })?;
    let not_json = |reason: String| Error::BadHeader {
        path: path.to_owned(),
        reason: format!("value `{CONFIG}`: {reason}"),
    };
    let mut config: Map<String, Json> =
        serde_json::from_str(text).map_err(|error| not_json(error.to_string()))?;
    if header.values.get(IS_TURBO) == Some(&Value::Bool(true)) {
        config.entry("is_turbo").or_insert(true.into());
    }
    Ok(Json::Object(config).to_string())
}

/// Returns vocab.json and merges.txt, if the file has them.
fn tokenizer(path: &Path, header: &Header) -> Result<Option<[Text; 2]>, Error> {
    let (Some(tokens), Some(merges)) = (header.texts(TOKENS), header.texts(MERGES)) else {
        return Ok(None);
    };
    // The added tokens follow the base vocabulary by rule; a list that has some may have others.
    if let Some(id) = tokens.iter().position(|token| token == END_OF_TEXT) {
        return Err(Error::Foreign {
            path: path.to_owned(),
            reason: format!("`{TOKENS}` goes on with added tokens, from {id} on"),
            remedy: "take files that acestep.cpp made, which list the base vocabulary alone".into(),
        });
    }
    let vocabulary: Map<String, Json> =
        tokens.iter().enumerate().map(|(id, token)| (token.clone(), id.into())).collect();
    let vocabulary = Json::Object(vocabulary).to_string();
    Ok(Some([
        ("vocab.json", path.to_owned(), vocabulary),
        ("merges.txt", path.to_owned(), merges.join("\n")),
    ]))
}
