//! Loading time of an installed model's networks, from files into memory.
//!
//! The files were read once before, so the time includes the system's file cache.

use std::any::Any;

use acestep_engine::device::dtype::of_others;
use acestep_import::{AceStep, Error, LanguageModelDir, Layout, Network, PartSize};
use acestep_model::{Backend, Checkpoint, CheckpointError, LanguageCheckpoint, Place};
use anyhow::Result;
use burn::tensor::DType;

use crate::measure::{
    Cost, Rate, Run,
    clock::{self, wait},
};

/// A model to load.
pub enum ModelToLoad {
    /// A model of songs.
    Song(Box<AceStep>),
    /// A language model.
    Language(Box<LanguageModelDir>),
}

impl ModelToLoad {
    /// Opens the model `choice` to load `parts`.
    ///
    /// # Errors
    /// If it is not installed or its files do not fit.
    pub(crate) fn open(choice: &str, parts: &[Network], layout: &Layout) -> Result<Self, Error> {
        Ok(match parts {
            [Network::LanguageModel] => {
                Self::Language(acestep_import::open_language_model(Some(choice), layout)?.into())
            }
            _ => Self::Song(acestep_import::open(choice, layout)?.into()),
        })
    }

    /// Returns the type of a network if `asked` is requested.
    pub(crate) fn dtype(part: Network, asked: DType) -> DType {
        match part {
            Network::Dit | Network::LanguageModel => asked,
            _ => of_others(asked),
        }
    }

    /// Measures the loading of one network, repeatedly.
    ///
    /// # Errors
    /// If its files are missing, truncated or of another shape.
    pub(crate) fn run<B: Backend>(&self, part: Network, place: &Place<B>) -> Result<Run> {
        let PartSize { file_bytes, .. } = match self {
            Self::Song(folder) => folder.size(part)?,
            Self::Language(folder) => folder.size()?,
        };
        // Errors occur on the first load.
        drop(self.load::<B>(part, place).map_err(acestep_engine::Error::checkpoint)?);
        let time = clock::time(|| self.load::<B>(part, place), || wait::<B>(&place.device));
        let gigabytes = file_bytes as f64 / 1e9;
        Ok(Run {
            unit: format!("{part}, files of {gigabytes:.2} GB"),
            // There is no arithmetic, and data in the right type is not even copied.
            cost: Cost::default(),
            time,
            rate: Rate::new(gigabytes / time.wall_s, "GB/s of files"),
        })
    }

    /// Loads a network.
    fn load<B: Backend>(
        &self,
        part: Network,
        place: &Place<B>,
    ) -> Result<Box<dyn Any>, CheckpointError> {
        let folder: &dyn Checkpoint<B> = match self {
            Self::Song(folder) => &**folder,
            Self::Language(folder) => return Ok(Box::new(folder.language_model(place)?)),
        };
        Ok(match part {
            Network::TextEncoder => Box::new(folder.text_encoder(place)?),
            Network::Conditioner => Box::new(folder.conditioner(place)?),
            Network::AudioCodec => Box::new(folder.audio_codec(place)?),
            Network::Dit => Box::new(folder.dit(place)?),
            // Prepacked, as for songs.
            Network::VaeDecoder => Box::new(folder.vae_decoder(place)?.prepacked()),
            Network::VaeEncoder => Box::new(folder.vae_encoder(place)?.prepacked()),
            // A folder for songs has no language model.
            Network::LanguageModel => Box::new(()),
        })
    }
}
