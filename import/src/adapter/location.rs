//! From the path of an adapter to its file of tensors and the settings beside it.

use std::path::{Path, PathBuf};

use super::AdapterError;
use crate::{Directory, Error, Layout, error::Places};

/// PEFT's settings and tensors.
const PEFT: [&str; 2] = ["adapter_config.json", "adapter_model.safetensors"];

/// What ACE-Step's training calls its file of LyCORIS.
const LYCORIS: [&str; 2] = ["lokr_weights.safetensors", "lora_weights.safetensors"];

/// Where ACE-Step's training puts a PEFT directory.
const INNER: &str = "adapter";

/// The directory of adapters among the models.
const AMONG_MODELS: &str = "adapters";

/// Finds the adapter that `name` names: a path, or a file or directory of `adapters/` in the models
/// directory, whose `.safetensors` need not be written.
///
/// # Errors
/// [`AdapterError::Absent`].
pub(super) fn find(name: &str, layout: &Layout) -> Result<PathBuf, Error> {
    let mut candidates = vec![PathBuf::from(name)];
    if !name.contains(['/', '\\']) && ![".", "..", ""].contains(&name) {
        for folder in layout.among_models(AMONG_MODELS) {
            candidates.extend([folder.join(name), folder.join(format!("{name}.safetensors"))]);
        }
    }
    match candidates.iter().find(|path| path.exists()) {
        Some(path) => Ok(path.clone()),
        None => {
            let (name, looked_for) = (name.to_owned(), Places(candidates));
            Err(AdapterError::Absent { name, looked_for }.into())
        }
    }
}

/// A file of tensors, and the text of PEFT's settings where it has some.
#[derive(Debug)]
pub(super) struct Location {
    pub(super) directory: Directory,
    pub(super) file: String,
    pub(super) settings: Option<(&'static str, String)>,
}

/// Looks at `path`, a file or a directory.
///
/// # Errors
/// If there is nothing there, or no adapter.
pub(super) fn locate(path: &Path) -> Result<Location, Error> {
    if path.is_dir() {
        return of_directory(path);
    }
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let (Some(file), Some(parent), true) = (name, path.parent(), path.is_file()) else {
        let (name, looked_for) = (path.display().to_string(), Places(vec![path.to_owned()]));
        return Err(AdapterError::Absent { name, looked_for }.into());
    };
    // `Path::parent` of a bare name is empty, which is no directory.
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    if [".pt", ".bin", ".pth", ".ckpt"].iter().any(|ending| file.ends_with(ending)) {
        let reason = "it is a pickle of PyTorch, which can hold programs and is not read: \
                      save it as safetensors"
            .to_owned();
        return Err(AdapterError::NotAnAdapter { path: path.to_owned(), reason }.into());
    }
    let directory = Directory::Disk(parent.to_owned());
    if file == PEFT[0] || (file == PEFT[1] && directory.has(PEFT[0])) {
        return of_directory(parent);
    }
    // Settings beside the only adapter of a directory are its own, whatever it was renamed to.
    let settings = match directory.has(PEFT[0]) && is_only_safetensors(parent) {
        true => Some((PEFT[0], directory.text(PEFT[0])?)),
        false => None,
    };
    // Without the dot of a bare name, so that messages say what was typed.
    let directory = Directory::Disk(path.parent().unwrap_or(parent).to_owned());
    Ok(Location { directory, file, settings })
}

fn is_only_safetensors(directory: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(directory) else { return false };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths.filter(|path| path.extension().is_some_and(|own| own == "safetensors")).count() == 1
}

fn of_directory(path: &Path) -> Result<Location, Error> {
    let directory = Directory::Disk(path.to_owned());
    let holds_none = |found: &str| {
        let (path, found) = (path.to_owned(), found.to_owned());
        Error::from(AdapterError::NotADirectoryOfOne { path, found })
    };
    if directory.has(PEFT[0]) {
        if !directory.has(PEFT[1]) {
            return Err(holds_none(match directory.has("adapter_model.bin") {
                true => {
                    "adapter_model.bin is a pickle of PyTorch, which is not read: save it as safetensors"
                }
                false => "adapter_model.safetensors is missing",
            }));
        }
        let settings = directory.text(PEFT[0])?;
        let file = PEFT[1].to_owned();
        return Ok(Location { directory, file, settings: Some((PEFT[0], settings)) });
    }
    if let Some(file) = LYCORIS.into_iter().find(|file| directory.has(file)) {
        return Ok(Location { directory, file: file.to_owned(), settings: None });
    }
    if directory.has(PEFT[1]) {
        return Err(holds_none(
            "adapter_config.json, which says how strongly it works, is missing",
        ));
    }
    if path.join(INNER).join(PEFT[0]).is_file() {
        return of_directory(&path.join(INNER));
    }
    Err(holds_none("there is no adapter_config.json"))
}
