//! The weights: an archive of `torch.save`, in place.

use std::{collections::BTreeMap, ops::Range};

use crate::{
    header::Entry,
    pickle::{self, Archive, Described},
};

/// Returns the tensors of the archive at `place` of `bytes`, with their places in `bytes`.
pub(super) fn entries(
    bytes: &[u8],
    place: Range<usize>,
) -> Result<BTreeMap<String, Entry>, String> {
    let archive = Archive::open(bytes, place)?;
    let entry = |(name, tensor): (String, Described)| {
        let storage = archive
            .storage(&tensor)
            .ok_or_else(|| format!("tensor `{name}` is in the missing `data/{}`", tensor.key))?;
        let range = tensor.range(storage).map_err(|reason| format!("tensor `{name}` {reason}"))?;
        Ok((name, Entry { dtype: tensor.dtype.to_owned(), shape: tensor.sizes, range }))
    };
    pickle::dictionary(archive.pickle()?)?.into_iter().map(entry).collect()
}
