//! Git LFS pointers: three lines of text that replace a large file in a clone without its files.
//!
//! Source: <https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md>.

use std::path::Path;

use crate::Error;

/// First bytes of every pointer.
const START: &[u8] = b"version https://git-lfs";
/// Reason for messages, after "it" or a name.
pub(crate) const REASON: &str = "is a Git LFS pointer, not the file itself";

pub(crate) fn is_one(bytes: &[u8]) -> bool {
    bytes.starts_with(START)
}

/// Refuses a pointer instead of the file at `path`, which starts with `bytes`.
pub(crate) fn refuse(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    if !is_one(bytes) {
        return Ok(());
    }
    Err(Error::Foreign {
        path: path.to_owned(),
        reason: format!("it {REASON}"),
        remedy: "run `git lfs pull` in its directory, or fetch the file with `hf download`".into(),
    })
}
