//! The files of a request's source and reference songs.

use std::path::{Path, PathBuf};

use acestep_music::Request;

use crate::error::CliError;

/// Refuses an output that would overwrite one of the request's source files, which the song needs
/// to be made again.
pub(super) fn check<'a>(
    request: &Request,
    outputs: impl Iterator<Item = &'a Path>,
) -> Result<(), CliError> {
    let real = |path: &Path| path.canonicalize().ok();
    let inputs: Vec<PathBuf> =
        request.source.files().filter_map(|path| real(Path::new(path))).collect();
    for path in outputs {
        if real(path).is_some_and(|path| inputs.contains(&path)) {
            let message = format!("`{}` would be written over itself", path.display());
            return Err(CliError::usage(message).hint("name another file"));
        }
    }
    Ok(())
}
