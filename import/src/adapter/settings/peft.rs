//! Names of PEFT's settings: known ones, and unsupported ones.

use std::path::Path;

use serde_json::{Map, Value};

use super::number::is_nothing;
use crate::adapter::AdapterError;

/// Refuses PEFT's settings that ask for something unsupported.
pub(super) fn refuse(path: &Path, object: &Map<String, Value>) -> Result<(), AdapterError> {
    let refuse = |what: String| {
        let path = path.to_owned();
        Err(AdapterError::NotSupported { path, what })
    };
    let text = |key: &str| object.get(key).and_then(Value::as_str);
    if let Some(kind) = text("peft_type")
        && !["LORA", "LOKR", "LOHA"].contains(&kind.to_ascii_uppercase().as_str())
    {
        return refuse(format!("the kind {kind} (`peft_type`)"));
    }
    if let Some(bias) = text("bias").filter(|bias| *bias != "none") {
        return refuse(format!("trained biases (`bias`: {bias})"));
    }
    // Other initialisations subtract from the model's weights and do not store the subtracted part.
    if let Some(start) = text("init_lora_weights").filter(|start| !HARMLESS.contains(start)) {
        return refuse(format!(
            "a start that changes the model's own weights (`init_lora_weights`: {start})"
        ));
    }
    for key in REFUSED.split_whitespace() {
        if let Some(value) = object.get(key).filter(|value| !is_nothing(value)) {
            return refuse(format!("`{key}`: {value}"));
        }
    }
    Ok(())
}

/// Initialisations that leave the model's weights unchanged.
const HARMLESS: &[&str] = &["gaussian", "eva", "orthogonal", "true", "false"];

/// PEFT's settings that change the computation; null, false and empty values have no effect.
const REFUSED: &str = "
    modules_to_save fan_in_fan_out layer_replication target_parameters trainable_token_indices
    alora_invocation_tokens lora_bias use_qalora use_bdlora arrow_config use_effective_conv2d";

/// Returns the unknown settings of `object` with a value that is not empty.
pub(super) fn unknown(object: &Map<String, Value>) -> Vec<String> {
    let is_known = |key: &str| KNOWN.split_whitespace().any(|known| known == key);
    let unknown = object.iter().filter(|(key, value)| !is_known(key) && !is_nothing(value));
    unknown.map(|(key, _)| key.clone()).collect()
}

/// PEFT's settings that are read here, or matter only in training.
const KNOWN: &str = "
    alpha alpha_pattern auto_mapping base_model_name_or_path bias corda_config decompose_both
    decompose_factor ensure_weight_tying eva_config exclude_modules inference_mode
    init_lora_weights init_weights layers_pattern layers_to_transform loftq_config lora_alpha
    lora_dropout megatron_config megatron_core module_dropout peft_type peft_version
    qalora_group_size r rank_dropout rank_dropout_scale rank_pattern revision runtime_config
    tag_position target_modules task_type trigger_word use_dora use_rslora";
