//! Files of the goldens' format: tensors that the reference computed, and their manifest.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use acestep_model::Backend;
use anyhow::{Context, Result, anyhow, ensure};
use burn::tensor::{Tensor, TensorData};
use half::{bf16, f16};
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;

/// A directory of goldens, read completely into memory: they are small.
#[derive(Debug)]
pub(crate) struct Set {
    files: BTreeMap<String, Vec<u8>>,
    manifest: Value,
}

/// One file of tensors.
#[derive(Debug)]
pub(crate) struct Golden {
    /// Its name in the directory.
    pub(crate) file: String,
    tensors: BTreeMap<String, Stored>,
    manifest: Value,
}

#[derive(Debug)]
struct Stored {
    shape: Vec<usize>,
    values: Values,
}

#[derive(Debug)]
enum Values {
    Floats(Vec<f32>),
    Whole(Vec<i64>),
    /// A type that goldens did not use when this was written.
    Other(Dtype),
}

/// True if `folder` holds goldens.
pub(crate) fn is_set(folder: &Path) -> bool {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    files.map(|file| file.path()).any(|path| path.extension().is_some_and(|e| e == "safetensors"))
}

impl Set {
    /// Reads `*.safetensors`, `*.json` and `logic/*.json` of `folder`.
    pub(crate) fn read(folder: &Path) -> Result<Self> {
        let mut files = BTreeMap::new();
        for (prefix, folder) in [("", folder.to_owned()), ("logic/", folder.join("logic"))] {
            if !folder.is_dir() && !prefix.is_empty() {
                continue;
            }
            let listing = std::fs::read_dir(&folder)
                .with_context(|| format!("cannot list `{}`", folder.display()))?;
            for entry in listing {
                let path: PathBuf = entry?.path();
                let known = path.extension().is_some_and(|e| e == "safetensors" || e == "json");
                if let Some(name) = path.file_name().filter(|_| known && path.is_file()) {
                    let name = format!("{prefix}{}", name.to_string_lossy());
                    let bytes = std::fs::read(&path)
                        .with_context(|| format!("cannot read `{}`", path.display()))?;
                    files.insert(name, bytes);
                }
            }
        }
        ensure!(
            files.keys().any(|name| name.ends_with(".safetensors")),
            "`{}` holds no goldens (no *.safetensors)",
            folder.display()
        );
        Self::new(files)
    }

    /// A set from files in memory.
    pub(crate) fn new(mut files: BTreeMap<String, Vec<u8>>) -> Result<Self> {
        let manifest = match files.remove("manifest.json") {
            Some(bytes) => serde_json::from_slice(&bytes).context("manifest.json is not JSON")?,
            None => Value::Null,
        };
        Ok(Self { files, manifest })
    }

    /// The names of all files except the manifest.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// Reads a file of tensors.
    pub(crate) fn tensors(&self, file: &str) -> Result<Golden> {
        let bytes = self.files.get(file).ok_or_else(|| anyhow!("no file {file}"))?;
        let parsed = SafeTensors::deserialize(bytes)
            .with_context(|| format!("{file} is not a whole safetensors file"))?;
        let mut tensors = BTreeMap::new();
        for (name, view) in parsed.iter() {
            let values = Values::read(view.dtype(), view.data());
            tensors.insert(name.to_owned(), Stored { shape: view.shape().to_vec(), values });
        }
        let manifest = self.manifest.get(file).cloned().unwrap_or(Value::Null);
        Ok(Golden { file: file.to_owned(), tensors, manifest })
    }

    /// Reads a JSON file.
    pub(crate) fn json(&self, file: &str) -> Result<Value> {
        let bytes = self.files.get(file).ok_or_else(|| anyhow!("no file {file}"))?;
        serde_json::from_slice(bytes).with_context(|| format!("{file} is not JSON"))
    }
}

