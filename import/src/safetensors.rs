//! The tensors of one network: from a safetensors file, from several shards with an index, or from
//! a `Foreign`.
//!
//! Files are mapped and their headers parsed once. A tensor that already has the requested type is
//! used in the map, and its pages are released when the network drops it. Every other tensor is
//! converted from the map by all CPU cores, and its pages are released during that. Reading
//! therefore costs the memory of the parameters and about 4 MiB per core.
//!
//! Searched files, in this order: `model.safetensors`; all shards of
//! `model.safetensors.index.json`; `diffusion_pytorch_model.safetensors`; the shards of its index.
//!
//! Source of the index: Hugging Face transformers, `{"weight_map": {tensor: file name}}`.

use std::{
    collections::BTreeMap,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

use burn::tensor::{AllocationProperty, DType, TensorData};
use half::{bf16, f16};
use rayon::prelude::*;
use sha2::{Digest as _, Sha256};

use crate::{
    Error,
    convert::{Element, FileType, convert},
    header::Entry,
    mapped::Bytes,
};

/// The file that describes a released network.
const CONFIG: &str = "config.json";

/// Bytes that a core converts before it releases their pages.
const CHUNK: usize = 4 << 20;

/// The tensors of one or several files, by name. Clones share the maps.
#[derive(Debug, Clone)]
pub struct Tensors {
    /// Name of the whole in messages: the only file, or the index.
    pub(crate) path: PathBuf,
    pub(crate) files: Vec<(PathBuf, Arc<Bytes>)>,
    pub(crate) entries: BTreeMap<String, (usize, Entry)>,
    /// True if dimensions of size 1 may be missing or added, as other programs do.
    pub(crate) loose: bool,
    /// The file that declares the sizes of the network, for messages.
    pub(crate) described_by: &'static str,
}

impl Tensors {
    /// The tensors of the file at `path`, whose places are known. Sizes of 1 may be there or not.
    pub(crate) fn from_entries(
        path: PathBuf,
        bytes: Bytes,
        entries: BTreeMap<String, Entry>,
    ) -> Self {
        let entries = entries.into_iter().map(|(name, entry)| (name, (0, entry))).collect();
        let files = vec![(path.clone(), Arc::new(bytes))];
        Self { files, path, entries, loose: true, described_by: CONFIG }
    }

    /// Renames all tensors with `rename`.
    pub(crate) fn renamed(mut self, rename: impl Fn(&str) -> String) -> Result<Self, Error> {
        let mut names = BTreeMap::<String, String>::new();
        for (name, at) in std::mem::take(&mut self.entries) {
            let new = rename(&name);
            if let Some(first) = names.insert(new.clone(), name.clone()) {
                return Err(Error::SameParameter { path: self.path, first, second: name });
            }
            self.entries.insert(new, at);
        }
        Ok(self)
    }

    /// Combines the tensors of `all`, with `path` for messages.
    pub(crate) fn joined(path: PathBuf, all: Vec<Self>) -> Result<Self, Error> {
        let mut files = Vec::<(PathBuf, Arc<Bytes>)>::new();
        let mut entries = BTreeMap::<String, (usize, Entry)>::new();
        for tensors in all {
            let before = files.len();
            files.extend(tensors.files);
            for (tensor, (file, entry)) in tensors.entries {
                let at = before + file;
                if let Some((other, _)) = entries.get(&tensor) {
                    let (first, second) = (files[*other].0.clone(), files[at].0.clone());
                    return Err(Error::InTwoShards { tensor, first, second });
                }
                entries.insert(tensor, (at, entry));
            }
        }
        Ok(Self { path, files, entries, loose: true, described_by: CONFIG })
    }

    /// Sets the source of the expected shapes, instead of config.json.
    pub(crate) fn described_by(self, what: &'static str) -> Self {
        Self { described_by: what, ..self }
    }

    /// Returns the error for tensor `name`, which does not have the shape `expected`.
    pub(crate) fn wrong_shape(&self, name: &str, expected: Vec<usize>) -> Error {
        let found = self.shape(name).map(<[usize]>::to_vec).unwrap_or_default();
        let (path, tensor) = (self.file_of(name).to_owned(), name.to_owned());
        Error::WrongShape { path, tensor, by: self.described_by, expected, found }
    }

    /// Returns the type of tensor `name`, as its file spells it.
    pub(crate) fn dtype(&self, name: &str) -> Option<&str> {
        self.entries.get(name).map(|(_, entry)| entry.dtype.as_str())
    }

    /// True if tensor `name` has the shape `expected`.
    pub(crate) fn fits(&self, name: &str, expected: &[usize]) -> Result<bool, Error> {
        let found = self.shape(name)?;
        let long = |sizes: &[usize]| -> Vec<usize> {
            sizes.iter().copied().filter(|&size| size != 1).collect()
        };
        Ok(found == expected || self.loose && long(found) == long(expected))
    }

    /// Returns the types of the tensors as the file spells them, the one with the most bytes first.
    pub fn types(&self) -> Vec<String> {
        let mut bytes = BTreeMap::<&str, usize>::new();
        for (_, entry) in self.entries.values() {
            *bytes.entry(&entry.dtype).or_default() += entry.range.len();
        }
        let mut types: Vec<_> = bytes.into_iter().collect();
        types.sort_by_key(|&(name, bytes)| (std::cmp::Reverse(bytes), name));
        types.into_iter().map(|(name, _)| name.to_owned()).collect()
    }

    /// Ignores tensor `name`, if there is one.
    pub(crate) fn leave_out(&mut self, name: &str) {
        self.entries.remove(name);
    }

    /// Ignores the tensors for which `keep` is false.
    pub(crate) fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.entries.retain(|name, _| keep(name));
    }

    /// Returns the path of these files in messages.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the files, in alphabetical order.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|(path, _)| path.as_path())
    }

    /// Returns the names of all tensors, in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// True if there is a tensor `name`.
    pub fn has(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }

    /// Returns the file that holds tensor `name`, for messages.
    pub fn file_of(&self, name: &str) -> &Path {
        self.entries.get(name).map_or(&self.path, |(file, _)| &self.files[*file].0)
    }

    /// Returns the shape of tensor `name`.
    ///
    /// # Errors
    /// [`Error::MissingTensors`].
    pub fn shape(&self, name: &str) -> Result<&[usize], Error> {
        Ok(&self.entry(name)?.1.shape)
    }

    /// Returns the bytes that tensor `name` takes in its file; 0 if there is none.
    pub fn bytes(&self, name: &str) -> u64 {
        self.entries.get(name).map_or(0, |(_, entry)| entry.range.len() as u64)
    }

    /// Checks that tensor `name` has a type that weights can have.
    ///
    /// # Errors
    /// [`Error::MissingTensors`], [`Error::WrongDtype`].
    pub fn check_dtype(&self, name: &str) -> Result<(), Error> {
        self.element(name).map(drop)
    }

    /// Reads tensor `name` with the shape `shape` ([`Self::fits`] must accept it), as `dtype`: F32,
    /// F16, BF16 or any other float type that Burn can convert to.
    ///
    /// # Errors
    /// [`Error::MissingTensors`], [`Error::WrongDtype`]; [`Error::Changed`] if the file was cut or
    /// overwritten since it was opened; [`Error::BeyondF16`].
    pub(crate) fn read_as(
        &self,
        name: &str,
        shape: Vec<usize>,
        dtype: DType,
    ) -> Result<TensorData, Error> {
        if let Some(bytes) = self.mapped(name, dtype)? {
            return Ok(TensorData::from_bytes(bytes, shape, dtype));
        }
        Ok(match dtype {
            DType::F16 => TensorData::new(self.f16_values(name)?, shape),
            DType::BF16 => TensorData::new(self.values::<bf16>(name)?, shape),
            DType::F32 => TensorData::new(self.values::<f32>(name)?, shape),
            other => TensorData::new(self.values::<f32>(name)?, shape).convert_dtype(other),
        })
    }

    /// Returns the mapped bytes of tensor `name`, if they are already `dtype` in this machine's
    /// byte order.
    fn mapped(&self, name: &str, dtype: DType) -> Result<Option<burn::tensor::Bytes>, Error> {
        let (bytes, range, from) = self.whole(name)?;
        let is_same = match from {
            FileType::F32 => dtype == DType::F32,
            FileType::F16 => dtype == DType::F16,
            FileType::Bf16 => dtype == DType::BF16,
            FileType::Block(_) => false,
        };
        // Kernels read bf16 in pairs of 4 bytes.
        let fits = is_same && is_aligned(&bytes.all()[range.clone()]);
        Ok((fits && cfg!(target_endian = "little")).then(|| shared(bytes, range)))
    }

    /// Adds the names, shapes and some bytes of every tensor to `hash`. It reads them from the file: in the
    /// map the system would take up to a megabyte for each, and networks may use these pages in place.
    pub(crate) fn sample(&self, hash: &mut Sha256) -> Result<(), Error> {
        /// Bytes at the start and in the middle of each tensor.
        const BYTES: usize = 128;
        self.unchanged()?;
        for (name, (file, Entry { shape, range, .. })) in &self.entries {
            hash.update(format!("{name} {shape:?} {}\n", range.len()));
            let (path, bytes) = &self.files[*file];
            for start in [0, range.len() / 2].map(|start| range.start + start) {
                let mut part = [0; BYTES];
                let part = &mut part[..(range.end - start).min(BYTES)];
                bytes.read_at(start, part, path)?;
                hash.update(part);
            }
        }
        Ok(())
    }

    /// Checks that no file has changed since it was opened.
    ///
    /// # Errors
    /// [`Error::Changed`], [`Error::Io`].
    pub fn unchanged(&self) -> Result<(), Error> {
        self.files.iter().try_for_each(|(path, bytes)| bytes.check(path))
    }

    /// True if its files are still at their paths: no other one has replaced them.
    pub(crate) fn is_current(&self) -> bool {
        self.files.iter().all(|(path, bytes)| bytes.is_at(path))
    }

    /// Returns the file, range and type of tensor `name`, after a check that the file is unchanged.
    fn whole(&self, name: &str) -> Result<(&Arc<Bytes>, Range<usize>, FileType), Error> {
        let (file, Entry { range, .. }) = self.entry(name)?;
        let from = self.element(name)?;
        let (path, bytes) = &self.files[*file];
        bytes.check(path)?;
        Ok((bytes, range.clone(), from))
    }

    /// Returns the values of tensor `name` as f16. No finite value may become infinite.
    fn f16_values(&self, name: &str) -> Result<Vec<f16>, Error> {
        let values = self.values::<f16>(name)?;
        let infinite = || values.iter().any(|value| value.is_infinite());
        // A value that is infinite in the file stays infinite in every type.
        if self.element(name)? != FileType::F16
            && infinite()
            && self.values::<f32>(name)?.into_iter().any(is_beyond_f16)
        {
            return Err(self.beyond_f16(name));
        }
        Ok(values)
    }

    /// Returns the error for a value of tensor `name` that f16 cannot hold.
    pub(crate) fn beyond_f16(&self, name: &str) -> Error {
        Error::BeyondF16 { path: self.file_of(name).to_owned(), tensor: name.to_owned() }
    }

    /// Returns the values of tensor `name`, row-major.
    pub(crate) fn values<T: Element>(&self, name: &str) -> Result<Vec<T>, Error> {
        let (bytes, range, from) = self.whole(name)?;
        let mut values = T::zeros(range.len() / from.size() * from.values());
        let step = CHUNK / from.size();
        let chunks = values.par_chunks_mut(step * from.values()).enumerate();
        chunks.for_each(|(index, values)| {
            let start = range.start + index * step * from.size();
            let chunk = start..range.end.min(start + step * from.size());
            convert(&bytes.all()[chunk.clone()], from, values);
            bytes.forget(chunk);
        });
        // If the file changed during the read, the values may mix both versions.
        bytes.check(self.file_of(name))?;
        Ok(values)
    }

    /// Returns the single value of tensor `name`, a float or an integer; `None` if there are more.
    pub(crate) fn number(&self, name: &str) -> Result<Option<f64>, Error> {
        let (dtype, bytes) = self.raw(name)?;
        let eight = <[u8; 8]>::try_from(bytes).ok();
        let four = <[u8; 4]>::try_from(bytes).ok();
        Ok(match dtype {
            "I64" => eight.map(|bytes| i64::from_le_bytes(bytes) as f64),
            "I32" => four.map(|bytes| f64::from(i32::from_le_bytes(bytes))),
            "F64" => eight.map(f64::from_le_bytes),
            _ => match self.values::<f32>(name)?[..] {
                [number] => Some(f64::from(number)),
                _ => None,
            },
        })
    }

    /// Returns the whole numbers of tensor `name`, integers or floats; `None` if some are not whole.
    pub(crate) fn whole_numbers(&self, name: &str) -> Result<Option<Vec<i64>>, Error> {
        let (dtype, bytes) = self.raw(name)?;
        Ok(match dtype {
            "I64" => Some(bytes.as_chunks().0.iter().map(|&of| i64::from_le_bytes(of)).collect()),
            "I32" => {
                let number = |&of: &[u8; 4]| i64::from(i32::from_le_bytes(of));
                Some(bytes.as_chunks().0.iter().map(number).collect())
            }
            _ => {
                let whole = |x: f32| (x.fract() == 0.0 && x.abs() < 1e9).then_some(x as i64);
                self.values::<f32>(name)?.into_iter().map(whole).collect()
            }
        })
    }

    /// Returns the type of tensor `name` as its file spells it, and its bytes.
    fn raw(&self, name: &str) -> Result<(&str, &[u8]), Error> {
        let (file, Entry { dtype, range, .. }) = self.entry(name)?;
        let (path, bytes) = &self.files[*file];
        bytes.check(path)?;
        Ok((dtype.as_str(), bytes.all().get(range.clone()).unwrap_or_default()))
    }

    /// Gives tensor `name` another shape of as many values.
    pub(crate) fn reshape(&mut self, name: &str, shape: Vec<usize>) {
        if let Some((_, entry)) = self.entries.get_mut(name) {
            debug_assert_eq!(
                entry.shape.iter().product::<usize>(),
                shape.iter().product::<usize>()
            );
            entry.shape = shape;
        }
    }

    /// Takes the bytes of tensor `name`, which is no weight.
    pub(crate) fn take_bytes(&mut self, name: &str) -> Option<Vec<u8>> {
        let (file, Entry { range, .. }) = self.entries.remove(name)?;
        Some(self.files[file].1.all().get(range)?.to_vec())
    }

    fn entry(&self, name: &str) -> Result<&(usize, Entry), Error> {
        self.entries.get(name).ok_or_else(|| Error::MissingTensors {
            path: self.path.clone(),
            part: "program",
            names: crate::error::NameList(vec![name.to_owned()]),
        })
    }

    fn element(&self, name: &str) -> Result<FileType, Error> {
        let (file, Entry { dtype, .. }) = self.entry(name)?;
        FileType::from_name(dtype).ok_or_else(|| Error::WrongDtype {
            path: self.files[*file].0.clone(),
            tensor: name.to_owned(),
            found: dtype.clone(),
        })
    }
}

