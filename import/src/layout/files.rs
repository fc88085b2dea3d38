//! Models that are single files: GGUF files with acestep.cpp's names, and ComfyUI's directories by
//! kind. The content determines the kind of a file.

use std::{
    cmp::Reverse,
    fs,
    path::{Path, PathBuf},
};

use crate::{
    families::{
        Release,
        acestep::{COMFY_FILES, COMPANIONS, ComfyFile, Kind},
    },
    foreign,
    hub::name_of_snapshot,
    listing::{files_in, rank},
};

/// Returns the model's name: a directory's name, or a file's name without extension and type.
pub(crate) fn stem(path: &Path) -> String {
    if path.is_dir() {
        return name_of_snapshot(path).unwrap_or_else(|| super::directory_name(path));
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    match stem.rsplit_once('-') {
        Some((name, kind)) if rank(kind).is_some() => name.to_owned(),
        _ => stem,
    }
}

/// Returns the model of a GGUF file called `name`; `None` for a path and for other names.
pub(super) fn model_of(name: &str) -> Option<String> {
    let is_plain = name.ends_with(".gguf") && !name.contains(['/', '\\']);
    is_plain.then(|| stem(Path::new(name)))
}

/// Returns the most precise GGUF file in `place` of model `name`, a network of the kind `wanted`:
/// `acestep-v15-turbo-Q8_0.gguf`, or a file with that name inside.
///
/// A file whose content is of another kind is skipped. An unreadable file is not, so that it is
/// reported.
pub(super) fn gguf(place: &Path, name: &str, wanted: Kind) -> Option<PathBuf> {
    let files = files_in(place, "gguf");
    let of = |path: &PathBuf| {
        let stem = path.file_stem()?.to_str()?;
        rank(stem.strip_prefix(name)?.strip_prefix('-')?)
    };
    let mut named: Vec<_> = files.iter().filter_map(|path| Some((of(path)?, path))).collect();
    named.sort();
    if let Some((_, path)) = named.into_iter().find(|(_, path)| !foreign::is_another(path, wanted))
    {
        return Some(path.clone());
    }
    let is_of_other = |path: &Path| stem(path) != name && is_known(&stem(path));
    let calls_itself = |path: &&PathBuf| {
        !is_of_other(path)
            && foreign::is_a(path, wanted)
            && foreign::name_inside(path).as_deref() == Some(name)
    };
    // Without a type in the names, the larger file has the more precise weights.
    let size = |path: &&PathBuf| fs::metadata(path).map_or(0, |file| file.len());
    let found = files.iter().filter(calls_itself);
    found.min_by_key(|path| Reverse(size(path))).cloned()
}

/// True if `name` is the name of a published directory.
fn is_known(name: &str) -> bool {
    Release::all().any(|release| release.directory == name)
}

/// Result of the search for a network in a place.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Match {
    Nothing,
    /// An empty directory with its name.
    Empty(PathBuf),
    One(PathBuf),
    /// Several candidates, none preferred.
    Several(Vec<PathBuf>),
}

/// Returns the names of the companion network `wanted`; `None` if it is no companion.
fn names(wanted: Kind) -> Option<(&'static Release, &'static ComfyFile)> {
    COMPANIONS.iter().zip(&COMFY_FILES).find(|(release, _)| release.kind == Some(wanted))
}

/// Returns the remedy for several candidates.
pub(super) fn remedy(wanted: Kind) -> String {
    let names = names(wanted);
    let names = names
        .map(|(release, comfy)| format!("`{}` or `{}-BF16.gguf`", comfy.file, release.directory));
    format!(
        "take the others away, or give the one that is meant the name under which it is published: \
         {}",
        names.unwrap_or_default()
    )
}

/// Finds the companion network `wanted` in `place`: a directory, a GGUF file, or a safetensors file
/// in a directory of ComfyUI.
pub(super) fn companion(place: &Path, wanted: Kind) -> Match {
    let Some((release, comfy)) = names(wanted) else { return Match::Nothing };
    let (name, published) = (release.directory, comfy.file);
    let directory = place.join(name);
    if directory.join("config.json").is_file() {
        return Match::One(directory);
    }
    // Use a file with the published name even if it is unreadable, so that it is reported. Another
    // file in its place would change the sound.
    let published_in = |own: &&str| Some(place.join(own).join(published)).filter(|p| p.is_file());
    let meant = comfy.directories.iter().find_map(published_in);
    if let Some(path) = meant.filter(|path| !foreign::is_another(path, wanted)) {
        return Match::One(path);
    }
    // The same holds for a release without config.json.
    if has_released_weights(&directory) {
        return Match::One(directory);
    }
    // ComfyUI's directory of autoencoders has the same name.
    let mut candidates = Vec::new();
    for place in comfy.directories.iter().map(|own| place.join(own)) {
        let files: Vec<_> = of_kind(&place, "safetensors", wanted).collect();
        match &files[..] {
            [only] => return Match::One(only.clone()),
            _ => candidates.extend(files),
        }
    }
    if let Some(path) = gguf(place, name, wanted) {
        return Match::One(path);
    }
    let files: Vec<_> = of_kind(place, "gguf", wanted).collect();
    if let ([only], []) = (&files[..], &candidates[..]) {
        return Match::One(only.clone());
    }
    candidates.extend(files);
    if !candidates.is_empty() {
        return Match::Several(candidates);
    }
    let is_empty = directory.is_dir() && files_in(&directory, "safetensors").is_empty();
    if is_empty { Match::Empty(directory) } else { Match::Nothing }
}

