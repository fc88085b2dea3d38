//! A voice in a file: its speaker vector, its codes, and a snapshot of the model that made it.
//!
//! The file is safetensors. Its metadata are the words of the recording, the names of model and
//! language, and a SHA-256 of the tensors. Speaker vector and codes serve every model of the same sizes;
//! the snapshot serves only the same weights in the same types on the same backend.

use std::{
    collections::HashMap,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

use acestep_engine::{
    Action, Error,
    files::{Existing, write_whole},
};
use acestep_model::Backend;
use burn::tensor::{Bytes, DType, TensorData};
use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{
    networks::{CODEC_DECODER, Networks, TALKER},
    plan::Plan,
    prompt::Row,
    snapshot::{Snapshot, SnapshotData},
    voice::{Context, Voice},
};
use crate::{error::SpeechError, voices::Voices};

/// Value of `format` in the metadata.
const FORMAT: &str = "acestep voice 1";
/// Prefix of the tensors of keys and values.
const KEYS_VALUES: &str = "talker.";
/// Prefix of the tensors of the codec's state.
const CODEC: &str = "codec.";
/// A larger file is no voice.
const MOST_BYTES: u64 = 1 << 30;

/// A voice that is kept in a file.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptVoice {
    /// The voice.
    pub voice: Voice,
    /// Name of the model that made it.
    pub model: String,
    /// Language of the snapshot, as in a request.
    pub language: String,
    /// Length of the recording in seconds.
    pub seconds: f64,
    snapshot: SnapshotData,
    made_by: MadeBy,
}

/// The model, types and backend of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct MadeBy {
    /// Version of the program: another one may compute otherwise.
    version: String,
    weights: String,
    talker: String,
    codec: String,
    backend: String,
}

impl MadeBy {
    fn of<B: Backend>(networks: &Networks<'_, B>) -> Result<Self, Error> {
        let weights = networks.checkpoint().fingerprint().map_err(Error::Checkpoint)?;
        let of = |network| format!("{:?}", networks.place(network).dtype);
        let backend = B::name(networks.device());
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Ok(Self { version, weights, talker: of(TALKER), codec: of(CODEC_DECODER), backend })
    }
}

/// The metadata of a file.
#[derive(Debug, Serialize, Deserialize)]
struct Metadata {
    model: String,
    language: String,
    seconds: f64,
    transcript: Option<String>,
    rows: Vec<Row>,
    made_by: MadeBy,
}

impl KeptVoice {
    /// Keeps the voice of `plan`, which has one, with a snapshot.
    ///
    /// # Errors
    /// The errors of loading; [`Error::NotFinite`].
    ///
    /// # Panics
    /// If the plan has no voice.
    pub fn new<B: Backend>(
        plan: &Plan,
        language: &str,
        seconds: f64,
        networks: &Networks<'_, B>,
    ) -> Result<Self, Error> {
        let voice = plan.voice.clone().expect("a plan with the voice of a recording");
        let snapshot = Snapshot::new(plan, networks)?.to_data(networks);
        let model = networks.checkpoint().name().to_owned();
        let made_by = MadeBy::of(networks)?;
        Ok(Self { voice, model, language: language.to_owned(), seconds, snapshot, made_by })
    }

    /// Returns the snapshot if it is of these networks.
    ///
    /// # Errors
    /// The errors of loading.
    pub fn snapshot<B: Backend>(
        &self,
        networks: &Networks<'_, B>,
    ) -> Result<Option<Snapshot<B>>, Error> {
        if self.made_by != MadeBy::of(networks)? {
            return Ok(None);
        }
        Ok(Snapshot::from_data(&self.snapshot, networks)?.ok())
    }

    /// Reads the voice called `name` of a folder.
    ///
    /// # Errors
    /// [`SpeechError::NoSuchVoice`]; the errors of [`Self::read`].
    pub fn of(voices: &Voices, name: &str) -> Result<Self, Error> {
        Self::read(&voices.existing(name)?)
    }

    /// Writes the voice into a folder under `name`, and returns the path of its file. The folder is
    /// created if it is missing.
    ///
    /// # Errors
    /// The errors of [`Self::write`]; [`Error::File`] if the folder cannot be created.
    pub fn keep(&self, voices: &Voices, name: &str, existing: Existing) -> Result<PathBuf, Error> {
        let path = voices.path(name)?;
        voices.create()?;
        self.write(&path, existing)?;
        Ok(path)
    }

