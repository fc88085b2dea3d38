//! A snapshot in a file: it serves only the same weights in the same types on the same backend.

use std::path::Path;

use acestep_engine::{Error, files::Existing};
use acestep_model::Backend;
use serde::{Deserialize, Serialize};

use super::{
    error::Dia2Error,
    networks::{BACKBONE, CODEC_DECODER, Networks},
    snapshot::{Said, Snapshot, SnapshotData, type_name},
};
use crate::kept_file::{KeptFile, numbered};

/// Value of `format` in the metadata.
const FORMAT: &str = "acestep dialogue 1";
/// Prefix of the tensors of keys and values.
const KEYS_VALUES: &str = "backbone.";
/// Prefix of the tensors of the codec's state.
const CODEC: &str = "codec.";

/// A snapshot that is kept in a file.
#[derive(Debug, Clone, PartialEq)]
pub struct KeptSnapshot {
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
        let of = |network| type_name(networks.place(network).dtype);
        Ok(Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            model: networks.checkpoint().name().to_owned(),
            weights: networks.checkpoint().fingerprint().map_err(Error::Checkpoint)?,
            backbone: of(BACKBONE),
            codec: of(CODEC_DECODER),
            backend: B::name(networks.device()),
        })
    }

    /// Returns the first difference.
    fn difference(&self, other: &Self) -> Option<String> {
        let pairs = [
            ("version", &self.version, &other.version),
            ("weights", &self.weights, &other.weights),
            ("type", &self.backbone, &other.backbone),
            ("type of the codec", &self.codec, &other.codec),
            ("backend", &self.backend, &other.backend),
        ];
        let (what, ..) = pairs.into_iter().find(|(_, own, other)| own != other)?;
        Some(format!("its {what} is not that of this model"))
    }
}

/// The metadata of a file.
#[derive(Debug, Serialize, Deserialize)]
struct Metadata {
    made_by: MadeBy,
    said: Said,
}

impl KeptSnapshot {
    /// Keeps a snapshot.
    ///
    /// # Errors
    /// The errors of reading the checkpoint.
    pub fn new<B: Backend>(
        snapshot: &Snapshot<B>,
        networks: &Networks<'_, B>,
    ) -> Result<Self, Error> {
        Ok(Self { made_by: MadeBy::of(networks)?, data: snapshot.to_data(networks) })
    }

    /// Name of the model that made it.
    pub fn model(&self) -> &str {
        &self.made_by.model
    }

    /// Returns the snapshot.
    ///
    /// # Errors
    /// [`Dia2Error::ForeignSnapshot`] if it is not of these networks; the errors of loading.
    pub fn snapshot<B: Backend>(&self, networks: &Networks<'_, B>) -> Result<Snapshot<B>, Error> {
        if let Some(why) = self.made_by.difference(&MadeBy::of(networks)?) {
            return Err(Dia2Error::ForeignSnapshot { why }.into());
        }
        Snapshot::from_data(&self.data, networks)
    }

    /// Writes the file, which appears whole or not at all.
    ///
    /// # Errors
    /// The errors of [`acestep_engine::write_whole`].
    pub fn write(&self, path: &Path, existing: Existing) -> Result<(), Error> {
        let Self { made_by, data } = self;
        let metadata = Metadata { made_by: made_by.clone(), said: data.said.clone() };
        let metadata = serde_json::to_string(&metadata).expect("texts and numbers");
        let mut tensors = numbered(KEYS_VALUES, &data.keys_values);
        tensors.extend(numbered(CODEC, &data.codec));
        KeptFile { metadata, tensors }.write(FORMAT, path, existing)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// [`Error::File`]; [`Dia2Error::BadSnapshot`] if it is damaged or of another kind.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let bad = |why: String| Error::from(Dia2Error::BadSnapshot { path: path.to_owned(), why });
        let file = KeptFile::read(FORMAT, path)?.map_err(bad)?;
        let metadata = serde_json::from_str(&file.metadata).map_err(|why| bad(why.to_string()))?;
        let Metadata { made_by, said } = metadata;
        let (keys_values, codec) = (file.below(KEYS_VALUES), file.below(CODEC));
        Ok(Self { made_by, data: SnapshotData { said, keys_values, codec } })
    }
}
