//! Files that a task writes: their names and formats, decided and checked before any work.
//!
//! | module | content |
//! |---|---|
//! | `names` | numbers and seeds in names |
//! | `format` | formats of sounds, latents and times |
//! | `error` | names that cannot be used |

mod error;
mod format;
mod names;

use std::path::{Path, PathBuf};

use acestep_engine::{
    Error,
    files::{Existing, check_target},
};
use acestep_music::Request;

pub use error::OutputError;
pub use format::{latents_format, song_format, speech_format, times_format};
pub use names::{SongPaths, names, numbered};

/// Refuses a file that cannot be written, or that is also one of `inputs`.
///
/// # Errors
/// [`OutputError::OverItself`]; the errors of [`check_target`].
pub fn check<'a>(
    path: &Path,
    inputs: impl IntoIterator<Item = &'a Path>,
    existing: Existing,
) -> Result<(), Error> {
    check_inputs(path, inputs)?;
    check_target(path, existing)
}

/// Refuses a file that is also one of `inputs`: both names may lead to it.
///
/// # Errors
/// [`OutputError::OverItself`].
pub fn check_inputs<'a>(
    path: &Path,
    inputs: impl IntoIterator<Item = &'a Path>,
) -> Result<(), Error> {
    let Ok(own) = path.canonicalize() else { return Ok(()) };
    match inputs.into_iter().any(|input| input.canonicalize().is_ok_and(|input| input == own)) {
        true => Err(OutputError::OverItself(path.to_owned()).into()),
        false => Ok(()),
    }
}

/// Refuses `files` that are `inputs` too, or could not be written. The task makes `folder`, which need
/// not exist.
///
/// # Errors
/// [`OutputError::OverItself`]; the errors of [`check_target`].
pub fn check_all<'a>(
    files: &[PathBuf],
    inputs: impl Iterator<Item = &'a Path> + Clone,
    folder: Option<&Path>,
    existing: Existing,
) -> Result<(), Error> {
    let new = folder.filter(|folder| is_absent(folder));
    new.map_or(Ok(()), check_new_folder)?;
    let new = new.map(place);
    files.iter().try_for_each(|path| {
        check_inputs(path, inputs.clone())?;
        // A folder that does not exist yet contains no conflicting file.
        let place = place(path);
        let is_made = place.parent().is_some_and(|parent| {
            is_absent(parent) && new.as_ref().is_some_and(|folder| folder.starts_with(parent))
        });
        if is_made { Ok(()) } else { check_target(path, existing) }
    })
}

/// Returns the files that a song of `request` is made from: sounds, latents and adapters.
pub fn sources(request: &Request) -> impl Iterator<Item = &Path> {
    let adapters = request.compute.adapter.iter().flatten();
    request.source.files().chain(adapters).map(Path::new)
}

/// Returns the files that `texts` name as `@FILE`.
pub fn named_files<const N: usize>(
    texts: [Option<&str>; N],
) -> impl Iterator<Item = &Path> + Clone {
    texts.into_iter().flatten().filter_map(|text| text.strip_prefix('@')).map(Path::new)
}

/// Refuses the name of a picture without the extension of a PNG; `field` names it.
///
/// # Errors
/// [`OutputError::NoPicture`]; [`Error::IsDirectory`].
pub fn check_picture(field: &'static str, path: &Path) -> Result<(), Error> {
    match path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("png")) {
        true => Ok(()),
        false if path.is_dir() => Err(Error::IsDirectory { path: path.to_owned() }),
        false => Err(OutputError::NoPicture { field, path: path.to_owned() }.into()),
    }
}

/// Refuses an output beside an input that has no folder.
///
/// # Errors
/// [`OutputError::Beside`].
pub fn check_beside(input: &Path) -> Result<(), Error> {
    match is_stream(input) {
        true => Err(OutputError::Beside(input.to_owned()).into()),
        false => Ok(()),
    }
}

/// Refuses to save a request with one of `inputs` that is gone after the run.
///
/// # Errors
/// [`OutputError::Gone`].
pub fn check_lasting<'a>(inputs: impl IntoIterator<Item = &'a Path>) -> Result<(), Error> {
    match inputs.into_iter().find(|input| is_stream(input)) {
        Some(input) => Err(OutputError::Gone(input.to_owned()).into()),
        None => Ok(()),
    }
}

/// True for a pipe, and for a name of standard input, even if the shell put a file there.
fn is_stream(input: &Path) -> bool {
    let folder = input.parent().map(place);
    let is_system = |of: PathBuf| {
        of.starts_with("/proc") || of == Path::new("/dev") || of == Path::new("/dev/fd")
    };
    folder.is_some_and(is_system) || input.metadata().is_ok_and(|of| !of.is_file() && !of.is_dir())
}

/// True if nothing has this name, not even a broken link.
pub fn is_absent(path: &Path) -> bool {
    path.symlink_metadata().is_err()
}

/// Returns `path` in canonical form, without links and dots as far as it exists.
pub fn place(path: &Path) -> PathBuf {
    if let Ok(found) = path.canonicalize() {
        return found;
    }
    match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) if folder.as_os_str().is_empty() => {
            place(Path::new(".")).join(name)
        }
        (Some(folder), Some(name)) => place(folder).join(name),
        _ => path.to_owned(),
    }
}

/// Refuses a folder that could not be created in its nearest existing parent.
///
/// # Errors
/// The errors of [`check_target`].
pub fn check_new_folder(folder: &Path) -> Result<(), Error> {
    let absent = |path: &&Path| !path.as_os_str().is_empty() && is_absent(path);
    let first = folder.ancestors().take_while(absent).last();
    // Without the last separator: `check_target` refuses `new/` as a file.
    let name = |path: &Path| path.components().collect::<PathBuf>();
    first.map_or(Ok(()), |path| check_target(&name(path), Existing::Replace))
}

/// Refuses a folder for the conditions of the diffusion transformer that could not be written, or is one of
/// `inputs`, or holds one that would be replaced. It may not exist yet.
///
/// # Errors
/// The errors of [`check`].
pub fn check_conditioning(
    folder: &Path,
    inputs: &[&Path],
    existing: Existing,
) -> Result<(), Error> {
    if is_absent(folder) {
        return check_new_folder(folder);
    }
    check_inputs(folder, inputs.iter().copied())?;
    let names = [
        "encoder_hidden_states.bin",
        "context_latents.bin",
        "initial_noise.bin",
        "conditioning.safetensors",
    ];
    let check = |name: &str| check(&folder.join(name), inputs.iter().copied(), existing);
    names.into_iter().try_for_each(check)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_adapter_and_a_reference_of_a_request_are_not_written_over() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        let [adapter, reference, other] = ["lora.safetensors", "me.wav", "b.wav"].map(path);
        for name in [&adapter, &reference, &other] {
            std::fs::write(name, "own").expect("written");
        }
        let mut request = Request::default();
        request.compute.adapter = Some(vec![adapter.clone()]);
        request.source.reference_audio = Some(vec![reference.clone()]);
        let of = |name: &str| check(Path::new(name), sources(&request), Existing::Replace);
        for name in [&adapter, &reference] {
            let error = of(name).expect_err("an input").to_string();
            assert_eq!(error, format!("`{name}` would be written over itself"));
        }
        of(&other).expect("no input");
    }

    #[test]
    fn the_name_of_a_new_folder_may_end_with_a_separator() {
        let folder = tempfile::tempdir().expect("a folder");
        check_new_folder(&folder.path().join("new/deeper/")).expect("a folder's name");
        check_new_folder(&folder.path().join("new/")).expect("a folder's name");
    }
}
