//! Finds an adapter's tensor file and its settings from a path.

use std::path::{Path, PathBuf};

use super::{AdapterError, other};
use crate::{
    Directory, Error, Layout,
    error::{NameList, Places},
    listing::{files_in, folder_of},
};

/// File names of PEFT's settings and tensors.
const PEFT: [&str; 2] = ["adapter_config.json", "adapter_model.safetensors"];

/// LyCORIS file names of ACE-Step's training.
const LYCORIS: [&str; 2] = ["lokr_weights.safetensors", "lora_weights.safetensors"];

/// Directories, one in the other, that ACE-Step's training writes its result to.
const INNER: [&str; 2] = ["adapter", "final"];

/// Subdirectory of the models directory for adapters.
const AMONG_MODELS: &str = "adapters";

/// Returns the names of what is in `adapters/` of the models directories, sorted. A file of tensors has
/// its name without the ending.
pub(super) fn names(layout: &Layout) -> Vec<String> {
    let folders = layout.among_models(AMONG_MODELS).filter_map(|path| std::fs::read_dir(path).ok());
    let name = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().ok().filter(|name| !name.starts_with('.'))?;
        match name.strip_suffix(".safetensors") {
            Some(name) => Some(name.to_owned()),
            None => entry.path().is_dir().then_some(name),
        }
    };
    let mut names: Vec<_> = folders.flatten().flatten().filter_map(name).collect();
    names.sort();
    names.dedup();
    names
}

/// Finds the adapter called `name`: a path, or a file or directory in `adapters/` of the models
/// directory. The ending `.safetensors` is optional there. A directory without an adapter, such as
/// one with recordings, is passed over if another one has it. Also returns notices about other adapters
/// of the same name, one sentence each.
pub(super) fn find(name: &str, layout: &Layout) -> Result<(PathBuf, Vec<String>), Error> {
    let mut candidates = vec![PathBuf::from(name)];
    if !name.contains(['/', '\\']) && ![".", "..", ""].contains(&name) {
        for folder in layout.among_models(AMONG_MODELS) {
            candidates.extend([folder.join(name), folder.join(format!("{name}.safetensors"))]);
        }
    }
    let mut there: Vec<PathBuf> = Vec::new();
    for path in candidates.iter().filter(|path| path.exists()) {
        let real = |path: &Path| path.canonicalize().ok();
        if !there.iter().any(|other| real(other) == real(path)) {
            there.push(path.clone());
        }
    }
    // If none holds an adapter, opening the first one reports the error.
    let holds_one = |path: &&PathBuf| !path.is_dir() || holds_adapter(path);
    let Some(path) = there.iter().find(holds_one).or(there.first()) else {
        let (name, looked_for) = (name.to_owned(), Places(candidates));
        return Err(AdapterError::Absent { name, looked_for }.into());
    };
    let notice = |other: &PathBuf| {
        let (taken, other_path) = (path.display(), other.display());
        match holds_one(&other) {
            true => {
                format!("of the adapters called `{name}`, `{taken}` is used, not `{other_path}`")
            }
            false => format!("`{other_path}` holds no adapter, `{taken}` is used"),
        }
    };
    let notices = there.iter().filter(|other| *other != path).map(notice).collect();
    Ok((path.clone(), notices))
}

