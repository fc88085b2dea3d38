//! Layers of an adapter that are several of the model's in one, by rows.
//!
//! If a tool computes queries, keys and values by one product, its layer is their matrices one above
//! the other, and so is an adapter of it: the rows of its change are those of the model's matrices, one
//! after the other. With fewer heads of keys than of queries the first part is the largest.
//!
//! | layer | rows | who calls it so |
//! |---|---|---|
//! | `to_qkv`, `to_kv` | q, k, v; k, v | diffusers `fuse_projections` |
//! | `qkv_proj`, `gate_up_proj` | q, k, v; gate, up | vLLM, transformers (Phi-3) |
//! | `Wqkv`, `Wkv` | q, k, v; k, v | flash-attn |
//! | `in_proj` | q, k, v | PyTorch `MultiheadAttention` |
//! | `c_attn` | q, k, v | Qwen 1 |
//! | `linear_fc1`, `w13` | gate, up | Megatron, vLLM |
//!
//! A name that has the letters says the order. Megatron's and GPT-NeoX's layers of one row of heads after
//! the other ([`MIXED`]) are not read: how many heads a group has is said nowhere in an adapter.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use super::AdapterError;

/// (Modules one above the other, what the layer of all of them is called).
const LAYERS: &[(&[&str], &[&str])] = &[
    (
        &["q_proj", "k_proj", "v_proj"],
        &[
            "qkv_proj",
            "to_qkv",
            "qkv",
            "Wqkv",
            "wqkv",
            "w_qkv",
            "attn_qkv",
            "qkv_linear",
            "fused_qkv",
            "qkv_net",
            "in_proj",
            "c_attn",
        ],
    ),
    (
        &["k_proj", "v_proj"],
        &["kv_proj", "to_kv", "kv", "Wkv", "wkv", "w_kv", "kv_linear", "fused_kv", "kv_net"],
    ),
    (&["q_proj", "k_proj"], &["qk_proj", "to_qk", "qk", "Wqk"]),
    (
        &["gate_proj", "up_proj"],
        &["gate_up_proj", "gate_up", "gateup_proj", "gate_and_up_proj", "linear_fc1", "w13"],
    ),
    (&["up_proj", "gate_proj"], &["up_gate_proj", "up_gate"]),
];

/// Layers of queries, keys and values whose rows are in groups of heads, or in one order or the other.
const MIXED: &[&str] = &["query_key_value", "linear_qkv"];

/// The names of layers of several of the modules with a weight in `shapes`, and these modules.
pub(super) fn layers(shapes: &BTreeMap<String, Vec<usize>>) -> Vec<(String, Vec<String>)> {
    let modules: BTreeSet<&str> =
        shapes.keys().filter_map(|path| path.strip_suffix(".weight")).collect();
    let mut found = Vec::new();
    for (parts, names) in LAYERS {
        let parents = modules.iter().filter_map(|module| module.strip_suffix(parts[0]));
        for parent in parents.filter(|parent| parent.ends_with('.')) {
            let own: Vec<_> = parts.iter().map(|part| format!("{parent}{part}")).collect();
            if own.iter().all(|module| modules.contains(module.as_str())) {
                found.extend(names.iter().map(|name| (format!("{parent}{name}"), own.clone())));
            }
        }
    }
    found
}

/// True if `name`, with dots or with underscores, is a layer of attention whose rows are mixed; `has` knows
/// the layers by name.
pub(super) fn is_mixed(name: &str, has: impl Fn(&str) -> bool) -> bool {
    let parent = MIXED.iter().find_map(|leaf| name.strip_suffix(leaf));
    parent.is_some_and(|parent| has(&format!("{parent}q_proj")))
}

/// The error for a layer that cannot be taken apart.
pub(super) fn mixed(path: PathBuf, module: &str) -> AdapterError {
    let what = format!(
        "a layer of queries, keys and values in one (`{module}`) whose rows may be in groups of heads, \
         as its name does not say"
    );
    AdapterError::NotSupported { path, what }
}
