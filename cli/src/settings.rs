//! Settings of this run, and the places that follow from them; no other file reads them.

use std::{env, path::PathBuf, process::Command, sync::OnceLock};

use acestep_engine::Error;
use acestep_import::{
    Layout,
    acestep::MODELS,
    hub::{Access, Environment, Hub},
};
pub(crate) use acestep_session::settings::Settings;
use acestep_session::settings::{Sources, flag, variable};
use anyhow::Context;
use etcetera::BaseStrategy;

use crate::environment::set;

/// Settings from the file, the environment and the global flags.
static LOADED: OnceLock<Settings> = OnceLock::new();

/// Flags that concern the settings.
#[derive(Debug, Clone)]
pub(crate) struct Flags {
    /// File of the settings.
    pub(crate) config: Option<PathBuf>,
    /// True if no file is read.
    pub(crate) no_config: bool,
    /// Typed settings: key, value, flag.
    pub(crate) said: Vec<(&'static str, String, &'static str)>,
}

/// Reads the file that `flags` name (else the user's file), the environment and the flags.
pub(crate) fn read(flags: Flags) -> Result<Settings, Error> {
    let Flags { config, no_config, said } = flags;
    let is_named = config.is_some() || set("ACESTEP_CONFIG").is_some();
    let file = config.or_else(config_file).filter(|_| !no_config);
    let given = env::vars_os().filter(|(_, value)| !value.is_empty());
    let given = given.filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
    // Windows ignores their case.
    let named = |name: String| if cfg!(windows) { name.to_uppercase() } else { name };
    let variables = given.map(|(name, value)| (named(name), value)).collect();
    let home = etcetera::home_dir().ok();
    Settings::read(Sources { file, is_named, home, variables, given: said })
}

/// Stores the settings. Without a call, as in tests, there are none.
pub(crate) fn set_up(loaded: Settings) {
    // Only the first call counts, and there is only one.
    let _ = LOADED.set(loaded);
}

/// Returns the stored settings, or the defaults if there are none.
pub(crate) fn loaded() -> &'static Settings {
    LOADED.get_or_init(Settings::default)
}

fn said(name: &str) -> Option<String> {
    loaded().get(name).map(|value| value.text.clone())
}

/// True if the switch `name` is on.
fn is_on(name: &str) -> bool {
    loaded().get(name).is_some_and(|value| value.text == "true")
}

/// Returns the directory `name` of this program in the user's data directory. `None` if the user has no
/// home.
fn data_dir(name: &str) -> Option<PathBuf> {
    let base = etcetera::choose_base_strategy().ok()?;
    Some(base.data_dir().join("acestep").join(name))
}

/// Returns the directory of manually installed models; default: `acestep/models` in the user's
/// data directory. `None` if the user has no home.
pub(crate) fn models_dir() -> Option<PathBuf> {
    said("models_dir").map(PathBuf::from).or_else(|| data_dir("models"))
}

/// Returns the directory of kept voices. `None` if the user has no home.
pub(crate) fn voices_dir() -> Option<PathBuf> {
    data_dir("voices")
}

/// Returns the folder of the server. `None` if the user has no home.
pub(crate) fn serve_dir() -> Option<PathBuf> {
    data_dir("serve")
}

/// Returns the path of the configuration file; default: `acestep/config.toml` in the user's
/// configuration directory. `None` if the user has no home.
pub(crate) fn config_file() -> Option<PathBuf> {
    set("ACESTEP_CONFIG").map(PathBuf::from).or_else(|| {
        let base = etcetera::choose_base_strategy().ok()?;
        Some(base.config_dir().join("acestep").join("config.toml"))
    })
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
    Environment { variable: &set, home: etcetera::home_dir().ok() }
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
    let of_hub = || flag(set("HF_HUB_OFFLINE")?.to_str()?).filter(|on| *on);
    match loaded().get("offline") {
        Some(value) if is_on("offline") => Some(value.origin.to_string()),
        _ => of_hub().map(|_| "HF_HUB_OFFLINE".to_owned()),
    }
}

/// True if every question is answered with yes.
pub(crate) fn yes() -> bool {
    is_on("yes")
}

/// Returns the configured number of threads, if one is set.
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
            child.env(variable(name), text);
        }
    }
    Ok(child)
}

/// The variable of the models directory.
const MODELS_DIR: &str = "ACESTEP_MODELS_DIR";
