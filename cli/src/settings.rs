//! What the environment decides; no other file reads it.

use std::{env, ffi::OsString, path::PathBuf, sync::OnceLock};

use acestep_import::{
    Layout,
    hub::{Access, Hub},
};
use etcetera::BaseStrategy;

use crate::args::Global;

/// The variable that names the directory of the models.
pub(crate) const MODELS_DIR: &str = "ACESTEP_MODELS_DIR";

/// What flags decide for the whole run.
static TYPED: OnceLock<Typed> = OnceLock::new();

/// What was typed of what the environment decides else.
#[derive(Debug, Default)]
struct Typed {
    models_dir: Option<PathBuf>,
    offline: bool,
}

/// Remembers what was typed; before, and in tests, nothing was.
pub(crate) fn typed(global: &Global) {
    let Global { models_dir, offline, .. } = global;
    // Only the first counts, and there is one.
    let _ = TYPED.set(Typed { models_dir: models_dir.clone(), offline: *offline });
}

/// Where models lie that were put there by hand: `--models-dir`, [`MODELS_DIR`], else `acestep/models`
/// in the user's data directory. Nowhere, if the user has no home.
pub(crate) fn models_dir() -> Option<PathBuf> {
    let typed = TYPED.get().and_then(|typed| typed.models_dir.clone());
    typed.or_else(|| set(MODELS_DIR).map(PathBuf::from)).or_else(|| {
        let base = etcetera::choose_base_strategy().ok()?;
        Some(base.data_dir().join("acestep").join("models"))
    })
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
    let cache = set("HF_HUB_CACHE")
        .map(PathBuf::from)
        .or_else(|| Some(hf_home()?.join("hub")))
        .and_then(|cache| std::path::absolute(cache).ok())?;
    Some(Hub::new(cache, models_dir()?))
}

fn hf_home() -> Option<PathBuf> {
    set("HF_HOME").map(PathBuf::from).or_else(|| {
        // Not where macOS and Windows keep caches, as Python's program does not either.
        let caches = set("XDG_CACHE_HOME").map(PathBuf::from);
        let caches = caches.or_else(|| Some(etcetera::home_dir().ok()?.join(".cache")))?;
        Some(caches.join("huggingface"))
    })
}

/// Which hub is asked, and as whom: HF_ENDPOINT, and HF_TOKEN or what `hf auth login` wrote.
pub(crate) fn access() -> Access {
    let text = |name| set(name)?.into_string().ok();
    let token = || {
        let path =
            set("HF_TOKEN_PATH").map(PathBuf::from).or_else(|| Some(hf_home()?.join("token")))?;
        let token = std::fs::read_to_string(path).ok()?.trim().to_owned();
        (!token.is_empty()).then_some(token)
    };
    Access { endpoint: text("HF_ENDPOINT"), token: text("HF_TOKEN").or_else(token) }
}

/// Whether no server is asked for anything, and what says so.
pub(crate) fn offline() -> Option<&'static str> {
    if TYPED.get().is_some_and(|typed| typed.offline) {
        return Some("--offline");
    }
    let is_on = |name: &&str| {
        let value = set(name).unwrap_or_default();
        ["1", "on", "yes", "true"].iter().any(|on| value.eq_ignore_ascii_case(on))
    };
    ["ACESTEP_OFFLINE", "HF_HUB_OFFLINE"].into_iter().find(is_on)
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
