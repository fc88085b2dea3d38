//! The latent of silence, `silence_latent.pt`: `[1, C, T]` in the file, `[1, T, C]` here.
//!
//! The values in the file are f32 or a half type, which f32 represents exactly. A view or slice of a
//! larger storage is read as torch reads it.
//!
//! Source: upstream loads the tensor and swaps its last two axes.

use std::path::Path;

use burn::tensor::TensorData;

use crate::{
    Directory, Error, Tensors,
    convert::{FileType, convert},
    pickle::{self, Archive, Described},
    pointer,
};

pub(crate) const PT: &str = "silence_latent.pt";
const SAFETENSORS: &str = "silence_latent.safetensors";
/// First bytes of a file that torch wrote before 1.6, or without its zip format.
const LEGACY: &[u8] = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.";

/// Reads the latent of silence from `directory` as f32.
///
/// `silence_latent.safetensors` is read only if there is no `silence_latent.pt`.
///
/// # Shapes
/// - output: `[1, T, C]` with `C = channels`
pub(crate) fn read(directory: &Directory, channels: usize) -> Result<TensorData, Error> {
    if let Directory::Foreign(foreign) = directory {
        return (foreign.read_silence)(foreign, channels);
    }
    let Some(file) = file_in(directory) else {
        let alternatives = format!(", and so is `{SAFETENSORS}`");
        return Err(Error::MissingFile { path: directory.path(PT), alternatives });
    };
    let values = match file {
        PT => values_of_pt(directory, channels)?,
        _ => values_of_safetensors(directory, channels)?,
    };
    let bad =
        |reason: &str| Error::BadSilence { path: directory.path(file), reason: reason.into() };
    if values.iter().any(|value| !value.is_finite()) {
        return Err(bad("it has values that are not finite"));
    }
    if values.is_empty() {
        return Err(bad("it is empty"));
    }
    let frames = values.len() / channels;
    let transposed = // [C, T] -> [T, C]
        (0..frames).flat_map(|t| (0..channels).map(move |c| c * frames + t)).map(|i| values[i]);
    Ok(TensorData::new(transposed.collect(), [1, frames, channels]))
}

/// Returns the latent in tensor `name`, `[T, C]` or `[1, T, C]`, of the file or directory `root`;
/// `None` if it is all zeros.
pub(crate) fn of_tensor(
    root: &Path,
    tensors: &Tensors,
    name: &str,
    channels: usize,
) -> Result<Option<TensorData>, Error> {
    let bad = |reason: String| Error::BadSilence { path: root.to_owned(), reason };
    let shape = tensors.shape(name)?;
    let frames = match *shape {
        [frames, c] | [1, frames, c] if c == channels => frames,
        _ => return Err(bad(format!("it is {shape:?} instead of [T, {channels}]"))),
    };
    let values: Vec<f32> = tensors.values(name)?;
    if values.iter().any(|value| !value.is_finite()) {
        return Err(bad("it has values that are not finite".into()));
    }
    if values.iter().all(|&value| value == 0.0) {
        return Ok(None);
    }
    Ok(Some(TensorData::new(values, [1, frames, channels])))
}

/// Returns the name of its file in `directory`.
pub(crate) fn file_in(directory: &Directory) -> Option<&'static str> {
    [PT, SAFETENSORS].into_iter().find(|file| directory.has(file))
}

fn values_of_safetensors(directory: &Directory, channels: usize) -> Result<Vec<f32>, Error> {
    let bad = |reason: String| Error::BadSilence { path: directory.path(SAFETENSORS), reason };
    let tensors = Tensors::open_file(directory, SAFETENSORS)?;
    let names: Vec<_> = tensors.names().collect();
    let [name] = names[..] else {
        return Err(bad(format!("it has {} tensors instead of one", names.len())));
    };
    match tensors.shape(name)? {
        [1, c, _] if *c == channels => tensors.values(name),
        shape => Err(bad(format!("it is {shape:?} instead of [1, {channels}, T]"))),
    }
}

fn values_of_pt(directory: &Directory, channels: usize) -> Result<Vec<f32>, Error> {
    let bytes = directory.open(PT)?;
    pointer::refuse(&directory.path(PT), bytes.all())?;
    values_of_archive(bytes.all(), channels)
        .map_err(|reason| Error::BadSilence { path: directory.path(PT), reason })
}

fn values_of_archive(bytes: &[u8], channels: usize) -> Result<Vec<f32>, String> {
    if bytes.starts_with(LEGACY) {
        return Err("it is in the format of torch before 1.6, not a zip archive".into());
    }
    let archive = Archive::open(bytes, 0..bytes.len())?;
    let tensor = pickle::tensor(archive.pickle).map_err(|byte| {
        format!("its data.pkl is not that of one plain tensor (from byte {byte} on)")
    })?;
    let file_type = check(&tensor, channels)?;

    let place = archive.storage(&tensor);
    let data = &bytes[place.ok_or_else(|| format!("it has no entry `data/{}`", tensor.key))?];
    if data.len() / file_type.size() != tensor.stored
        || !data.len().is_multiple_of(file_type.size())
    {
        let (size, stored, storage) = (data.len(), tensor.stored, tensor.storage);
        return Err(format!("it has {size} bytes for the {stored} values of a {storage}"));
    }
    let mut values = vec![0.0; tensor.stored];
    convert(data, file_type, &mut values);
    let Described { sizes, strides, offset, stored, .. } = &tensor;
    let places = tensor.places().ok_or_else(|| {
        format!(
            "{sizes:?} with strides {strides:?} from value {offset} on leaves the {stored} stored"
        )
    })?;
    Ok(places.into_iter().map(|place| values[place]).collect())
}

/// Returns the type of the values, if the tensor is `[1, C, T]`.
fn check(tensor: &Described, channels: usize) -> Result<FileType, String> {
    let other = || format!("it is a `{}`, not one of float, half or bfloat16", tensor.storage);
    let file_type = FileType::from_name(tensor.dtype).ok_or_else(other)?;
    match tensor.sizes[..] {
        [1, c, _] if c == channels => Ok(file_type),
        _ => Err(format!("it is {:?} instead of [1, {channels}, T]", tensor.sizes)),
    }
}

#[cfg(test)]
mod tests;
