//! The weights: a zip archive of `torch.save`, in place.
//!
//! `*/data.pkl` describes the tensors, `*/data/{key}` has the values of a storage, uncompressed. Other
//! entries are ignored.
//!
//! Source: PyTorch `torch/serialization.py`.

use std::{
    collections::BTreeMap,
    io::{Cursor, Read},
    ops::Range,
};

use zip::{CompressionMethod, ZipArchive};

use crate::{
    header::Entry,
    pickle::{self, Described},
};

/// A released model has under a thousand tensors.
const MOST_ENTRIES: usize = 1 << 16;
/// A released model's takes 100 kB.
const LONGEST_PICKLE: u64 = 64 << 20;

/// Returns the tensors of the zip archive at `place` of `bytes`, with their places in `bytes`.
///
/// # Errors
/// The reason why it is no checkpoint.
pub(super) fn entries(
    bytes: &[u8],
    place: Range<usize>,
) -> Result<BTreeMap<String, Entry>, String> {
    let broken = |error: zip::result::ZipError| format!("it is no zip archive: {error}");
    let mut archive = ZipArchive::new(Cursor::new(&bytes[place.clone()])).map_err(broken)?;
    if archive.len() > MOST_ENTRIES {
        return Err(format!("it has {} entries, the limit is {MOST_ENTRIES}", archive.len()));
    }
    let mut places = BTreeMap::new();
    for index in 0..archive.len() {
        let file = archive.by_index_raw(index).map_err(broken)?;
        let name = file.name().to_owned();
        if file.encrypted() || file.compression() != CompressionMethod::Stored {
            return Err(format!("entry `{name}` is compressed or encrypted"));
        }
        let start = file.data_start().unwrap_or(u64::MAX);
        let end = start.checked_add(file.size()).filter(|&end| end <= place.len() as u64);
        let end = end.ok_or_else(|| format!("entry `{name}` is cut"))?;
        let range = place.start + start as usize..place.start + end as usize;
        if places.insert(name.clone(), range).is_some() {
            return Err(format!("entry `{name}` is there twice"));
        }
    }
    let pickles: Vec<_> =
        places.keys().filter_map(|name| name.strip_suffix("data.pkl")).map(str::to_owned).collect();
    let [folder] = &pickles[..] else {
        return Err(format!("it has {} descriptions `data.pkl` instead of one", pickles.len()));
    };
    let of = |name: &str| places.get(&format!("{folder}{name}")).cloned();
    if let Some(order) = of("byteorder")
        && bytes[order].trim_ascii() != b"little"
    {
        return Err("its values are not little-endian".to_owned());
    }
    let mut pickle = Vec::new();
    let range = of("data.pkl").unwrap_or_default();
    let read = bytes[range].take(LONGEST_PICKLE + 1).read_to_end(&mut pickle);
    read.map_err(|error| error.to_string())?;
    if pickle.len() as u64 > LONGEST_PICKLE {
        return Err(format!("its description has more than {LONGEST_PICKLE} bytes"));
    }
    let described = pickle::dictionary(&pickle)?;
    let entry = |(name, tensor): (String, Described)| {
        let storage = of(&format!("data/{}", tensor.key))
            .ok_or_else(|| format!("tensor `{name}` is in the missing `data/{}`", tensor.key))?;
        let range = tensor.range(storage).map_err(|reason| format!("tensor `{name}` {reason}"))?;
        Ok((name, Entry { dtype: tensor.dtype.to_owned(), shape: tensor.sizes, range }))
    };
    described.into_iter().map(entry).collect()
}
