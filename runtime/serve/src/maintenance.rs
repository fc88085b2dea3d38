//! Housekeeping: jobs of lost workers, old results, old uploads.

use std::{collections::HashSet, sync::Arc, time::Duration};

use serde_json::Value;
use tokio::{sync::watch, time};
use uuid::Uuid;

use crate::{
    job::{Millis, State, now},
    objects::Objects,
    store::{Selection, Store, StoreError},
};

/// Time between two looks for lost workers.
const SWEEP: Duration = Duration::from_secs(2);
/// Looks for lost workers between two looks for old results.
const PER_CLEANING: u32 = 150;

/// Time without a byte after which a part of an upload belongs to a server that died.
const PART: Duration = Duration::from_secs(3600);

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
        looks += 1;
        tokio::select! {
            () = time::sleep(SWEEP) => {}
            _ = ending.changed() => {}
        }
    }
}

fn ago(duration: Duration) -> Millis {
    now() - Millis::try_from(duration.as_millis()).unwrap_or(Millis::MAX / 4)
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
        match objects.remove(job.id, job.attempts) {
            Ok(()) => {
                store.forget(job.id).await?;
            }
            Err(error) => tracing::error!(job = %job.id, %error, "its results cannot be removed"),
        }
    }
    let old = store.old_files(ago(age)).await?;
    // A job that waits may need a file that is older than the age. Asked after the files, so one that was
    // accepted since is seen.
    let states = vec![State::Queued, State::Running, State::Cancelling];
    let selection = Selection { states, limit: u32::MAX, ..Selection::default() };
    let mut needed = HashSet::new();
    store.list(selection).await?.iter().for_each(|job| ids(&job.request, &mut needed));
    for id in old.into_iter().filter(|id| !needed.contains(id)) {
        match objects.remove_file(id) {
            Ok(()) => store.forget_file(id).await?,
            Err(error) => tracing::error!(file = %id, %error, "it cannot be removed"),
        }
    }
    if let Err(error) = objects.remove_parts(PART) {
        tracing::error!(%error, "parts of uploads cannot be removed");
    }
    Ok(())
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
