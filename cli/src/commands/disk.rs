//! Free space on disks.

use std::path::Path;

use sysinfo::Disks;

/// Returns the free bytes on the disk of `path`, or of its first existing parent folder.
pub(crate) fn free_at(path: &Path) -> Option<u64> {
    let existing = path.ancestors().find(|folder| folder.exists())?;
    // On Windows a canonical path has a prefix that matches no mount point.
    let path = match cfg!(windows) {
        true => std::path::absolute(existing).ok()?,
        false => existing.canonicalize().ok()?,
    };
    let disks = Disks::new_with_refreshed_list();
    let under = disks.iter().filter(|disk| path.starts_with(disk.mount_point()));
    under
        .max_by_key(|disk| disk.mount_point().components().count())
        .map(|disk| disk.available_space())
}
