//! Descriptions of files that clients sent.

use std::collections::BTreeMap;

use async_nats::jetstream::kv;
use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Nats, StoreError, follow::Follower, parsed, text_of};
use crate::{job::Millis, store::File};

#[derive(Serialize, Deserialize)]
struct InBucket {
    owner: String,
    name: String,
    bytes: u64,
    sha256: String,
    created: Millis,
}

fn file(id: Uuid, value: &[u8]) -> Result<File, StoreError> {
    let InBucket { owner, name, bytes, sha256, created } = parsed(value)?;
    Ok(File { id, owner, name, bytes, sha256, created })
}

/// All files, as this process last saw them.
#[derive(Debug, Default)]
pub(super) struct Files(Mutex<BTreeMap<Uuid, File>>);

impl Follower for Files {
    fn take(&self, entry: &kv::Entry) {
        let Ok(id) = Uuid::parse_str(&entry.key) else { return };
        match (entry.operation, file(id, &entry.value)) {
            (kv::Operation::Put, Ok(file)) => drop(self.0.lock().insert(id, file)),
            (kv::Operation::Put, Err(error)) => {
                // A newer version of the program may write what this one cannot read.
                tracing::warn!(%id, %error, "the description of a file cannot be read");
            }
            (kv::Operation::Delete | kv::Operation::Purge, _) => drop(self.0.lock().remove(&id)),
        }
    }
}

impl Nats {
    pub(super) async fn put_description(&self, new: File) -> Result<(), StoreError> {
        let File { id, owner, name, bytes, sha256, created } = new;
        let stored = InBucket { owner, name, bytes, sha256, created };
        let put = self.files.put(id.to_string(), text_of(&stored)?).await;
        put.map(|_| ()).map_err(StoreError::nats)
    }

    /// Returns all files, by their ids.
    pub(super) async fn all_files(
        &self,
    ) -> Result<MutexGuard<'_, BTreeMap<Uuid, File>>, StoreError> {
        // Not with a question for a key, which a copy that is behind may answer.
        self.followed_files.caught_up().await?;
        Ok(self.known_files.0.lock())
    }
}