/// A file of tensors, and the text of PEFT's settings if there are any.
#[derive(Debug)]
pub(super) struct Location {
    pub(super) directory: Directory,
    pub(super) file: String,
    pub(super) settings: Option<(&'static str, String)>,
    /// True if required settings are missing, so that the tensors must hold every alpha.
    pub(super) lacks_settings: bool,
}

impl Location {
    /// The tensors in `file` of `directory`, whose settings belong to them if it `has_settings`.
    fn new(directory: Directory, file: String, has_settings: bool) -> Result<Self, Error> {
        let text = has_settings.then(|| directory.text(PEFT[0])).transpose()?;
        let lacks_settings = file == PEFT[1] && !has_settings;
        Ok(Self { directory, file, settings: text.map(|text| (PEFT[0], text)), lacks_settings })
    }
}

/// Locates the adapter at `path`, a file or a directory.
pub(super) fn locate(path: &Path) -> Result<Location, Error> {
    if path.is_dir() {
        return of_directory(path);
    }
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let (Some(file), true) = (name, path.is_file()) else {
        let (name, looked_for) = (path.display().to_string(), Places(vec![path.to_owned()]));
        return Err(AdapterError::Absent { name, looked_for }.into());
    };
    let parent = folder_of(path);
    if [".pt", ".bin", ".pth", ".ckpt"].iter().any(|ending| file.ends_with(ending)) {
        return Err(other::pickle().refused(path).into());
    }
    if let Some(other) = other::by_bytes(path) {
        return Err(other.refused(path).into());
    }
    if file == PEFT[0] {
        return of_directory(parent);
    }
    let directory = Directory::Disk(parent.to_owned());
    // Settings beside the only adapter of a directory belong to it, even if the file was renamed.
    let has_settings =
        directory.has(PEFT[0]) && (file == PEFT[1] || safetensors_in(parent).len() == 1);
    let location = Location::new(directory, file, has_settings)?;
    // Without the `.` of a bare name, so that messages show the path as the user typed it.
    let directory = Directory::Disk(path.parent().unwrap_or(parent).to_owned());
    Ok(Location { directory, ..location })
}

/// Searches the directory `path` and the subdirectories that training writes to: first for a known
/// file name of adapters, then for any safetensors file.
fn of_directory(path: &Path) -> Result<Location, Error> {
    let has_any = |directory: &&PathBuf| !safetensors_in(directory).is_empty();
    let directories: Vec<_> = with_inner(path).collect();
    let known = directories.iter().find(|directory| is_known(directory));
    let path = known.or(directories.iter().find(has_any)).map_or(path, PathBuf::as_path);
    let directory = Directory::Disk(path.to_owned());
    let file = file_of(path).map_err(|found| match other::by_directory(path) {
        Some(other) => other.refused(path),
        None => AdapterError::NotADirectoryOfOne { path: path.to_owned(), found },
    })?;
    if let Some(other) = other::by_bytes(&path.join(&file)) {
        return Err(other.refused(&path.join(&file)).into());
    }
    let has_settings = directory.has(PEFT[0]);
    Location::new(directory, file, has_settings)
}

/// Returns the directory `path` and its subdirectories that ACE-Step's training writes to.
fn with_inner(path: &Path) -> impl Iterator<Item = PathBuf> {
    let [adapter, last] = INNER;
    let inner = [path.join(adapter), path.join(last), path.join(last).join(adapter)];
    std::iter::once(path.to_owned()).chain(inner)
}

/// True if the directory `path`, or a subdirectory of the training, seems to hold an adapter.
fn holds_adapter(path: &Path) -> bool {
    // Several files and settings without tensors also count: opening them reports a clear error.
    with_inner(path).any(|directory| is_known(&directory) || !safetensors_in(&directory).is_empty())
}

/// True if the directory `path` has a file with a name that only adapters have.
fn is_known(path: &Path) -> bool {
    [PEFT[0], LYCORIS[0], LYCORIS[1], PEFT[1]].iter().any(|file| path.join(file).is_file())
}

/// Returns the name of the tensor file in the directory `path`.
///
/// # Errors
/// The reason why there is not exactly one.
fn file_of(path: &Path) -> Result<String, String> {
    let has = |file: &str| path.join(file).is_file();
    let named = match has(PEFT[0]) {
        true => vec![PEFT[1]],
        // Without settings, PEFT's file may be left over from another training, so it comes last.
        false => vec![LYCORIS[0], LYCORIS[1], PEFT[1]],
    };
    if let Some(file) = named.into_iter().find(|file| has(file)) {
        return Ok(file.to_owned());
    }
    let there = safetensors_in(path);
    match &there[..] {
        [file] => Ok(file.clone()),
        [] if has("adapter_model.bin") => {
            Err("adapter_model.bin is a pickle of PyTorch, which is \
                                               not read: save it as safetensors"
                .to_owned())
        }
        [] if has(PEFT[0]) => Err("adapter_model.safetensors is missing".to_owned()),
        [] => Err("there is no adapter_config.json and no .safetensors file".to_owned()),
        _ => Err(format!(
            "there are several .safetensors files, {}: name one of them",
            NameList(there)
        )),
    }
}

/// Returns the names of the safetensors files in the directory `path`, sorted.
fn safetensors_in(path: &Path) -> Vec<String> {
    let files = files_in(path, "safetensors").into_iter();
    let names = files.filter_map(|file| Some(file.file_name()?.to_string_lossy().into_owned()));
    // `files_in` ignores the case of the ending. macOS writes files with `._` before the name of the real file.
    names.filter(|name| name.ends_with(".safetensors") && !name.starts_with('.')).collect()
}
