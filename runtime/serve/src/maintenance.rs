//! Housekeeping: jobs of lost workers, old results, old uploads, and what a power cut left.

mod leftovers;

use std::{collections::HashSet, io, sync::Arc, time::Duration};

use serde_json::Value;
use tokio::{sync::watch, time};
use uuid::Uuid;

use crate::{
    job::{Millis, State, millis, now},
    objects::Objects,
    store::{File, Selection, Store, StoreError, StoreFuture},
};

const SWEEP: Duration = Duration::from_secs(2);
/// Looks for lost workers between two looks for old results: five minutes.
const PER_CLEANING: u32 = 150;
/// Looks for lost workers between two looks for what a power cut left: a day. The first is at the start.
const PER_TIDYING: u32 = 43_200;

/// Time without a byte after which a file without a row, or a part of one, belongs to a server that died.
const DEAD: Duration = Duration::from_secs(3600);

/// The life of results.
#[derive(Debug, Clone, Copy)]
pub struct Retention {
    /// Results are removed after this time.
    pub age: Duration,
    /// The oldest results are removed while all are larger than this.
    pub bytes: u64,
    /// Jobs that were put away are removed after this time.
    pub deleted: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        let day = Duration::from_secs(24 * 3600);
        Self { age: day * 30, bytes: 20 << 30, deleted: day }
    }
}

/// Keeps house until `ending` is true.
pub async fn run(
    store: Arc<dyn Store>,
    objects: Objects,
    retention: Retention,
    mut ending: watch::Receiver<bool>,
) {
    let mut looks = 0;
    while !*ending.borrow() {
        match store.sweep().await {
            Ok(lost) => {
                for id in lost {
                    tracing::warn!(job = %id, "its worker was lost");
                }
            }
            Err(error) => tracing::error!(%error, "lost workers cannot be looked for"),
        }
        if looks % PER_CLEANING == 0
            && let Err(error) = clean(&*store, &objects, retention).await
        {
            tracing::error!(%error, "old results cannot be removed");
        }
        if looks % PER_TIDYING == 0
            && let Err(error) = leftovers::remove(&*store, &objects, DEAD).await
        {
            tracing::error!(%error, "what a power cut left cannot be removed");
        }
        looks = looks.wrapping_add(1);
        tokio::select! {
            () = time::sleep(SWEEP) => {}
            _ = ending.changed() => {}
        }
    }
}

fn ago(duration: Duration) -> Millis {
    now() - millis(duration)
}

/// Removes what is too old or too much. Files go first: a file without a job would stay for ever.
///
/// # Errors
/// If the queue cannot be used.
pub async fn clean(
    store: &dyn Store,
    objects: &Objects,
    retention: Retention,
) -> Result<(), StoreError> {
    let Retention { age, bytes, deleted } = retention;
    for job in store.expired(ago(age), ago(deleted), bytes).await? {
        let (id, attempts) = (job.id, job.attempts);
        match blocking(objects, move |objects| objects.remove(id, attempts)).await {
            Ok(()) => {
                removing(objects, || store.forget(id)).await?;
            }
            Err(error) => tracing::error!(job = %id, %error, "its results cannot be removed"),
        }
    }
    // A job that waits may need a file that is older than the age.
    let old = store.old_files(ago(age)).await?;
    remove_files(store, objects, old).await?;
    if let Err(error) = blocking(objects, |objects| objects.remove_parts(DEAD)).await {
        tracing::error!(%error, "parts of uploads cannot be removed");
    }
    if let Err(error) = blocking(objects, |objects| objects.keep_reserve()).await {
        tracing::debug!(%error, "no room can be kept for removals");
    }
    Ok(())
}

/// Runs a write of the queue that is part of a removal: on a full disk once more, with the room of the reserve.
pub(crate) async fn removing<'a, T>(
    objects: &Objects,
    write: impl Fn() -> StoreFuture<'a, T>,
) -> Result<T, StoreError> {
    match write().await {
        Err(error) if error.is_full => {}
        done => return done,
    }
    if let Err(error) = blocking(objects, |objects| objects.use_reserve()).await {
        tracing::error!(%error, "the room for removals cannot be used");
    }
    write().await
}

