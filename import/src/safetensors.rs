//! The tensors of one network: a safetensors file, or several that an index ties together, or what
//! a `Foreign` has of them.
//!
//! Files are mapped and their headers parsed once. A tensor of the type that the network wants stays
//! where it is in the map, and its pages are given back when the network lets go of it. Every other is
//! converted straight from the map, by all cores, and its pages are given back on the way, so that
//! reading costs the memory of the parameters and some 4 MiB a core.
//!
//! Which file: `model.safetensors`; else all shards of `model.safetensors.index.json`; else
//! `diffusion_pytorch_model.safetensors`, else the shards of its index.
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

use crate::{
    Error,
    convert::{Element, FileType, convert},
    header::Entry,
    mapped::Bytes,
};

/// What describes a released network.
pub(crate) const CONFIG: &str = "config.json";

/// Bytes that a core converts before their pages are given back.
const CHUNK: usize = 4 << 20;

/// The tensors of one or several files, by name. A copy shares the maps.
#[derive(Debug, Clone)]
pub struct Tensors {
    /// What messages call the whole: the only file, or the index.
    pub(crate) path: PathBuf,
    pub(crate) files: Vec<(PathBuf, Arc<Bytes>)>,
    pub(crate) entries: BTreeMap<String, (usize, Entry)>,
    /// Whether sizes of 1 may be there or not: other programs drop and add them.
    pub(crate) loose: bool,
    /// What says which sizes the network has, for messages.
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

    /// These tensors under the names that `rename` gives them.
    ///
    /// # Errors
    /// [`Error::SameParameter`] for two that get one name.
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

    /// The tensors of `all` as one, which messages call `path`.
    ///
    /// # Errors
    /// [`Error::InTwoShards`].
    pub(crate) fn together(path: PathBuf, all: Vec<Self>) -> Result<Self, Error> {
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

    /// The same tensors of a network whose sizes `what` says, instead of a config.json.
    pub(crate) fn described_by(self, what: &'static str) -> Self {
        Self { described_by: what, ..self }
    }

    /// The error for tensor `name`, which is not of the sizes `expected`.
    pub(crate) fn wrong_shape(&self, name: &str, expected: Vec<usize>) -> Error {
        let found = self.shape(name).map(<[usize]>::to_vec).unwrap_or_default();
        let (path, tensor) = (self.file_of(name).to_owned(), name.to_owned());
        Error::WrongShape { path, tensor, by: self.described_by, expected, found }
    }

    /// The type of tensor `name` as its file spells it.
    pub(crate) fn dtype(&self, name: &str) -> Option<&str> {
        self.entries.get(name).map(|(_, entry)| entry.dtype.as_str())
    }

    /// Whether tensor `name` is of the sizes `expected`.
    ///
    /// # Errors
    /// [`Error::MissingTensors`].
    pub(crate) fn fits(&self, name: &str, expected: &[usize]) -> Result<bool, Error> {
        let found = self.shape(name)?;
        let long = |sizes: &[usize]| -> Vec<usize> {
            sizes.iter().copied().filter(|&size| size != 1).collect()
        };
        Ok(found == expected || self.loose && long(found) == long(expected))
    }

    /// The types of the tensors as the file spells them, that of the most bytes first.
    pub fn types(&self) -> Vec<String> {
        let mut bytes = BTreeMap::<&str, usize>::new();
        for (_, entry) in self.entries.values() {
            *bytes.entry(&entry.dtype).or_default() += entry.range.len();
        }
        let mut types: Vec<_> = bytes.into_iter().collect();
        types.sort_by_key(|&(name, bytes)| (std::cmp::Reverse(bytes), name));
        types.into_iter().map(|(name, _)| name.to_owned()).collect()
    }

    /// Takes no notice of tensor `name`, if there is one.
    pub(crate) fn leave_out(&mut self, name: &str) {
        self.entries.remove(name);
    }

    /// What messages call these files.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The files, in alphabetical order.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.files.iter().map(|(path, _)| path.as_path())
    }

    /// The names of all tensors, in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// Whether there is a tensor `name`.
    pub fn has(&self, name: &str) -> bool {
        self.entries.contains_key(name)
    }

    /// The file that holds tensor `name`, for messages.
    pub fn file_of(&self, name: &str) -> &Path {
        self.entries.get(name).map_or(&self.path, |(file, _)| &self.files[*file].0)
    }

    /// The sizes of tensor `name`.
    ///
    /// # Errors
    /// [`Error::MissingTensors`].
    pub fn shape(&self, name: &str) -> Result<&[usize], Error> {
        Ok(&self.entry(name)?.1.shape)
    }

    /// The bytes that tensor `name` takes in its file; 0 if there is none.
    pub fn bytes(&self, name: &str) -> u64 {
        self.entries.get(name).map_or(0, |(_, entry)| entry.range.len() as u64)
    }

    /// Checks that tensor `name` is of a weight's type.
    ///
    /// # Errors
    /// [`Error::MissingTensors`], [`Error::WrongDtype`].
    pub fn check_dtype(&self, name: &str) -> Result<(), Error> {
        self.element(name).map(drop)
    }

    /// Reads tensor `name` of `shape`, as [`Self::fits`] allows it, as `dtype`: F32, F16, BF16 or any other float that Burn can convert to.
    ///
    /// # Errors
    /// [`Error::MissingTensors`], [`Error::WrongDtype`]; [`Error::Changed`] if the file was cut or written
    /// to since it was opened; [`Error::BeyondF16`].
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

