//! A voice in a file: its speaker vector, its codes, and a snapshot of the model that made it.
//!
//! The file is safetensors. Its metadata are the words of the recording, the names of model and
//! language, and a SHA-256 of the tensors. Speaker vector and codes serve every model of the same sizes;
//! the snapshot serves only the same weights in the same types on the same backend.

use std::path::Path;

use acestep_engine::{Error, files::Existing};
use acestep_model::Backend;
use burn::tensor::TensorData;
use serde::{Deserialize, Serialize};

use super::{
    networks::{CODEC_DECODER, Networks, TALKER},
    plan::Plan,
    prompt::Row,
    snapshot::{Snapshot, SnapshotData},
    voice::{RefRecording, Voice},
};
use crate::{
    kept_file::{KeptFile, NO_VOICE, bad_voice, numbered},
    voices::Voices,
};

/// Value of `format` in the metadata.
const FORMAT: &str = "acestep voice 1";
/// Prefix of the tensors of keys and values.
const KEYS_VALUES: &str = "talker.";
/// Prefix of the tensors of the codec's state.
const CODEC: &str = "codec.";

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
    /// [`SpeechError::NoSuchVoice`](crate::SpeechError::NoSuchVoice); the errors of [`Self::read`].
    pub fn of(voices: &Voices, name: &str) -> Result<Self, Error> {
        Self::read(&voices.existing(name)?)
    }

    /// Returns the name of the model that made the voice at `path`, if it is a voice. Only the header is
    /// read: the rest may be damaged.
    pub fn model_at(path: &Path) -> Option<String> {
        KeptFile::<Metadata>::metadata_at(FORMAT, path).map(|metadata| metadata.model)
    }

    /// Writes the file, which appears whole or not at all.
    ///
    /// # Errors
    /// The errors of [`acestep_engine::write_whole`].
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
        KeptFile { metadata, tensors }.write(FORMAT, path, existing)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`Error::File`]; [`SpeechError::BadVoice`](crate::SpeechError::BadVoice) if it is damaged or of another
    /// kind.
    pub fn read(path: &Path) -> Result<Self, Error> {
        Self::of_file(KeptFile::read(FORMAT, path)?).ok_or_else(|| bad_voice(path)(NO_VOICE))
    }

    fn of_file(file: KeptFile<Metadata>) -> Option<Self> {
        let speaker = file.tensor("speaker")?.to_vec::<f32>().ok()?;
        let codes = file.tensor("codes").cloned();
        let (keys_values, codec) = (file.below(KEYS_VALUES), file.below(CODEC));
        let Metadata { model, language, seconds, transcript, rows, made_by } = file.metadata;
        let context = match (transcript, codes) {
            (Some(transcript), Some(codes)) if codes.shape.len() == 2 => {
                let groups = codes.shape[1].max(1);
                let codes = codes.to_vec::<i32>().ok()?;
                let codes: Option<Vec<u32>> =
                    codes.into_iter().map(|code| code.try_into().ok()).collect();
                let frames = codes?.chunks(groups).map(<[u32]>::to_vec).collect();
                Some(RefRecording { transcript, frames })
            }
            (None, None) => None,
            _ => return None,
        };
        let snapshot = SnapshotData { rows, keys_values, codec };
        let voice = Voice { speaker, context };
        Some(Self { voice, model, language, seconds, snapshot, made_by })
    }

    /// Returns all tensors, in the order of their names.
    fn tensors(&self) -> Vec<(String, TensorData)> {
        let Self { voice: Voice { speaker, context }, snapshot, .. } = self;
        let mut tensors = numbered(CODEC, &snapshot.codec);
        if let Some(RefRecording { frames, .. }) = context {
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