    /// Writes the file, which appears whole or not at all.
    ///
    /// # Errors
    /// The errors of [`write_whole`].
    pub fn write(&self, path: &Path, existing: Existing) -> Result<(), Error> {
        let tensors = self.tensors();
        let metadata = Metadata {
            model: self.model.clone(),
            language: self.language.clone(),
            seconds: self.seconds,
            transcript: self.voice.context.as_ref().map(|context| context.transcript.clone()),
            rows: self.snapshot.rows.clone(),
            made_by: self.made_by.clone(),
        };
        let voice = serde_json::to_string(&metadata).expect("texts and numbers");
        let parts = tensors.iter().map(|(name, data)| {
            let shape = data.shape.to_vec();
            (format!("{name} {:?} {shape:?}", file_type(data.dtype)), data.as_bytes())
        });
        let sha256 = checksum(parts, &voice);
        let metadata = [("format", FORMAT.to_owned()), ("voice", voice), ("sha256", sha256)];
        let metadata = metadata.map(|(key, value)| (key.to_owned(), value));
        let views = tensors.iter().map(|(name, data)| {
            let view = TensorView::new(file_type(data.dtype), data.shape.to_vec(), data.as_bytes());
            (&**name, view.expect("bytes of the shape"))
        });
        let bytes = safetensors::serialize(views, Some(HashMap::from(metadata)));
        let bytes = bytes.expect("names are all different");
        write_whole(path, existing, |file| file.write_all(&bytes))
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`Error::File`]; [`SpeechError::BadVoice`] if it is damaged or of another kind.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let file = |source| Error::File { action: Action::Read, path: path.to_owned(), source };
        let bad = |why: &str| {
            Error::from(SpeechError::BadVoice { path: path.to_owned(), why: why.to_owned() })
        };
        if path.metadata().map_err(file)?.len() > MOST_BYTES {
            return Err(bad("it is larger than any voice"));
        }
        let bytes = fs::read(path).map_err(file)?;
        let (_, header) =
            SafeTensors::read_metadata(&bytes).map_err(|why| bad(&why.to_string()))?;
        let said = header.metadata().clone().unwrap_or_default();
        let of = |key: &str| said.get(key).map(String::as_str).unwrap_or_default();
        if of("format") != FORMAT {
            return Err(bad("it is not a voice of this program's format"));
        }
        let tensors = SafeTensors::deserialize(&bytes).map_err(|why| bad(&why.to_string()))?;
        let mut tensors = tensors.tensors();
        // As they were written: see `tensors`.
        tensors.sort_by(|(a, _), (b, _)| a.cmp(b));
        let parts = tensors.iter().map(|(name, view)| {
            (format!("{name} {:?} {:?}", view.dtype(), view.shape()), view.data())
        });
        if checksum(parts, of("voice")) != of("sha256") {
            return Err(bad("its checksum differs: it is damaged"));
        }
        let metadata: Metadata =
            serde_json::from_str(of("voice")).map_err(|why| bad(&why.to_string()))?;
        Self::of_tensors(metadata, &tensors)
            .ok_or_else(|| bad("its tensors are not those of a voice"))
    }

    fn of_tensors(metadata: Metadata, tensors: &[(String, TensorView<'_>)]) -> Option<Self> {
        let Metadata { model, language, seconds, transcript, rows, made_by } = metadata;
        let all: Option<Vec<(&str, TensorData)>> =
            tensors.iter().map(|(name, view)| Some((&**name, data_of(view)?))).collect();
        let all = all?;
        let named = |name: &str| all.iter().find(|(own, _)| *own == name).map(|(_, data)| data);
        let below = |prefix: &str| -> Vec<TensorData> {
            let own = all.iter().filter(|(name, _)| name.starts_with(prefix));
            own.map(|(_, data)| data.clone()).collect()
        };
        let speaker = named("speaker")?.to_vec::<f32>().ok()?;
        let context = match (transcript, named("codes")) {
            (Some(transcript), Some(codes)) if codes.shape.len() == 2 => {
                let groups = codes.shape[1].max(1);
                let codes = codes.to_vec::<i32>().ok()?;
                let codes: Option<Vec<u32>> =
                    codes.into_iter().map(|code| code.try_into().ok()).collect();
                let frames = codes?.chunks(groups).map(<[u32]>::to_vec).collect();
                Some(Context { transcript, frames })
            }
            (None, None) => None,
            _ => return None,
        };
        let snapshot = SnapshotData { rows, keys_values: below(KEYS_VALUES), codec: below(CODEC) };
        let voice = Voice { speaker, context };
        Some(Self { voice, model, language, seconds, snapshot, made_by })
    }

    /// Returns all tensors, in the order of their names.
    fn tensors(&self) -> Vec<(String, TensorData)> {
        let Self { voice: Voice { speaker, context }, snapshot, .. } = self;
        let numbered = |prefix: &'static str, tensors: &[TensorData]| {
            let named =
                |(index, data): (usize, &TensorData)| (format!("{prefix}{index:04}"), data.clone());
            tensors.iter().enumerate().map(named).collect::<Vec<_>>()
        };
        let mut tensors = numbered(CODEC, &snapshot.codec);
        if let Some(Context { frames, .. }) = context {
            let groups = frames.first().map_or(0, Vec::len);
            let codes: Vec<i32> = frames.iter().flatten().map(|&code| code as i32).collect();
            tensors.push(("codes".to_owned(), TensorData::new(codes, [frames.len(), groups])));
        }
        let vector = TensorData::new(speaker.clone(), [speaker.len()]);
        tensors.push(("speaker".to_owned(), vector));
        tensors.extend(numbered(KEYS_VALUES, &snapshot.keys_values));
        tensors.sort_by(|(a, _), (b, _)| a.cmp(b));
        tensors
    }
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
    match dtype {
        DType::F32 => Dtype::F32,
        DType::F16 => Dtype::F16,
        DType::BF16 => Dtype::BF16,
        DType::I64 => Dtype::I64,
        DType::I32 => Dtype::I32,
        other => unreachable!("no state has values of {other:?}"),
    }
}

fn data_of(view: &TensorView<'_>) -> Option<TensorData> {
    let dtype = match view.dtype() {
        Dtype::F32 => DType::F32,
        Dtype::F16 => DType::F16,
        Dtype::BF16 => DType::BF16,
        Dtype::I64 => DType::I64,
        Dtype::I32 => DType::I32,
        _ => return None,
    };
    let bytes = Bytes::from_bytes_vec(view.data().to_vec());
    Some(TensorData::from_bytes(bytes, view.shape().to_vec(), dtype))
}
