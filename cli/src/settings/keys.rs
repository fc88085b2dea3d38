//! What can be set: the name in the file, the variable, and what it may be.

use acestep_runtime::{Device, device::Dtype};

// ANCHOR: key
/// Something that can be set once for all.
#[derive(Debug)]
pub(crate) struct Key {
    /// As the file has it; the flag is the same with hyphens.
    pub(crate) name: &'static str,
    /// As the environment has it.
    pub(crate) variable: &'static str,
    /// What holds if nobody says anything.
    pub(crate) default: &'static str,
    /// One line for the file.
    pub(crate) about: &'static str,
    pub(crate) kind: Kind,
    /// The commands whose flag of that name it is the default of.
    pub(crate) commands: &'static [&'static str],
}
// ANCHOR_END: key

/// What a value looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A path; in the file `~` is the home, and what is relative lies beside the file.
    Path,
    Text,
    Flag,
    Device,
    Dtype,
    OneOf(&'static [&'static str]),
}

/// Those that make songs or read them.
const OF_SONGS: &[&str] =
    &["generate", "plan", "inspire", "format", "understand", "codec", "warmup"];
/// All of them, and what comes before a command.
const EVERY: &[&str] = &[""];

/// Everything but the request.
pub(crate) const KEYS: [Key; 11] = [
    key("model", "ACESTEP_MODEL", "turbo", "the model of a song", Kind::Text, &[]),
    key(
        "lm_model",
        "ACESTEP_LM_MODEL",
        "the first that is here",
        "the language model",
        Kind::Text,
        &[],
    ),
    key(
        "models_dir",
        "ACESTEP_MODELS_DIR",
        "acestep/models in the data directory",
        "where models lie that were put there by hand",
        Kind::Path,
        &[],
    ),
    key(
        "cache_dir",
        "ACESTEP_CACHE_DIR",
        "acestep in the cache directory",
        "where a card's compiled kernels are kept",
        Kind::Path,
        &[],
    ),
    key(
        "device",
        "ACESTEP_DEVICE",
        "auto",
        "auto, cpu, cuda[:N] or wgpu[:N]",
        Kind::Device,
        OF_SONGS,
    ),
    key(
        "dtype",
        "ACESTEP_DTYPE",
        "auto",
        "type of the weights: auto, f32, bf16, f16 or q8",
        Kind::Dtype,
        OF_SONGS,
    ),
    key(
        "keep_loaded",
        "ACESTEP_KEEP_LOADED",
        "false",
        "every network stays in memory",
        Kind::Flag,
        OF_SONGS,
    ),
    key("offline", "ACESTEP_OFFLINE", "false", "no server is asked", Kind::Flag, EVERY),
    key("yes", "ACESTEP_YES", "false", "every question is answered with yes", Kind::Flag, EVERY),
    key(
        "color",
        "ACESTEP_COLOR",
        "auto",
        "auto, always or never",
        Kind::OneOf(&["auto", "always", "never"]),
        EVERY,
    ),
    key(
        "progress",
        "ACESTEP_PROGRESS",
        "auto",
        "auto, none or json",
        Kind::OneOf(&["auto", "none", "json"]),
        EVERY,
    ),
];

/// Variables that begin as those of the settings do, and that something else reads: where the
/// configuration is, our tests, our scripts; or that `cargo run` hands on from the build.
pub(crate) const OF_OTHERS: [&str; 6] = [
    "ACESTEP_CONFIG",
    "ACESTEP_COMMIT",
    "ACESTEP_CUDA_PATH",
    "ACESTEP_MEASURE",
    "ACESTEP_REQUIRE_NVRTC",
    "ACESTEP_TARGET",
];

const fn key(
    name: &'static str,
    variable: &'static str,
    default: &'static str,
    about: &'static str,
    kind: Kind,
    commands: &'static [&'static str],
) -> Key {
    Key { name, variable, default, about, kind, commands }
}

impl Key {
    /// `text` as it is used.
    ///
    /// # Errors
    /// What it may be.
    pub(crate) fn read(&self, text: &str) -> Result<String, String> {
        match self.kind {
            Kind::Path | Kind::Text if text.is_empty() => Err("it is empty".to_owned()),
            Kind::Path | Kind::Text => Ok(text.to_owned()),
            Kind::Flag => {
                flag(text).map(|on| on.to_string()).ok_or_else(|| "it is true or false".to_owned())
            }
            Kind::Device => match text {
                "auto" => Ok(text.to_owned()),
                _ => text
                    .parse::<Device>()
                    .map(|_| text.to_owned())
                    .map_err(|error| error.to_string()),
            },
            Kind::Dtype => {
                text.parse::<Dtype>().map(|_| text.to_owned()).map_err(|error| error.to_string())
            }
            Kind::OneOf(names) if names.contains(&text) => Ok(text.to_owned()),
            Kind::OneOf(names) => Err(format!("it is one of {}", names.join(", "))),
        }
    }
}

/// `1`, `on`, `yes`, `true`, and their opposites.
pub(crate) fn flag(text: &str) -> Option<bool> {
    let is = |words: [&str; 4]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
    match () {
        () if is(["1", "on", "yes", "true"]) => Some(true),
        () if is(["0", "off", "no", "false"]) => Some(false),
        () => None,
    }
}

/// What the variables of settings begin with.
pub(crate) const PREFIX: &str = "ACESTEP_";

/// The variable of a key of the request: `inference_steps` -> `ACESTEP_INFERENCE_STEPS`.
pub(crate) fn variable(name: &str) -> String {
    format!("{PREFIX}{}", name.to_uppercase())
}
