//! Shared helpers of the unit tests: small files, a small module, a copy of the tiny checkpoint.

pub(crate) mod gguf;

use std::{
    fs,
    io::{Cursor, Write as _},
    path::{Path, PathBuf},
};

use acestep_model::Place;
use burn::{
    module::{Module, Param},
    tensor::{Tensor, backend::Backend},
};
use burn_flex::{Flex, FlexDevice};
use half::{bf16, f16};
use safetensors::{Dtype, SafeTensors, View, serialize};
use tempfile::TempDir;
use zip::{CompressionMethod, ZipWriter, write::SimpleFileOptions};

use crate::{Directory, ModelPaths};

/// Backend of the tests.
pub(crate) type B = Flex;

/// Returns the device and type of the tests.
pub(crate) fn place() -> Place<B> {
    Place::f32(FlexDevice)
}

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

#[track_caller]
pub(crate) fn assert_starts(text: &str, start: &str) {
    assert!(text.starts_with(start), "{text}");
}

#[track_caller]
pub(crate) fn assert_contains(text: &str, part: &str) {
    assert!(text.contains(part), "{text}");
}

#[track_caller]
pub(crate) fn assert_ends(text: &str, end: &str) {
    assert!(text.ends_with(end), "{text}");
}

pub(crate) fn file(tensors: &[(&str, Stored)]) -> Vec<u8> {
    serialize(tensors.iter().cloned(), None).expect("a well-formed test file")
}

pub(crate) fn directory(files: &[(&str, Vec<u8>)]) -> (TempDir, Directory) {
    let temporary = tempfile::tempdir().expect("a temporary directory");
    for (name, content) in files {
        fs::write(temporary.path().join(name), content).expect("a file in it");
    }
    let directory = Directory::Disk(temporary.path().to_owned());
    (temporary, directory)
}

/// Returns a zip archive with `entries`, as `torch.save` writes it.
pub(crate) fn zip(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    for (name, content) in entries {
        zip.start_file(*name, options).expect("an entry");
        zip.write_all(content).expect("its content");
    }
    zip.finish().expect("an archive").into_inner()
}

/// Encodes a text as in torch's pickle.
pub(crate) fn pickled_text(text: &str) -> Vec<u8> {
    [b"X", &(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat()
}

/// Returns the instructions of torch's pickle for a tensor. Its storage has a class, a key and a number of
/// values.
pub(crate) fn pickled_tensor(
    (class, key, stored): (&str, usize, usize),
    offset: usize,
    sizes: &[usize],
    strides: &[usize],
) -> Vec<u8> {
    let int = |number: usize| [b"J", &(number as u32).to_le_bytes()[..]].concat();
    // Python's own pickler writes this for more than three numbers; it is valid for any count.
    let tuple = |numbers: &[usize]| {
        let all: Vec<u8> = numbers.iter().flat_map(|&number| int(number)).collect();
        [b"(".to_vec(), all, b"t".to_vec()].concat()
    };
    [
        b"ctorch._utils\n_rebuild_tensor_v2\n((".to_vec(),
        pickled_text("storage"),
        format!("ctorch\n{class}\n").into_bytes(),
        pickled_text(&key.to_string()),
        pickled_text("cpu"),
        int(stored),
        b"tQ".to_vec(),
        int(offset),
        tuple(sizes),
        tuple(strides),
        b"\x89ccollections\nOrderedDict\n)RtR".to_vec(),
    ]
    .concat()
}

/// Returns a tar archive with `files`.
pub(crate) fn tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, content) in files {
        let mut header = tar::Header::new_ustar();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        // Not `set_path`, which refuses the paths that a reader has to refuse.
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        builder.append(&header, *content).expect("a member");
    }
    builder.into_inner().expect("an archive")
}

