//! The files of a model and of its codec, in any format.

use std::path::{Path, PathBuf};

use super::archive;
use crate::{
    Error, foreign, layout,
    single_file::{Codec, Opened},
};

/// Opens the model in the file at `path`.
pub(super) fn open(path: &Path) -> Result<Opened, Error> {
    match foreign::architecture(path).is_some() {
        true => foreign::magpie(path),
        false => archive::model(path),
    }
}

/// Opens the codec of the model at `model`: that at `given`, or the one that lies near.
pub(super) fn codec(
    model: &Path,
    given: Option<&Path>,
    places: &[PathBuf],
) -> Result<Codec, Error> {
    let path = layout::magpie::codec(model, given, places)?;
    match foreign::architecture(&path).is_some() {
        true => foreign::magpie_codec(&path),
        false => archive::codec(&path),
    }
}
