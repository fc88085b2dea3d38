//! One change of a job: read, change, write from the revision that was read.

use std::time::Instant;

use async_nats::jetstream::kv;
use bytes::Bytes;
use serde_json::Value;
use tokio::{sync::MutexGuard, time};
use uuid::Uuid;

use super::{
    HERE, Nats, PATIENCE, PAUSE, TURNS,
    lost_updates::{Large, Work},
    mirror::Seen,
    parsed, patiently,
    record::{Record, Stored, TOO_LARGE, Text},
    text_of,
};
use crate::store::StoreError;

/// Room for the headers of a message, which count as a part of it.
const HEADERS: usize = 1 << 10;

/// Returns a record as the change `write` of the revision `from` stores it.
fn sealed(mut record: Record, write: Uuid, from: u64) -> Result<(Stored, Bytes), StoreError> {
    (record.write, record.from) = (write, from);
    let stored = Stored::Job(Box::new(record));
    let text = text_of(&stored)?;
    Ok((stored, text))
}

impl Nats {
    /// Returns a job as this process last saw it; asks the server for one that it never saw.
    pub(super) async fn seen(&self, id: Uuid) -> Result<Option<Seen>, StoreError> {
        match self.mirror.get(id) {
            Some(seen) => Ok(Some(seen)),
            None => self.fresh(id).await,
        }
    }

    /// Asks the server for a job.
    pub(super) async fn fresh(&self, id: Uuid) -> Result<Option<Seen>, StoreError> {
        if let Some(entry) = self.entry(&self.jobs, &id.to_string()).await? {
            self.mirror.apply(id, entry.revision, parsed(&entry.value)?);
        }
        Ok(self.mirror.get(id))
    }

    /// Reads a key. Tries again while the servers choose a leader.
    pub(super) async fn entry(
        &self,
        bucket: &kv::Store,
        key: &str,
    ) -> Result<Option<kv::Entry>, StoreError> {
        let entry = || async { bucket.entry(key).await.map_err(StoreError::nats) };
        let entry = patiently(|_| false, entry).await?;
        Ok(entry.filter(|entry| entry.operation == kv::Operation::Put))
    }

    /// Changes a job: `work` changes it, or returns none if it must stay. Tries again when another
    /// process was faster, and while the servers choose a leader. For changes that come again by
    /// themselves.
    pub(super) async fn change<T>(
        &self,
        id: Uuid,
        work: impl FnMut(&mut Record) -> Option<T> + Send,
    ) -> Result<Option<T>, StoreError> {
        Ok(self.written(id, work, Large::Ends).await?.map(|(result, _)| result))
    }

    /// Changes a job as [`Self::change`], and makes the change again if another one overwrites it.
    pub(super) async fn change_and_keep<T>(
        &self,
        id: Uuid,
        large: Large,
        mut work: impl FnMut(&mut Record) -> Option<T> + Send + 'static,
    ) -> Result<Option<T>, StoreError> {
        let written = self.written(id, &mut work, large).await?;
        let Some((result, revision)) = written else { return Ok(None) };
        let run = Box::new(move |record: &mut Record| work(record).is_some());
        self.remember(id, revision, Work { run, large });
        Ok(Some(result))
    }

    fn remember(&self, id: Uuid, revision: u64, work: Work) {
        self.mirror.own.made(id, revision, work);
        // What overwrote it may have come before the answer.
        if let Some(seen) = self.mirror.get(id)
            && let Some(record) = seen.record()
        {
            self.mirror.own.compare(id, seen.revision, record.from);
        }
    }

    /// Makes the changes again that others overwrote.
    pub(super) async fn repeat(&self) {
        for (id, mut work) in self.mirror.own.missing() {
            tracing::warn!(%id, "a change was overwritten by another one: it is made again");
            let large = work.large;
            match self.written(id, |record| (work.run)(record).then_some(()), large).await {
                Ok(Some(((), revision))) => self.remember(id, revision, work),
                Ok(None) => {}
                Err(error) if error.is_too_large => {
                    tracing::warn!(%id, %error, "a change that was overwritten is lost");
                }
                Err(error) => {
                    tracing::warn!(%id, %error, "a change that was overwritten waits");
                    self.mirror.own.put_back(id, work);
                }
            }
        }
    }