impl Values {
    fn read(dtype: Dtype, data: &[u8]) -> Self {
        fn each<const N: usize, T>(data: &[u8], f: impl Fn([u8; N]) -> T) -> Vec<T> {
            data.as_chunks::<N>().0.iter().map(|&bytes| f(bytes)).collect()
        }
        match dtype {
            Dtype::F32 => Self::Floats(each(data, f32::from_le_bytes)),
            Dtype::BF16 => Self::Floats(each(data, |b| bf16::from_le_bytes(b).to_f32())),
            Dtype::F16 => Self::Floats(each(data, |b| f16::from_le_bytes(b).to_f32())),
            Dtype::I64 => Self::Whole(each(data, i64::from_le_bytes)),
            Dtype::I32 => Self::Whole(each(data, |b| i32::from_le_bytes(b).into())),
            Dtype::I16 => Self::Whole(each(data, |b| i16::from_le_bytes(b).into())),
            Dtype::U8 => Self::Whole(data.iter().map(|&b| b.into()).collect()),
            other => Self::Other(other),
        }
    }
}

impl Golden {
    /// All tensor names, sorted.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// True if a tensor of this name exists.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.tensors.contains_key(name)
    }

    /// `x` for every name `x` + `suffix`, sorted.
    pub(crate) fn tags(&self, suffix: &str) -> Vec<String> {
        self.names().filter_map(|name| name.strip_suffix(suffix)).map(str::to_owned).collect()
    }

    fn stored(&self, name: &str) -> Result<&Stored> {
        self.tensors.get(name).ok_or_else(|| anyhow!("{} has no tensor {name}", self.file))
    }

    /// The shape of a tensor.
    pub(crate) fn shape(&self, name: &str) -> Result<&[usize]> {
        Ok(&self.stored(name)?.shape)
    }

    /// The shape of a tensor of `D` dimensions.
    pub(crate) fn dims<const D: usize>(&self, name: &str) -> Result<[usize; D]> {
        let shape = self.shape(name)?.try_into();
        shape.map_err(|_| anyhow!("{}: {name} does not have {D} dimensions", self.file))
    }

    /// The values of a tensor as floats.
    pub(crate) fn floats(&self, name: &str) -> Result<Vec<f32>> {
        Ok(match &self.stored(name)?.values {
            Values::Floats(values) => values.clone(),
            Values::Whole(values) => values.iter().map(|&value| value as f32).collect(),
            Values::Other(dtype) => return Err(anyhow!("{name} has the unknown type {dtype:?}")),
        })
    }

    /// The values of a tensor of integers.
    pub(crate) fn whole(&self, name: &str) -> Result<&[i64]> {
        match &self.stored(name)?.values {
            Values::Whole(values) => Ok(values),
            Values::Floats(_) | Values::Other(_) => {
                Err(anyhow!("{}: {name} holds no whole numbers", self.file))
            }
        }
    }

    /// The values of a tensor of ids or codes.
    pub(crate) fn ids(&self, name: &str) -> Result<Vec<u32>> {
        Ok(self.whole(name)?.iter().map(|&id| id as u32).collect())
    }

    /// Rows of flags, `[B, L]`.
    pub(crate) fn mask(&self, name: &str) -> Result<Vec<Vec<bool>>> {
        let values = self.floats(name)?;
        let width = self.shape(name)?.last().copied().unwrap_or(1);
        Ok(values.chunks(width.max(1)).map(|row| row.iter().map(|&x| x != 0.0).collect()).collect())
    }

    /// A tensor on a device.
    pub(crate) fn tensor<B: Backend, const D: usize>(
        &self,
        name: &str,
        device: &B::Device,
    ) -> Result<Tensor<B, D>> {
        let shape = self.dims::<D>(name)?;
        Ok(Tensor::from_data(TensorData::new(self.floats(name)?, shape), device))
    }

    /// The manifest's note of this name.
    pub(crate) fn note(&self, name: &str) -> &Value {
        &self.manifest["notes"][name]
    }

    /// True if the manifest marks a tensor as an argument of its case, not an output.
    pub(crate) fn is_argument(&self, name: &str) -> bool {
        self.manifest["tensors"][name]["how"] == "kwarg"
    }

    /// The measured largest difference between the reference's f32 and f64 for this tensor.
    pub(crate) fn f32_vs_f64(&self, name: &str) -> Option<f64> {
        self.manifest["tensors"][name]["f32_vs_f64_max_abs"].as_f64()
    }
}
