//! Voices in a file: the codes and words of the recordings, and the snapshot after them.
//!
//! The snapshot serves only the same weights in the same types on the same backend. Others read the
//! recordings anew from their codes.

use std::path::Path;

use acestep_engine::{Error, Event, Notice, Observe, files::Existing};
use acestep_model::Backend;
use serde::{Deserialize, Serialize};

use super::{
    networks::{BACKBONE, CODEC_DECODER, FRAME_RATE, Networks, streams},
    plan::check_codes,
    prefix::Recording,
    snapshot::{Snapshot, SnapshotData, SnapshotHeader},
};
use crate::kept_file::{KeptFile, numbered, text_at};

/// Value of `format` in the metadata.
const FORMAT: &str = "acestep dialogue 1";
/// Prefix of the tensors of keys and values.
const KEYS_VALUES: &str = "backbone.";
/// Prefix of the tensors of the codec's state.
const CODEC: &str = "codec.";

/// Rows of a kept snapshot. A run without guidance takes the first.
const ROWS: usize = 2;

/// Voices that are kept in a file.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptSnapshot {
    recordings: Vec<Recording>,
    made_by: MadeBy,
    data: SnapshotData,
}

/// The model, types and backend of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct MadeBy {
    /// Version of the program: another one may compute otherwise.
    version: String,
    model: String,
    weights: String,
    backbone: String,
    codec: String,
    backend: String,
}

impl MadeBy {
    fn of<B: Backend>(networks: &Networks<'_, B>) -> Result<Self, Error> {
        let of = |network| format!("{:?}", networks.place(network).dtype);
        Ok(Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            model: networks.checkpoint().name().to_owned(),
            weights: networks.checkpoint().fingerprint().map_err(Error::Checkpoint)?,
            backbone: of(BACKBONE),
            codec: of(CODEC_DECODER),
            backend: B::name(networks.device()),
        })
    }

    /// Returns the first difference. Names of models may differ.
    fn difference(&self, other: &Self) -> Option<&'static str> {
        let pairs = [
            ("another version of the program", &self.version, &other.version),
            ("other weights", &self.weights, &other.weights),
            ("another type", &self.backbone, &other.backbone),
            ("another type of the codec", &self.codec, &other.codec),
            ("another device", &self.backend, &other.backend),
        ];
        pairs.into_iter().find(|(_, own, other)| own != other).map(|(what, ..)| what)
    }
}

/// The metadata of a file.
#[derive(Debug, Serialize, Deserialize)]
struct Metadata {
    recordings: Vec<Recording>,
    made_by: MadeBy,
    said: SnapshotHeader,
}

impl KeptSnapshot {
    /// Reads recordings of speaker 1 and, if there are two, of speaker 2, and keeps their voices.
    ///
    /// # Errors
    /// The errors of [`Snapshot::new`], and of reading the checkpoint.
    pub fn new<B: Backend>(
        recordings: Vec<Recording>,
        networks: &Networks<'_, B>,
        observe: &dyn Observe,
    ) -> Result<Self, Error> {
        let snapshot = Snapshot::new(&recordings, ROWS, networks, observe)?;
        let data = snapshot.to_data(networks);
        Ok(Self { recordings, made_by: MadeBy::of(networks)?, data })
    }

    /// Returns true if the file at `path` says that it is one of these.
    pub fn is_at(path: &Path) -> bool {
        text_at(FORMAT, path).is_some()
    }

    /// Returns the name of the model that made the file at `path`, if it is one of these. Only the header
    /// is read: the rest may be damaged.
    pub fn model_at(path: &Path) -> Option<String> {
        KeptFile::<Metadata>::metadata_at(FORMAT, path).map(|metadata| metadata.made_by.model)
    }

    /// Name of the model that made it.
    pub fn model(&self) -> &str {
        &self.made_by.model
    }

    /// The recordings of speaker 1 and, if there are two, of speaker 2.
    pub fn recordings(&self) -> &[Recording] {
        &self.recordings
    }

    /// Length of the recordings in seconds.
    pub fn seconds(&self) -> f64 {
        let frames: usize = self.recordings.iter().map(|recording| recording.frames.len()).sum();
        frames as f64 / FRAME_RATE
    }

    /// Returns the snapshot for runs of `rows` rows. If it was made with other weights, or in another
    /// type, program or backend, the recordings are read anew, with a notice.
    ///
    /// # Errors
    /// [`super::Dia2Error::ForeignSnapshot`] if the codes are of another codec; the errors of
    /// [`Snapshot::new`].
    pub fn snapshot<B: Backend>(
        &self,
        rows: usize,
        networks: &Networks<'_, B>,
        observe: &dyn Observe,
    ) -> Result<Snapshot<B>, Error> {
        let Some(other) = self.made_by.difference(&MadeBy::of(networks)?) else {
            return Snapshot::from_data(&self.data, rows, networks);
        };
        let streams = streams(networks.checkpoint())?;
        for recording in &self.recordings {
            check_codes(&recording.frames, &streams)?;
        }
        observe.event(Event::Noticed(Notice(format!(
            "the state of the voice cannot be used, for it was made with {other}: its recordings are read \
             anew"
        ))));
        Snapshot::new(&self.recordings, rows, networks, observe)
    }

    /// Writes the file, which appears whole or not at all.
    ///
    /// # Errors
    /// The errors of [`acestep_engine::write_whole`].
    pub fn write(&self, path: &Path, existing: Existing) -> Result<(), Error> {
        let Self { recordings, made_by, data } = self;
        let (recordings, made_by, said) = (recordings.clone(), made_by.clone(), data.said.clone());
        let metadata = Metadata { recordings, made_by, said };
        let mut tensors = numbered(KEYS_VALUES, &data.keys_values);
        tensors.extend(numbered(CODEC, &data.codec));
        KeptFile { metadata, tensors }.write(FORMAT, path, existing)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`Error::File`]; [`SpeechError::BadVoice`](crate::SpeechError::BadVoice) if it is damaged or of another
    /// kind.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let file = KeptFile::<Metadata>::read(FORMAT, path)?;
        let (keys_values, codec) = (file.below(KEYS_VALUES), file.below(CODEC));
        let Metadata { recordings, made_by, said } = file.metadata;
        Ok(Self { recordings, made_by, data: SnapshotData { said, keys_values, codec } })
    }
}
