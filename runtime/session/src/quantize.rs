//! Models whose matrices in int8 are kept in files beside their weights.

use std::{path::PathBuf, sync::Arc};

use acestep_engine::{Device, Engine, Error, device::Dtype, on_engine};
use acestep_import::{
    DitDir, LanguageModelDir, Layout, Release,
    acestep::{LANGUAGE_MODELS, MODELS},
    open_diffusion, open_language_model,
};

use crate::{
    SessionError,
    speech::{self, Advanced, Fields, SpeechModel, Written},
};

/// A model of some family.
enum Model {
    Music(Box<DitDir>),
    Language(Box<LanguageModelDir>),
    Speech(Arc<dyn SpeechModel>),
}

/// Writes the matrices of the networks of a model that run in int8, and returns the files. `name` is that
/// of a released model, or a path. `acestep_import` reads the files when such a network is loaded.
///
/// # Errors
/// [`Error::Checkpoint`]: no such model, a model inside the program, a file that cannot be written;
/// [`SessionError::NotQuantized`].
pub fn quantize(
    name: &str,
    layout: &Layout,
    advanced: Advanced<'_>,
) -> Result<Vec<PathBuf>, Error> {
    let (device, _) = Device::open("cpu")?;
    let engine = Engine { device, dtype: Dtype::Q8.resolve(device)? };
    let written = match open(name, layout)? {
        Model::Speech(model) => return model.quantize(engine, advanced),
        Model::Music(model) => {
            let model = &*model;
            on_engine!(engine,
            for<'a>(model: &'a DitDir, advanced: Advanced<'a>) -> Written,
            |place: B| { model.quantize::<B>(&place.device, advanced).map(|path| vec![path]) })
        }
        Model::Language(model) => {
            let model = &*model;
            on_engine!(engine,
            for<'a>(model: &'a LanguageModelDir, advanced: Advanced<'a>) -> Written,
            |place: B| { model.quantize::<B>(&place.device, advanced).map(|path| vec![path]) })
        }
    };
    written?.map_err(Error::checkpoint)
}

/// Opens a model of any family. A path says nothing of it, so each family is tried.
fn open(name: &str, layout: &Layout) -> Result<Model, Error> {
    let is_known = |of: &&Release| of.is_called(name) || layout.place_called(name).is_none();
    let known = Release::named(name).filter(is_known);
    let name = known.map_or(name, |of| of.name);
    let music = || -> Result<Model, Error> {
        let model = open_diffusion(name, layout).map_err(Error::checkpoint)?;
        Ok(Model::Music(Box::new(model)))
    };
    let language = || -> Result<Model, Error> {
        let model = open_language_model(Some(name), layout).map_err(Error::checkpoint)?;
        Ok(Model::Language(Box::new(model)))
    };
    let speech = || speech::open(Some(name), &mut Fields::new(), None, layout).map(Model::Speech);
    match known {
        Some(of) if MODELS.contains(of) => return music(),
        Some(of) if LANGUAGE_MODELS.contains(of) => return language(),
        Some(of) if !speech::releases().any(|own| own == of) => {
            return Err(SessionError::NotQuantized(of.name).into());
        }
        Some(_) => return speech(),
        None if name == speech::built_in().0 => return speech(),
        None => (),
    }
    let ways: [&dyn Fn() -> Result<Model, Error>; 3] = [&music, &language, &speech];
    let count = if layout.place_called(name).is_some() { ways.len() } else { 1 };
    let mut errors = Vec::new();
    for way in &ways[..count] {
        match way() {
            Ok(model) => return Ok(model),
            Err(error) => errors.push(error),
        }
    }
    // The family that takes the files for its own says what is wrong with them.
    let own = errors.iter().position(|error| !is_of_another(error)).unwrap_or(0);
    Err(errors.swap_remove(own))
}

/// True if the files are not of the family that was tried.
fn is_of_another(error: &Error) -> bool {
    use acestep_import::Error::{Foreign, NotADirectory, WrongDirectory};
    let Error::Checkpoint(error) = error else { return false };
    matches!(
        error.downcast_ref(),
        Some(Foreign { .. } | NotADirectory { .. } | WrongDirectory { .. })
    )
}
