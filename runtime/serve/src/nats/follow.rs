//! A bucket as a process knows it: all changes, in their order.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use async_nats::jetstream::kv;
use futures_util::StreamExt;
use tokio::{sync::watch, time};
use tokio_util::task::AbortOnDropHandle;

use super::{PATIENCE, PAUSE, patiently};
use crate::store::StoreError;

/// All keys of a bucket.
const ALL: &str = ">";
/// Time without a change after which the server is asked for the last one.
const QUIET: Duration = Duration::from_secs(5);

pub(super) trait Follower: Send + Sync + 'static {
    /// Takes a change over. The changes of a key come in their order; one may come again.
    fn take(&self, entry: &kv::Entry);
}

/// A bucket that is followed, until this is dropped.
#[derive(Debug)]
pub(super) struct Followed {
    bucket: kv::Store,
    /// The last revision that came.
    reached: watch::Receiver<u64>,
    _task: AbortOnDropHandle<()>,
}

impl Followed {
    /// Follows a bucket from now on; returns when all keys of before are known.
    pub(super) async fn new<F: Follower>(
        bucket: &kv::Store,
        follower: &Arc<F>,
    ) -> Result<Self, StoreError> {
        let first = bucket.watch_with_history(ALL).await;
        let mut first = first.map_err(StoreError::nats)?;
        let (sender, reached) = watch::channel(0);
        let status = bucket.status().await.map_err(StoreError::nats)?;
        if status.values() > 0 {
            while let Some(entry) = next(&mut first, PATIENCE).await? {
                let entry = entry.map_err(StoreError::nats)?;
                follower.take(&entry);
                sender.send_replace(entry.revision);
                if entry.seen_current {
                    break;
                }
            }
        }
        let (watched, follower) = (bucket.clone(), Arc::downgrade(follower));
        let task = AbortOnDropHandle::new(tokio::spawn(async move {
            let mut watch = Some(first);
            while follower.strong_count() > 0 {
                if let Some(watch) = &mut watch {
                    follow(watch, &watched, &follower, &sender).await;
                }
                // The watch ended: a new one begins with the newest state of all keys.
                time::sleep(PAUSE).await;
                watch = watched.watch_with_history(ALL).await.ok();
            }
        }));
        Ok(Self { bucket: bucket.clone(), reached, _task: task })
    }

    /// Waits until every change is known that was answered before this call, by whatever process.
    pub(super) async fn caught_up(&self) -> Result<(), StoreError> {
        let info = || async { self.bucket.stream.get_info().await.map_err(StoreError::nats) };
        let last = patiently(|_| false, info).await?.state.last_sequence;
        let mut reached = self.reached.clone();
        match time::timeout(PATIENCE, reached.wait_for(|reached| *reached >= last)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(silent()),
        }
    }
}

fn silent() -> StoreError {
    StoreError::new("the changes of the queue do not come")
}

type Next = Option<Result<kv::Entry, kv::WatcherError>>;

/// The next change, or an error if none comes in time.
async fn next(watch: &mut kv::Watch, patience: Duration) -> Result<Next, StoreError> {
    time::timeout(patience, watch.next()).await.map_err(|_| silent())
}

/// Follows a watch until it ends, or until the bucket has changes that do not come: the consumer that sends
/// them may be on a machine that is gone, and the client would wait for it without end.
async fn follow<F: Follower>(
    watch: &mut kv::Watch,
    bucket: &kv::Store,
    follower: &Weak<F>,
    reached: &watch::Sender<u64>,
) {
    let mut is_behind = false;
    loop {
        let Ok(entry) = next(watch, QUIET).await else {
            let Ok(info) = bucket.stream.get_info().await else { continue };
            let was_behind = is_behind;
            is_behind = info.state.last_sequence > *reached.borrow();
            if was_behind && is_behind {
                return tracing::warn!("changes of the queue do not come: a new watch begins");
            }
            continue;
        };
        let Some(entry) = entry else { return };
        let Some(follower) = follower.upgrade() else { return };
        is_behind = false;
        match entry {
            Ok(entry) => {
                follower.take(&entry);
                // A watch that began again repeats old changes.
                reached.send_if_modified(|reached| {
                    let is_newer = entry.revision > *reached;
                    *reached = entry.revision.max(*reached);
                    is_newer
                });
            }
            Err(error) => return tracing::warn!(%error, "the watch of the queue ended"),
        }
    }
}
