//! Presence of released models on this machine.

use std::{io, path::Path};

use super::Layout;
use crate::{
    Error, Release,
    families::{
        self,
        acestep::{COMPANIONS, MODELS},
        magpie,
    },
    hub::{CacheState, HubError, Pins, Published, VerifiedFile, seems_whole},
};

/// Presence of a released model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Presence {
    /// Nothing of it is here.
    Absent,
    /// A file of the model, or a model that it needs, is missing. The names are empty if a download
    /// was begun.
    Partial(Vec<String>),
    /// All of it is here.
    Whole,
}

impl Layout {
    /// Returns how much of `model` is here.
    pub fn presence(&self, model: &Release) -> Presence {
        let own = self.own(model);
        if let (Some(CacheState::Broken(_, files)), None) =
            (self.hub().map(|of| of.state(model)), own)
        {
            return Presence::Partial(files);
        }
        if !self.has(model) {
            let is_begun =
                model.prefix.is_empty() && self.hub().is_some_and(|hub| hub.begun(model.repo) > 0);
            return if is_begun { Presence::Partial(vec![]) } else { Presence::Absent };
        }
        if !MODELS.contains(model) {
            let lacked = match magpie::MODELS.contains(model) {
                // Its codec may lie in its file or beside it.
                true => self.lacked_by_magpie(model),
                false => {
                    let lacked = model.needs.iter().filter(|need| !self.has(need));
                    lacked.map(|need| need.name.to_owned()).collect()
                }
            };
            return if lacked.is_empty() { Presence::Whole } else { Presence::Partial(lacked) };
        }
        // Resolve it the same way as a song does.
        match self.resolve(model.name) {
            Err(Error::Absent { known: Some(lacked), .. }) => {
                Presence::Partial(vec![lacked.name.to_owned()])
            }
            Ok(_) | Err(_) => Presence::Whole,
        }
    }

    /// Returns the pulled models whose commit is gone from the cache, so that another commit there is used.
    ///
    /// # Errors
    /// As [`Pins::read`].
    pub fn displaced(&self) -> Result<Vec<&'static Release>, HubError> {
        let Some(hub) = self.hub() else { return Ok(vec![]) };
        let pins = Pins::read(hub)?;
        let is_displaced = |model: &&Release| {
            let found = pins.of(model).and_then(|_| hub.find(model)).filter(|found| !found.pinned);
            found.is_some_and(|found| self.place(model) == Some(found.path))
        };
        Ok(Release::all().filter(is_displaced).collect())
    }

    /// Returns the approximate bytes of the missing parts of `model`; only the hub knows the exact
    /// number.
    pub fn missing_bytes(&self, model: &'static Release) -> u64 {
        let is_here = |own: &Release| {
            self.own(own).is_some() || self.hub().is_some_and(|hub| hub.find(own).is_some())
        };
        let missing = model.with_needs().filter(|own| !is_here(own));
        missing.map(|own| (f64::from(own.gigabytes) * 1e9) as u64).sum()
    }

    /// Returns the companions of models of songs that nothing needs after the models `leaving` are
    /// deleted: the last model of songs takes them with it.
    pub fn unneeded(&self, leaving: &[&Release]) -> Vec<&'static Release> {
        let leaves = |model: &Release| leaving.contains(&model);
        let stays = |model: &Release| !leaves(model) && self.presence(model) != Presence::Absent;
        let is_last = leaving.iter().any(|model| MODELS.contains(model))
            && !MODELS.iter().any(stays)
            && !self.has_nameless();
        COMPANIONS.iter().filter(|model| is_last && !leaves(model)).collect()
    }

    /// Compares every file of `model` with its checksum: with those of `published` in a directory that
    /// the user installed, else with those of the cache. `read` receives numbers of bytes.
    ///
    /// # Errors
    /// [`HubError::Disk`] if a file cannot be read; [`HubError::BadPins`].
    pub fn verify(
        &self,
        model: &Release,
        published: impl FnOnce() -> Published,
        read: &mut dyn FnMut(u64) -> io::Result<()>,
    ) -> Result<Vec<VerifiedFile>, HubError> {
        let place = self.place(model);
        let own = self.own(model).filter(|own| Some(own) == place.as_ref());
        if let Some(directory) = own {
            return published().verify(&directory, read);
        }
        let in_cache = self.hub().and_then(|hub| hub.find(model)).map(|found| found.path);
        match (place, self.hub()) {
            // A file of another program: it has no published checksum.
            (Some(path), _) if in_cache.as_ref() != Some(&path) => {
                let size = path.metadata().map_or(0, |file| file.len());
                let is_whole = seems_whole(&path);
                Ok(vec![VerifiedFile { path, size, checksum: None, is_whole }])
            }
            (_, Some(hub)) => hub.verify(model, read),
            (_, None) => Ok(vec![]),
        }
    }

    /// True if a models directory has models without a short name, which may need the companions.
    pub fn has_nameless(&self) -> bool {
        let entries = self.dirs().iter().filter_map(|dir| std::fs::read_dir(dir).ok()).flatten();
        entries.flatten().any(|entry| {
            let path = entry.path();
            let is_model = path.join("config.json").is_file()
                || path.extension().is_some_and(|of| of == "gguf" || of == "safetensors")
                || path.join("model_index.json").is_file();
            is_model && !Release::all().any(|model| entry.file_name() == model.directory)
                || ["checkpoints", "diffusion_models"].iter().any(|own| path.ends_with(own))
        })
    }
}

/// Returns the files of a model with their sizes, those in the folders of a release too; links are followed.
///
/// # Errors
/// If the directory cannot be read.
pub fn model_files(place: &Path) -> io::Result<Vec<(String, u64)>> {
    let mut files = Vec::new();
    let mut add = |path: &Path, name: &Path| -> io::Result<()> {
        files.push((name.to_string_lossy().into_owned(), path.metadata()?.len()));
        Ok(())
    };
    if place.is_file() {
        add(place, place.file_name().unwrap_or_default().as_ref())?;
        return Ok(files);
    }
    for folder in families::with_folders(place) {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_file() {
                add(&path, path.strip_prefix(place).unwrap_or(&path))?;
            }
        }
    }
    files.sort();
    Ok(files)
}
