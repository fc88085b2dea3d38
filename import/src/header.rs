//! The header of a safetensors file, read by the crate `safetensors`.
//!
//! `u64 length (little-endian) | JSON of that length | tensors, one after the other without gaps`.
//!
//! The crate checks types, shapes and offsets. Added here: the length of the file, with the message
//! for a cut one, and repeated names: the crate takes the last.
//!
//! Source: <https://github.com/huggingface/safetensors#format>.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    ops::Range,
    path::Path,
};

use safetensors::tensor::Metadata;
use serde::{
    Deserializer as _,
    de::{Error as _, IgnoredAny, MapAccess, Visitor},
};

use crate::{Error, pointer};

/// Maximum size of a header, as in the reference implementation.
const LIMIT: u64 = 100_000_000;
const LENGTH_BYTES: usize = 8;

/// One tensor as described in the header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Type name of the file.
    pub(crate) dtype: String,
    pub(crate) shape: Vec<usize>,
    /// Byte range, counted from the start of the file.
    pub(crate) range: Range<usize>,
}

/// Returns the tensors of the file with content `bytes`, by name.
pub(crate) fn parse(path: &Path, bytes: &[u8]) -> Result<BTreeMap<String, Entry>, Error> {
    let (start, header) = read(path, bytes)?;
    let entry = |(name, info): (String, &safetensors::tensor::TensorInfo)| {
        let (begin, end) = info.data_offsets;
        let (dtype, shape) = (info.dtype.to_string(), info.shape.clone());
        (name, Entry { dtype, shape, range: start + begin..start + end })
    };
    Ok(header.tensors().into_iter().map(entry).collect())
}

/// Returns the free text of the file with content `bytes`: pairs of a key and a value.
pub(crate) fn metadata(path: &Path, bytes: &[u8]) -> Result<BTreeMap<String, String>, Error> {
    let (_, header) = read(path, bytes)?;
    Ok(header.metadata().clone().unwrap_or_default().into_iter().collect())
}

/// Returns the start of the data and the checked header.
fn read(path: &Path, bytes: &[u8]) -> Result<(usize, Metadata), Error> {
    let broken = |reason: String| Error::BadHeader { path: path.to_owned(), reason };
    let found = bytes.len() as u64;
    pointer::refuse(path, bytes)?;
    let cut = |needed| Error::Cut { path: path.to_owned(), needed, found };
    let length = bytes.first_chunk::<LENGTH_BYTES>().ok_or_else(|| cut(LENGTH_BYTES as u64))?;
    let claimed = u64::from_le_bytes(*length);
    if claimed > LIMIT {
        return Err(Error::HugeHeader { path: path.to_owned(), claimed, limit: LIMIT });
    }
    let start = LENGTH_BYTES + claimed as usize;
    let text = bytes.get(LENGTH_BYTES..start).ok_or_else(|| cut(start as u64))?;
    // Not `SafeTensors::read_metadata`: its sum of the sizes can overflow, which panics.
    let header: Metadata = serde_json::Deserializer::from_slice(text)
        .deserialize_map(Names)
        .and_then(|()| serde_json::from_slice(text))
        .map_err(|error| broken(error.to_string()))?;
    let end = start.checked_add(header.data_len()).map(|end| end as u64);
    match end.ok_or_else(|| broken("its tensors are too large".to_owned()))? {
        end if found < end => Err(cut(end)),
        end if found > end => Err(Error::TooLong { path: path.to_owned(), needed: end, found }),
        _ => Ok((start, header)),
    }
}

/// Refuses a map with a repeated key.
struct Names;

impl<'de> Visitor<'de> for Names {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut names = BTreeSet::new();
        while let Some((name, IgnoredAny)) = map.next_entry::<String, _>()? {
            if let Some(name) = names.replace(name) {
                return Err(A::Error::custom(format_args!("tensor `{name}` is described twice")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, data: usize) -> Vec<u8> {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        bytes.resize(bytes.len() + data, 0);
        bytes
    }

    fn message(header: &str, data: usize) -> String {
        match parse(Path::new("w.safetensors"), &file(header, data)) {
            Ok(entries) => format!("{} tensors", entries.len()),
            Err(error) => error.to_string(),
        }
    }

    /// The crate checks types, shapes and offsets: two rows show that its message arrives.
    #[test]
    fn a_header_that_is_wrong_is_refused_with_the_reason() {
        let one = r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
        assert_eq!(message(one, 8), "1 tensors");
        assert_eq!(message(r#"{"__metadata__":{"format":"pt"}}"#, 0), "0 tensors");
        // Each size is allowed; their sum and the header are more than a number can hold.
        let most = u64::MAX / 8;
        let ends: Vec<u64> = (0..=8).map(|i| i * most).chain([u64::MAX]).collect();
        let tensors = ends.windows(2).enumerate().map(|(i, ends)| {
            let (begin, end, size) = (ends[0], ends[1], ends[1] - ends[0]);
            format!(r#""t{i}":{{"dtype":"U8","shape":[{size}],"data_offsets":[{begin},{end}]}}"#)
        });
        let huge = format!("{{{}}}", tensors.collect::<Vec<_>>().join(","));
        let twice = r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":1}"#;
        for (header, data, says) in [
            (one, 7, "`w.safetensors` is cut: it has 69 bytes and its header speaks of 70"),
            (one, 9, "`w.safetensors` is too long: it has 71 bytes and its header speaks of 70"),
            ("[1]", 0, "expected a map of tensors"),
            (
                r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}"#,
                8,
                "invalid offset for tensor `a`",
            ),
            (
                r#"{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}}"#,
                8,
                "overflow computing buffer size",
            ),
            (twice, 1, "tensor `a` is described twice"),
            (&*huge, 0, "its tensors are too large"),
        ] {
            let message = message(header, data);
            assert!(message.contains(says), "{header}: {message}");
            assert!(message.contains("w.safetensors"), "{message}");
        }
    }

    #[test]
    fn a_file_that_is_not_safetensors_is_refused() {
        let huge = [&u64::MAX.to_le_bytes()[..], &[b' '; 100]].concat();
        let mut not_utf8 = file("{\"a\":1}", 0);
        not_utf8[10] = 0xFF;
        let pointer =
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 4790000000\n";
        for (bytes, says) in [
            (huge, "claims a header of 18446744073709551615 bytes, the limit is 100000000"),
            (not_utf8, "invalid unicode code point"),
            (pointer.to_vec(), "Git LFS pointer"),
        ] {
            let error = parse(Path::new("w"), &bytes).expect_err(says);
            assert!(error.to_string().contains(says), "{error}");
            let is_pointer = error.hint().is_some_and(|hint| hint.contains("git lfs pull"));
            assert_eq!(is_pointer, says == "Git LFS pointer", "{error}");
        }
    }

    #[test]
    fn the_free_text_is_pairs_and_no_tensor() {
        let bytes = file(r#"{"__metadata__":{"format":"pt","a":"b"}}"#, 0);
        let pairs = metadata(Path::new("w"), &bytes).expect("a header");
        let expected = [("a", "b"), ("format", "pt")].map(|(k, v)| (k.into(), v.into()));
        assert_eq!(pairs, BTreeMap::from(expected));
    }
}
