//! The contract of the store over the buckets.

use std::time::{Duration, Instant};

use async_nats::connection::State;
use serde_json::Value;
use tokio::{sync::broadcast, time};
use uuid::Uuid;

use super::{
    Nats, PATIENCE, PAUSE,
    accept::only,
    lost_updates::Large,
    mirror::Seen,
    parsed,
    record::{self, Record, Text},
    text_of,
};
use crate::{
    job::{self, Job, JobEvent, Millis, NewJob, now},
    objects::hex,
    store::{
        Claim, Counts, End, File, FileCounts, Lease, LeaseState, Lookup, Marks, News, Put,
        Selection, SettingUpdate, Store, StoreError, StoreFuture,
    },
};

impl Nats {
    pub(super) async fn job(&self, record: &Record) -> Result<Job, StoreError> {
        let request = self.value(&record.request).await?;
        let resolved = match &record.resolved {
            Some(text) => Some(self.value(text).await?),
            None => None,
        };
        Ok(record.job(request, resolved))
    }

    async fn jobs_of(&self, seen: Vec<Seen>) -> Result<Vec<Job>, StoreError> {
        let mut jobs = Vec::with_capacity(seen.len());
        for record in seen.iter().filter_map(Seen::record) {
            match self.job(record).await {
                Ok(job) => jobs.push(job),
                Err(error) => match self.fresh(record.id).await? {
                    // It was removed meanwhile, with its texts.
                    Some(seen) if seen.record().is_none() => {}
                    _ => return Err(error),
                },
            }
        }
        Ok(jobs)
    }

    async fn take(&self, claim: &Claim) -> Result<Option<Job>, StoreError> {
        self.repeat().await;
        let mut claim = claim.clone();
        while let Some(id) = self.mirror.next(&claim) {
            let work = |record: &mut Record| record.claim(&claim).then(|| record.clone());
            let took = self.change(id, work).await;
            match took {
                Ok(Some(record)) => return Ok(Some(self.job(&record).await?)),
                Ok(None) => {}
                // The jobs behind it must not wait for it.
                Err(error) if error.is_too_large => {
                    tracing::error!(job = %id, %error, "the job cannot be taken");
                    claim.except.push(id);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    async fn remove(&self, id: Uuid) -> Result<bool, StoreError> {
        let _turn = self.turn(id).await;
        let Some(seen) = self.fresh(id).await? else { return Ok(false) };
        let Some(record) = seen.record().filter(|record| record.state.is_ended()) else {
            return Ok(false);
        };
        if let Some(key) = &record.only {
            self.keys.purge(key).await.map_err(StoreError::nats)?;
        }
        let forgotten = record::Stored::Forgotten(now());
        let update = self.jobs.update(id.to_string(), text_of(&forgotten)?, seen.revision).await;
        let revision = update.map_err(StoreError::nats)?;
        self.mirror.apply(id, revision, forgotten);
        // Last: no list has room for a job whose texts are gone.
        for text in [Some(&record.request), record.resolved.as_ref()].into_iter().flatten() {
            if let Text::Far(name) = text
                && let Err(why) = self.objects.delete(name).await
            {
                tracing::warn!(%why, "a text of a removed job stays");
            }
        }
        Ok(true)
    }
}

impl Store for Nats {
    fn put(&self, job: NewJob) -> StoreFuture<'_, Put> {
        Box::pin(self.accept(job))
    }

    fn keyed(&self, owner: String, key: String) -> StoreFuture<'_, Option<Job>> {
        Box::pin(async move {
            let key = only(&owner, &key);
            let Some(entry) = self.entry(&self.keys, &key).await? else { return Ok(None) };
            let seen = self.seen(parsed(&entry.value)?).await?;
            match seen.as_ref().and_then(Seen::record) {
                Some(record) => Ok(Some(self.job(record).await?)),
                None => Ok(None),
            }
        })
    }

    fn claim(&self, claim: Claim) -> StoreFuture<'_, Option<Job>> {
        Box::pin(async move { self.take(&claim).await })
    }

    fn extend(
        &self,
        lease: Lease,
        length: Duration,
        mut news: News,
    ) -> StoreFuture<'_, LeaseState> {
        Box::pin(async move {
            let resolved = match news.resolved.take() {
                Some(value) => {
                    Some(self.text(format!("texts/{}/resolved", lease.id), value).await?)
                }
                None => None,
            };
            let work =
                |record: &mut Record| record.extend(&lease, length, &news, resolved.as_ref());
            Ok(self.change(lease.id, work).await?.unwrap_or(LeaseState::Lost))
        })
    }

