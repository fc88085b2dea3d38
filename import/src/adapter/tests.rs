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
    AceStep, Error, Fitted, open_tiny,
    testing::{B, Stored, assert_contains, assert_ends, assert_starts, place, stored},
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

fn alpha(value: f32) -> Stored {
    stored(Dtype::F32, &[], &[value])
}

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

    /// The tensors of one module, by their roles.
    fn of<const N: usize>(module: &str, tensors: [(&str, Stored); N]) -> Self {
        let add = |file: Self, (role, tensor)| file.with(&format!("{module}.{role}"), tensor);
        tensors.into_iter().fold(Self::new([]), add)
    }

    /// `A` and `B` of rank 4 for a weight `[out, 64]`.
    fn lora(module: &str, out: usize, seed: f64) -> Self {
        Self::new([]).and_lora(module, out, seed)
    }

    /// Adds another such module.
    fn and_lora(self, module: &str, out: usize, seed: f64) -> Self {
        self.with(&format!("{module}.lora_A.weight"), tensor(&[4, 64], seed))
            .with(&format!("{module}.lora_B.weight"), tensor(&[out, 4], seed + 0.1))
    }

    /// The four factors of rank 2 for a weight `[out, 64]`.
    fn loha(module: &str, out: usize) -> Self {
        Self::of(
            module,
            [
                ("hada_w1_a", tensor(&[out, 2], 0.1)),
                ("hada_w1_b", tensor(&[2, 64], 0.2)),
                ("hada_w2_a", tensor(&[out, 2], 0.3)),
                ("hada_w2_b", tensor(&[2, 64], 0.4)),
            ],
        )
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

    /// Writes `adapter/` as PEFT does, with these settings.
    fn write_peft(&self, settings: &str) -> PathBuf {
        let folder = self.folder.path().join("adapter");
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("adapter_model.safetensors"), self.bytes()).expect("written");
        std::fs::write(folder.join("adapter_config.json"), settings).expect("written");
        folder
    }

    fn open(&self) -> Result<Adapter, Error> {
        Adapter::open(&self.write())
    }

    fn adapter(&self) -> Adapter {
        self.open().expect("an adapter")
    }

    /// Returns the values of `lora_A` and `lora_B`.
    fn a_b(&self) -> (Vec<f64>, Vec<f64>) {
        (self.values("lora_A.weight"), self.values("lora_B.weight"))
    }

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

/// Returns the adapter that was fitted to the model of `folder`.
fn fitted(folder: &AceStep) -> &Fitted {
    &folder.adapters().expect("one").list()[0]
}

/// Returns the only one of `notices`.
#[track_caller]
fn only(notices: Vec<String>) -> String {
    let [notice] = <[String; 1]>::try_from(notices).expect("one notice");
    notice
}

/// Asserts that the parameters in `wanted` have these values and that all others are unchanged.
#[track_caller]
fn assert_are(found: &Weights, wanted: &[(String, Vec<f64>)]) {
    let own = weights(vec![]);
    assert_eq!(found.len(), own.len());
    for (path, own) in &own {
        match wanted.iter().find(|(changed, _)| changed == path) {
            None => assert_eq!(&found[path], own, "{path}"),
            Some((_, wanted)) => {
                assert_ne!(&found[path], own, "{path}");
                for (i, (&found, &wanted)) in found[path].iter().zip(wanted).enumerate() {
                    let error = (f64::from(found) - wanted).abs();
                    assert!(error < 2e-6 * (1.0 + wanted.abs()), "{path} {i}: {found}, {wanted}");
                }
            }
        }
    }
}

/// Asserts that `module` is `wanted` and that nothing else has changed.
#[track_caller]
fn assert_only(found: &Weights, module: &str, wanted: &[f64]) {
    assert_are(found, &[(format!("{module}.weight"), wanted.to_vec())]);
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

/// Returns `W + (w1_a w1_b) ∘ (w2_a w2_b) / 2`.
fn with_loha(w: &[f32], file: &File) -> Vec<f64> {
    let product = |n: u8| {
        let (a, b) = (file.values(&format!("w{n}_a")), file.values(&format!("w{n}_b")));
        with_lora(&vec![0.0; w.len()], &b, &a, 2, 1.0)
    };
    let sum = w.iter().zip(product(1)).zip(product(2));
    sum.map(|((&w, x), y)| f64::from(w) + x * y / 2.0).collect()
}

fn own(module: &str) -> Vec<f32> {
    weights(vec![]).remove(&format!("{module}.weight")).expect("a weight")
}
