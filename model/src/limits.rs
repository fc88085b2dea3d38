//! Limits for sizes in a `config.json`: above any real model, and small enough that no product
//! overflows.

use crate::{
    ConfigError,
    config::{require, require_groups},
    nn::LayerShape,
};

/// The largest accepted width, count or length.
const WIDEST: usize = 1_000_000;
/// The largest accepted number of layers.
const DEEPEST: usize = 1024;

/// Returns an error if a width, count or length is 0 or absurd.
pub(crate) fn size(key: &'static str, value: usize) -> Result<(), ConfigError> {
    require((1..=WIDEST).contains(&value), key, value, "a size is from 1 to 1000000")
}

/// Checks every (key, value) with [`size`].
pub(crate) fn sizes(all: &[(&'static str, usize)]) -> Result<(), ConfigError> {
    all.iter().try_for_each(|&(key, value)| size(key, value))
}

/// Returns an error if a number of layers is 0 or absurd.
pub(crate) fn layers(key: &'static str, value: usize) -> Result<(), ConfigError> {
    require((1..=DEEPEST).contains(&value), key, value, "a network has from 1 to 1024 layers")
}

/// Checks the layers of a transformer, whose keys have the names of Hugging Face; `epsilon` is the key of the
/// norms.
pub(crate) fn transformer(
    shape: LayerShape,
    depth: usize,
    epsilon: &'static str,
    rope_theta: f64,
) -> Result<(), ConfigError> {
    sizes(&[
        ("hidden_size", shape.hidden),
        ("intermediate_size", shape.intermediate),
        ("num_attention_heads", shape.heads),
        ("num_key_value_heads", shape.kv_heads),
        ("head_dim", shape.head_dim),
    ])?;
    layers("num_hidden_layers", depth)?;
    positive(epsilon, shape.epsilon)?;
    positive("rope_theta", rope_theta)?;
    let even = shape.head_dim.is_multiple_of(2);
    require(even, "head_dim", shape.head_dim, "rotary positions turn pairs of halves")?;
    require_groups(shape.heads, shape.kv_heads)
}

/// The sizes of a transformer's layers, from the fields of a configuration with the names of Hugging Face.
/// `$epsilon` is the field of the norms.
macro_rules! layer_shape {
    ($config:ident, $epsilon:ident) => {
        $crate::nn::LayerShape {
            hidden: $config.hidden_size,
            intermediate: $config.intermediate_size,
            heads: $config.num_attention_heads,
            kv_heads: $config.num_key_value_heads,
            head_dim: $config.head_dim,
            epsilon: $config.$epsilon,
        }
    };
}
pub(crate) use layer_shape;

/// Keys of a configuration with their values: `keys!(self: a, b)` is `[("a", self.a), ("b", self.b)]`.
macro_rules! keys {
    ($config:ident: $($key:ident),+) => {
        [$((stringify!($key), $config.$key)),+]
    };
}
pub(crate) use keys;

/// Returns an error unless `value` is a finite number above 0.
pub(crate) fn positive(key: &'static str, value: f64) -> Result<(), ConfigError> {
    require(value.is_finite() && value > 0.0, key, value, "must be a number above 0")
}
