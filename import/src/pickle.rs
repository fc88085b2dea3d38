//! Pickles of `torch.save`: the types, shapes and places of tensors.
//!
//! `torch.save(model.state_dict())` writes an `OrderedDict` of calls `_rebuild_tensor_v2`, and
//! `torch.save(tensor)` one such call. `reader` reads the instructions that they use, and knows only those
//! two names and the classes of storages. Any other name or instruction is an error: nothing is executed.
//!
//! Source: Python's `pickletools`; PyTorch `torch/_utils.py` and `torch/serialization.py`.

mod archive;
mod reader;
#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, ops::Range, rc::Rc};

pub(crate) use archive::Archive;
use reader::{Item, Reader};

/// (Class of a storage in module `torch`, type of its values, bytes of a value.)
const STORAGES: [(&str, &str, usize); 9] = [
    ("FloatStorage", "F32", 4),
    ("HalfStorage", "F16", 2),
    ("BFloat16Storage", "BF16", 2),
    ("DoubleStorage", "F64", 8),
    ("LongStorage", "I64", 8),
    ("IntStorage", "I32", 4),
    ("ShortStorage", "I16", 2),
    ("ByteStorage", "U8", 1),
    ("BoolStorage", "BOOL", 1),
];

/// First bytes: protocol 2.
const PROTOCOL: &[u8] = b"\x80\x02";
/// More bytes than the pickle of one tensor has.
const LONGEST_TENSOR: usize = 1 << 16;

/// A tensor as described.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Described {
    /// Class of the storage in module `torch`, such as `FloatStorage`.
    pub(crate) storage: &'static str,
    /// The type, as safetensors spells it.
    pub(crate) dtype: &'static str,
    /// Bytes of a value.
    pub(crate) bytes: usize,
    /// Name of the entry `data/{key}` with the values.
    pub(crate) key: String,
    /// Number of values in the storage.
    pub(crate) stored: usize,
    /// Index of the first value.
    pub(crate) offset: usize,
    pub(crate) sizes: Vec<usize>,
    pub(crate) strides: Vec<usize>,
}

impl Described {
    /// Returns the place of the values in a storage at `storage`.
    pub(crate) fn range(&self, storage: Range<usize>) -> Result<Range<usize>, String> {
        let Self { bytes, stored, offset, sizes, strides, .. } = self;
        let needed = stored.checked_mul(*bytes).ok_or("has a storage that is too large")?;
        if storage.len() != needed {
            let found = storage.len();
            return Err(format!("has a storage of {found} bytes instead of {needed}"));
        }
        let mut count = 1_usize;
        for (&size, &stride) in sizes.iter().zip(strides).rev() {
            if size > 1 && stride != count {
                return Err("is not contiguous".into());
            }
            count = count.checked_mul(size).ok_or("is too large")?;
        }
        let end = offset.checked_add(count).filter(|end| end <= stored);
        let end = end.filter(|_| sizes.len() == strides.len());
        let end = end.ok_or("reaches out of its storage")?;
        Ok(storage.start + offset * bytes..storage.start + end * bytes)
    }

    /// Returns the storage index of each value, row by row; `None` if one is outside, or if there
    /// are more values than stored ones.
    pub(crate) fn places(&self) -> Option<Vec<usize>> {
        let axes = || self.sizes.iter().zip(&self.strides);
        let count = self.sizes.iter().try_fold(1_usize, |count, &size| count.checked_mul(size))?;
        if count == 0 {
            return Some(Vec::new());
        }
        let last = axes().try_fold(self.offset, |last, (&size, &stride)| {
            (size - 1).checked_mul(stride)?.checked_add(last)
        })?;
        if self.sizes.len() != self.strides.len() || count > self.stored || last >= self.stored {
            return None;
        }
        let spread = |places: Vec<usize>, (&size, &stride): (&usize, &usize)| {
            places.iter().flat_map(|place| (0..size).map(move |i| place + i * stride)).collect()
        };
        Some(axes().fold(vec![self.offset], spread))
    }
}

/// Returns the tensors of the dictionary in `pickle`, in the order of the file.
pub(crate) fn dictionary(pickle: &[u8]) -> Result<Vec<(String, Described)>, String> {
    let mut reader = Reader::of(pickle);
    let items = reader
        .dictionary_alone()
        .map_err(|reason| format!("its description stops at byte {}: {reason}", reader.at()))?;
    let mut found = BTreeSet::new();
    let named = |(name, tensor): (Rc<str>, Option<Rc<Described>>)| {
        let tensor = tensor.ok_or_else(|| format!("`{name}` is no tensor"))?;
        if !found.insert(name.clone()) {
            return Err(format!("tensor `{name}` is described twice"));
        }
        Ok((name.to_string(), (*tensor).clone()))
    };
    items.into_iter().map(named).collect()
}

/// Returns the tensor in `pickle`.
///
/// # Errors
/// The byte where it stops being the pickle of one plain tensor.
pub(crate) fn tensor(pickle: &[u8]) -> Result<Described, usize> {
    if pickle.len() > LONGEST_TENSOR {
        return Err(LONGEST_TENSOR);
    }
    // The name of a function comes first.
    if pickle.get(PROTOCOL.len()) != Some(&b'c') {
        return Err(PROTOCOL.len());
    }
    let mut reader = Reader::of(pickle);
    match reader.value() {
        Ok(Item::Tensor(tensor)) => Ok((*tensor).clone()),
        Ok(_) | Err(_) => Err(reader.at()),
    }
}
