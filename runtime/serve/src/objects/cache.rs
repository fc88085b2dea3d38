//! Copies of files that lie elsewhere: the oldest go when they take too much room.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::SystemTime,
};

const MOST: u64 = 8 << 30;
/// Copies between two looks at their size.
const LOOK: u32 = 64;

/// The number of copies that were made.
#[derive(Debug, Clone, Default)]
pub(super) struct Copies(Arc<AtomicU32>);

impl Copies {
    /// Counts a new copy below `root`. Removes the oldest ones now and then, when all are larger than the
    /// limit.
    pub(super) fn added(&self, root: &Path) {
        if !self.0.fetch_add(1, Ordering::Relaxed).is_multiple_of(LOOK) {
            return;
        }
        let mut files = Vec::new();
        for folder in ["results", "files"] {
            list_files(&root.join(folder), &mut files);
        }
        files.sort_by_key(|(time, _, _)| std::cmp::Reverse(*time));
        let mut newer = 0u64;
        for (_, bytes, path) in files {
            newer = newer.saturating_add(bytes);
            if newer > MOST
                && let Err(error) = fs::remove_file(&path)
            {
                tracing::warn!(%error, "a copy of a file stays");
            }
        }
    }
}

/// Adds the files below a folder, with their times and sizes.
fn list_files(folder: &Path, files: &mut Vec<(SystemTime, u64, PathBuf)>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(data) = entry.metadata() else { continue };
        if data.is_dir() {
            list_files(&entry.path(), files);
        } else {
            let time = data.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            files.push((time, data.len(), entry.path()));
        }
    }
}
