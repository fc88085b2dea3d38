//! Archives of NeMo, `*.nemo`: a tar with a configuration, weights and the files of the text.
//!
//! | member | content |
//! |---|---|
//! | `model_config.yaml` | the configuration |
//! | `model_weights.ckpt` | a zip archive of PyTorch: see `weights` |
//! | `<32 hex digits>_<name>` | other files, which the configuration calls `nemo:<member>` |
//!
//! Weights are used in the mapped file. An old archive is compressed with gzip: then it is unpacked
//! into memory. Nothing in an archive is executed or written to disk.
//!
//! Source: NeMo 3.0.0 `core/connectors/save_restore_connector.py`.

mod members;
mod weights;
mod yaml;

use std::{
    collections::BTreeMap,
    fs::File,
    io::Read,
    ops::Range,
    path::{Path, PathBuf},
};

use acestep_model::{CheckpointError, speech::magpie::TextFiles};
use serde_json::Value;

use crate::{Directory, Error, Tensors, mapped::Bytes, pointer};

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
    let read = File::open(path).and_then(|file| file.take(512).read_to_end(&mut start));
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

    /// Returns the path of the archive.
    pub fn path(&self) -> &Path {
        &self.path
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

    /// Returns the names of the voices with their indices, sorted by index; empty if the archive has
    /// no names.
    ///
    /// # Errors
    /// If the file of names is missing, or is not a map of names to different numbers.
    pub fn speakers(&self) -> Result<Vec<(String, usize)>, Error> {
        let Some(name) = self.config["speaker_map"].as_str() else { return Ok(Vec::new()) };
        speakers(&self.path, name, self.artefact(name)?)
    }

    /// Takes the tensors of the weights. Afterwards the archive has only its texts.
    ///
    /// # Errors
    /// If they are missing, cut, or no checkpoint of PyTorch; if a text is too long.
    pub(crate) fn tensors(self) -> Result<(Tensors, Texts), Error> {
        let Self { path, bytes, members, config } = self;
        let place = members.get(WEIGHTS).cloned();
        let place = place.ok_or_else(|| broken(&path, format!("it has no `{WEIGHTS}`")))?;
        let copy = |(name, range): (String, Range<usize>)| -> Result<_, Error> {
            let content = text(&path, bytes.all(), &name, range)?.to_vec();
            Ok((name, content))
        };
        let others = members.into_iter().filter(|(name, _)| name != WEIGHTS && name != CONFIG);
        let artefacts = others.map(copy).collect::<Result<_, Error>>()?;
        let entries = weights::entries(bytes.all(), place)
            .map_err(|reason| broken(&path, format!("`{WEIGHTS}`: {reason}")))?;
        let speaker_map = config["speaker_map"].as_str().map(str::to_owned);
        let texts = Texts { path: path.clone(), artefacts, speakers: None, speaker_map };
        let tensors = Tensors::from_entries(path, bytes, entries);
        Ok((tensors.described_by("its `model_config.yaml`"), texts))
    }

    fn member(&self, name: &str) -> Result<&[u8], Error> {
        let range = self.members.get(name).cloned();
        let range = range.ok_or_else(|| broken(&self.path, format!("it has no `{name}`")))?;
        text(&self.path, self.bytes.all(), name, range)
    }
}

/// Returns the member `name` of the archive at `path`, which is in `range` of `bytes`.
///
/// # Errors
/// If it is longer than any text.
fn text<'a>(
    path: &Path,
    bytes: &'a [u8],
    name: &str,
    range: Range<usize>,
) -> Result<&'a [u8], Error> {
    let size = range.len();
    match size > LONGEST_TEXT {
        true => Err(broken(path, format!("`{name}` has {size} bytes, too many"))),
        false => Ok(&bytes[range]),
    }
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
