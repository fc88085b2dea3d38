//! Goldens for this crate's tests: `tests/goldens` of the repository.

use std::path::PathBuf;

pub(crate) fn path(relative: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/goldens")).join(relative)
}

/// One f32 tensor of a golden file, flat.
pub(crate) fn golden_f32(file: &str, name: &str) -> Vec<f32> {
    let bytes = std::fs::read(path(file)).expect("the goldens are in the repository");
    let tensors = safetensors::SafeTensors::deserialize(&bytes).expect("a safetensors file");
    let view = tensors.tensor(name).expect("the golden has this tensor");
    assert_eq!(view.dtype(), safetensors::Dtype::F32, "{name}");
    let value = |b: &[u8]| f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
    view.data().chunks_exact(4).map(value).collect()
}

/// A golden JSON file.
pub(crate) fn golden_json(file: &str) -> serde_json::Value {
    let text = std::fs::read_to_string(path(file)).expect("the goldens are in the repository");
    serde_json::from_str(&text).expect("JSON")
}
