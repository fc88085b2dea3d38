//! The files of a request's source and reference songs.

use std::path::{Path, PathBuf};

use acestep_music::Request;

use crate::error::CliError;

/// Refuses to save a request if an output would overwrite one of its source songs.
pub(super) fn check_saved<'a>(
    request: &Request,
    outputs: impl Iterator<Item = &'a Path>,
) -> Result<(), CliError> {
    let real = |path: &Path| path.canonicalize().ok();
    let inputs: Vec<PathBuf> =
        request.source.files().filter_map(|path| real(Path::new(path))).collect();
    for path in outputs {
        if real(path).is_some_and(|path| inputs.contains(&path)) {
            let message = format!(
                "`{}` is both read and written: the saved request would not make the song again",
                path.display()
            );
            return Err(CliError::usage(message).hint("choose another --output"));
        }
    }
    Ok(())
}
