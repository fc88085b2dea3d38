//! What the environment and the configuration decide; no other file reads them.
//!
//! | module | what |
//! |---|---|
//! | `keys` | what can be set, for which commands, and what it may be |
//! | `load` | the layers: a file, the environment, flags |

use std::{env, ffi::OsString, path::PathBuf, process::Command, sync::OnceLock};

use acestep_import::{
    KNOWN_MODELS, Layout,
    hub::{Access, Hub},
};
use acestep_runtime::{Notice, Request};
use etcetera::BaseStrategy;

pub(crate) use load::{Loaded, Origin};

pub(crate) mod keys;
mod load;

/// What the file, the environment and the flags of every command say.
static LOADED: OnceLock<Loaded> = OnceLock::new();

/// Remembers what was said; before, and in tests, nothing was.
pub(crate) fn set_up(loaded: Loaded) {
    // Only the first counts, and there is one.
    let _ = LOADED.set(loaded);
}

/// What was said; the defaults, where nothing was.
pub(crate) fn loaded() -> &'static Loaded {
    LOADED.get_or_init(Loaded::default)
}

fn said(name: &str) -> Option<String> {
    loaded().get(name).map(|value| value.text.clone())
}

/// Where models lie that were put there by hand, unless something else was said: `acestep/models` in
/// the user's data directory. Nowhere, if the user has no home.
pub(crate) fn models_dir() -> Option<PathBuf> {
    said("models_dir").map(PathBuf::from).or_else(|| {
        let base = etcetera::choose_base_strategy().ok()?;
        Some(base.data_dir().join("acestep").join("models"))
    })
}

/// The file of the configuration, unless another is named: `acestep/config.toml` in the user's
/// directory of configurations. None, if the user has no home.
pub(crate) fn config_file() -> Option<PathBuf> {
    set("ACESTEP_CONFIG").map(PathBuf::from).or_else(|| {
        let base = etcetera::choose_base_strategy().ok()?;
        Some(base.config_dir().join("acestep").join("config.toml"))
    })
}

/// The user's home.
fn home() -> Option<PathBuf> {
    etcetera::home_dir().ok()
}

/// The model that is used where none is named.
pub(crate) fn model() -> String {
    configured_model().unwrap_or_else(|| KNOWN_MODELS[0].name.to_owned())
}

/// The same, if something says it.
pub(crate) fn configured_model() -> Option<String> {
    said("model")
}

/// The language model that is used where none is named, if something says it.
pub(crate) fn lm_model() -> Option<String> {
    said("lm_model")
}

/// What every request without a file begins with, and what is worth saying about it.
///
/// # Errors
/// Values that a request cannot have.
pub(crate) fn request() -> anyhow::Result<(Request, Vec<Notice>)> {
    loaded().request()
}

/// Where models are looked for: in the directory of models, then in the cache of the hub.
pub(crate) fn layout() -> Layout {
    let layout = Layout::new(models_dir());
    match hub() {
        Some(hub) => layout.with_hub(hub),
        None => layout,
    }
}

/// The cache of the Hugging Face hub, as all its programs find it: HF_HUB_CACHE, else `hub` in HF_HOME,
/// else in `huggingface` in the user's directory of caches. Nowhere, if the user has no home.
pub(crate) fn hub() -> Option<Hub> {
    let cache = path("HF_HUB_CACHE")
        .or_else(|| Some(hf_home()?.join("hub")))
        .and_then(|cache| std::path::absolute(cache).ok())?;
    // Who has no home may name a directory of data, or one of models.
    let base = etcetera::choose_base_strategy().ok();
    let data = base.map(|base| base.data_dir()).or_else(|| path("XDG_DATA_HOME"));
    let data = data.map(|data| data.join("acestep")).or_else(models_dir)?;
    Some(Hub::new(cache, data))
}

fn hf_home() -> Option<PathBuf> {
    path("HF_HOME").or_else(|| {
        // Not where macOS and Windows keep caches, as Python's program does not either.
        let caches = path("XDG_CACHE_HOME").or_else(|| Some(home()?.join(".cache")))?;
        Some(caches.join("huggingface"))
    })
}

/// A path as programs of the hub read it: `~` is the home.
fn path(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(set(name)?);
    match (path.strip_prefix("~"), home()) {
        (Ok(below), Some(home)) => Some(home.join(below)),
        _ => Some(path),
    }
}

/// Which hub is asked, and as whom: HF_ENDPOINT, and HF_TOKEN or what `hf auth login` wrote.
pub(crate) fn access() -> Access {
    let text = |name| Some(set(name)?.to_str()?.trim().to_owned());
    let token = || {
        let file = path("HF_TOKEN_PATH").or_else(|| Some(hf_home()?.join("token")))?;
        let token = std::fs::read_to_string(file).ok()?.trim().to_owned();
        (!token.is_empty()).then_some(token)
    };
    Access { endpoint: text("HF_ENDPOINT"), token: text("HF_TOKEN").or_else(token) }
}

/// Whether no server is asked for anything, and what says so.
pub(crate) fn offline() -> Option<String> {
    let value = loaded().get("offline").filter(|value| value.text == "true");
    let is_on = || keys::flag(set("HF_HUB_OFFLINE")?.to_str()?).filter(|on| *on);
    match value {
        Some(value) => Some(value.origin.to_string()),
        None => is_on().map(|_| "HF_HUB_OFFLINE".to_owned()),
    }
}

/// Whether every question is answered with yes.
pub(crate) fn yes() -> bool {
    loaded().get("yes").is_some_and(|value| value.text == "true")
}

/// Where compiled kernels are kept, unless something else was said: in `acestep` in the user's
/// directory of caches. Nowhere, if the user has no home.
pub(crate) fn kernels_dir() -> Option<PathBuf> {
    let cache = said("cache_dir").map(PathBuf::from).or_else(|| {
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

/// Whether the terminal says that it has every colour.
pub(crate) fn terminal_has_any_color() -> bool {
    anstyle_query::truecolor()
}

/// Whether the terminal's name, or on Windows its session, says that it has the 256 colours of xterm.
pub(crate) fn terminal_has_256_colors() -> bool {
    let names = ["256color", "kitty", "alacritty", "foot", "direct"];
    let is_named = |term: &str| names.iter().any(|name| term.contains(name));
    set("TERM").is_some_and(|name| is_named(&name.to_string_lossy()))
        || cfg!(windows) && set("WT_SESSION").is_some()
}

/// Makes `child`, which is this program again, do what it is told and nothing that was set: but for the
/// places of models and of compiled kernels.
pub(crate) fn alone(child: &mut Command) {
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("ACESTEP_") && text != "ACESTEP_CACHE_DIR" && text != MODELS_DIR {
            child.env_remove(name);
        }
    }
    child.arg("--no-config");
    if let Some(cache) = said("cache_dir") {
        child.env("ACESTEP_CACHE_DIR", cache);
    }
}

/// The variable that names the directory of the models.
const MODELS_DIR: &str = "ACESTEP_MODELS_DIR";

/// The variables that are set to something and begin as those of the settings do.
fn ours() -> impl Iterator<Item = String> {
    let set = env::vars_os().filter(|(_, value)| !value.is_empty());
    set.filter_map(|(name, _)| {
        name.into_string().ok().filter(|name| name.starts_with(keys::PREFIX))
    })
}

/// Whether a variable is set to something.
pub(crate) fn is_set(name: &str) -> bool {
    set(name).is_some()
}

/// A variable that is set to something: an empty one counts as not set.
fn set(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}
