//! The header of a GGUF file.
//!
//! `GGUF | u32 version | u64 tensors | u64 values | values | tensors | padding | data`, all
//! little-endian. A text is `u64 length | UTF-8`; a value is `text key | u32 type | value`; a
//! tensor is `text name | u32 n | n u64 sizes, the innermost first | u32 type | u64 offset in the
//! data`. The data begins at the next multiple of `general.alignment`; the default is 32.
//!
//! No length in the file is trusted before that many bytes exist.
//!
//! Source: ggml `docs/gguf.md`, versions 2 and 3.

use std::{collections::BTreeMap, path::Path};

use super::reader::{Reader, Value};
use crate::{Directory, Error, blocks::Block, header::Entry, pointer};

/// First bytes of every GGUF file.
pub(super) const MAGIC: &[u8; 4] = b"GGUF";
/// Key of the alignment of tensors.
const ALIGNMENT: &str = "general.alignment";
/// ggml's limit.
const MOST_DIMENSIONS: u32 = 4;

/// Content of a header.
#[derive(Debug)]
pub(super) struct Header {
    /// The values by key.
    pub(super) values: BTreeMap<String, Value>,
    /// The tensors by name, sizes outermost first.
    pub(super) tensors: BTreeMap<String, Entry>,
}

impl Header {
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        match self.values.get(key)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn texts(&self, key: &str) -> Option<&[String]> {
        match self.values.get(key)? {
            Value::Texts(texts) => Some(texts),
            _ => None,
        }
    }

    /// Returns the integers at `key`.
    pub(super) fn numbers(&self, key: &str) -> Option<&[u64]> {
        match self.values.get(key)? {
            Value::Numbers(numbers) => Some(numbers),
            _ => None,
        }
    }
}

/// Parses the header of the file with content `bytes`.
pub(super) fn parse(path: &Path, bytes: &[u8]) -> Result<Header, Error> {
    let broken = |reason| Error::BadHeader { path: path.to_owned(), reason };
    let (mut reader, [tensors, values]) = begin(path, bytes)?;
    let values = read_values(&mut reader, values).map_err(broken)?;
    let described = read_tensors(&mut reader, tensors).map_err(broken)?;

    let alignment = match values.get(ALIGNMENT) {
        None => 32,
        Some(Value::Unsigned(multiple)) if multiple.is_power_of_two() && *multiple <= 1 << 20 => {
            *multiple as usize
        }
        Some(other) => return Err(broken(format!("its {ALIGNMENT} is {other:?}"))),
    };
    let start = reader.at().next_multiple_of(alignment);
    let mut entries = BTreeMap::new();
    for Described { name, shape, kind, offset } in described {
        let dtype =
            type_name(kind).map_or_else(|| format!("of the unknown type {kind}"), str::to_owned);
        let (values, size) = sizes(&dtype).ok_or_else(|| Error::Foreign {
            path: path.to_owned(),
            reason: format!("tensor `{name}` is {dtype}"),
            remedy: format!("take the file in {READ}: those are read"),
        })?;
        let entry = entry(shape, (&dtype, values, size), start, offset, alignment)
            .map_err(|why| broken(format!("tensor `{name}` {why}")))?;
        let (needed, found) = (entry.range.end as u64, bytes.len() as u64);
        if needed > found {
            return Err(Error::Cut { path: path.to_owned(), needed, found });
        }
        if entries.insert(name.clone(), entry).is_some() {
            return Err(broken(format!("tensor `{name}` is described twice")));
        }
    }
    Ok(Header { values, tensors: entries })
}

/// Returns the texts at `keys` of the file at `path`. It stops after the last of them: programs write
/// the identifying keys before the token lists.
pub(super) fn first_texts<const N: usize>(
    path: &Path,
    keys: [&str; N],
) -> Result<[Option<String>; N], Error> {
    let broken = |reason| Error::BadHeader { path: path.to_owned(), reason };
    let bytes = Directory::open_file(path)?;
    pointer::refuse(path, bytes.all())?;
    let (mut reader, [_, count]) = begin(path, bytes.all())?;
    let mut found = [const { None }; N];
    for _ in 0..count {
        let (key, kind) = (reader.text().map_err(broken)?, reader.u32().map_err(broken)?);
        let value = reader.value(kind, 0).map_err(broken)?;
        if let (Some(at), Value::Text(text)) = (keys.iter().position(|own| *own == key), value) {
            found[at] = Some(text);
        }
        if found.iter().all(Option::is_some) {
            break;
        }
    }
    Ok(found)
}

/// Reads the version, and the numbers of tensors and values.
fn begin<'a>(path: &Path, bytes: &'a [u8]) -> Result<(Reader<'a>, [u64; 2]), Error> {
    let broken = |reason| Error::BadHeader { path: path.to_owned(), reason };
    let mut reader = Reader::of(bytes);
    // A file that is cut here is damaged, not of another version.
    Reader::of(bytes).take(8).map_err(broken)?;
    let version = version(&mut reader).map_err(|reason| Error::Foreign {
        path: path.to_owned(),
        reason,
        remedy: "convert it again with a program of 2024 or later: versions 2 and 3 are read"
            .into(),
    })?;
    debug_assert!((2..=3).contains(&version));
    let counts = [reader.u64().map_err(broken)?, reader.u64().map_err(broken)?];
    Ok((reader, counts))
}