/// Edits the tensors of the safetensors file at `path`.
pub(crate) fn edit_tensors(path: &Path, edit: impl FnOnce(&mut Vec<(String, Stored)>)) {
    let bytes = fs::read(path).expect("a file");
    let tensors = SafeTensors::deserialize(&bytes).expect("a good file");
    let mut tensors: Vec<_> = tensors
        .iter()
        .map(|(name, view)| {
            let (dtype, shape) = (view.dtype(), view.shape().to_vec());
            (name.to_owned(), Stored { dtype, shape, bytes: view.data().to_vec() })
        })
        .collect();
    edit(&mut tensors);
    let borrowed: Vec<_> =
        tensors.iter().map(|(name, tensor)| (name.as_str(), tensor.clone())).collect();
    fs::write(path, file(&borrowed)).expect("a written file");
}

/// Rewrites the safetensors file at `path`, tensor by tensor.
pub(crate) fn rewrite(path: &Path, change: impl Fn(&str, Stored) -> (String, Stored)) {
    edit_tensors(path, |tensors| {
        let old = std::mem::take(tensors);
        tensors.extend(old.into_iter().map(|(name, tensor)| change(&name, tensor)));
    });
}

/// Rewrites the safetensors file at `path`, which is in f32, in `dtype`.
pub(crate) fn narrow(path: &Path, dtype: Dtype) {
    rewrite(path, |name, tensor| {
        let words = tensor.bytes.as_chunks().0.iter();
        let values: Vec<f32> = words.map(|&word| f32::from_le_bytes(word)).collect();
        (name.to_owned(), stored(dtype, &tensor.shape, &values))
    });
}

/// Sets one key of config.json in `directory`.
pub(crate) fn edit_config(directory: &Path, key: &str, value: serde_json::Value) {
    let path = directory.join("config.json");
    let text = fs::read_to_string(&path).expect("a config");
    let mut config: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    config[key] = value;
    fs::write(path, config.to_string()).expect("a written config");
}

pub(crate) fn golden_json(file: &str) -> serde_json::Value {
    let text = fs::read_to_string(goldens().join(file)).expect("the goldens are in the repository");
    serde_json::from_str(&text).expect("JSON")
}

/// Copies a golden directory to `to`.
pub(crate) fn copy_golden(name: &str, to: &Path) {
    fs::create_dir(to).expect("a directory");
    for entry in fs::read_dir(goldens().join(name)).expect("the goldens") {
        let path = entry.expect("an entry").path();
        let content = fs::read(&path).expect("a golden");
        // Write a new file: a copy would keep a read-only mode.
        fs::write(to.join(path.file_name().expect("a name")), content).expect("a copy");
    }
}

/// A writable copy of the tiny language model; the directory is removed with the first value.
pub(crate) fn copy_of_language_model() -> (TempDir, PathBuf) {
    let temporary = tempfile::tempdir().expect("a temporary directory");
    let path = temporary.path().join("acestep-5Hz-lm-0.6B");
    copy_golden("checkpoints_a/acestep-5Hz-lm-0.6B", &path);
    (temporary, path)
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
            let to = root.join(name);
            copy_golden(&format!("checkpoints_a/{name}"), &to);
            to
        };
        let paths = ModelPaths {
            name: "turbo".into(),
            dit: copy("acestep-v15-turbo"),
            vae: copy("vae"),
            text_encoder: copy("Qwen3-Embedding-0.6B"),
            pieces: Vec::new(),
        };
        Self { _temporary: temporary, paths }
    }
}

/// A module of three parameters, with the names of a conditioner's.
#[derive(Module, Debug)]
pub(crate) struct Toy<B: Backend> {
    pub(crate) encoder: Linear<B>,
    pub(crate) null_condition_emb: Param<Tensor<B, 1>>,
}

/// The inner module of [`Toy`], with the name of a layer.
#[derive(Module, Debug)]
pub(crate) struct Linear<B: Backend> {
    pub(crate) weight: Param<Tensor<B, 2>>,
    pub(crate) bias: Param<Tensor<B, 1>>,
}

impl Toy<B> {
    /// Creates parameters of `[2, 3]`, `[2]` and `[4]`, all zero.
    pub(crate) fn init() -> Self {
        let device = Default::default();
        Self {
            encoder: Linear {
                weight: Param::from_tensor(Tensor::zeros([2, 3], &device)),
                bias: Param::from_tensor(Tensor::zeros([2], &device)),
            },
            null_condition_emb: Param::from_tensor(Tensor::zeros([4], &device)),
        }
    }
}