/// Runs work that blocks on another thread. Files of many machines are asked for over the runtime, so a
/// thread of it that waits for them may wait for ever.
pub(crate) async fn blocking<T: Send + 'static>(
    objects: &Objects,
    work: impl FnOnce(Objects) -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let objects = objects.clone();
    tokio::task::spawn_blocking(move || work(objects)).await.map_err(io::Error::other)?
}

/// Removes files of clients, but for those that waiting and running jobs need, whose ids are returned.
///
/// A description goes before its bytes, and the jobs are looked at after that. A submission looks for its
/// files again when its job is stored. So of a removal and a submission at the same moment at least one
/// sees the other: no job waits for a file that is gone.
pub(crate) async fn remove_files(
    store: &dyn Store,
    objects: &Objects,
    mut files: Vec<File>,
) -> Result<Vec<Uuid>, StoreError> {
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let mut kept = Vec::new();
    let mut keep = |files: &mut Vec<File>, needed: &HashSet<Uuid>| -> Vec<File> {
        let (back, free) = files.drain(..).partition(|file| needed.contains(&file.id));
        *files = free;
        let back: Vec<File> = back;
        kept.extend(back.iter().map(|file| file.id));
        back
    };
    keep(&mut files, &needed(store).await?);
    for file in &files {
        removing(objects, || store.forget_file(file.id)).await?;
    }
    for file in keep(&mut files, &needed(store).await?) {
        store.put_file(file).await?;
    }
    for file in files {
        let id = file.id;
        // Without a description it is removed with what a power cut left.
        if let Err(error) = blocking(objects, move |objects| objects.remove_file(id)).await {
            tracing::error!(file = %id, %error, "its bytes stay for now");
        }
    }
    Ok(kept)
}

/// Returns the files that waiting and running jobs need.
async fn needed(store: &dyn Store) -> Result<HashSet<Uuid>, StoreError> {
    let states = vec![State::Queued, State::Running, State::Cancelling];
    let selection = Selection { states, limit: u32::MAX, ..Selection::default() };
    let mut needed = HashSet::new();
    // A job that was put away may wait too. Those first: a retry takes one back, never the reverse.
    for deleted in [true, false] {
        let selection = Selection { deleted, ..selection.clone() };
        store.list(selection).await?.iter().for_each(|job| ids(&job.request, &mut needed));
    }
    Ok(needed)
}

/// Adds all ids that a request names.
pub(crate) fn ids(value: &Value, found: &mut HashSet<Uuid>) {
    match value {
        Value::String(text) => {
            let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
            found.extend(words.filter_map(|word| Uuid::parse_str(word).ok()));
        }
        Value::Array(values) => values.iter().for_each(|value| ids(value, found)),
        Value::Object(values) => values.values().for_each(|value| ids(value, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_removal_on_a_full_disk_takes_the_room_of_the_reserve() {
        let folder = tempfile::tempdir().expect("a folder");
        let objects = Objects::open(folder.path()).expect("a folder");
        objects.keep_reserve().expect("room");
        let reserve = folder.path().join("reserve");
        // The disk has no other room.
        let write = || -> StoreFuture<'_, ()> {
            let is_full = reserve.exists();
            let error = StoreError { is_full, ..StoreError::new("no room") };
            Box::pin(async move { if is_full { Err(error) } else { Ok(()) } })
        };
        assert!(write().await.is_err());
        removing(&objects, write).await.expect("room");
        assert!(!reserve.exists());
        objects.keep_reserve().expect("room again");
        assert_eq!(reserve.metadata().expect("a file").len(), 256 << 10);
    }

    #[test]
    fn another_file_with_the_name_of_the_reserve_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let objects = Objects::open(folder.path()).expect("a folder");
        let reserve = folder.path().join("reserve");
        std::fs::write(&reserve, "mine").expect("a file");
        assert!(objects.keep_reserve().is_err());
        objects.use_reserve().expect("nothing to do");
        assert_eq!(std::fs::read(&reserve).expect("a file"), b"mine");
    }
}
