//! Display names of adapters, and names with a strength. Training tools give the same file name to
//! all of their adapters.

use std::path::Path;

use super::Adapter;

/// File and directory names that a tool uses in every training.
const EVERYWHERES: &str =
    "adapter adapter_model best checkpoints final lokr_weights lora_weights pytorch_lora_weights";

/// Prefixes of directories that hold one checkpoint of a training.
const STAGES: &[&str] = &["epoch_", "step_", "checkpoint-", "checkpoint_"];

/// Returns the display name of the adapter in the file `path`: the file name without the ending, or
/// the directory name if the file name is generic. The checkpoint follows: `voice/epoch_10`.
pub(super) fn name(path: &Path) -> String {
    let text = |part: &std::ffi::OsStr| part.to_string_lossy().into_owned();
    let stem = path.file_stem().map(text).unwrap_or_default();
    // A relative path has parent directories too.
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let folders = whole.ancestors().skip(1).filter_map(|folder| folder.file_name().map(text));
    let mut telling = std::iter::once(stem.clone())
        .chain(folders)
        .filter(|name| EVERYWHERES.split(' ').all(|other| other != name));
    let is_stage = |name: &String| STAGES.iter().any(|stage| name.starts_with(stage));
    match telling.next() {
        Some(stage) if is_stage(&stage) && stage != stem => match telling.find(|n| !is_stage(n)) {
            Some(name) => format!("{name}/{stage}"),
            None => stage,
        },
        Some(name) => name,
        None => stem,
    }
}

impl Adapter {
    /// Splits `PATH:SCALE` into the name of an adapter and its strength. An existing path has no scale,
    /// and the text after a drive's colon is not a number.
    pub fn name_and_scale(text: &str) -> (&str, Option<f64>) {
        match text.rsplit_once(':') {
            Some((path, scale)) if !path.is_empty() && !Path::new(text).exists() => {
                match scale.parse() {
                    Ok(scale) => (path, Some(scale)),
                    Err(_) => (text, None),
                }
            }
            _ => (text, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_after_a_colon_is_a_scale_and_a_drive_is_none() {
        for (typed, path, scale) in [
            ("a.safetensors", "a.safetensors", None),
            ("a.safetensors:0.8", "a.safetensors", Some(0.8)),
            ("dir/a:-1", "dir/a", Some(-1.0)),
            (r"C:\loras\a.safetensors", r"C:\loras\a.safetensors", None),
            (r"C:\loras\a.safetensors:.5", r"C:\loras\a.safetensors", Some(0.5)),
            ("a:b", "a:b", None),
            (":1", ":1", None),
        ] {
            assert_eq!(Adapter::name_and_scale(typed), (path, scale), "{typed}");
        }
    }

    #[test]
    fn a_file_with_a_colon_in_its_name_is_that_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a:1");
        // Some systems do not allow such a name.
        if std::fs::write(&path, b"").is_ok() && path.exists() {
            let typed = path.to_str().expect("UTF-8");
            assert_eq!(Adapter::name_and_scale(typed), (typed, None));
        }
    }

    #[test]
    fn a_name_is_the_first_that_tells_something() {
        for (path, called) in [
            ("loras/voice.safetensors", "voice"),
            ("voice/adapter_model.safetensors", "voice"),
            ("voice/final/adapter/adapter_model.safetensors", "voice"),
            ("voice/lokr_weights.safetensors", "voice"),
            (
                "voice/checkpoints/epoch_10_loss_0.5/lokr_weights.safetensors",
                "voice/epoch_10_loss_0.5",
            ),
            ("voice/checkpoint-500/adapter_model.safetensors", "voice/checkpoint-500"),
            ("epoch_7.safetensors", "epoch_7"),
            ("voice/final/style.v2.safetensors", "style.v2"),
        ] {
            assert_eq!(name(Path::new(path)), called, "{path}");
        }
        let root = if cfg!(windows) {
            r"C:\final\adapter_model.safetensors"
        } else {
            "/final/adapter_model.safetensors"
        };
        assert_eq!(name(Path::new(root)), "adapter_model");
    }
}