    /// Waits for the turn of a job: two changes of one process are never under way together.
    pub(super) async fn turn(&self, id: Uuid) -> MutexGuard<'_, ()> {
        self.turns[id.as_bytes()[15] as usize % TURNS].lock().await
    }

    fn fits(&self, text: &Bytes) -> bool {
        text.len() + HEADERS <= self.client.max_payload()
    }

    /// Changes a job, and returns the revision of the change too. `large` is the rule for a job that has not
    /// ended, and that the change makes too large for a message.
    async fn written<T>(
        &self,
        id: Uuid,
        mut work: impl FnMut(&mut Record) -> Option<T> + Send,
        large: Large,
    ) -> Result<Option<(T, u64)>, StoreError> {
        let _turn = self.turn(id).await;
        let (write, end) = (Uuid::now_v7(), Instant::now() + PATIENCE);
        let mut seen = self.seen(id).await?;
        let mut is_fresh = false;
        // The result of a try whose answer was lost.
        let mut unknown: Option<T> = None;
        loop {
            let Some(now) = &seen else { return Ok(None) };
            let Some(record) = now.record() else { return Ok(None) };
            if record.write == write && unknown.is_some() {
                return Ok(unknown.map(|result| (result, now.revision)));
            }
            let mut record = record.clone();
            let mut result = work(&mut record);
            if result.is_none() {
                if is_fresh {
                    return Ok(None);
                }
                // A no must not rest on an old state.
                seen = self.fresh(id).await?;
                is_fresh = true;
                continue;
            }
            let (mut stored, mut text) = sealed(record, write, now.revision)?;
            if large == Large::Ends
                && !self.fits(&text)
                && let Some(refused) = now.record().and_then(Record::refused)
            {
                result = None;
                (stored, text) = sealed(refused, write, now.revision)?;
            }
            if !self.fits(&text) {
                return Err(StoreError { is_too_large: true, ..StoreError::new(TOO_LARGE) });
            }
            let written = self.jobs.update(id.to_string(), text, now.revision).await;
            match written {
                Ok(revision) => {
                    if result.is_none() {
                        tracing::error!(job = %id, "{TOO_LARGE}: it failed");
                    }
                    self.mirror.apply(id, revision, stored);
                    return Ok(result.map(|result| (result, revision)));
                }
                Err(error) => {
                    unknown = result;
                    if error.kind() != kv::UpdateErrorKind::WrongLastRevision {
                        let error = StoreError::nats(error);
                        if error.is_full || Instant::now() > end {
                            return Err(error);
                        }
                        time::sleep(PAUSE).await;
                    } else if Instant::now() > end {
                        return Err(StoreError::nats(error));
                    }
                    is_fresh = false;
                    let fresh = self.fresh(id).await?;
                    let revision = |seen: &Option<Seen>| seen.as_ref().map(|seen| seen.revision);
                    if revision(&fresh) == revision(&seen) {
                        // The copy that answered may be behind: try the same a little later.
                        time::sleep(PAUSE / 20).await;
                    }
                    seen = fresh;
                }
            }
        }
    }

    /// Keeps JSON that is too large for a message as an object.
    pub(super) async fn text(&self, name: String, value: Value) -> Result<Text, StoreError> {
        let text = value.to_string();
        if text.len() <= HERE {
            return Ok(Text::Here(value));
        }
        let put = self.objects.put(name.as_str(), &mut text.as_bytes()).await;
        put.map_err(StoreError::nats)?;
        Ok(Text::Far(name))
    }

    /// Reads JSON, wherever it is.
    pub(super) async fn value(&self, text: &Text) -> Result<Value, StoreError> {
        let name = match text {
            Text::Here(value) => return Ok(value.clone()),
            Text::Far(name) => name,
        };
        let object = self.objects.get(name).await;
        let mut object = object.map_err(StoreError::nats)?;
        let mut bytes = Vec::new();
        let read = tokio::io::AsyncReadExt::read_to_end(&mut object, &mut bytes).await;
        read.map_err(StoreError::nats)?;
        parsed(&bytes)
    }
}
