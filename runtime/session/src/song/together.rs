//! Songs that are made together, so that each network is loaded once.

use std::sync::Arc;

use acestep_import::AceStep;

use super::Resolved;

/// Lets songs with the same model and the same adapters share one folder, which records the effect of
/// its adapters.
pub fn share_folders<'a>(songs: impl IntoIterator<Item = &'a mut Resolved>) {
    let mut known: Vec<(_, Arc<AceStep>)> = Vec::new();
    for Resolved { folder, request, .. } in songs {
        let scales = format!("{:?}", request.compute.adapter_scale);
        let key = (folder.path().to_owned(), request.compute.adapter.clone(), scales);
        match known.iter().find(|(other, _)| *other == key) {
            Some((_, shared)) => *folder = shared.clone(),
            None => known.push((key, folder.clone())),
        }
    }
}

/// Groups the indices of `items` with the same `key`, in order; one without a key is in no group.
pub fn grouped<T, K: PartialEq>(items: &[T], key: impl Fn(&T) -> Option<K>) -> Vec<Vec<usize>> {
    let mut groups: Vec<(K, Vec<usize>)> = Vec::new();
    for (i, one) in items.iter().enumerate() {
        let Some(key) = key(one) else { continue };
        match groups.iter_mut().find(|(other, _)| *other == key) {
            Some((_, group)) => group.push(i),
            None => groups.push((key, vec![i])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}
