//! Writes trained weights in the file layout of released models.

use std::{collections::BTreeMap, io::Write, path::Path};

use acestep_engine::files::{Existing, write_whole};
use acestep_import::{Network, acestep::tensor_name};
use burn::{
    module::{Module, ModuleVisitor, Param},
    tensor::{Tensor, backend::Backend, bf16},
};
use safetensors::{Dtype, SafeTensors, tensor::TensorView};

use crate::Error;

/// Tensors of a file by name.
pub type Tensors = BTreeMap<String, Values>;

/// A tensor in f32.
#[derive(Debug, Clone, PartialEq)]
pub struct Values {
    /// The shape.
    pub shape: Vec<usize>,
    /// The values.
    pub values: Vec<f32>,
}

/// Collects all parameters of a network, with the tensor names of its published files.
pub fn tensors_of<B: Backend, M: Module<B>>(module: &M, network: Network) -> Tensors {
    let mut collected = Collected { network, path: Vec::new(), tensors: Tensors::new() };
    module.visit(&mut collected);
    collected.tensors
}

struct Collected {
    network: Network,
    path: Vec<String>,
    tensors: Tensors,
}

impl<B: Backend> ModuleVisitor<B> for Collected {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<B, D>>) {
        let value = param.val();
        let shape = value.dims().to_vec();
        let values = value.into_data().iter::<f32>().collect();
        let name = tensor_name(self.network, &self.path.join("."));
        self.tensors.insert(name, Values { shape, values });
    }
}

/// Splits every filter into a direction and a norm per row, as weight norm stores it.
pub fn weight_normed(tensors: Tensors) -> Tensors {
    let mut normed = Tensors::new();
    for (name, tensor) in tensors {
        let Some(stem) = name.strip_suffix(".weight") else {
            normed.insert(name, tensor);
            continue;
        };
        let rows = tensor.shape[0];
        let length = |row: &[f32]| {
            row.iter().map(|&x| f64::from(x) * f64::from(x)).sum::<f64>().sqrt() as f32
        };
        let lengths = tensor.values.chunks_exact(tensor.values.len() / rows).map(length).collect();
        let mut shape = vec![1; tensor.shape.len()];
        shape[0] = rows;
        normed.insert(format!("{stem}.weight_g"), Values { shape, values: lengths });
        normed.insert(format!("{stem}.weight_v"), tensor);
    }
    normed
}

/// Minimum size of tensors that are stored in bf16; smaller ones stay exact.
const MANY: usize = 2048;

/// Reads a file of weights from [`write_tensors`], with exact values.
///
/// # Errors
/// If it cannot be read, or is not such a file.
pub fn read_tensors(path: &Path) -> Result<Tensors, Error> {
    let state = |reason: String| Error::State { path: path.to_owned(), reason };
    let bytes =
        std::fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
    let file = SafeTensors::deserialize(&bytes).map_err(|e| state(e.to_string()))?;
    file.iter()
        .map(|(name, view)| {
            let values = match view.dtype() {
                Dtype::F32 => {
                    let (words, _) = view.data().as_chunks::<4>();
                    words.iter().map(|word| f32::from_le_bytes(*word)).collect()
                }
                Dtype::BF16 => {
                    let (words, _) = view.data().as_chunks::<2>();
                    words.iter().map(|word| bf16::from_le_bytes(*word).to_f32()).collect()
                }
                other => return Err(state(format!("`{name}` is {other:?}, not f32 or bf16"))),
            };
            Ok((name.to_owned(), Values { shape: view.shape().to_vec(), values }))
        })
        .collect()
}

/// Writes a file of weights; large tensors in bf16.
///
/// # Errors
/// If it cannot be written.
pub fn write_tensors(path: &Path, tensors: &Tensors) -> Result<(), Error> {
    write_rounded(path, tensors, MANY)
}

/// Writes a file of weights, all in f32.
///
/// # Errors
/// If it cannot be written.
pub fn write_exactly(path: &Path, tensors: &Tensors) -> Result<(), Error> {
    write_rounded(path, tensors, usize::MAX)
}

fn write_rounded(path: &Path, tensors: &Tensors, many: usize) -> Result<(), Error> {
    let state = |reason: String| Error::State { path: path.to_owned(), reason };
    let narrow = |x: f32| bf16::from_f32(x).to_le_bytes();
    let bytes: Vec<(Dtype, Vec<u8>)> = tensors
        .values()
        .map(|tensor| match tensor.values.len() >= many {
            true => (Dtype::BF16, tensor.values.iter().flat_map(|&x| narrow(x)).collect()),
            false => (Dtype::F32, tensor.values.iter().flat_map(|x| x.to_le_bytes()).collect()),
        })
        .collect();
    let views: Vec<(&String, TensorView<'_>)> = tensors
        .iter()
        .zip(&bytes)
        .map(|((name, tensor), (dtype, bytes))| {
            let view = TensorView::new(*dtype, tensor.shape.clone(), bytes);
            view.map(|view| (name, view)).map_err(|e| state(e.to_string()))
        })
        .collect::<Result<_, _>>()?;
    let file = safetensors::serialize(views, None).map_err(|e| state(e.to_string()))?;
    write(path, &file)
}

/// Writes a file whole or not at all.
///
/// # Errors
/// [`Error::File`]
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    Ok(write_whole(path, Existing::Replace, |file| file.write_all(bytes))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_becomes_lengths_and_directions_and_a_bias_stays() {
        let filter = Values { shape: vec![2, 1, 2], values: vec![3.0, 4.0, 0.0, -2.0] };
        let bias = Values { shape: vec![2], values: vec![1.0, 2.0] };
        let tensors = Tensors::from([
            ("conv1.weight".to_owned(), filter.clone()),
            ("conv1.bias".to_owned(), bias.clone()),
        ]);
        let normed = weight_normed(tensors);
        assert_eq!(normed["conv1.bias"], bias);
        assert_eq!(normed["conv1.weight_v"], filter);
        let lengths = Values { shape: vec![2, 1, 1], values: vec![5.0, 2.0] };
        assert_eq!(normed["conv1.weight_g"], lengths);
    }

    #[test]
    fn what_was_read_is_written_as_it_was() {
        let folder = tempfile::tempdir().expect("a folder");
        let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
        let of = |count: usize| Values {
            shape: vec![count],
            values: (0..count).map(|i| (i as f32 + 0.1).ln()).collect(),
        };
        let tensors =
            Tensors::from([("many".to_owned(), of(MANY)), ("few".to_owned(), of(MANY - 1))]);
        write_tensors(&first, &tensors).expect("written");
        let read = read_tensors(&first).expect("read");
        assert_eq!(read["few"], tensors["few"]);
        assert_ne!(read["many"], tensors["many"], "rounded once");
        write_tensors(&second, &read).expect("written");
        let bytes = |path: &Path| std::fs::read(path).expect("bytes");
        assert_eq!(bytes(&first), bytes(&second), "not twice");
    }
}
