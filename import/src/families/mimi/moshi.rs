//! The names of Mimi's tensors in the files of Moshi, from which transformers' were converted.
//!
//! Queries, keys and values are one tensor there, and rotary positions turn neighbours: row `2j + p`
//! of a head is row `p D/2 + j` here.
//!
//! Source: PyPI `moshi` 0.2.13, `models/compression.py`, `modules/transformer.py`; transformers
//! `convert_mimi_checkpoint_to_pytorch.py`.

/// The configuration of the only released weights. Such a file has none.
pub const RELEASED: &str = r#"{
    "audio_channels": 1, "attention_bias": false, "codebook_dim": 256, "codebook_size": 2048,
    "compress": 2, "head_dim": 64, "hidden_act": "gelu", "hidden_size": 512,
    "intermediate_size": 2048, "kernel_size": 7, "last_kernel_size": 3, "model_type": "mimi",
    "norm_eps": 1e-5, "num_attention_heads": 8, "num_filters": 64, "num_hidden_layers": 8,
    "num_key_value_heads": 8, "num_quantizers": 32, "num_residual_layers": 1,
    "num_semantic_quantizers": 1, "pad_mode": "constant", "residual_kernel_size": 3,
    "rope_theta": 10000.0, "sampling_rate": 24000, "sliding_window": 250,
    "trim_right_ratio": 1.0, "upsample_groups": 512, "upsampling_ratios": [8, 6, 5, 4],
    "use_causal_conv": true, "use_conv_shortcut": false,
    "vector_quantization_hidden_dimension": 256
}"#;

/// The spellings of the tensor of queries, keys and values, after `self_attn.`.
const FUSED: [&str; 3] = ["in_projs.0.weight", "in_proj.weight", "in_proj_weight"];

/// True if a file with this tensor has these names.
pub(crate) fn is_one(name: &str) -> bool {
    name.starts_with("encoder.model.")
}

/// Returns the beginning of the names of queries, keys and values, if `name` is a tensor of all.
pub(crate) fn fused(name: &str) -> Option<String> {
    let (layer, rest) = name.split_once(".self_attn.")?;
    FUSED.contains(&rest).then(|| format!("{}.self_attn.", renamed(layer)))
}

/// Returns the name in transformers of another tensor; names that are not known stay as they are.
pub(crate) fn renamed(name: &str) -> String {
    let mut name = name.to_owned();
    for (theirs, ours) in [
        ("_transformer.transformer.", "_transformer."),
        (".self_attn.out_projs.0.", ".self_attn.o_proj."),
        (".self_attn.out_proj.", ".self_attn.o_proj."),
        (".linear1.", ".mlp.fc1."),
        (".linear2.", ".mlp.fc2."),
        (".norm1.", ".input_layernorm."),
        (".norm2.", ".post_attention_layernorm."),
        (".layer_scale_1.", ".self_attn_layer_scale."),
        (".layer_scale_2.", ".mlp_layer_scale."),
        ("quantizer.rvq_first.", "quantizer.semantic_residual_vector_quantizer."),
        ("quantizer.rvq_rest.", "quantizer.acoustic_residual_vector_quantizer."),
        (".vq.layers.", ".layers."),
        ("._codebook._initialized", ".codebook.initialized"),
        ("._codebook.embedding_sum", ".codebook.embed_sum"),
        ("._codebook.cluster_usage", ".codebook.cluster_usage"),
        ("encoder.model.", "encoder.layers."),
        ("decoder.model.", "decoder.layers."),
        (".conv.conv.conv.", ".conv."),
        (".convtr.convtr.convtr.", ".conv."),
        (".conv.conv.", ".conv."),
        (".convtr.convtr.", ".conv."),
    ] {
        name = name.replace(theirs, ours);
    }
    name
}

/// Returns the row of a fused tensor that is row `row` of the queries or keys of transformers, of
/// heads of `head_dim` rows.
pub(crate) fn row_of(row: usize, head_dim: usize) -> usize {
    let (head, inside) = (row / head_dim, row % head_dim);
    let (part, pair) = (inside / (head_dim / 2), inside % (head_dim / 2));
    head * head_dim + 2 * pair + part
}

#[cfg(test)]
mod tests {
    use acestep_model::speech::mimi::Config;

    use super::*;

    /// Two heads of six rows: pairs of neighbours become halves.
    #[test]
    fn neighbours_become_halves_within_each_head() {
        let rows: Vec<_> = (0..12).map(|row| row_of(row, 6)).collect();
        assert_eq!(rows, [0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11]);
    }

    #[test]
    fn the_configuration_of_the_released_weights_is_one() {
        let config = Config::from_json(RELEASED).expect("valid");
        assert_eq!(config.samples_per_frame(), 1920);
        assert_eq!(config.sliding_window, Some(250));
    }
}
