//! Files of kept states: safetensors with metadata and a checksum.
//!
//! The metadata are a format, a text (`voice`), and a SHA-256 of the tensors and of that text.

use std::{
    collections::HashMap,
    fs::File,
    io::{Read as _, Write as _},
    path::Path,
};

use acestep_engine::{
    Action, Error,
    files::{self, Existing, write_whole},
};
use burn::tensor::{Bytes, DType, TensorData};
use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::error::SpeechError;

/// A larger file is no kept state.
const MOST_BYTES: u64 = 1 << 30;
/// A longer header is none of a kept state.
const MOST_HEADER: u64 = 64 << 20;
/// The reason why a file with other tensors is no voice.
pub(crate) const NO_VOICE: &str = "its tensors are not those of a voice";

/// The types of tensors, here and in a file.
const TYPES: [(DType, Dtype); 5] = [
    (DType::F32, Dtype::F32),
    (DType::F16, Dtype::F16),
    (DType::BF16, Dtype::BF16),
    (DType::I64, Dtype::I64),
    (DType::I32, Dtype::I32),
];

/// The content of a file.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KeptFile<M> {
    /// Values of the family, which are a text in JSON there.
    pub(crate) metadata: M,
    /// Tensors in the order of their names.
    pub(crate) tensors: Vec<(String, TensorData)>,
}

impl<M: Serialize + DeserializeOwned> KeptFile<M> {
    /// Writes the file, which appears whole or not at all.
    pub(crate) fn write(&self, format: &str, path: &Path, existing: Existing) -> Result<(), Error> {
        let Self { metadata, tensors } = self;
        let metadata = serde_json::to_string(metadata).expect("texts and numbers");
        let parts = tensors.iter().map(|(name, data)| {
            let shape = data.shape.to_vec();
            (format!("{name} {:?} {shape:?}", file_type(data.dtype)), data.as_bytes())
        });
        let sha256 = checksum(parts, &metadata);
        let metadata = [("format", format), ("voice", &metadata), ("sha256", &sha256)];
        let metadata = metadata.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let views = tensors.iter().map(|(name, data)| {
            let view = TensorView::new(file_type(data.dtype), data.shape.to_vec(), data.as_bytes());
            (&**name, view.expect("bytes of the shape"))
        });
        let bytes = safetensors::serialize(views, Some(HashMap::from(metadata)));
        let bytes = bytes.expect("names are all different");
        write_whole(path, existing, |file| file.write_all(&bytes))
    }

    /// Reads a file of `format`.
    ///
    /// # Errors
    /// [`Error::File`]; [`SpeechError::BadVoice`] if it is damaged or of another kind.
    pub(crate) fn read(format: &str, path: &Path) -> Result<Self, Error> {
        let file = |source| Error::File { action: Action::Read, path: path.to_owned(), source };
        if path.metadata().map_err(file)?.len() > MOST_BYTES {
            return Err(bad_voice(path)("it is larger than any voice"));
        }
        let bytes = files::read(path).map_err(file)?;
        Self::of_bytes(format, &bytes).map_err(|why| bad_voice(path)(&why))
    }

    fn of_bytes(format: &str, bytes: &[u8]) -> Result<Self, String> {
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(|why| why.to_string())?;
        let said = header.metadata().clone().unwrap_or_default();
        let of = |key: &str| said.get(key).map(String::as_str).unwrap_or_default();
        if of("format") != format {
            // The last word is a version.
            let is_same = of("format").rsplit(' ').next() == format.rsplit(' ').next();
            let why = match (of("format").starts_with("acestep "), is_same) {
                (true, true) => "it was made with a model of another family",
                (true, false) => "another version of this program made it",
                (false, _) => "it is not a voice of this program's format",
            };
            return Err(why.to_owned());
        }
        let tensors = SafeTensors::deserialize(bytes).map_err(|why| why.to_string())?;
        let mut tensors = tensors.tensors();
        // As they were written.
        tensors.sort_by(|(a, _), (b, _)| a.cmp(b));
        let parts = tensors.iter().map(|(name, view)| {
            (format!("{name} {:?} {:?}", view.dtype(), view.shape()), view.data())
        });
        if checksum(parts, of("voice")) != of("sha256") {
            return Err("its checksum differs: it is damaged".to_owned());
        }
        let tensors = tensors.into_iter().map(|(name, view)| Some((name, data_of(&view)?)));
        let tensors = tensors.collect::<Option<_>>();
        let tensors = tensors.ok_or(NO_VOICE)?;
        let metadata = serde_json::from_str(of("voice")).map_err(|why| why.to_string())?;
        Ok(Self { metadata, tensors })
    }

