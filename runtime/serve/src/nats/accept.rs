//! The way of a job into the queue, once for each idempotency key.

use async_nats::jetstream::kv;
use serde::Serialize;
use sha2::{Digest, Sha256};
use tokio::time;
use uuid::Uuid;

use super::{
    Nats, PATIENCE, PAUSE,
    mirror::Seen,
    parsed,
    record::{Record, Stored},
    table::error,
    text_of,
};
use crate::{
    job::NewJob,
    objects::hex,
    store::{Put, StoreError},
};

/// The key of an idempotency key.
fn only(new: &NewJob) -> Option<String> {
    let key = new.idempotency_key.as_ref()?;
    let mut sum = Sha256::new();
    sum.update((new.owner.len() as u64).to_le_bytes());
    sum.update(&new.owner);
    sum.update(key);
    Some(hex(&sum.finalize()))
}

impl Nats {
    /// Creates a key of a bucket; false if it was there. Tries again while the servers choose a leader.
    async fn create(
        &self,
        bucket: &kv::Store,
        key: &str,
        value: &impl Serialize,
    ) -> Result<bool, StoreError> {
        let (value, end) = (text_of(value)?, time::Instant::now() + PATIENCE);
        loop {
            match bucket.create(key, value.clone()).await {
                Ok(_) => return Ok(true),
                Err(why) if why.kind() == kv::CreateErrorKind::AlreadyExists => return Ok(false),
                Err(why) => {
                    let why = error(&why);
                    if why.is_full || time::Instant::now() > end {
                        return Err(why);
                    }
                    time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Returns the id of an idempotency key: `id`, or the one that was first.
    async fn first(&self, key: &str, id: Uuid) -> Result<Uuid, StoreError> {
        if self.create(&self.keys, key, &id).await? {
            return Ok(id);
        }
        let known = self.keys.get(key).await.map_err(|why| error(&why))?;
        known.map_or(Ok(id), |bytes| parsed(&bytes))
    }

    pub(super) async fn accept(&self, new: NewJob) -> Result<Put, StoreError> {
        let key = only(&new);
        loop {
            let mut id = Uuid::now_v7();
            if let Some(key) = &key {
                id = self.first(key, id).await?;
                // A writer that died after the key has no job: this one takes its place.
                match self.seen(id).await?.as_ref().map(|seen| seen.record().cloned()) {
                    Some(Some(record)) => {
                        return Ok(Put { job: self.job(&record).await?, existed: true });
                    }
                    // A writer that died in the middle of a removal.
                    Some(None) => {
                        self.keys.purge(key).await.map_err(|why| error(&why))?;
                        continue;
                    }
                    None => {}
                }
            }
            let request = self.text(format!("texts/{id}/request"), new.request.clone()).await?;
            let record = Record::new(id, new.clone(), request, key.clone());
            let write = record.write;
            let stored = Stored::Job(Box::new(record));
            self.create(&self.jobs, &id.to_string(), &stored).await?;
            // It is there: made by this call, or by another one with the same key.
            let end = time::Instant::now() + PATIENCE;
            while time::Instant::now() < end {
                if let Some(record) = self.fresh(id).await?.as_ref().and_then(Seen::record) {
                    let job = self.job(record).await?;
                    // A worker may have taken it already, so the name of the write is no proof.
                    return Ok(Put { existed: key.is_some() && record.write != write, job });
                }
                // A follower may be behind.
                time::sleep(PAUSE / 20).await;
            }
            return Err(StoreError { why: "the job was not seen again".into(), is_full: false });
        }
    }
}
