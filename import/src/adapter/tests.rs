//! Adapters on the built-in tiny model, compared with sums in double precision.

mod broken;
mod differences;
mod dora;
mod fit;
mod fused;
mod other;
mod places;
mod products;
mod rounding;
mod silent;
mod spellings;
mod together;

use std::{collections::BTreeMap, path::PathBuf};

use acestep_model::Place;
use burn::tensor::DType;
use burn_flex::FlexDevice;
use burn_store::ModuleSnapshot;
use safetensors::{Dtype, serialize};
use tempfile::TempDir;

use super::{Adapter, AdapterError};
use crate::{
    AceStep, Error, open_tiny,
    testing::{B, Stored, place, stored},
};

/// `[64, 64]`, `[32, 64]` and `[96, 64]`.
const Q: &str = "layers.0.self_attn.q_proj";
const K: &str = "layers.1.cross_attn.k_proj";
const UP: &str = "layers.0.mlp.up_proj";

/// Numbers between -1 and 1 that look like noise (Weyl's sequence).
fn numbers(n: usize, seed: f64) -> Vec<f32> {
    let number = |i: usize| (((i as f64 + 1.0) * (seed + 0.618_034)).fract() * 2.0 - 1.0) as f32;
    (0..n).map(number).collect()
}

fn tensor(shape: &[usize], seed: f64) -> Stored {
    stored(Dtype::F32, shape, &numbers(shape.iter().product(), seed))
}

/// A file of an adapter.
struct File {
    folder: TempDir,
    tensors: Vec<(String, Stored)>,
    metadata: BTreeMap<String, String>,
}

impl File {
    fn new<const N: usize>(tensors: [(&str, Stored); N]) -> Self {
        let tensors = tensors.into_iter().map(|(name, tensor)| (name.to_owned(), tensor)).collect();
        let folder = tempfile::tempdir().expect("a folder");
        Self { folder, tensors, metadata: BTreeMap::new() }
    }

    /// `A` and `B` of rank 4 for a weight `[out, 64]`.
    fn lora(module: &str, out: usize, seed: f64) -> Self {
        let (a, b) = (format!("{module}.lora_A.weight"), format!("{module}.lora_B.weight"));
        Self::new([
            (a.as_str(), tensor(&[4, 64], seed)),
            (b.as_str(), tensor(&[out, 4], seed + 0.1)),
        ])
    }

    fn with(mut self, name: &str, tensor: Stored) -> Self {
        self.tensors.push((name.to_owned(), tensor));
        self
    }

    fn metadata(mut self, key: &str, value: &str) -> Self {
        self.metadata.insert(key.to_owned(), value.to_owned());
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let tensors = self.tensors.iter().map(|(name, tensor)| (name.as_str(), tensor.clone()));
        let metadata = self.metadata.clone().into_iter().collect();
        serialize(tensors, Some(metadata)).expect("a file")
    }

    fn write(&self) -> PathBuf {
        let path = self.folder.path().join("style.safetensors");
        let bytes = self.bytes();
        // An open adapter may still map the file, so it is rewritten only if it changed.
        if std::fs::read(&path).ok().as_ref() != Some(&bytes) {
            std::fs::write(&path, bytes).expect("written");
        }
        path
    }

    fn open(&self) -> Result<Adapter, Error> {
        Adapter::open(&self.write())
    }

    fn adapter(&self) -> Adapter {
        self.open().expect("an adapter")
    }

    /// Returns the values of a tensor.
    fn values(&self, ending: &str) -> Vec<f64> {
        let mut found = self.tensors.iter().filter(|(name, _)| name.ends_with(ending));
        let (_, tensor) = found.next().expect(ending);
        let bytes = tensor.bytes.chunks_exact(4);
        bytes.map(|b| f64::from(f32::from_le_bytes(b.try_into().expect("four")))).collect()
    }
}

type Weights = BTreeMap<String, Vec<f32>>;

fn weights_in(folder: &AceStep, place: &Place<B>) -> Weights {
    let dit = acestep_model::Checkpoint::<B>::dit(folder, place).expect("a network");
    let values = |data: burn::tensor::TensorData| data.iter::<f32>().collect();
    dit.collect(None, None, false)
        .iter()
        .map(|of| (of.full_path(), values(of.to_data().expect("values"))))
        .collect()
}

fn adapted(adapters: Vec<(Adapter, f64)>) -> AceStep {
    let mut folder = open_tiny().expect("built in");
    folder.adapt(adapters).expect("they fit");
    folder
}

fn weights(adapters: Vec<(Adapter, f64)>) -> Weights {
    weights_in(&adapted(adapters), &place())
}

fn message(result: Result<Adapter, Error>) -> String {
    result.expect_err("an error").to_string()
}

fn refused(file: &File) -> String {
    let mut folder = open_tiny().expect("built in");
    folder.adapt(vec![(file.adapter(), 1.0)]).expect_err("it does not fit").to_string()
}

/// Asserts that `module` is `wanted` and that nothing else has changed.
#[track_caller]
fn assert_only(found: &Weights, module: &str, wanted: &[f64]) {
    let own = weights(vec![]);
    let name = format!("{module}.weight");
    assert_eq!(found.len(), own.len());
    for (path, values) in found {
        if *path == name {
            assert_ne!(values, &own[path]);
            for (i, (&found, &wanted)) in values.iter().zip(wanted).enumerate() {
                let error = (f64::from(found) - wanted).abs();
                assert!(error < 2e-6 * (1.0 + wanted.abs()), "{i}: {found} and {wanted}");
            }
        } else {
            assert_eq!(values, &own[path], "{path}");
        }
    }
}

/// Returns `W + scale B A` in double precision.
fn with_lora(w: &[f32], a: &[f64], b: &[f64], rank: usize, scale: f64) -> Vec<f64> {
    let columns = a.len() / rank;
    let cell = |i: usize| {
        let (row, column) = (i / columns, i % columns);
        let sum: f64 = (0..rank).map(|r| b[row * rank + r] * a[r * columns + column]).sum();
        f64::from(w[i]) + scale * sum
    };
    (0..w.len()).map(cell).collect()
}

fn own(module: &str) -> Vec<f32> {
    weights(vec![]).remove(&format!("{module}.weight")).expect("a weight")
}
