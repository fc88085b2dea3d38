//! The header of a safetensors file.
//!
//! `u64 length (little-endian) | JSON of that length | tensors, one after the other without gaps`.
//!
//! The JSON maps a name to `{"dtype": "BF16", "shape": [..], "data_offsets": [begin, end]}`;
//! offsets start at the end of the header, and `__metadata__` is free text. We parse it ourselves,
//! because error messages must name the tensor.
//!
//! Source: <https://github.com/huggingface/safetensors#format>.

use std::{collections::BTreeMap, fmt, ops::Range, path::Path};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::Value;

use crate::{Error, pointer};

/// Maximum size of a header, as in the reference implementation.
const LIMIT: u64 = 100_000_000;
const LENGTH_BYTES: usize = 8;

/// One tensor as described in the header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Type name of the file.
    pub(crate) dtype: String,
    /// Shape.
    pub(crate) shape: Vec<usize>,
    /// Byte range, counted from the start of the file.
    pub(crate) range: Range<usize>,
}

/// Parses the header of the file with content `bytes`.
///
/// # Errors
/// A message that names `path`, for every invalid header or length.
pub(crate) fn parse(path: &Path, bytes: &[u8]) -> Result<BTreeMap<String, Entry>, Error> {
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
    let text = str::from_utf8(text).map_err(|error| broken(format!("not UTF-8: {error}")))?;
    let Fields(fields) =
        serde_json::from_str(text).map_err(|error| broken(format!("not JSON: {error}")))?;

    let mut entries = BTreeMap::new();
    for (name, value) in fields {
        if name == "__metadata__" {
            continue;
        }
        let entry = entry(value, start).map_err(|why| broken(format!("tensor `{name}`: {why}")))?;
        if entries.insert(name.clone(), entry).is_some() {
            return Err(broken(format!("tensor `{name}` is described twice")));
        }
    }
    let end = check_gaps(&entries, start).map_err(broken)?;
    match found {
        _ if found < end => Err(cut(end)),
        _ if found > end => Err(Error::TooLong { path: path.to_owned(), needed: end, found }),
        _ => Ok(entries),
    }
}

/// The keys of the header in order, including repeated ones.
struct Fields(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a map of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Fields(pairs))
            }
        }
        deserializer.deserialize_map(Pairs)
    }
}

#[derive(Deserialize)]
struct RawEntry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: [usize; 2],
}

/// Parses one tensor's description; `start` is the start of the data.
fn entry(value: Value, start: usize) -> Result<Entry, String> {
    let raw: RawEntry = serde_json::from_value(value).map_err(|error| error.to_string())?;
    let bits = bits(&raw.dtype).ok_or_else(|| format!("type `{}` is not known", raw.dtype))?;
    let [begin, end] = raw.data_offsets;
    let size = raw
        .shape
        .iter()
        .try_fold(bits, |product, &size| product.checked_mul(size))
        .ok_or_else(|| format!("shape {:?} is too large", raw.shape))?;
    if end.checked_sub(begin).and_then(|bytes| bytes.checked_mul(8)) != Some(size) {
        return Err(format!(
            "bytes {begin} to {end} are not the size of {} {:?}",
            raw.dtype, raw.shape
        ));
    }
    let range = begin.checked_add(start).zip(end.checked_add(start));
    let (begin, end) = range.ok_or("its offsets are too large")?;
    Ok(Entry { dtype: raw.dtype, shape: raw.shape, range: begin..end })
}

/// Returns the bits of one element. It also knows types that are not weights, so that their error
/// is the message about weights.
fn bits(dtype: &str) -> Option<usize> {
    Some(match dtype {
        "F4" => 4,
        "BOOL" | "U8" | "I8" | "F8_E5M2" | "F8_E4M3" | "F8_E8M0" => 8,
        "I16" | "U16" | "F16" | "BF16" => 16,
        "I32" | "U32" | "F32" => 32,
        "I64" | "U64" | "F64" | "C64" => 64,
        _ => return None,
    })
}

/// Checks that the tensors fill the file without gap or overlap; returns their end.
fn check_gaps(entries: &BTreeMap<String, Entry>, start: usize) -> Result<u64, String> {
    let mut ranges: Vec<_> =
        entries.iter().map(|(name, entry)| (entry.range.start, entry.range.end, name)).collect();
    ranges.sort_unstable();
    let mut at = start;
    for (begin, end, name) in ranges {
        if begin != at {
            return Err(format!(
                "tensor `{name}` begins at byte {begin}, the one before it ends at {at}"
            ));
        }
        at = end;
    }
    Ok(at as u64)
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

    #[test]
    fn every_way_a_header_can_be_wrong_has_its_own_message() {
        let one = r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
        assert_eq!(message(one, 8), "1 tensors");
        assert_eq!(message(r#"{"__metadata__":{"format":"pt"}}"#, 0), "0 tensors");
        for (header, data, says) in [
            (one, 7, "`w.safetensors` is cut: it has 69 bytes and its header speaks of 70"),
            (one, 9, "`w.safetensors` is too long: it has 71 bytes and its header speaks of 70"),
            ("{", 0, "not JSON: EOF while parsing"),
            ("[1]", 0, "expected a map of tensors"),
            (r#"{"a":1}"#, 0, "tensor `a`: invalid type"),
            (
                r#"{"a":{"dtype":"Q4_K","shape":[2],"data_offsets":[0,8]}}"#,
                8,
                "tensor `a`: type `Q4_K` is not known",
            ),
            (
                r#"{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}"#,
                8,
                "tensor `a`: bytes 0 to 8 are not the size of F32 [3]",
            ),
            (
                r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}"#,
                8,
                "tensor `a`: bytes 8 to 0 are not the size of F32 [2]",
            ),
            (
                r#"{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}}"#,
                8,
                "tensor `a`: shape [4294967296, 4294967296] is too large",
            ),
            (
                r#"{"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}}"#,
                8,
                "tensor `a`: invalid value",
            ),
            (
                r#"{"a":{"dtype":"F32","shape":[0],"data_offsets":[18446744073709551615,18446744073709551615]}}"#,
                8,
                "tensor `a`: its offsets are too large",
            ),
            (
                r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}"#,
                12,
                "tensor `a` begins at byte 67, the one before it ends at 63",
            ),
            (
                r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}"#,
                2,
                "tensor `a` is described twice",
            ),
        ] {
            let message = message(header, data);
            assert!(message.contains(says), "{header}: {message}");
            assert!(message.contains("w.safetensors"), "{message}");
        }
    }

    #[test]
    fn a_huge_header_is_refused_before_it_is_read() {
        let mut bytes = u64::MAX.to_le_bytes().to_vec();
        bytes.extend([b' '; 100]);
        let error = parse(Path::new("w"), &bytes).expect_err("huge");
        assert_eq!(
            error.to_string(),
            "`w` claims a header of 18446744073709551615 bytes, the limit is 100000000"
        );
    }

    #[test]
    fn a_git_lfs_pointer_is_called_one() {
        let pointer =
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 4790000000\n";
        let error = parse(Path::new("w"), pointer).expect_err("a pointer");
        assert!(error.to_string().contains("Git LFS pointer"), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("git lfs pull")), "{error}");
    }

    #[test]
    fn a_header_that_is_not_utf8_is_refused() {
        let mut bytes = file("{\"a\":1}", 0);
        bytes[10] = 0xFF;
        let error = parse(Path::new("w"), &bytes).expect_err("not UTF-8");
        assert!(error.to_string().contains("not UTF-8"), "{error}");
    }
}
