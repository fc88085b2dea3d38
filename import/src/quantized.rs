//! Weights in int8 that were quantised before: a file beside the weights of a network.
//!
//! ```text
//! model.safetensors    model.diffusion-transformer.q8
//! ```
//!
//! The file has the form of safetensors. Each matrix has the name of its tensor in the checkpoint and the
//! words of [`acestep_model::kernel::quantize_q8`], `[out, words]` in `U32`. Loading maps the file, and
//! computes nothing. The metadata has the hash of the weights ([`Tensors::sample`]), so a file of other
//! weights is not used.

use std::{
    borrow::Cow,
    cell::{Cell, RefCell},
    collections::{BTreeMap, HashMap},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use acestep_model::{Backend, kernel};
use burn::tensor::{DType, Tensor, TensorData};
use safetensors::{Dtype, View};
use sha2::{Digest as _, Sha256};

use crate::{
    Bytes, Directory, Error, Tensors,
    header::{self, Entry},
    hub::checksum,
    names::TensorNames,
    safetensors::shared,
};

/// The keys of the metadata.
const VERSION: &str = "acestep_q8";
const WEIGHTS: &str = "weights_sample_sha256";
/// The order of the words. A file of another one is refused.
const CURRENT: &str = "1";

/// The quantised matrices of a network, mapped.
#[derive(Debug)]
pub(crate) struct Quantized {
    path: PathBuf,
    bytes: Arc<Bytes>,
    entries: BTreeMap<String, Entry>,
}

/// Returns the path of the file of the network with these `names`, whether it exists or not.
pub(crate) fn path_of(tensors: &Tensors, names: &TensorNames) -> PathBuf {
    let name = tensors.path().file_name().unwrap_or_default().to_string_lossy();
    let endings = [".index.json", ".safetensors", ".gguf", ".nemo"];
    let stem =
        endings.iter().fold(&*name, |name, ending| name.strip_suffix(ending).unwrap_or(name));
    tensors.path().with_file_name(format!("{stem}.{}.q8", names.noun.replace(' ', "-")))
}

/// Returns the checksum of `settings` and of samples of all `weights`, which tells them from others.
pub(crate) fn fingerprint(settings: &str, weights: &[&Tensors]) -> Result<String, Error> {
    let mut hash = Sha256::new();
    hash.update(settings);
    weights.iter().try_for_each(|tensors| tensors.sample(&mut hash))?;
    Ok(checksum::hex(hash.finalize()))
}

impl Quantized {
    /// Maps the file of the network with these `names`, if there is one.
    pub(crate) fn open(tensors: &Tensors, names: &TensorNames) -> Result<Option<Self>, Error> {
        let path = path_of(tensors, names);
        if !path.is_file() {
            return Ok(None);
        }
        let bytes = Directory::open_file(&path)?;
        let damaged = |error| Error::BadQuantized(Box::new(error));
        let metadata = header::metadata(&path, bytes.all()).map_err(damaged)?;
        let found = [VERSION, WEIGHTS].map(|key| metadata.get(key).map(String::as_str));
        if found != [Some(CURRENT), Some(&fingerprint("", &[tensors])?)] {
            return Err(Error::OtherQuantized { path, weights: tensors.path().to_owned() });
        }
        let entries = header::parse(&path, bytes.all()).map_err(damaged)?;
        Ok(Some(Self { path, bytes: Arc::new(bytes), entries }))
    }

    /// Returns the words of the matrix `name`, which has the shape `[out, words]`.
    ///
    /// # Errors
    /// [`Error::OtherQuantized`] if the file has no such matrix; [`Error::Changed`].
    pub(crate) fn words(&self, name: &str, shape: [usize; 2]) -> Result<TensorData, Error> {
        self.unchanged()?;
        let entry = self.entries.get(name).filter(|e| e.dtype == "U32" && e.shape == shape);
        let Some(Entry { range, .. }) = entry else {
            let weights = PathBuf::from(name);
            return Err(Error::OtherQuantized { path: self.path.clone(), weights });
        };
        let bytes = shared(&self.bytes, range.clone());
        Ok(TensorData::from_bytes(bytes, shape.to_vec(), DType::U32))
    }

    /// True if a tensor lies in the map.
    pub(crate) fn is_in_use(&self) -> bool {
        Arc::strong_count(&self.bytes) > 1
    }

    /// Checks that the file has not changed since it was opened: networks use it in place.
    pub(crate) fn unchanged(&self) -> Result<(), Error> {
        self.bytes.check(&self.path)
    }
}

/// A matrix that a network in int8 holds in int8.
pub(crate) struct Matrix<'a> {
    /// The name of its tensor.
    pub(crate) name: String,
    /// `[out, in]`
    pub(crate) shape: [usize; 2],
    /// Reads the values that are quantised.
    pub(crate) read: Box<dyn Fn() -> Result<TensorData, Error> + 'a>,
}