    /// Returns the metadata of the file at `path` if it says that it has `format`. Only its header is read,
    /// without a check of its checksum: the rest may be damaged.
    pub(crate) fn metadata_at(format: &str, path: &Path) -> Option<M> {
        serde_json::from_str(&text_at(format, path)?).ok()
    }

    pub(crate) fn tensor(&self, name: &str) -> Option<&TensorData> {
        self.tensors.iter().find(|(own, _)| own == name).map(|(_, data)| data)
    }

    /// The tensors whose names begin with `prefix`, in order.
    pub(crate) fn below(&self, prefix: &str) -> Vec<TensorData> {
        let own = self.tensors.iter().filter(|(name, _)| name.starts_with(prefix));
        own.map(|(_, data)| data.clone()).collect()
    }
}

/// Returns the metadata of the file at `path`, a text in JSON, if it says that it has `format`. Only its header is
/// read.
pub(crate) fn text_at(format: &str, path: &Path) -> Option<String> {
    let mut file = File::open(path).ok()?;
    let mut length = [0; 8];
    file.read_exact(&mut length).ok()?;
    let length = Some(u64::from_le_bytes(length)).filter(|length| *length <= MOST_HEADER)?;
    let mut header = Vec::new();
    file.take(length).read_to_end(&mut header).ok().filter(|read| *read as u64 == length)?;
    let header: Value = serde_json::from_slice(&header).ok()?;
    let said = &header["__metadata__"];
    (said["format"] == format).then(|| said["voice"].as_str().unwrap_or_default().to_owned())
}

/// Returns the error of a file that is no voice, by its reason.
pub(crate) fn bad_voice(path: &Path) -> impl FnOnce(&str) -> Error {
    move |why| SpeechError::BadVoice { path: path.to_owned(), why: why.to_owned() }.into()
}

/// Returns tensors with names that begin with `prefix` and keep their order.
pub(crate) fn numbered(prefix: &str, tensors: &[TensorData]) -> Vec<(String, TensorData)> {
    let named = |(index, data): (usize, &TensorData)| (format!("{prefix}{index:04}"), data.clone());
    tensors.iter().enumerate().map(named).collect()
}

/// Returns the SHA-256 of descriptions and bytes of tensors, and of metadata.
fn checksum<'a>(tensors: impl Iterator<Item = (String, &'a [u8])>, metadata: &str) -> String {
    let mut hash = Sha256::new();
    for (description, bytes) in tensors {
        hash.update(description + "\n");
        hash.update(bytes);
    }
    hash.update(metadata);
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn file_type(dtype: DType) -> Dtype {
    let own = TYPES.iter().find(|(own, _)| *own == dtype);
    own.unwrap_or_else(|| unreachable!("no state has values of {dtype:?}")).1
}

fn data_of(view: &TensorView<'_>) -> Option<TensorData> {
    let (dtype, _) = TYPES.iter().find(|(_, in_file)| *in_file == view.dtype())?;
    let bytes = Bytes::from_bytes_vec(view.data().to_vec());
    Some(TensorData::from_bytes(bytes, view.shape().to_vec(), *dtype))
}
