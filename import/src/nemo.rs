//! Archives of NeMo, `*.nemo`: a tar with a configuration, weights and the files of the text.
//!
//! | member | content |
//! |---|---|
//! | `model_config.yaml` | the configuration |
//! | `model_weights.ckpt` | an archive of `torch.save`, in place |
//! | `<32 hex digits>_<name>` | other files, which the configuration calls `nemo:<member>` |
//!
//! Weights are used in the mapped file. An old archive is compressed with gzip: then it is unpacked
//! into memory. Nothing in an archive is executed or written to disk.
//!
//! Source: NeMo 3.0.0 `core/connectors/save_restore_connector.py`.

mod members;
mod yaml;

use std::{
    collections::BTreeMap,
    io::Read,
    ops::Range,
    path::{Path, PathBuf},
};

use acestep_model::{CheckpointError, speech::magpie::TextFiles};
use serde_json::Value;

use crate::{
    Directory, Error, Tensors,
    header::Entry,
    listing::open_regular,
    mapped::Bytes,
    pickle::{self, Archive, Described},
    pointer,
};

const CONFIG: &str = "model_config.yaml";
const WEIGHTS: &str = "model_weights.ckpt";
/// The scheme before the name of a member.
const SCHEME: &str = "nemo:";
/// More bytes than any configuration, dictionary or list of names has.
const LONGEST_TEXT: usize = 256 << 20;

/// An archive of NeMo.
#[derive(Debug)]
pub struct NemoArchive {
    path: PathBuf,
    /// The unpacked archive, if it is compressed.
    bytes: Bytes,
    members: BTreeMap<String, Range<usize>>,
    config: Value,
}

/// Returns the error for the archive at `path`, with its `reason`.
fn broken(path: &Path, reason: impl Into<String>) -> Error {
    let remedy = "the download is probably incomplete or damaged: fetch the file again".to_owned();
    Error::Foreign { path: path.to_owned(), reason: reason.into(), remedy }
}

/// True if the file at `path` begins like a tar, or like one in gzip.
pub(crate) fn is_archive(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = open_regular(path).and_then(|file| file.take(512).read_to_end(&mut start));
    read.is_ok() && (members::is_gzip(&start) || members::is_tar(&start))
}

impl NemoArchive {
    /// Opens the archive at `path` and parses its configuration.
    ///
    /// # Errors
    /// If the file cannot be read, is no archive, or is damaged.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let bytes = Directory::open_file(path)?;
        pointer::refuse(path, bytes.all())?;
        let bytes = match members::is_gzip(bytes.all()) {
            false => bytes,
            true => Bytes::Owned(members::unpacked(bytes.all()).map_err(|why| broken(path, why))?),
        };
        let members = members::of(bytes.all()).map_err(|why| broken(path, why))?;
        let mut archive = Self { path: path.to_owned(), bytes, members, config: Value::Null };
        let text = archive.member(CONFIG)?;
        let text = str::from_utf8(text)
            .map_err(|error| broken(path, format!("`{CONFIG}` is not UTF-8: {error}")))?;
        archive.config = yaml::parse(text)
            .map_err(|reason| broken(path, format!("`{CONFIG}` is not YAML: {reason}")))?;
        Ok(archive)
    }

    /// Returns the configuration, with the keys in the order of the file.
    pub fn config(&self) -> &Value {
        &self.config
    }

    /// Returns the content of a file of the archive; `name` may begin with `nemo:`.
    ///
    /// # Errors
    /// If there is no such file.
    pub fn artefact(&self, name: &str) -> Result<&[u8], Error> {
        self.member(name.strip_prefix(SCHEME).unwrap_or(name))
    }

    /// Returns the tensors of the weights, and copies of the other files.
    pub(crate) fn tensors(self) -> Result<(Tensors, Texts), Error> {
        let place = self.place(WEIGHTS)?;
        let texts = self.texts()?;
        let entries = entries(self.bytes.all(), place)
            .map_err(|reason| broken(&self.path, format!("`{WEIGHTS}`: {reason}")))?;
        let tensors = Tensors::from_entries(self.path, self.bytes, entries);
        Ok((tensors.described_by("its `model_config.yaml`"), texts))
    }

    fn texts(&self) -> Result<Texts, Error> {
        let names = self.members.keys().filter(|name| ![WEIGHTS, CONFIG].contains(&name.as_str()));
        let copy =
            |name: &String| -> Result<_, Error> { Ok((name.clone(), self.member(name)?.to_vec())) };
        let artefacts = names.map(copy).collect::<Result<_, Error>>()?;
        let speaker_map = self.config["speaker_map"].as_str().map(str::to_owned);
        Ok(Texts { path: self.path.clone(), artefacts, speakers: None, speaker_map })
    }

    fn place(&self, name: &str) -> Result<Range<usize>, Error> {
        let place = self.members.get(name).cloned();
        place.ok_or_else(|| broken(&self.path, format!("it has no `{name}`")))
    }

    /// Returns the content of a member that is a text.
    fn member(&self, name: &str) -> Result<&[u8], Error> {
        let range = self.place(name)?;
        let size = range.len();
        match size > LONGEST_TEXT {
            true => Err(broken(&self.path, format!("`{name}` has {size} bytes, too many"))),
            false => Ok(&self.bytes.all()[range]),
        }
    }
}