/// The supported types, for messages.
const READ: &str = "F32, F16, BF16, Q8_0, Q6_K, Q5_K, Q4_K, Q3_K, Q2_K, Q5_1, Q5_0, Q4_1 or Q4_0";

/// Checks magic and version.
fn version(reader: &mut Reader<'_>) -> Result<u32, String> {
    if reader.take(4)? != MAGIC {
        return Err("it does not begin with `GGUF`".into());
    }
    match reader.u32()? {
        version @ 2..=3 => Ok(version),
        version if (1..=3).contains(&version.swap_bytes()) => {
            Err("it is a GGUF file in big-endian".into())
        }
        version => Err(format!("it is a GGUF file of version {version}")),
    }
}

fn read_values(reader: &mut Reader<'_>, count: u64) -> Result<BTreeMap<String, Value>, String> {
    // A key's length, its type and one byte.
    reader.expect(count, 13, "values")?;
    let mut values = BTreeMap::new();
    for _ in 0..count {
        let key = reader.text()?;
        let kind = reader.u32()?;
        let value = reader.value(kind, 0).map_err(|why| format!("value `{key}`: {why}"))?;
        if values.insert(key.clone(), value).is_some() {
            return Err(format!("value `{key}` is there twice"));
        }
    }
    Ok(values)
}

/// A tensor as described in the file.
struct Described {
    name: String,
    shape: Vec<usize>,
    kind: u32,
    offset: u64,
}

fn read_tensors(reader: &mut Reader<'_>, count: u64) -> Result<Vec<Described>, String> {
    // A name's length, the number of sizes, one size, type and offset.
    reader.expect(count, 32, "tensors")?;
    let mut tensors = Vec::new();
    for _ in 0..count {
        let name = reader.text()?;
        let dimensions = reader.u32()?;
        if !(1..=MOST_DIMENSIONS).contains(&dimensions) {
            return Err(format!("tensor `{name}` has {dimensions} dimensions"));
        }
        let sizes = (0..dimensions).map(|_| reader.u64()).collect::<Result<Vec<_>, _>>()?;
        let shape = sizes.iter().rev().map(|&size| usize::try_from(size));
        let shape = shape
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| format!("tensor `{name}` has the sizes {sizes:?}"))?;
        tensors.push(Described { name, shape, kind: reader.u32()?, offset: reader.u64()? });
    }
    Ok(tensors)
}

/// Returns the place of a tensor; the tuple is `(type, values of one block, bytes of one block)`.
fn entry(
    shape: Vec<usize>,
    (dtype, values, size): (&str, usize, usize),
    start: usize,
    offset: u64,
    alignment: usize,
) -> Result<Entry, String> {
    let row = shape.last().copied().unwrap_or_default();
    if !row.is_multiple_of(values) {
        return Err(format!("is {shape:?}, but {dtype} has blocks of {values} in a row"));
    }
    let huge = || format!("of {shape:?} at byte {offset} of the data is too large");
    let product = |a: usize, &b: &usize| a.checked_mul(b);
    let count = shape.iter().try_fold(1, product).ok_or_else(huge)?;
    let bytes = (count / values).checked_mul(size).ok_or_else(huge)?;
    let offset = usize::try_from(offset).map_err(|_| huge())?;
    if !offset.is_multiple_of(alignment) {
        return Err(format!("begins at byte {offset}, which is no multiple of {alignment}"));
    }
    let begin = start.checked_add(offset).ok_or_else(huge)?;
    let end = begin.checked_add(bytes).ok_or_else(huge)?;
    Ok(Entry { dtype: dtype.to_owned(), shape, range: begin..end })
}

/// Returns values and bytes of one block, for a supported type.
fn sizes(dtype: &str) -> Option<(usize, usize)> {
    Some(match dtype {
        "F32" => (1, 4),
        "F16" | "BF16" => (1, 2),
        // Texts; no network takes them as weights.
        "I8" => (1, 1),
        _ => {
            let block = Block::from_name(dtype)?;
            (block.values(), block.bytes())
        }
    })
}

/// ggml's names of tensor types by number, ten in a text; a dash where there is no type.
const TYPES: [&str; 5] = [
    // 0
    "F32 F16 Q4_0 Q4_1 - - Q5_0 Q5_1 Q8_0 Q8_1",
    // 10
    "Q2_K Q3_K Q4_K Q5_K Q6_K Q8_K IQ2_XXS IQ2_XS IQ3_XXS IQ1_S",
    // 20
    "IQ4_NL IQ3_S IQ2_S IQ4_XS I8 I16 I32 I64 F64 IQ1_M",
    // 30
    "BF16 - - - TQ1_0 TQ2_0 - - - MXFP4",
    // 40
    "NVFP4",
];

/// Returns ggml's name of tensor type `kind`.
fn type_name(kind: u32) -> Option<&'static str> {
    let kind = kind as usize;
    TYPES.get(kind / 10)?.split(' ').nth(kind % 10).filter(|name| *name != "-")
}

#[cfg(test)]
mod tests;
