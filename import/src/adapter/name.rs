//! Display names of adapters. Training tools give the same file name to all of theirs.

use std::path::Path;

/// File and directory names that a tool uses in every training.
const EVERYWHERES: &[&str] = &[
    "adapter",
    "adapter_model",
    "best",
    "checkpoints",
    "final",
    "lokr_weights",
    "lora_weights",
    "pytorch_lora_weights",
];

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
        .filter(|name| !EVERYWHERES.contains(&name.as_str()));
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

#[cfg(test)]
mod tests {
    use super::*;

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
