//! What the unit tests share: small files, a small module, a copy of the tiny checkpoint.

use std::{
    fs,
    path::{Path, PathBuf},
};

use burn::{
    module::{Module, Param},
    tensor::{Tensor, backend::Backend},
};
use burn_flex::Flex;
use half::{bf16, f16};
use safetensors::{Dtype, View, serialize};
use tempfile::TempDir;

use crate::{Directory, ModelPaths};

/// The backend of the tests.
pub(crate) type B = Flex;

/// The goldens of the repository.
pub(crate) fn goldens() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/goldens")
}

/// A tensor for a test file.
#[derive(Clone)]
pub(crate) struct Stored {
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<usize>,
    pub(crate) bytes: Vec<u8>,
}

impl View for Stored {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> std::borrow::Cow<'_, [u8]> {
        (&self.bytes).into()
    }

    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}

/// `values` as a tensor of `dtype`.
pub(crate) fn stored(dtype: Dtype, shape: &[usize], values: &[f32]) -> Stored {
    let bytes = values
        .iter()
        .flat_map(|&value| match dtype {
            Dtype::F32 => value.to_le_bytes().to_vec(),
            Dtype::F16 => f16::from_f32(value).to_le_bytes().to_vec(),
            Dtype::BF16 => bf16::from_f32(value).to_le_bytes().to_vec(),
            Dtype::I64 => (value as i64).to_le_bytes().to_vec(),
            other => panic!("no test needs {other:?}"),
        })
        .collect();
    Stored { dtype, shape: shape.to_vec(), bytes }
}

/// A safetensors file with `tensors`.
pub(crate) fn file(tensors: &[(&str, Stored)]) -> Vec<u8> {
    serialize(tensors.iter().cloned(), None).expect("a well-formed test file")
}

/// A directory with `files`.
pub(crate) fn directory(files: &[(&str, Vec<u8>)]) -> (TempDir, Directory) {
    let temporary = tempfile::tempdir().expect("a temporary directory");
    for (name, content) in files {
        fs::write(temporary.path().join(name), content).expect("a file in it");
    }
    let directory = Directory::Disk(temporary.path().to_owned());
    (temporary, directory)
}

/// A writable copy of the tiny checkpoint.
pub(crate) struct Copy {
    // Removes the files when dropped.
    _temporary: TempDir,
    pub(crate) paths: ModelPaths,
}

impl Copy {
    pub(crate) fn new() -> Self {
        let temporary = tempfile::tempdir().expect("a temporary directory");
        let root = temporary.path();
        let copy = |name: &str| {
            let (from, to) = (goldens().join("checkpoints_a").join(name), root.join(name));
            fs::create_dir(&to).expect("a directory");
            for entry in fs::read_dir(&from).expect("the goldens") {
                let path = entry.expect("an entry").path();
                let content = fs::read(&path).expect("a golden");
                // Written anew: a copy would keep a read-only mode.
                fs::write(to.join(path.file_name().expect("a name")), content).expect("a copy");
            }
            to
        };
        let paths = ModelPaths {
            name: "turbo".into(),
            dit: copy("acestep-v15-turbo"),
            vae: copy("vae"),
            text_encoder: copy("Qwen3-Embedding-0.6B"),
        };
        Self { _temporary: temporary, paths }
    }
}

/// A module of three parameters, called like a conditioner's.
#[derive(Module, Debug)]
pub(crate) struct Toy<B: Backend> {
    pub(crate) encoder: Inner<B>,
    pub(crate) null_condition_emb: Param<Tensor<B, 1>>,
}

/// The inner module of [`Toy`].
#[derive(Module, Debug)]
pub(crate) struct Inner<B: Backend> {
    pub(crate) weight: Param<Tensor<B, 2>>,
    pub(crate) bias: Param<Tensor<B, 1>>,
}

impl Toy<B> {
    /// `[2, 3]`, `[2]` and `[4]`, all zero.
    pub(crate) fn init() -> Self {
        let device = Default::default();
        Self {
            encoder: Inner {
                weight: Param::from_tensor(Tensor::zeros([2, 3], &device)),
                bias: Param::from_tensor(Tensor::zeros([2], &device)),
            },
            null_condition_emb: Param::from_tensor(Tensor::zeros([4], &device)),
        }
    }
}