/// Returns the tensors of the archive at `place` of `bytes`, with their places in `bytes`.
fn entries(bytes: &[u8], place: Range<usize>) -> Result<BTreeMap<String, Entry>, String> {
    let archive = Archive::open(bytes, place)?;
    let entry = |(name, tensor): (String, Described)| {
        let storage = archive
            .storage(&tensor)
            .ok_or_else(|| format!("tensor `{name}` is in the missing `data/{}`", tensor.key))?;
        let range = tensor.range(storage).map_err(|reason| format!("tensor `{name}` {reason}"))?;
        Ok((name, Entry { dtype: tensor.dtype.to_owned(), shape: tensor.sizes, range }))
    };
    pickle::dictionary(archive.pickle)?.into_iter().map(entry).collect()
}

/// Parses a map of names of voices.
fn speakers(path: &Path, name: &str, content: &[u8]) -> Result<Vec<(String, usize)>, Error> {
    let bad = |reason: String| broken(path, format!("`{name}` is no list of voices: {reason}"));
    let map: BTreeMap<String, usize> =
        serde_json::from_slice(content).map_err(|error| bad(error.to_string()))?;
    let mut speakers: Vec<_> = map.into_iter().collect();
    speakers.sort_by_key(|&(_, index)| index);
    match speakers.windows(2).find(|pair| pair[0].1 == pair[1].1) {
        Some(pair) => Err(bad(format!("`{}` and `{}` are the same", pair[0].0, pair[1].0))),
        None => Ok(speakers),
    }
}

/// The files of the text of a model, and the names of its voices.
#[derive(Debug)]
pub(crate) struct Texts {
    pub(crate) path: PathBuf,
    pub(crate) artefacts: BTreeMap<String, Vec<u8>>,
    /// The names of the voices, if they are in no file.
    pub(crate) speakers: Option<Vec<(String, usize)>>,
    /// The file of the names of the voices.
    pub(crate) speaker_map: Option<String>,
}

impl TextFiles for Texts {
    fn artefact(&self, name: &str) -> Result<Vec<u8>, CheckpointError> {
        let name = name.strip_prefix(SCHEME).unwrap_or(name);
        let found = self.artefacts.get(name).cloned();
        Ok(found.ok_or_else(|| broken(&self.path, format!("it has no `{name}`")))?)
    }

    fn speakers(&self) -> Result<Vec<(String, usize)>, CheckpointError> {
        match (&self.speakers, &self.speaker_map) {
            (Some(speakers), _) => Ok(speakers.clone()),
            (None, Some(name)) => Ok(speakers(&self.path, name, &self.artefact(name)?)?),
            (None, None) => Ok(Vec::new()),
        }
    }
}

#[cfg(test)]
mod tests;
