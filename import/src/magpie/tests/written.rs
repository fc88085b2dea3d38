//! A model and a codec with few weights, whose values follow from their names.

use std::{collections::BTreeMap, path::Path};

use crate::testing::{pickled_tensor, pickled_text, tar, zip};

/// (Values, type of the storage) of a tensor with a shape.
pub(super) type Stored = BTreeMap<String, (Vec<usize>, Vec<u8>, &'static str)>;

/// Value `i` of the tensor `name`: `((7 i + h) mod 101 - 50) / 160`, where `h` is the sum of `(p + 1) b`
/// over the bytes `b` of the name at places `p`.
pub(super) fn value(name: &str, i: usize) -> f32 {
    let h: usize = (1..).zip(name.bytes()).map(|(place, byte)| place * usize::from(byte)).sum();
    (((7 * i + h) % 101) as f32 - 50.0) / 160.0
}

pub(super) fn floats(all: &mut Stored, name: impl Into<String>, shape: &[usize]) {
    let name = name.into();
    let values = (0..shape.iter().product::<usize>()).map(|i| value(&name, i));
    let bytes = values.flat_map(f32::to_le_bytes).collect();
    all.insert(name, (shape.to_vec(), bytes, "FloatStorage"));
}

pub(super) fn integers(all: &mut Stored, name: &str, shape: &[usize], values: &[i64]) {
    let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    all.insert(name.to_owned(), (shape.to_vec(), bytes, "LongStorage"));
}

/// A checkpoint as `torch.save` writes it.
pub(super) fn checkpoint(tensors: &Stored) -> Vec<u8> {
    let mut pickle = b"\x80\x02}".to_vec();
    let names: Vec<_> = (0..tensors.len()).map(|key| format!("m/data/{key}")).collect();
    let mut entries = Vec::<(&str, &[u8])>::new();
    for (key, (name, (shape, bytes, class))) in tensors.iter().enumerate() {
        let size = if *class == "FloatStorage" { 4 } else { 8 };
        let strides: Vec<usize> =
            (0..shape.len()).map(|axis| shape[axis + 1..].iter().product()).collect();
        pickle.extend(pickled_text(name));
        pickle.extend(pickled_tensor((*class, key, bytes.len() / size), 0, shape, &strides));
        pickle.push(b's');
        entries.push((&names[key], bytes));
    }
    pickle.push(b'.');
    entries.push(("m/data.pkl", &pickle));
    zip(&entries)
}

pub(super) fn archive(path: &Path, yaml: &str, checkpoint: &[u8]) {
    let files = [("./model_config.yaml", yaml.as_bytes()), ("./model_weights.ckpt", checkpoint)];
    std::fs::write(path, tar(&files)).expect("a file");
}

pub(super) const YAML: &str = "\
model_type: decoder_ce
embedding_dim: 4
local_transformer_type: autoregressive
local_transformer_n_layers: 1
local_transformer_hidden_dim: 2
text_tokenizers: {}
encoder:
  n_layers: 1
  d_model: 4
  d_ffn: 6
  sa_n_heads: 2
  kernel_size: 3
  is_causal: true
  apply_norm_out: true
  max_length_causal_mask: 8
  use_learnable_pos_emb: true
decoder:
  n_layers: 1
  d_model: 4
  d_ffn: 6
  sa_n_heads: 2
  kernel_size: 1
  is_causal: true
  apply_norm_out: true
  max_length_causal_mask: 8
  use_learnable_pos_emb: true
  has_xattn: true
  xa_d_head: 3
  xa_d_memory: 4
  xa_n_heads: 1
  apply_norm_to_cond: true
";
pub(super) const CODEC_YAML: &str = "\
sample_rate: 22050
samples_per_frame: 2
audio_decoder: {up_sample_rates: [2], input_dim: 2, base_channels: 4, activation: half_snake,
  output_activation: clamp, pad_mode: zeros, n_groups_equal_to_out_channels: true}
vector_quantizer: {num_groups: 2, num_levels_per_group: [5]}
";

/// The tensors of the model of [`YAML`]: two codebooks of five codes, three voices of two rows.
pub(super) fn model_tensors() -> Stored {
    tensors(2, 1, 2)
}

/// The same with so many codes in a step, and so many layers and values of the local transformer.
pub(super) fn tensors(tables: usize, layers: usize, narrow: usize) -> Stored {
    let mut all = Stored::new();
    floats(&mut all, "text_embedding.weight", &[9, 4]);
    for (stack, layers, width, inner, kernel) in [
        ("encoder", 1, 4, 6, 3),
        ("decoder", 1, 4, 6, 1),
        ("local_transformer", layers, narrow, 4 * narrow, 1),
    ] {
        let positions = if stack == "local_transformer" { tables + 2 } else { 8 };
        floats(&mut all, format!("{stack}.position_embeddings.weight"), &[positions, width]);
        if stack != "local_transformer" {
            floats(&mut all, format!("{stack}.norm_out.weight"), &[width]);
        }
        for layer in 0..layers {
            let layer = format!("{stack}.layers.{layer}.");
            for norm in ["norm_self", "norm_pos_ff"] {
                floats(&mut all, format!("{layer}{norm}.weight"), &[width]);
            }
            floats(&mut all, format!("{layer}self_attention.qkv_net.weight"), &[3 * width, width]);
            floats(&mut all, format!("{layer}self_attention.o_net.weight"), &[width, width]);
            floats(&mut all, format!("{layer}self_attention.causal_mask"), &[1, 1, 8, 8]);
            floats(&mut all, format!("{layer}pos_ff.proj.conv.weight"), &[inner, width, kernel]);
            floats(&mut all, format!("{layer}pos_ff.o_net.conv.weight"), &[width, inner, kernel]);
        }
    }
    for (name, shape) in [
        ("norm_xattn_query.weight", &[4][..]),
        ("norm_xattn_memory.weight", &[4]),
        ("cross_attention.q_net.weight", &[3, 4]),
        ("cross_attention.kv_net.weight", &[6, 4]),
        ("cross_attention.o_net.weight", &[4, 3]),
    ] {
        floats(&mut all, format!("decoder.layers.0.{name}"), shape);
    }
    for table in 0..tables {
        floats(&mut all, format!("audio_embeddings.{table}.weight"), &[13, 4]);
        let head = format!("local_transformer_out_projections.{table}");
        floats(&mut all, format!("{head}.weight"), &[13, narrow]);
        floats(&mut all, format!("{head}.bias"), &[13]);
    }
    if narrow < 4 {
        floats(&mut all, "local_transformer_in_projection.weight", &[narrow, 4]);
        floats(&mut all, "local_transformer_in_projection.bias", &[narrow]);
    }
    floats(&mut all, "final_proj.weight", &[13 * tables, 4]);
    floats(&mut all, "final_proj.bias", &[13 * tables]);
    floats(&mut all, "baked_context_embedding.weight", &[3, 8]);
    integers(&mut all, "_baked_embedding_T", &[], &[2]);
    integers(&mut all, "_baked_embedding_D", &[], &[4]);
    integers(&mut all, "baked_context_embedding_len", &[3], &[2, 1, 2]);
    all
}

pub(super) fn codec_tensors() -> Stored {
    let mut all = Stored::new();
    let conv = |all: &mut Stored, name: &str, shape: [usize; 3], bias: usize| {
        floats(all, format!("audio_decoder.{name}.conv.bias"), &[bias]);
        let norm = format!("audio_decoder.{name}.conv.parametrizations.weight.original");
        floats(all, format!("{norm}0"), &[shape[0], 1, 1]);
        floats(all, format!("{norm}1"), &shape);
    };
    let snake = |all: &mut Stored, name: &str, channels: usize| {
        floats(all, format!("audio_decoder.{name}.activation.snake_act.alpha"), &[1, channels, 1]);
    };
    conv(&mut all, "pre_conv", [4, 2, 7], 4);
    snake(&mut all, "activations.0", 2);
    conv(&mut all, "up_sample_conv_layers.0", [4, 1, 4], 2);
    for (chain, taps) in [3, 7, 11].into_iter().enumerate() {
        for block in 0..3 {
            let block = format!("res_layers.0.res_blocks.{chain}.res_blocks.{block}.");
            for part in ["input", "skip"] {
                conv(&mut all, &format!("{block}{part}_conv"), [2, 2, taps], 2);
                snake(&mut all, &format!("{block}{part}_activation"), 1);
            }
        }
    }
    snake(&mut all, "post_activation", 1);
    conv(&mut all, "post_conv", [1, 2, 3], 1);
    for group in 0..2 {
        let name = format!("vector_quantizer.fsqs.{group}.");
        integers(&mut all, &format!("{name}num_levels"), &[1, 1, 1], &[5]);
        integers(&mut all, &format!("{name}dim_base_index"), &[1, 1, 1], &[1]);
    }
    floats(&mut all, "audio_encoder.pre_conv.conv.bias", &[2]);
    floats(&mut all, "discriminator.conv.weight", &[2, 2]);
    all
}
