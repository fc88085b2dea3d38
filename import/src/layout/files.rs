//! Models that are files among the models, not directories: GGUF as acestep.cpp calls them, and
//! ComfyUI's directories by kind.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{TEXT_ENCODER, VAE};
use crate::{foreign, kind::Kind};

/// What the names of GGUF files end with, the finest first.
const TYPES: [&str; 18] = [
    "F32", "BF16", "F16", "Q8_0", "Q6_K", "Q5_K_M", "Q5_K_S", "Q5_1", "Q5_0", "Q4_K_M", "Q4_K_S",
    "Q4_1", "Q4_0", "Q3_K_L", "Q3_K_M", "Q3_K_S", "Q2_K", "Q4_K",
];

/// What a model's files and directory are called: the directory's name, a file's without its ending
/// and its type.
pub(crate) fn stem(path: &Path) -> String {
    if path.is_dir() {
        return super::directory_name(path);
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    match stem.rsplit_once('-') {
        Some((name, kind)) if rank(kind).is_some() => name.to_owned(),
        _ => stem,
    }
}

/// The model that a GGUF file called `name` is of; `None` for a path and for other names.
pub(super) fn model_of(name: &str) -> Option<String> {
    let is_plain = name.ends_with(".gguf") && !name.contains(['/', '\\']);
    is_plain.then(|| stem(Path::new(name)))
}

/// The finest GGUF file of model `name` in `place`: `acestep-v15-turbo-Q8_0.gguf`.
pub(super) fn gguf(place: &Path, name: &str) -> Option<PathBuf> {
    let of = |path: &PathBuf| {
        let stem = path.file_stem()?.to_str()?;
        rank(stem.strip_prefix(name)?.strip_prefix('-')?)
    };
    let files = files_in(place, "gguf").into_iter();
    files.filter_map(|path| Some((of(&path)?, path))).min().map(|(_, path)| path)
}

fn rank(kind: &str) -> Option<usize> {
    TYPES.iter().position(|known| known.eq_ignore_ascii_case(kind))
}

/// The files of `place` with that ending, in alphabetical order.
fn files_in(place: &Path, ending: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(place) else { return Vec::new() };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut paths: Vec<_> = paths
        .filter(|path| path.extension().is_some_and(|own| own.eq_ignore_ascii_case(ending)))
        .filter(|path| path.is_file())
        .collect();
    paths.sort();
    paths
}

/// The network `wanted`, one of a model beside its diffusion transformer, in `place`: a directory, a
/// GGUF file, a safetensors file in a directory of ComfyUI.
pub(super) fn companion(place: &Path, wanted: Kind) -> Option<PathBuf> {
    let (name, comfy): (_, &[&str]) = match wanted {
        Kind::Vae => (VAE, &["vae"]),
        Kind::TextEncoder => (TEXT_ENCODER, &["text_encoders", "clip"]),
        Kind::Dit | Kind::LanguageModel => return None,
    };
    let single = || comfy.iter().find_map(|name| only(&place.join(name), "safetensors", wanted));
    let directory = place.join(name);
    // One that lacks its config.json is cut, and to be told so.
    if directory.join("config.json").is_file() || has_released_weights(&directory) {
        return Some(directory);
    }
    // ComfyUI's directory of autoencoders has the same name.
    let other = single()
        .or_else(|| gguf(place, name).filter(|path| foreign::is_a(path, wanted)))
        .or_else(|| only(place, "gguf", wanted));
    let is_empty = directory.is_dir() && files_in(&directory, "safetensors").is_empty();
    other.or_else(|| is_empty.then_some(directory))
}

/// Whether `directory` holds weights by the name that they have in a release.
fn has_released_weights(directory: &Path) -> bool {
    let stems = ["model", "diffusion_pytorch_model"];
    let stem = |path: &PathBuf| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let files = files_in(directory, "safetensors");
    files.iter().filter_map(stem).any(|stem| stems.iter().any(|own| stem.starts_with(own)))
}

/// The only file of `place` that is of the kind `wanted` by its content.
fn only(place: &Path, ending: &str, wanted: Kind) -> Option<PathBuf> {
    let mut found = files_in(place, ending).into_iter();
    let mut next = || found.find(|path| foreign::is_a(path, wanted));
    let first = next()?;
    // Of several none is meant more than the others.
    next().is_none().then_some(first)
}
