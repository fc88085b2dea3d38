//! The way of a job into the queue, once for each idempotency key.

use async_nats::jetstream::kv;
use serde::Serialize;
use sha2::{Digest, Sha256};
use tokio::time;
use uuid::Uuid;

use super::{
    Nats, PATIENCE, PAUSE,
    mirror::Seen,
    parsed, patiently,
    record::{Record, Stored},
    text_of,
};
use crate::{
    job::NewJob,
    objects::hex,
    store::{Put, StoreError},
};

/// The key of an idempotency key.
pub(super) fn only(owner: &str, key: &str) -> String {
    let mut sum = Sha256::new();
    sum.update((owner.len() as u64).to_le_bytes());
    sum.update(owner);
    sum.update(key);
    hex(&sum.finalize())
}

fn unseen() -> StoreError {
    StoreError::new("what was written is not seen")
}

impl Nats {
    /// Creates a key of a bucket, and returns its revision; none if the key was there. Tries again while
    /// the servers choose a leader.
    async fn create(
        &self,
        bucket: &kv::Store,
        key: &str,
        value: &impl Serialize,
    ) -> Result<Option<u64>, StoreError> {
        let value = text_of(value)?;
        let create = || async {
            match bucket.create(key, value.clone()).await {
                Err(why) if why.kind() == kv::CreateErrorKind::AlreadyExists => Ok(None),
                created => created.map(Some).map_err(StoreError::nats),
            }
        };
        patiently(|error| error.is_full, create).await
    }

    /// Returns the id of an idempotency key and its revision: `id`, or the one that was first.
    async fn first(&self, key: &str, id: Uuid) -> Result<(Uuid, u64), StoreError> {
        let end = time::Instant::now() + PATIENCE;
        loop {
            if let Some(revision) = self.create(&self.keys, key, &id).await? {
                return Ok((id, revision));
            }
            match self.entry(&self.keys, key).await? {
                Some(entry) => return Ok((parsed(&entry.value)?, entry.revision)),
                None if time::Instant::now() > end => return Err(unseen()),
                // The copy that answered is behind, or the key was removed just now.
                None => time::sleep(PAUSE / 20).await,
            }
        }
    }

    pub(super) async fn accept(&self, new: NewJob) -> Result<Put, StoreError> {
        let key = new.idempotency_key.as_ref().map(|key| only(&new.owner, key));
        loop {
            let mut id = Uuid::now_v7();
            if let Some(key) = &key {
                let (first, revision) = self.first(key, id).await?;
                id = first;
                // A writer that died after the key has no job: this one takes its place.
                match self.seen(id).await?.as_ref().map(|seen| seen.record().cloned()) {
                    Some(Some(record)) => {
                        return Ok(Put { job: self.job(&record).await?, existed: true });
                    }
                    // The job was removed, and its key stayed. Another process may do the same.
                    Some(None) => {
                        let purged = self.keys.purge_expect_revision(key, Some(revision)).await;
                        if let Err(why) = purged {
                            tracing::warn!(%why, "the key of a removed job stays");
                        }
                        time::sleep(PAUSE / 20).await;
                        continue;
                    }
                    None => {}
                }
            }
            let request = self.text(format!("texts/{id}/request"), new.request.clone()).await?;
            let record = Record::new(id, new.clone(), request, key.clone());
            let write = record.write;
            let job = record.job(new.request.clone(), None);
            let stored = Stored::Job(Box::new(record));
            if let Some(revision) = self.create(&self.jobs, &id.to_string(), &stored).await? {
                self.mirror.apply(id, revision, stored);
                return Ok(Put { job, existed: false });
            }
            // Made by another call with the same key, or by this one, and its answer was lost.
            let end = time::Instant::now() + PATIENCE;
            while time::Instant::now() < end {
                if let Some(record) = self.fresh(id).await?.as_ref().and_then(Seen::record) {
                    let existed = key.is_some() && record.write != write;
                    return Ok(Put { existed, job: self.job(record).await? });
                }
                // The copy that answered is behind.
                time::sleep(PAUSE / 20).await;
            }
            return Err(unseen());
        }
    }
}
