//! The members of a tar archive, in place; and the archive in gzip.
//!
//! Source: POSIX.1-2024 `pax`, with the long names of GNU tar, as the crate `tar` reads them; RFC 1952.

use std::{
    collections::BTreeMap,
    io::{Cursor, Read},
    ops::Range,
};

use flate2::read::GzDecoder;
use tar::{Archive, EntryType};

/// A released archive has about thirty members.
const MOST_MEMBERS: usize = 4096;
/// Largest size of an unpacked archive. A released one has 1.4 GB.
const LARGEST: u64 = 16 << 30;
/// Weights hardly shrink in gzip; masks of ones and zeros do, and are a fifth of the file.
const MOST_TIMES: u64 = 8;

pub(super) fn is_gzip(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1F, 0x8B])
}

/// True if `bytes` begin with a member of a tar.
pub(super) fn is_tar(bytes: &[u8]) -> bool {
    bytes.get(257..262) == Some(b"ustar")
}

/// Unpacks `bytes`, which are in gzip.
pub(super) fn unpacked(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let limit = LARGEST.min((64 << 20) + MOST_TIMES * bytes.len() as u64);
    let mut all = Vec::new();
    GzDecoder::new(bytes)
        .take(limit + 1)
        .read_to_end(&mut all)
        .map_err(|error| format!("it cannot be unpacked: {error}"))?;
    if all.len() as u64 > limit {
        return Err(format!(
            "{} bytes unpack to more than {limit}, which no archive of weights does",
            bytes.len()
        ));
    }
    Ok(all)
}

/// Returns the files of the tar `bytes` with their places. A name has no `./` before it. Of two files of
/// one name the last counts, as when `tar` unpacks them: a released archive has a dictionary twice.
pub(super) fn of(bytes: &[u8]) -> Result<BTreeMap<String, Range<usize>>, String> {
    if !is_tar(bytes) {
        return Err("it is no archive: it is no tar, and no tar in gzip".into());
    }
    let broken = |error: std::io::Error| format!("its list of members is damaged: {error}");
    let mut archive = Archive::new(Cursor::new(bytes));
    let mut members = BTreeMap::new();
    for entry in archive.entries_with_seek().map_err(broken)? {
        let entry = entry.map_err(broken)?;
        let name = String::from_utf8(entry.path_bytes().into_owned())
            .map_err(|_| "a member has a name that is not UTF-8".to_owned())?;
        match entry.header().entry_type() {
            EntryType::Directory => continue,
            EntryType::Regular | EntryType::Continuous => (),
            other => return Err(format!("member `{name}` is no file, but {other:?}")),
        }
        let own = name.strip_prefix("./").unwrap_or(&name).to_owned();
        let is_plain = !own.is_empty() && own != ".." && !own.contains(['/', '\\', '\0']);
        if !is_plain {
            return Err(format!("member `{name}` is in another directory"));
        }
        let range = usize::try_from(entry.raw_file_position()).ok().and_then(|start| {
            let end = start.checked_add(usize::try_from(entry.size()).ok()?)?;
            (end <= bytes.len()).then_some(start..end)
        });
        let range = range.ok_or_else(|| {
            let (size, all) = (entry.size(), bytes.len());
            format!("it is cut: member `{own}` has {size} bytes, and the file {all}")
        })?;
        members.insert(own, range);
        if members.len() > MOST_MEMBERS {
            return Err(format!("it has more than {MOST_MEMBERS} members"));
        }
    }
    Ok(members)
}
