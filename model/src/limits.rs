//! What sizes a `config.json` may give: more than any model has, too little to overflow a product.

use crate::{ConfigError, config::require};

/// The largest width, count or length that is taken for one.
const WIDEST: usize = 1_000_000;
/// The deepest network that is taken for one.
const DEEPEST: usize = 1024;

/// Refuses a width, count or length that is 0 or absurd.
pub(crate) fn size(key: &'static str, value: usize) -> Result<(), ConfigError> {
    require((1..=WIDEST).contains(&value), key, value, "a size is from 1 to 1000000")
}

/// [`size`] of every (key, value).
pub(crate) fn sizes(all: &[(&'static str, usize)]) -> Result<(), ConfigError> {
    all.iter().try_for_each(|&(key, value)| size(key, value))
}

/// Refuses a number of layers that is 0 or absurd.
pub(crate) fn layers(key: &'static str, value: usize) -> Result<(), ConfigError> {
    require((1..=DEEPEST).contains(&value), key, value, "a network has from 1 to 1024 layers")
}

/// Refuses what is not a number above 0.
pub(crate) fn positive(key: &'static str, value: f64) -> Result<(), ConfigError> {
    require(value.is_finite() && value > 0.0, key, value, "must be a number above 0")
}