fn has_released_weights(directory: &Path) -> bool {
    let stems = ["model", "diffusion_pytorch_model"];
    let stem = |path: &PathBuf| path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let files = files_in(directory, "safetensors");
    files.iter().filter_map(stem).any(|stem| stems.iter().any(|own| stem.starts_with(own)))
}

/// Returns the files of `place` whose content is of the kind `wanted`.
fn of_kind(place: &Path, ending: &str, wanted: Kind) -> impl Iterator<Item = PathBuf> {
    files_in(place, ending).into_iter().filter(move |path| foreign::is_a(path, wanted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::gguf::{file, value_text};

    /// A GGUF file with two values and no tensors.
    fn gguf_file(architecture: &str, name: &str) -> Vec<u8> {
        let values = [("general.architecture", architecture), ("general.name", name)];
        file(&values.map(|(key, value)| value_text(key, value)), &[], 0)
    }

    fn directory(files: &[(&str, &str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a directory");
        for (file, architecture, name) in files {
            fs::write(dir.path().join(file), gguf_file(architecture, name)).expect("a file");
        }
        dir
    }

    #[test]
    fn a_gguf_file_is_known_by_what_it_says_of_itself() {
        const TURBO: &str = "acestep-v15-turbo";
        for (files, expected) in [
            // The name of the file, if the content does not contradict it.
            (
                &[("acestep-v15-turbo-Q8_0.gguf", "acestep-dit", "x")][..],
                Some("acestep-v15-turbo-Q8_0.gguf"),
            ),
            (
                &[
                    ("acestep-v15-turbo-F32.gguf", "acestep-vae", "vae"),
                    ("acestep-v15-turbo-Q8_0.gguf", "acestep-dit", TURBO),
                ],
                Some("acestep-v15-turbo-Q8_0.gguf"),
            ),
            // Another name.
            (&[("song.gguf", "acestep-dit", TURBO)], Some("song.gguf")),
            (&[("song.gguf", "acestep-lm", TURBO)], None),
            (&[("song.gguf", "acestep-dit", "acestep-v15-base")], None),
            // A file that has the name of another model.
            (&[("acestep-v15-base-Q8_0.gguf", "acestep-dit", TURBO)], None),
        ] {
            let dir = directory(files);
            let found = gguf(dir.path(), TURBO, Kind::Dit);
            assert_eq!(found, expected.map(|name| dir.path().join(name)), "{files:?}");
        }
    }

    #[test]
    fn of_several_companions_that_with_the_published_name_is_taken_or_all_are_told() {
        let dir = directory(&[
            ("a.gguf", "acestep-vae", "sound-a"),
            ("b.gguf", "acestep-vae", "sound-b"),
            ("text.gguf", "acestep-text-enc", "text"),
        ]);
        let paths = ["a.gguf", "b.gguf"].map(|name| dir.path().join(name));
        assert_eq!(companion(dir.path(), Kind::Vae), Match::Several(paths.into()));
        let text = dir.path().join("text.gguf");
        assert_eq!(companion(dir.path(), Kind::TextEncoder), Match::One(text));
        let named = dir.path().join("vae-BF16.gguf");
        fs::write(&named, gguf_file("acestep-vae", "sound-c")).expect("a file");
        assert_eq!(companion(dir.path(), Kind::Vae), Match::One(named));
        assert!(remedy(Kind::Vae).contains("`vae-BF16.gguf`"));
    }

    /// Another network would change the sound.
    #[test]
    fn a_published_file_that_is_cut_hides_no_other_and_an_empty_directory_hides_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let vae = dir.path().join("vae");
        fs::create_dir(&vae).expect("a directory");
        assert_eq!(companion(dir.path(), Kind::Vae), Match::Empty(vae.clone()));
        // A file that is no autoencoder is skipped, no matter how its name begins.
        fs::write(vae.join("other.safetensors"), "x").expect("a file");
        assert_eq!(companion(dir.path(), Kind::Vae), Match::Nothing);
        for name in ["model.safetensors", "ace_1.5_vae.safetensors"] {
            let path = vae.join(name);
            fs::write(&path, "version https://git-lfs.github.com/spec/v1").expect("a file");
            let found = if name.starts_with("ace") { path } else { vae.clone() };
            assert_eq!(companion(dir.path(), Kind::Vae), Match::One(found));
        }
    }
}