/// A matrix that is quantised when its bytes are asked for.
struct Lazy<'a> {
    matrix: &'a Matrix<'a>,
    shape: [usize; 2],
    words: &'a dyn Fn(&Matrix<'_>) -> Vec<u8>,
}

impl View for Lazy<'_> {
    fn dtype(&self) -> Dtype {
        Dtype::U32
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        (self.words)(self.matrix).into()
    }

    fn data_len(&self) -> usize {
        self.shape.iter().product::<usize>() * size_of::<u32>()
    }
}

/// Quantises `matrices` one by one and writes the file of the network with these `names`. It appears
/// whole or not at all, and replaces an earlier one. `advanced` is called with the number of matrices so
/// far; false ends the work.
pub(crate) fn write<B: Backend>(
    tensors: &Tensors,
    names: &TensorNames,
    matrices: &[Matrix<'_>],
    device: &B::Device,
    advanced: &dyn Fn(usize) -> bool,
) -> Result<PathBuf, Error> {
    let path = path_of(tensors, names);
    let failed = |source: io::Error| Error::NotWritten { path: path.clone(), source };
    let folder = path.parent().unwrap_or(Path::new("."));
    let (failure, done) = (RefCell::new(None), Cell::new(0));
    let words = |matrix: &Matrix<'_>| {
        if failure.borrow().is_some() {
            return Vec::new();
        }
        let result = match advanced(done.replace(done.get() + 1)) {
            true => (matrix.read)().map(|data| words_of::<B>(data, device)),
            false => Err(failed(io::ErrorKind::Interrupted.into())),
        };
        result.unwrap_or_else(|error| {
            failure.replace(Some(error));
            Vec::new()
        })
    };
    let lazy = matrices.iter().map(|matrix| {
        let [rows, width] = matrix.shape;
        let shape = [rows, B::q8_words(width)];
        (matrix.name.clone(), Lazy { matrix, shape, words: &words })
    });
    let metadata = HashMap::from([
        (VERSION.to_owned(), CURRENT.to_owned()),
        (WEIGHTS.to_owned(), fingerprint("", &[tensors])?),
    ]);
    let file = tempfile::Builder::new().suffix(".part").tempfile_in(folder).map_err(failed)?;
    let written = safetensors::serialize_to_file(lazy, Some(metadata), file.path());
    if let Some(error) = failure.take() {
        return Err(error);
    }
    written.map_err(|error| match error {
        safetensors::SafeTensorError::IoError(source) => failed(source),
        other => failed(io::Error::other(other)),
    })?;
    tensors.unchanged()?;
    file.as_file().sync_all().map_err(failed)?;
    readable_by_others(file.path()).map_err(failed)?;
    file.persist(&path).map_err(|error| failed(error.error))?;
    Ok(path)
}

/// A temporary file is of its user alone.
fn readable_by_others(path: &Path) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::{fs, os::unix::fs::PermissionsExt as _};
        fs::set_permissions(path, fs::Permissions::from_mode(0o644))?;
    }
    let _ = path;
    Ok(())
}

/// Quantises a matrix; returns the bytes of its words.
fn words_of<B: Backend>(data: TensorData, device: &B::Device) -> Vec<u8> {
    let dtype = data.dtype;
    let weight = Tensor::<B, 2>::from_data(data, (device, dtype));
    match kernel::quantize_q8(weight) {
        kernel::Weight::Packed(packed) => packed.words().clone().into_data().as_bytes().to_vec(),
        kernel::Weight::Plain(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests;
