//! The zip archive of `torch.save`, in place.
//!
//! `*/data.pkl` describes the tensors, `*/data/{key}` has the values of a storage, uncompressed. Other
//! entries are ignored.
//!
//! Source: PyTorch `torch/serialization.py`.

use std::{collections::BTreeMap, io::Cursor, ops::Range};

use zip::{CompressionMethod, ZipArchive};

use super::Described;

/// A released model has under a thousand tensors.
const MOST_ENTRIES: usize = 1 << 16;
/// A released model's takes 100 kB.
const LONGEST_PICKLE: usize = 64 << 20;

/// An archive in larger content.
#[derive(Debug)]
pub(crate) struct Archive<'a> {
    /// The description.
    pub(crate) pickle: &'a [u8],
    /// The folder of the description, with its slash.
    folder: String,
    /// The places of the entries in the content.
    places: BTreeMap<String, Range<usize>>,
}

impl<'a> Archive<'a> {
    /// Opens the archive at `place` of `bytes`.
    pub(crate) fn open(bytes: &'a [u8], place: Range<usize>) -> Result<Self, String> {
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
        let pickles = places.iter().filter_map(|(name, place)| {
            name.strip_suffix("data.pkl").map(|folder| (folder.to_owned(), place.clone()))
        });
        let pickles: Vec<_> = pickles.collect();
        let [(folder, pickle)] = &pickles[..] else {
            let count = pickles.len();
            return Err(format!("it has {count} descriptions `data.pkl` instead of one"));
        };
        let (folder, pickle) = (folder.clone(), &bytes[pickle.clone()]);
        if pickle.len() > LONGEST_PICKLE {
            return Err(format!("its description has more than {LONGEST_PICKLE} bytes"));
        }
        let archive = Self { pickle, folder, places };
        match archive.entry("byteorder") {
            Some(order) if bytes[order.clone()].trim_ascii() != b"little" => {
                Err("its values are not little-endian".to_owned())
            }
            Some(_) | None => Ok(archive),
        }
    }

    pub(crate) fn storage(&self, tensor: &Described) -> Option<Range<usize>> {
        self.entry(&format!("data/{}", tensor.key))
    }

    fn entry(&self, name: &str) -> Option<Range<usize>> {
        self.places.get(&format!("{}{name}", self.folder)).cloned()
    }
}
