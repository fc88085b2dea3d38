//! The keys of the settings: name in the file, variable, allowed values.

use std::num::NonZero;

use acestep_engine::{Device, device::Dtype};

use crate::fields::message;

// ANCHOR: key
/// A setting.
#[derive(Debug)]
pub(crate) struct Key {
    /// Name in the file. The flag is the same with hyphens; see [`variable`] for the environment.
    pub(crate) name: &'static str,
    /// Value if nothing is set.
    pub(crate) default: &'static str,
    /// One line for the file that `config init` writes.
    pub(crate) about: &'static str,
    pub(crate) kind: Kind,
    /// Commands whose flag of that name takes its default from this key.
    pub(crate) commands: &'static [&'static str],
}
// ANCHOR_END: key

/// Type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A path. In the file, `~` is the home and relative paths start at the file's directory.
    Path,
    Text,
    Flag,
    Device,
    Dtype,
    /// A positive number.
    Count,
    /// A level of the CPU's vector instructions.
    CpuLevel,
    OneOf(&'static [&'static str]),
}

/// The commands that make or read songs.
const OF_SONGS: &[&str] =
    &["generate", "plan", "inspire", "format", "understand", "codec", "warmup"];
/// The commands that compute on one device. `doctor` tests every device, and `check` is for a GPU and
/// takes hours on a CPU: both want a typed one.
const ON_A_DEVICE: &[&str] = &[
    "generate",
    "plan",
    "inspire",
    "format",
    "understand",
    "codec",
    "warmup",
    "speak",
    "voice",
    "serve",
    "work",
    "train",
    "bench",
    "verify",
];
/// The same commands without `verify`, the last one, which chooses its types itself.
const IN_A_TYPE: &[&str] = match ON_A_DEVICE.split_last() {
    Some((_, others)) => others,
    None => &[],
};
/// The global flags: all commands, and the program itself.
const EVERY: &[&str] = &[""];

/// All keys except those of a request.
pub(crate) const KEYS: [Key; 13] = [
    key("model", "turbo", "the model of a song", Kind::Text, &[]),
    key("lm_model", "the first that is here", "the language model", Kind::Text, &[]),
    key(
        "models_dir",
        "acestep/models in the data directory",
        "where models lie that were put there by hand",
        Kind::Path,
        &[],
    ),
    key(
        "cache_dir",
        "acestep in the cache directory",
        "where compiled GPU kernels are kept",
        Kind::Path,
        &[],
    ),
    key("device", "auto", "auto, cpu, cuda[:N] or wgpu[:N]", Kind::Device, ON_A_DEVICE),
    key("dtype", "auto", "type of the weights: auto, f32, bf16, f16 or q8", Kind::Dtype, IN_A_TYPE),
    key("threads", "one for each core", "threads of the CPU that compute", Kind::Count, &[]),
    key(
        "cpu",
        "auto",
        "vector instructions of the CPU: auto, or a lower level that doctor names, to compare them",
        Kind::CpuLevel,
        &[],
    ),
    key("keep_loaded", "false", "every network stays in memory", Kind::Flag, OF_SONGS),
    key("offline", "false", "no server is asked", Kind::Flag, EVERY),
    key("yes", "false", "every question is answered with yes", Kind::Flag, EVERY),
    key("color", "auto", "auto, always or never", Kind::OneOf(&["auto", "always", "never"]), EVERY),
    key("progress", "auto", "auto, none or json", Kind::OneOf(&["auto", "none", "json"]), EVERY),
];

/// Variables with the prefix of the settings that are not settings. They name the configuration,
/// hold a secret of the server, serve our tests and scripts, or are passed from the build by `cargo run`.
pub(crate) const OF_OTHERS: [&str; 8] = [
    "ACESTEP_API_KEY",
    "ACESTEP_CONFIG",
    "ACESTEP_COMMIT",
    "ACESTEP_CUDA_PATH",
    "ACESTEP_MEASURE",
    "ACESTEP_QUEUE",
    "ACESTEP_REQUIRE_NVRTC",
    "ACESTEP_TARGET",
];

const fn key(
    name: &'static str,
    default: &'static str,
    about: &'static str,
    kind: Kind,
    commands: &'static [&'static str],
) -> Key {
    Key { name, default, about, kind, commands }
}

impl Key {
    /// Checks `text` and returns its normal form.
    pub(crate) fn read(&self, text: &str) -> Result<String, String> {
        match self.kind {
            Kind::Path | Kind::Text if text.is_empty() => Err("it is empty".to_owned()),
            Kind::Path | Kind::Text => Ok(text.to_owned()),
            Kind::Flag => {
                flag(text).map(|on| on.to_string()).ok_or_else(|| "it is true or false".to_owned())
            }
            Kind::Device => match text {
                "auto" => Ok(text.to_owned()),
                _ => {
                    text.parse::<Device>().map(|_| text.to_owned()).map_err(|error| message(&error))
                }
            },
            Kind::Dtype => {
                text.parse::<Dtype>().map(|_| text.to_owned()).map_err(|error| message(&error))
            }
            Kind::Count => match text.parse::<NonZero<usize>>() {
                Ok(count) => Ok(count.to_string()),
                Err(_) => Err("it is a whole number from 1".to_owned()),
            },
            Kind::CpuLevel if text == "auto" => Ok(text.to_owned()),
            Kind::CpuLevel => level(text),
            Kind::OneOf(names) if names.contains(&text) => Ok(text.to_owned()),
            Kind::OneOf(names) => Err(format!("it is one of {}", names.join(", "))),
        }
    }
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
pub(crate) fn flag(text: &str) -> Option<bool> {
    let is = |words: [&str; 4]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
    match () {
        () if is(["1", "on", "yes", "true"]) => Some(true),
        () if is(["0", "off", "no", "false"]) => Some(false),
        () => None,
    }
}

/// Prefix of the variables of all settings.
pub(crate) const PREFIX: &str = "ACESTEP_";

/// Returns the environment variable of a key: `inference_steps` -> `ACESTEP_INFERENCE_STEPS`.
pub(crate) fn variable(name: &str) -> String {
    format!("{PREFIX}{}", name.to_uppercase())
}
