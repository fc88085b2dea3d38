//! What the environment decides; no other file reads it.

use std::{env, ffi::OsString, path::PathBuf};

use etcetera::BaseStrategy;

/// The variable that names the directory of the models.
pub(crate) const MODELS_DIR: &str = "ACESTEP_MODELS_DIR";

/// Where models lie unless `--models-dir` says otherwise: [`MODELS_DIR`], else `acestep/models` in
/// the user's data directory. Nowhere, if the user has no home.
pub(crate) fn models_dir() -> Option<PathBuf> {
    set(MODELS_DIR).map(PathBuf::from).or_else(|| {
        let base = etcetera::choose_base_strategy().ok()?;
        Some(base.data_dir().join("acestep").join("models"))
    })
}

/// The variable that names the directory of what can be made again.
const CACHE_DIR: &str = "ACESTEP_CACHE_DIR";

/// Where compiled kernels are kept: in [`CACHE_DIR`], else in `acestep` in the user's directory of
/// caches. Nowhere, if the user has no home.
pub(crate) fn kernels_dir() -> Option<PathBuf> {
    let cache = set(CACHE_DIR).map(PathBuf::from).or_else(|| {
        let base = etcetera::choose_base_strategy().ok()?;
        Some(base.cache_dir().join("acestep"))
    })?;
    // The backend is told a path, and must find it from wherever it looks.
    Some(std::path::absolute(&cache).unwrap_or(cache).join("kernels"))
}

/// Whether a panic should print where it came from.
pub(crate) fn wants_backtrace() -> bool {
    set("RUST_BACKTRACE").is_some_and(|value| value != "0")
}

/// Whether the terminal can move its cursor.
pub(crate) fn terminal_is_dumb() -> bool {
    set("TERM").is_some_and(|value| value == "dumb")
}

/// A variable that is set to something: an empty one counts as not set.
fn set(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}
