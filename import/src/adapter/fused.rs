//! Fused layers: one layer of an adapter for several of the model's, stacked by rows.
//!
//! If a tool computes queries, keys and values by one product, its layer stacks their matrices. The
//! change of such a layer stacks the changes of the model's matrices in the same way. If there are
//! fewer key heads than query heads, the first part is the largest.
//!
//! | layer | rows | used by |
//! |---|---|---|
//! | `to_qkv`, `to_kv` | q, k, v; k, v | diffusers `fuse_projections` |
//! | `qkv_proj`, `gate_up_proj` | q, k, v; gate, up | vLLM, transformers (Phi-3) |
//! | `Wqkv`, `Wkv` | q, k, v; k, v | flash-attn |
//! | `in_proj` | q, k, v | PyTorch `MultiheadAttention` |
//! | `c_attn` | q, k, v | Qwen 1 |
//! | `linear_fc1`, `w13` | gate, up | Megatron, vLLM |
//!
//! A name with these letters tells the order. Megatron's and GPT-NeoX's layers, which interleave
//! rows by groups of heads ([`MIXED`]), are not supported: an adapter does not store the number of
//! heads in a group.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use super::AdapterError;

/// (Stacked modules, names of the layer that combines them, with spaces between).
const LAYERS: &[(&[&str], &str)] = &[
    (
        &["q_proj", "k_proj", "v_proj"],
        "qkv_proj to_qkv qkv Wqkv wqkv w_qkv attn_qkv qkv_linear fused_qkv qkv_net in_proj c_attn",
    ),
    (&["k_proj", "v_proj"], "kv_proj to_kv kv Wkv wkv w_kv kv_linear fused_kv kv_net"),
    (&["q_proj", "k_proj"], "qk_proj to_qk qk Wqk"),
    (&["gate_proj", "up_proj"], "gate_up_proj gate_up gateup_proj gate_and_up_proj linear_fc1 w13"),
    (&["up_proj", "gate_proj"], "up_gate_proj up_gate"),
];

/// Layers of queries, keys and values whose rows may be interleaved by groups of heads.
const MIXED: &[&str] = &["query_key_value", "linear_qkv"];

/// Returns the names of possible fused layers of the weights in `shapes`, and their modules.
pub(super) fn layers(shapes: &BTreeMap<String, Vec<usize>>) -> Vec<(String, Vec<String>)> {
    let modules: BTreeSet<&str> =
        shapes.keys().filter_map(|path| path.strip_suffix(".weight")).collect();
    let mut found = Vec::new();
    for (parts, names) in LAYERS {
        let parents = modules.iter().filter_map(|module| module.strip_suffix(parts[0]));
        for parent in parents.filter(|parent| parent.ends_with('.')) {
            let own: Vec<_> = parts.iter().map(|part| format!("{parent}{part}")).collect();
            if own.iter().all(|module| modules.contains(module.as_str())) {
                let names = names.split(' ');
                found.extend(names.map(|name| (format!("{parent}{name}"), own.clone())));
            }
        }
    }
    found
}

/// True if `name`, with dots or with underscores, is an attention layer with interleaved rows.
/// `has` tells if a layer of that name exists.
pub(super) fn is_mixed(name: &str, has: impl Fn(&str) -> bool) -> bool {
    let parent = MIXED.iter().find_map(|leaf| name.strip_suffix(leaf));
    parent.is_some_and(|parent| has(&format!("{parent}q_proj")))
}

/// Returns the error for a layer that cannot be split.
pub(super) fn mixed(path: PathBuf, module: &str) -> AdapterError {
    let what = format!(
        "a layer of queries, keys and values in one (`{module}`) whose rows may be in groups of heads, \
         as its name does not say"
    );
    AdapterError::NotSupported { path, what }
}