/// Returns a range of a file as the bytes of a tensor: in place, or as a copy if it is not aligned.
pub(crate) fn shared(bytes: &Arc<Bytes>, range: Range<usize>) -> burn::tensor::Bytes {
    if !is_aligned(&bytes.all()[range.clone()]) {
        return burn::tensor::Bytes::from_bytes_vec(bytes.all()[range].to_vec());
    }
    let part = TensorBytes { bytes: Arc::clone(bytes), range };
    let shared = bytes::Bytes::from_owner(part);
    burn::tensor::Bytes::from_shared(shared, AllocationProperty::File)
}

/// True if kernels can read `bytes` as words of 4 bytes.
fn is_aligned(bytes: &[u8]) -> bool {
    bytes.as_ptr().addr().is_multiple_of(size_of::<u32>())
}

/// A range of a file that a tensor uses.
struct TensorBytes {
    bytes: Arc<Bytes>,
    range: Range<usize>,
}

impl AsRef<[u8]> for TensorBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes.all()[self.range.clone()]
    }
}

impl Drop for TensorBytes {
    fn drop(&mut self) {
        self.bytes.forget(self.range.clone());
    }
}

/// True if `value` is finite but too large for f16.
pub(crate) fn is_beyond_f16(value: f32) -> bool {
    value.is_finite() && f16::from_f32(value).is_infinite()
}

#[cfg(test)]
mod tests;