    fn finish(&self, lease: Lease, end: End) -> StoreFuture<'_, bool> {
        Box::pin(async move {
            let id = lease.id;
            let work = move |record: &mut Record| record.finish(&lease, end.clone()).then_some(());
            Ok(self.change_and_keep(id, Large::Ends, work).await?.is_some())
        })
    }

    fn cancel(&self, id: Uuid) -> StoreFuture<'_, Option<job::State>> {
        Box::pin(async move {
            let work = |record: &mut Record| record.cancel().then_some(record.state);
            let changed = self.change_and_keep(id, Large::Ends, work).await?;
            let present = || self.mirror.get(id)?.record().map(|record| record.state);
            Ok(changed.or_else(present))
        })
    }

    fn retry(&self, id: Uuid) -> StoreFuture<'_, bool> {
        Box::pin(async move {
            let work = |record: &mut Record| record.retry().then_some(());
            Ok(self.change_and_keep(id, Large::Ends, work).await?.is_some())
        })
    }

    fn get(&self, id: Uuid) -> StoreFuture<'_, Lookup> {
        Box::pin(async move {
            let Some(seen) = self.seen(id).await? else { return Ok(Lookup::Unknown) };
            match seen.record() {
                Some(record) => Ok(Lookup::Job(self.job(record).await?)),
                None => Ok(Lookup::Forgotten),
            }
        })
    }

    fn list(&self, selection: Selection) -> StoreFuture<'_, Vec<Job>> {
        Box::pin(async move {
            self.followed.caught_up().await?;
            self.jobs_of(self.mirror.list(&selection)).await
        })
    }

    fn ahead(&self, id: Uuid) -> StoreFuture<'_, Option<u64>> {
        Box::pin(async move { Ok(self.mirror.ahead(id)) })
    }

    fn counts(&self, owner: Option<String>) -> StoreFuture<'_, Counts> {
        Box::pin(async move {
            self.followed.caught_up().await?;
            Ok(self.mirror.counts(owner.as_deref()))
        })
    }

    fn waiting(&self, owner: String) -> StoreFuture<'_, [u64; 2]> {
        Box::pin(async move {
            self.followed.caught_up().await?;
            Ok(self.mirror.waiting(&owner))
        })
    }

    fn events(&self, id: Uuid, after: u64) -> StoreFuture<'_, Vec<JobEvent>> {
        Box::pin(async move {
            let seen = self.seen(id).await?;
            let record = seen.as_ref().and_then(Seen::record);
            Ok(record.map(|record| record.events(after)).unwrap_or_default())
        })
    }

    fn mark(&self, id: Uuid, marks: Marks) -> StoreFuture<'_, bool> {
        Box::pin(async move {
            let work = move |record: &mut Record| {
                record.mark(&marks);
                Some(())
            };
            Ok(self.change_and_keep(id, Large::Stays, work).await?.is_some())
        })
    }

    fn sweep(&self) -> StoreFuture<'_, Vec<Uuid>> {
        Box::pin(async move {
            let mut swept = Vec::new();
            // A write of now would wait, and take a job from its worker when the connection is back.
            if self.client.connection_state() != State::Connected {
                return Ok(swept);
            }
            self.repeat().await;
            for (id, write) in self.mirror.lost() {
                // A worker that lives has written since, so this is the same state or none.
                let work = |record: &mut Record| {
                    (record.write == write && self.mirror.is_lost(id) && record.lose())
                        .then_some(())
                };
                if self.change(id, work).await?.is_some() {
                    swept.push(id);
                }
            }
            Ok(swept)
        })
    }

    fn abandon(&self, worker: String, is_loss: bool) -> StoreFuture<'_, Vec<Uuid>> {
        Box::pin(async move {
            let mut abandoned = Vec::new();
            // The worker may have taken a job just before its end.
            self.followed.caught_up().await?;
            for id in self.mirror.of_worker(&worker) {
                let work = |record: &mut Record| record.abandon(&worker, is_loss).then_some(());
                if self.change(id, work).await?.is_some() {
                    abandoned.push(id);
                }
            }
            Ok(abandoned)
        })
    }

    fn expired(
        &self,
        before: Millis,
        deleted_before: Millis,
        bytes: u64,
    ) -> StoreFuture<'_, Vec<Job>> {
        Box::pin(
            async move { self.jobs_of(self.mirror.expired(before, deleted_before, bytes)).await },
        )
    }

    fn forget(&self, id: Uuid) -> StoreFuture<'_, bool> {
        Box::pin(self.remove(id))
    }

    fn put_file(&self, file: File) -> StoreFuture<'_, ()> {
        Box::pin(self.put_description(file))
    }

    fn file(&self, id: Uuid) -> StoreFuture<'_, Option<File>> {
        Box::pin(async move { Ok(self.all_files().await?.get(&id).cloned()) })
    }

    fn files(&self, owner: String, after: Option<Uuid>, limit: u32) -> StoreFuture<'_, Vec<File>> {
        Box::pin(async move {
            let all = self.all_files().await?;
            let own = all.values().filter(|file| file.owner == owner);
            let later = own.filter(|file| after.is_none_or(|after| file.id > after));
            Ok(later.take(limit as usize).cloned().collect())
        })
    }

    fn stored(&self, owner: String) -> StoreFuture<'_, FileCounts> {
        Box::pin(async move {
            let mut stored = FileCounts::default();
            for file in self.all_files().await?.values() {
                stored.bytes += file.bytes;
                if file.owner == owner {
                    stored.own_bytes += file.bytes;
                    stored.own_files += 1;
                }
            }
            Ok(stored)
        })
    }

    fn old_files(&self, before: Millis) -> StoreFuture<'_, Vec<File>> {
        Box::pin(async move {
            let all = self.all_files().await?;
            Ok(all.values().filter(|file| file.created < before).cloned().collect())
        })
    }

    fn forget_file(&self, id: Uuid) -> StoreFuture<'_, ()> {
        Box::pin(async move { self.files.purge(id.to_string()).await.map_err(StoreError::nats) })
    }

    fn setting(&self, name: &'static str) -> StoreFuture<'_, Value> {
        Box::pin(async move {
            let entry = self.entry(&self.settings, &hex(name.as_bytes())).await?;
            entry.map_or(Ok(Value::Null), |entry| parsed(&entry.value))
        })
    }

    fn change_setting(
        &self,
        name: &'static str,
        mut change: SettingUpdate,
    ) -> StoreFuture<'_, Value> {
        Box::pin(async move {
            let (key, end) = (hex(name.as_bytes()), Instant::now() + PATIENCE);
            loop {
                let entry = self.entry(&self.settings, &key).await?;
                let old = entry.as_ref().map_or(Ok(Value::Null), |entry| parsed(&entry.value))?;
                let new = change(old);
                let text = text_of(&new)?;
                // From the state that was read: of two changes the server refuses one.
                let stored = match entry {
                    None => self.settings.create(&key, text).await.map_err(StoreError::nats),
                    Some(entry) => self
                        .settings
                        .update(&key, text, entry.revision)
                        .await
                        .map_err(StoreError::nats),
                };
                match stored {
                    Ok(_) => return Ok(new),
                    Err(why) if why.is_full || Instant::now() > end => return Err(why),
                    Err(_) => time::sleep(PAUSE / 20).await,
                }
            }
        })
    }

    fn changes(&self) -> broadcast::Receiver<Uuid> {
        self.mirror.subscribe()
    }
}
