//! Snapshots of the key-value cache: loading a file is faster than reading a long prompt again.
//!
//! A safetensors file: `tokens` `[L]`, and for each layer `N` the tensors `N.k` and `N.v`,
//! `[kv_heads, L, D]`.

use std::{collections::HashMap, io::Write, path::Path};

use acestep_engine::{
    Action, Error,
    files::{Existing, write_whole},
    host::to_host,
};
use acestep_model::{Backend, nn::Cache, qwen3};
use burn::tensor::{Tensor, TensorData};
use safetensors::{Dtype, SafeTensors, tensor::TensorView};

use crate::SongError;

/// Writes row `row` of the cache, and its tokens.
///
/// # Panics
/// If the number of tokens differs from the number of positions in the row.
///
/// # Errors
/// Those of [`write_whole`].
pub fn save<B: Backend>(
    cache: &Cache<B>,
    row: usize,
    tokens: &[u32],
    path: &Path,
    existing: Existing,
) -> Result<(), Error> {
    assert_eq!(tokens.len(), cache.length(row), "one token a position");
    let mut arrays: Vec<(String, Dtype, Vec<usize>, Vec<u8>)> = Vec::new();
    let ids = tokens.iter().flat_map(|token| token.to_le_bytes()).collect();
    arrays.push(("tokens".into(), Dtype::U32, vec![tokens.len()], ids));
    for (layer, pair) in cache.row(row).into_iter().enumerate() {
        for (name, x) in ["k", "v"].into_iter().zip(pair) {
            let shape = x.dims()[1..].to_vec();
            let bytes = to_host(x).into_iter().flat_map(f32::to_le_bytes).collect();
            arrays.push((format!("{layer}.{name}"), Dtype::F32, shape, bytes));
        }
    }
    let views = arrays
        .iter()
        .map(|(name, dtype, shape, bytes)| {
            Ok((name.as_str(), TensorView::new(*dtype, shape.clone(), bytes)?))
        })
        .collect::<Result<Vec<_>, safetensors::SafeTensorError>>();
    let bytes = views
        .and_then(|views| safetensors::serialize(views, None::<HashMap<_, _>>))
        .or_else(|error| bad(path, error.to_string()))?;
    write_whole(path, existing, |file| file.write_all(&bytes))
}

/// Reads a file into row `row` of the cache; returns its tokens.
///
/// # Errors
/// [`SongError::Snapshot`] if the file is not a snapshot, is of a different network, or does not fit
/// into the cache; [`Error::File`].
pub fn load<B: Backend>(
    path: &Path,
    config: &qwen3::Config,
    cache: &mut Cache<B>,
    row: usize,
    device: &B::Device,
) -> Result<Vec<u32>, Error> {
    let bytes = std::fs::read(path).map_err(|source| Error::File {
        action: Action::Read,
        path: path.to_owned(),
        source,
    })?;
    let file = SafeTensors::deserialize(&bytes).or_else(|error| bad(path, error.to_string()))?;
    let array = |name: &str, dtype: Dtype, shape: &[usize]| {
        let view = file.tensor(name).or_else(|error| bad(path, error.to_string()))?;
        if view.dtype() != dtype || (!shape.is_empty() && view.shape() != shape) {
            let found = format!("{:?} {:?}", view.dtype(), view.shape());
            return bad(path, format!("`{name}` is {found}, but {dtype:?} {shape:?} is needed"));
        }
        Ok(view.data().as_chunks::<4>().0.to_vec())
    };
    let tokens: Vec<u32> =
        array("tokens", Dtype::U32, &[])?.into_iter().map(u32::from_le_bytes).collect();
    if tokens.len() > cache.capacity() {
        let why =
            format!("it has {} tokens, more than the {} here", tokens.len(), cache.capacity());
        return bad(path, why);
    }
    let layers = config.num_hidden_layers;
    if file.len() != 2 * layers + 1 {
        return bad(path, format!("it has {} tensors, not those of {layers} layers", file.len()));
    }
    let shape = [config.num_key_value_heads, tokens.len(), config.head_dim];
    let mut content = Vec::with_capacity(layers);
    for layer in 0..layers {
        let read = |name: &str| -> Result<Tensor<B, 4>, Error> {
            let values = array(&format!("{layer}.{name}"), Dtype::F32, &shape)?;
            let values: Vec<f32> = values.into_iter().map(f32::from_le_bytes).collect();
            let shape = [1, shape[0], shape[1], shape[2]];
            Ok(Tensor::from_data(TensorData::new(values, shape), device))
        };
        content.push([read("k")?, read("v")?]);
    }
    cache.set_row(row, content);
    Ok(tokens)
}

fn bad<T>(path: &Path, why: String) -> Result<T, Error> {
    Err(SongError::Snapshot { path: path.to_owned(), why }.into())
}
