//! Writes an adapter in PEFT's format: `adapter_config.json` and `adapter_model.safetensors`.

use std::path::Path;

use acestep_model::Backend;
use serde_json::json;

use super::{Addition, Shape};
use crate::{
    Error,
    release::{Tensors, Values, write as write_file, write_exactly},
};

/// Writes an adapter into `folder`, which must exist.
///
/// # Errors
/// If a file cannot be written.
pub fn write<B: Backend>(
    folder: &Path,
    addition: &Addition<B>,
    shape: &Shape,
    model: &str,
) -> Result<(), Error> {
    let mut tensors = Tensors::new();
    for (path, map) in addition.maps() {
        for (name, matrix) in ["lora_A", "lora_B"].into_iter().zip(map.matrices()) {
            let shape = matrix.dims().to_vec();
            let values = matrix.into_data().iter::<f32>().collect();
            let name = format!("base_model.model.{path}.{name}.weight");
            tensors.insert(name, Values { shape, values });
        }
    }
    let Shape { rank, alpha, dropout, targets } = shape;
    let config = json!({
        "base_model_name_or_path": model,
        "bias": "none",
        "fan_in_fan_out": false,
        "inference_mode": true,
        "init_lora_weights": true,
        "lora_alpha": alpha,
        "lora_dropout": dropout,
        "modules_to_save": null,
        "peft_type": "LORA",
        "r": rank,
        "target_modules": targets,
        "task_type": null,
    });
    let text = serde_json::to_string_pretty(&config)
        .map_err(|error| Error::State { path: folder.to_owned(), reason: error.to_string() })?;
    // Weights first: without a configuration they are no adapter. An old configuration must never
    // be beside new weights.
    let settings = folder.join("adapter_config.json");
    match std::fs::remove_file(&settings) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            return Err(Error::Write { path: settings, source });
        }
        _ => {}
    }
    write_exactly(&folder.join("adapter_model.safetensors"), &tensors)?;
    write_file(&settings, (text + "\n").as_bytes())
}
