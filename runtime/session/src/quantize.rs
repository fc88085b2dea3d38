//! Models whose matrices in int8 are kept in files beside their weights.

use std::path::{Path, PathBuf};

use acestep_engine::{Device, Engine, Error, device::Dtype, on_engine};
use acestep_import::{
    DitDir, LanguageModelDir, Layout, Release, acestep::LANGUAGE_MODELS, open_diffusion,
    open_language_model,
};

use crate::speech::{self, Advanced, Fields, SpeechModel, Written};

/// A model of some family.
enum Model {
    Music(Box<DitDir>),
    Language(Box<LanguageModelDir>),
    Speech(Box<dyn SpeechModel>),
}

/// Writes the matrices of the networks of a model that run in int8, and returns the files. `name` is that
/// of a released model, or a path. `acestep_import` reads the files when such a network is loaded.
///
/// # Errors
/// [`Error::Checkpoint`]: no such model, a model inside the program, a file that cannot be written.
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
    let is_one =
        |of: &Release| [of.name, of.directory].iter().any(|own| own.eq_ignore_ascii_case(name));
    let language = || open_language_model(Some(name), layout).map_err(Error::checkpoint);
    let speech = || speech::open(Some(name), &mut Fields::new(), None, layout);
    if LANGUAGE_MODELS.iter().any(is_one) {
        return Ok(Model::Language(Box::new(language()?)));
    }
    if speech::releases().any(is_one) || name == speech::built_in().0 {
        return Ok(Model::Speech(speech()?));
    }
    let music = match open_diffusion(name, layout) {
        Ok(model) => return Ok(Model::Music(Box::new(model))),
        Err(error) => Error::checkpoint(error),
    };
    if Path::new(name).exists() {
        if let Ok(model) = language() {
            return Ok(Model::Language(Box::new(model)));
        }
        if let Ok(model) = speech() {
            return Ok(Model::Speech(model));
        }
    }
    Err(music)
}
