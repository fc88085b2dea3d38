//! The keys of the settings: name in the file, variable, allowed values.

use std::num::NonZero;

use acestep_engine::{Device, Error, device::Dtype};
use acestep_music::Request;

// ANCHOR: key
/// A setting.
#[derive(Debug)]
pub struct SettingKey {
    /// Name in the file; see [`variable`] for the environment.
    pub name: &'static str,
    /// Value if nothing is set.
    pub default: &'static str,
    /// One line for a file that explains every key.
    pub about: &'static str,
    /// Type of its value.
    pub kind: ValueType,
}
// ANCHOR_END: key

/// Type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueType {
    /// A path. In the file, `~` is the home and relative paths start at the file's directory.
    Path,
    /// Any text that is not empty.
    Text,
    /// True or false.
    Flag,
    /// A device.
    Device,
    /// A type of the weights.
    Dtype,
    /// A number of threads; see [`threads`].
    Count,
    /// A level of the CPU's vector instructions.
    CpuLevel,
    /// One of these words.
    OneOf(&'static [&'static str]),
}

/// All keys except those of a request.
pub const KEYS: [SettingKey; 13] = [
    key("model", "turbo", "the model of a song", ValueType::Text),
    key("lm_model", "the first that is here", "the language model", ValueType::Text),
    key(
        "models_dir",
        "acestep/models in the data directory",
        "directory of manually installed models",
        ValueType::Path,
    ),
    key(
        "cache_dir",
        "acestep in the cache directory",
        "directory of compiled GPU kernels",
        ValueType::Path,
    ),
    key("device", "auto", "auto, cpu, cuda[:N] or wgpu[:N]", ValueType::Device),
    key("dtype", "auto", "type of the weights: auto, f32, bf16, f16 or q8", ValueType::Dtype),
    key("threads", "one for each core", "threads of the CPU that compute", ValueType::Count),
    key(
        "cpu",
        "auto",
        "vector instructions of the CPU: auto, or a lower level that doctor names, to compare them",
        ValueType::CpuLevel,
    ),
    key("keep_loaded", "false", "every network stays in memory", ValueType::Flag),
    key("offline", "false", "no server is asked", ValueType::Flag),
    key("yes", "false", "every question is answered with yes", ValueType::Flag),
    key("color", "auto", "auto, always or never", ValueType::OneOf(&["auto", "always", "never"])),
    key("progress", "auto", "auto, none or json", ValueType::OneOf(&["auto", "none", "json"])),
];

const fn key(
    name: &'static str,
    default: &'static str,
    about: &'static str,
    kind: ValueType,
) -> SettingKey {
    SettingKey { name, default, about, kind }
}

impl SettingKey {
    /// Checks `text` and returns its normal form.
    ///
    /// # Errors
    /// The reason why it cannot be the value.
    pub fn read(&self, text: &str) -> Result<String, String> {
        let refused = |error: Error| match error {
            Error::BadValue { why, .. } => why,
            other => other.to_string(),
        };
        match self.kind {
            ValueType::Path | ValueType::Text if text.is_empty() => Err("it is empty".to_owned()),
            ValueType::Path | ValueType::Text => Ok(text.to_owned()),
            ValueType::Flag => {
                flag(text).map(|on| on.to_string()).ok_or_else(|| "it is true or false".to_owned())
            }
            ValueType::Device | ValueType::CpuLevel if text == "auto" => Ok(text.to_owned()),
            ValueType::Device => text.parse::<Device>().map(|_| text.to_owned()).map_err(refused),
            ValueType::Dtype => text.parse::<Dtype>().map(|_| text.to_owned()).map_err(refused),
            ValueType::Count => threads(text).map(|count| count.to_string()),
            ValueType::CpuLevel => level(text),
            ValueType::OneOf(names) if names.contains(&text) => Ok(text.to_owned()),
            ValueType::OneOf(names) => Err(format!("it is one of {}", names.join(", "))),
        }
    }
}

/// Maximum number of threads that compute. Two EPYC 9965, the most cores on one board, run 768 at once.
/// Many more would only fill the memory with their stacks and reach the system's limit.
const MOST_THREADS: usize = 1024;

/// Parses a number of threads.
///
/// # Errors
/// The range.
pub fn threads(text: &str) -> Result<NonZero<usize>, String> {
    let count = text.trim().parse::<NonZero<usize>>().ok();
    let count = count.filter(|count| count.get() <= MOST_THREADS);
    count.ok_or_else(|| format!("it is a whole number from 1 to {MOST_THREADS}"))
}

/// Checks that this CPU has the level `text`.
#[cfg(feature = "cpu")]
fn level(text: &str) -> Result<String, String> {
    let checked = text.parse::<acestep_model::kernel::CpuLevel>();
    checked.map(|level| level.to_string()).map_err(|error| error.to_string())
}

/// Checks that this CPU has the level `text`: without kernels for CPUs it has none.
#[cfg(not(feature = "cpu"))]
fn level(_: &str) -> Result<String, String> {
    Err("this program is built without kernels for CPUs".to_owned())
}

/// Parses `1`, `on`, `yes`, `true`, and their opposites.
pub fn flag(text: &str) -> Option<bool> {
    let is = |words: [&str; 4]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
    match () {
        () if is(["1", "on", "yes", "true"]) => Some(true),
        () if is(["0", "off", "no", "false"]) => Some(false),
        () => None,
    }
}

/// Prefix of the variables of all settings.
pub(super) const PREFIX: &str = "ACESTEP_";

/// Returns the environment variable of a key: `inference_steps` -> `ACESTEP_INFERENCE_STEPS`.
pub fn variable(name: &str) -> String {
    format!("{PREFIX}{}", name.to_uppercase())
}

/// Returns the keys of `[request]`: the keys of a request without the models, which are top-level.
pub(super) fn request_keys() -> impl Iterator<Item = &'static str> {
    Request::known_keys().filter(|name| KEYS.iter().all(|key| key.name != *name))
}
