//! Where a command writes that makes one file of another.

use std::path::Path;

use acestep_runtime::files::{Existing, check_target};
use anyhow::Result;

use crate::error::Refusal;

/// Refuses what could not be written, and what would replace one of the files that are read.
///
/// # Errors
/// Those of [`check_target`], and a name that is one of the `inputs`.
pub(crate) fn check(path: &Path, inputs: &[&Path], existing: Existing) -> Result<()> {
    if inputs.iter().any(|input| is_same(input, path)) {
        let message = format!("`{}` would be written over itself", path.display());
        return Err(Refusal::usage(message).hint("name another file with --output").into());
    }
    Ok(check_target(path, existing)?)
}

/// Whether both names lead to one file.
fn is_same(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}
