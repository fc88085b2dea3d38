//! Limits for sizes in a `config.json`: above any real model, and small enough that no product
//! overflows.

use crate::{ConfigError, config::require};

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

/// Returns an error unless `value` is a finite number above 0.
pub(crate) fn positive(key: &'static str, value: f64) -> Result<(), ConfigError> {
    require(value.is_finite() && value > 0.0, key, value, "must be a number above 0")
}