    /// Reads tensor `name` in the sizes that the file gives it as `dtype`: F32, F16, BF16 or any other
    /// float that Burn can convert to.
    ///
    /// # Errors
    /// [`Error::MissingTensors`], [`Error::WrongDtype`]; [`Error::Changed`] if the file was cut or written
    /// to since it was opened; [`Error::BeyondF16`].
    pub fn read(&self, name: &str, dtype: DType) -> Result<TensorData, Error> {
        self.read_as(name, self.shape(name)?.to_vec(), dtype)
    }

    /// The bytes of tensor `name` where they lie in the file, if they are numbers of `dtype` as this
    /// machine has them.
    fn mapped(&self, name: &str, dtype: DType) -> Result<Option<burn::tensor::Bytes>, Error> {
        let (bytes, range, from) = self.whole(name)?;
        let is_same = match from {
            FileType::F32 => dtype == DType::F32,
            FileType::F16 => dtype == DType::F16,
            FileType::Bf16 => dtype == DType::BF16,
            FileType::Block(_) => false,
        };
        let part = Part { bytes: Arc::clone(bytes), range };
        // Kernels read bf16 in words of two.
        let is_aligned = part.as_ref().as_ptr().addr().is_multiple_of(size_of::<u32>());
        let fits = is_same && is_aligned && cfg!(target_endian = "little");
        Ok(fits.then(|| {
            let shared = bytes::Bytes::from_owner(part);
            burn::tensor::Bytes::from_shared(shared, AllocationProperty::File)
        }))
    }

    /// Checks that all files are still what they were when they were opened.
    ///
    /// # Errors
    /// [`Error::Changed`], [`Error::Io`].
    pub fn unchanged(&self) -> Result<(), Error> {
        self.files.iter().try_for_each(|(path, bytes)| bytes.check(path))
    }

    /// The file of tensor `name`, still as it was opened, and where and as what it lies there.
    fn whole(&self, name: &str) -> Result<(&Arc<Bytes>, Range<usize>, FileType), Error> {
        let (file, Entry { range, .. }) = self.entry(name)?;
        let from = self.element(name)?;
        let (path, bytes) = &self.files[*file];
        bytes.check(path)?;
        Ok((bytes, range.clone(), from))
    }

    /// The values of tensor `name` as f16, none of which became infinite by that.
    fn f16_values(&self, name: &str) -> Result<Vec<f16>, Error> {
        let values = self.values::<f16>(name)?;
        let infinite = || values.iter().any(|value| value.is_infinite());
        // What is infinite in the file stays so in every type.
        if self.element(name)? != FileType::F16
            && infinite()
            && self.values::<f32>(name)?.into_iter().any(is_beyond_f16)
        {
            return Err(self.beyond_f16(name));
        }
        Ok(values)
    }

    /// The error for a value of tensor `name` that f16 cannot hold.
    pub(crate) fn beyond_f16(&self, name: &str) -> Error {
        Error::BeyondF16 { path: self.file_of(name).to_owned(), tensor: name.to_owned() }
    }

    /// The values of tensor `name`, row-major.
    ///
    /// # Errors
    /// As [`Tensors::read`].
    pub(crate) fn values<T: Element>(&self, name: &str) -> Result<Vec<T>, Error> {
        let (bytes, range, from) = self.whole(name)?;
        let mut values = vec![T::from_f32(0.0); range.len() / from.size() * from.values()];
        let step = CHUNK / from.size();
        let chunks = values.par_chunks_mut(step * from.values()).enumerate();
        chunks.for_each(|(index, values)| {
            let start = range.start + index * step * from.size();
            let chunk = start..range.end.min(start + step * from.size());
            convert(&bytes.all()[chunk.clone()], from, values);
            bytes.forget(chunk);
        });
        // What was read while the file changed is of both.
        bytes.check(self.file_of(name))?;
        Ok(values)
    }

    /// The one number of tensor `name`, a float or a whole number; `None` if there are more.
    ///
    /// # Errors
    /// As [`Tensors::read`].
    pub(crate) fn number(&self, name: &str) -> Result<Option<f64>, Error> {
        let (file, Entry { dtype, range, .. }) = self.entry(name)?;
        let (path, bytes) = &self.files[*file];
        bytes.check(path)?;
        let bytes = bytes.all().get(range.clone()).unwrap_or_default();
        let eight = <[u8; 8]>::try_from(bytes).ok();
        let four = <[u8; 4]>::try_from(bytes).ok();
        Ok(match dtype.as_str() {
            "I64" => eight.map(|bytes| i64::from_le_bytes(bytes) as f64),
            "I32" => four.map(|bytes| f64::from(i32::from_le_bytes(bytes))),
            "F64" => eight.map(f64::from_le_bytes),
            _ => match self.values::<f32>(name)?[..] {
                [number] => Some(f64::from(number)),
                _ => None,
            },
        })
    }

    fn entry(&self, name: &str) -> Result<&(usize, Entry), Error> {
        self.entries.get(name).ok_or_else(|| Error::MissingTensors {
            path: self.path.clone(),
            part: "program",
            names: crate::error::Names(vec![name.to_owned()]),
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

/// A part of a file that is in use.
struct Part {
    bytes: Arc<Bytes>,
    range: Range<usize>,
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.bytes.all()[self.range.clone()]
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.bytes.forget(self.range.clone());
    }
}

/// Whether `value` is a number that f16 has none for.
pub(crate) fn is_beyond_f16(value: f32) -> bool {
    value.is_finite() && f16::from_f32(value).is_infinite()
}

#[cfg(test)]
mod tests;
