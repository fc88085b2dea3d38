//! From the path of an adapter to its file of tensors and the settings beside it.

use std::path::{Path, PathBuf};

use super::{AdapterError, other};
use crate::{
    Directory, Error, Layout,
    error::{Names, Places},
};

/// PEFT's settings and tensors.
const PEFT: [&str; 2] = ["adapter_config.json", "adapter_model.safetensors"];

/// What ACE-Step's training calls its file of LyCORIS.
const LYCORIS: [&str; 2] = ["lokr_weights.safetensors", "lora_weights.safetensors"];

/// Where ACE-Step's training puts what it has trained, the one inside the other.
const INNER: [&str; 2] = ["adapter", "final"];

/// The directory of adapters among the models.
const AMONG_MODELS: &str = "adapters";

/// Where a name leads.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) path: PathBuf,
    /// What else has the name, a sentence each.
    pub(super) notices: Vec<String>,
}

/// Finds the adapter that `name` names: a path, or a file or directory of `adapters/` in the models
/// directory, whose `.safetensors` need not be written. A directory without an adapter, such as the
/// one with the recordings, does not stand in the way of one that has it.
///
/// # Errors
/// [`AdapterError::Absent`].
pub(super) fn find(name: &str, layout: &Layout) -> Result<Found, Error> {
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
    // If none holds one, what is wrong with the first is said when it is opened.
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
    Ok(Found { path: path.clone(), notices })
}

/// A file of tensors, and the text of PEFT's settings where it has some.
#[derive(Debug)]
pub(super) struct Location {
    pub(super) directory: Directory,
    pub(super) file: String,
    pub(super) settings: Option<(&'static str, String)>,
    /// Whether settings should be there and are not, so that the tensors must say every alpha.
    pub(super) lacks_settings: bool,
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
        return Err(other::pickle().refused(path).into());
    }
    if let Some(other) = other::by_bytes(path) {
        return Err(other.refused(path).into());
    }
    if file == PEFT[0] {
        return of_directory(parent);
    }
    let directory = Directory::Disk(parent.to_owned());
    // Settings beside the only adapter of a directory are its own, whatever it was renamed to.
    let has_settings =
        directory.has(PEFT[0]) && (file == PEFT[1] || safetensors_in(parent).len() == 1);
    let settings = match has_settings {
        true => Some((PEFT[0], directory.text(PEFT[0])?)),
        false => None,
    };
    // Without the dot of a bare name, so that messages say what was typed.
    let directory = Directory::Disk(path.parent().unwrap_or(parent).to_owned());
    let lacks_settings = file == PEFT[1] && settings.is_none();
    Ok(Location { directory, file, settings, lacks_settings })
}

/// Looks into the directory `path` and those in it where training puts an adapter: for a file that
/// only adapters are called, then for any.
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
    let (settings, lacks_settings) = match directory.has(PEFT[0]) {
        true => (Some((PEFT[0], directory.text(PEFT[0])?)), false),
        false => (None, file == PEFT[1]),
    };
    Ok(Location { directory, file, settings, lacks_settings })
}

/// The directory `path`, and those in it in which ACE-Step's training puts an adapter.
fn with_inner(path: &Path) -> impl Iterator<Item = PathBuf> {
    let [adapter, last] = INNER;
    let inner = [path.join(adapter), path.join(last), path.join(last).join(adapter)];
    std::iter::once(path.to_owned()).chain(inner)
}

/// Whether the directory `path`, or one in it where training puts it, seems to hold an adapter.
fn holds_adapter(path: &Path) -> bool {
    // One of several files is for the user to name, and settings without tensors are an error.
    with_inner(path).any(|directory| is_known(&directory) || !safetensors_in(&directory).is_empty())
}

/// Whether the directory `path` has a file that only adapters are called.
fn is_known(path: &Path) -> bool {
    [PEFT[0], LYCORIS[0], LYCORIS[1], PEFT[1]].iter().any(|file| path.join(file).is_file())
}

/// The file of tensors in the directory `path`.
///
/// # Errors
/// Why none can be told.
fn file_of(path: &Path) -> Result<String, String> {
    let has = |file: &str| path.join(file).is_file();
    let named = match has(PEFT[0]) {
        true => vec![PEFT[1]],
        // Without its settings it may be what is left of another training.
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
        _ => {
            Err(format!("there are several .safetensors files, {}: name one of them", Names(there)))
        }
    }
}

/// The names of the safetensors files in the directory `path`, in order.
fn safetensors_in(path: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(path) else { return vec![] };
    let mut names: Vec<_> = entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let name = path.file_name()?.to_string_lossy().into_owned();
            // Other systems leave files with a dot before the name of the real one.
            let is_one = name.ends_with(".safetensors") && !name.starts_with('.');
            (is_one && path.is_file()).then_some(name)
        })
        .collect();
    names.sort();
    names
}
