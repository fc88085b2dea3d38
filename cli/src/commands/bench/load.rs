//! Loading time of an installed model's networks, from files into memory.
//!
//! The files were read once before, so the time includes the system's file cache.

use std::any::Any;

use acestep_engine::device::dtype::of_others;
use acestep_import::{AceStep, Error, LanguageModelDir, Layout, Network, PartSize};
use acestep_model::{Backend, Place};
use anyhow::Result;

use super::{
    ceilings::{Ceilings, Weights},
    cost::Cost,
    measure,
    presets::Preset,
    stages::{self, Measured, Rate, Run, Stage},
};

/// A model to load.
pub(super) enum Model {
    Song(Box<AceStep>),
    Language(Box<LanguageModelDir>),
}

impl Model {
    /// Opens the model `choice`: a language model for the presets of one.
    ///
    /// # Errors
    /// If it is not installed or its files do not fit.
    pub(super) fn open(choice: &str, preset: Preset, layout: &Layout) -> Result<Self> {
        Ok(match preset {
            Preset::Lm06b | Preset::Lm17b | Preset::Lm4b => {
                Self::Language(acestep_import::open_language_model(Some(choice), layout)?.into())
            }
            Preset::Turbo | Preset::Base | Preset::Xl | Preset::Vae | Preset::TextEncoder => {
                Self::Song(acestep_import::open(choice, layout)?.into())
            }
        })
    }

    /// Returns the networks that `preset` runs.
    pub(super) fn parts(preset: Preset) -> &'static [Network] {
        match preset {
            Preset::Turbo | Preset::Base | Preset::Xl => &Network::ALL,
            Preset::Vae => &[Network::VaeDecoder, Network::VaeEncoder],
            Preset::TextEncoder => &[Network::TextEncoder],
            Preset::Lm06b | Preset::Lm17b | Preset::Lm4b => &[Network::LanguageModel],
        }
    }

    /// Measures the loading of one network, repeatedly.
    ///
    /// # Errors
    /// If its files are missing, truncated or of another shape.
    pub(super) fn measure<B: Backend>(
        &self,
        part: Network,
        ceilings: Ceilings,
        place: &Place<B>,
    ) -> Result<Measured> {
        let dtype = match part {
            Network::Dit | Network::LanguageModel => place.dtype,
            _ => of_others(place.dtype),
        };
        let place = &Place { device: place.device.clone(), dtype };
        let weights = Weights::of(dtype);
        stages::measure(Stage::Load, weights, ceilings, || {
            let PartSize { file_bytes, .. } = match self {
                Self::Song(folder) => folder.size(part)?,
                Self::Language(folder) => folder.size()?,
            };
            // Errors occur on the first load.
            drop(self.load::<B>(part, place)?);
            let time =
                measure::time(|| self.load::<B>(part, place), || measure::wait::<B>(&place.device));
            let bytes = file_bytes as f64;
            Ok(Run {
                unit: format!("{part}, files of {:.2} GB", bytes / 1e9),
                // There is no arithmetic, and data in the right type is not even copied.
                cost: Cost { flop: 0.0, weights: 0.0 },
                time,
                rate: Box::new(move |time| Rate::new(bytes / 1e9 / time.wall_s, "GB/s of files")),
            })
        })
    }

    /// Loads a network.
    fn load<B: Backend>(&self, part: Network, place: &Place<B>) -> Result<Box<dyn Any>, Error> {
        Ok(match (self, part) {
            (Self::Song(folder), Network::TextEncoder) => {
                Box::new(folder.text_encoder_dir().model(place)?)
            }
            (Self::Song(folder), Network::Conditioner) => {
                Box::new(folder.dit_dir().conditioner(place)?)
            }
            (Self::Song(folder), Network::AudioCodec) => {
                Box::new(folder.dit_dir().audio_codec(place)?)
            }
            (Self::Song(folder), Network::Dit) => Box::new(folder.dit_dir().dit(place)?),
            // Prepacked, as for songs.
            (Self::Song(folder), Network::VaeDecoder) => {
                Box::new(folder.vae_dir().decoder(place)?.prepacked())
            }
            (Self::Song(folder), Network::VaeEncoder) => {
                Box::new(folder.vae_dir().encoder(place)?.prepacked())
            }
            (Self::Language(folder), _) => Box::new(folder.model(place)?),
            // A folder for songs has no language model.
            (Self::Song(_), Network::LanguageModel) => Box::new(()),
        })
    }
}
