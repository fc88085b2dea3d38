//! Settings from the environment and the configuration; no other file reads them.
//!
//! | module | contents |
//! |---|---|
//! | `keys` | the keys, their commands and their allowed values |
//! | `load` | the layers: a file, the environment, flags |

use std::{env, path::PathBuf, process::Command, sync::OnceLock};

use acestep_engine::Notice;
use acestep_import::{
    Layout,
    acestep::MODELS,
    hub::{Access, Environment, Hub},
};
use acestep_music::Request;
use anyhow::Context;
use etcetera::BaseStrategy;

use crate::environment::set;
pub(crate) use load::{Flags, Loaded, Origin};

pub(crate) mod keys;
mod load;

/// Settings from the file, the environment and the global flags.
static LOADED: OnceLock<Loaded> = OnceLock::new();

/// Stores the settings. Without a call, as in tests, there are none.
pub(crate) fn set_up(loaded: Loaded) {
    // Only the first call counts, and there is only one.
    let _ = LOADED.set(loaded);
}

/// Returns the stored settings, or the defaults if there are none.
pub(crate) fn loaded() -> &'static Loaded {
    LOADED.get_or_init(Loaded::default)
}

fn said(name: &str) -> Option<String> {
    loaded().get(name).map(|value| value.text.clone())
}

/// Returns the directory of manually installed models; default: `acestep/models` in the user's
/// data directory. `None` if the user has no home.
pub(crate) fn models_dir() -> Option<PathBuf> {
    said("models_dir").map(PathBuf::from).or_else(|| {
        let base = etcetera::choose_base_strategy().ok()?;
        Some(base.data_dir().join("acestep").join("models"))
    })
}

/// Returns the directory of kept voices: `acestep/voices` in the user's data directory. `None` if the
/// user has no home.
pub(crate) fn voices_dir() -> Option<PathBuf> {
    let base = etcetera::choose_base_strategy().ok()?;
    Some(base.data_dir().join("acestep").join("voices"))
}

/// Returns the folder of the server: `acestep/serve` in the user's data directory. `None` if the user
/// has no home.
pub(crate) fn serve_dir() -> Option<PathBuf> {
    let base = etcetera::choose_base_strategy().ok()?;
    Some(base.data_dir().join("acestep").join("serve"))
}

/// Returns the path of the configuration file; default: `acestep/config.toml` in the user's
/// configuration directory. `None` if the user has no home.
pub(crate) fn config_file() -> Option<PathBuf> {
    set("ACESTEP_CONFIG").map(PathBuf::from).or_else(|| {
        let base = etcetera::choose_base_strategy().ok()?;
        Some(base.config_dir().join("acestep").join("config.toml"))
    })
}

/// Returns the user's home directory.
fn home() -> Option<PathBuf> {
    etcetera::home_dir().ok()
}

/// Returns the name of the default model.
pub(crate) fn model() -> String {
    configured_model().unwrap_or_else(|| MODELS[0].name.to_owned())
}

/// Returns the configured model, if one is set.
pub(crate) fn configured_model() -> Option<String> {
    said("model")
}

/// Returns the configured language model, if one is set.
pub(crate) fn lm_model() -> Option<String> {
    said("lm_model")
}

/// Returns the defaults of every request without a file, and notices about them.
pub(crate) fn request() -> anyhow::Result<(Request, Vec<Notice>)> {
    loaded().request()
}

/// Returns the places of models: the models directory, then the cache of the hub.
pub(crate) fn layout() -> Layout {
    let layout = Layout::new(models_dir());
    match hub() {
        Some(hub) => layout.with_hub(hub),
        None => layout,
    }
}

/// Returns the hub's places and access, as its other programs find them.
fn hub_environment() -> Environment<'static> {
    Environment { variable: &set, home: home() }
}

/// Returns the cache of the Hugging Face hub. `None` if the user has no home.
pub(crate) fn hub() -> Option<Hub> {
    let environment = hub_environment();
    // A user without a home may set a data directory or a models directory.
    let base = etcetera::choose_base_strategy().ok();
    let data = base.map(|base| base.data_dir()).or_else(|| environment.path("XDG_DATA_HOME"));
    let data = data.map(|data| data.join("acestep")).or_else(models_dir)?;
    Some(Hub::new(environment.cache()?, data))
}

/// Returns the hub's server and the user's token.
pub(crate) fn access() -> Access {
    hub_environment().access()
}

/// Returns the setting that forbids all network requests, if there is one.
pub(crate) fn offline() -> Option<String> {
    let value = loaded().get("offline").filter(|value| value.text == "true");
    let is_on = || keys::flag(set("HF_HUB_OFFLINE")?.to_str()?).filter(|on| *on);
    match value {
        Some(value) => Some(value.origin.to_string()),
        None => is_on().map(|_| "HF_HUB_OFFLINE".to_owned()),
    }
}

/// True if every question is answered with yes.
pub(crate) fn yes() -> bool {
    loaded().get("yes").is_some_and(|value| value.text == "true")
}

/// Returns the configured number of threads, if one is set.
#[cfg(feature = "cpu")]
pub(crate) fn threads() -> Option<std::num::NonZero<usize>> {
    said("threads")?.parse().ok()
}

/// Lowers the level of the CPU's instructions, if a lower one is set.
#[cfg(feature = "cpu")]
pub(crate) fn lower_cpu_level() {
    if let Some(level) = said("cpu").and_then(|text| text.parse().ok()) {
        acestep_model::kernel::lower_cpu_level(level);
    }
}

/// Returns the directory of compiled kernels; default: in `acestep` in the user's cache directory.
/// `None` if the user has no home.
pub(crate) fn kernels_dir() -> Option<PathBuf> {
    let cache = said("cache_dir").map(PathBuf::from).or_else(|| {
        let base = etcetera::choose_base_strategy().ok()?;
        Some(base.cache_dir().join("acestep"))
    })?;
    // The backend needs an absolute path, because it may use another working directory.
    Some(std::path::absolute(&cache).unwrap_or(cache).join("kernels"))
}

/// Returns the command of another process of this program. It ignores all settings except the
/// directories of models and compiled kernels, and those of the CPU.
pub(crate) fn child() -> anyhow::Result<Command> {
    let program = env::current_exe().context("cannot find this program's own file")?;
    let mut child = Command::new(program);
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("ACESTEP_") && text != "ACESTEP_CACHE_DIR" && text != MODELS_DIR {
            child.env_remove(name);
        }
    }
    child.arg("--no-config");
    for name in ["cache_dir", "cpu", "threads"] {
        if let Some(text) = said(name) {
            child.env(keys::variable(name), text);
        }
    }
    Ok(child)
}

/// The variable of the models directory.
const MODELS_DIR: &str = "ACESTEP_MODELS_DIR";

/// Returns the non-empty variables with the prefix of the settings.
fn ours() -> impl Iterator<Item = String> {
    let set = env::vars_os().filter(|(_, value)| !value.is_empty());
    set.filter_map(|(name, _)| {
        name.into_string().ok().filter(|name| name.starts_with(keys::PREFIX))
    })
}
