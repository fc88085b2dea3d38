//! Files in the object store of JetStream.

use std::{
    io,
    path::Path,
    time::{Duration, Instant},
};

use async_nats::jetstream::{
    kv,
    object_store::{DeleteErrorKind, GetErrorKind, ObjectStore},
};
use futures_util::StreamExt as _;
use tokio::runtime::Handle;

use super::{PATIENCE, PAUSE, StoreError};
use crate::objects::RemoteFiles;

/// The object store, and the bucket that lists the results of each attempt. The list is written first,
/// so every object that is left behind is listed.
pub(super) struct JetStreamFiles {
    objects: ObjectStore,
    made: kv::Store,
    runtime: Handle,
}

fn other(error: impl std::error::Error + 'static) -> io::Error {
    let error = StoreError::nats(error);
    let kind = if error.is_full { io::ErrorKind::StorageFull } else { io::ErrorKind::Other };
    io::Error::new(kind, error)
}

/// The key of a folder's list.
fn list(folder: &str) -> String {
    folder.replace('/', ".")
}

impl JetStreamFiles {
    /// Files whose messages `runtime` carries.
    pub(super) fn new(objects: ObjectStore, made: kv::Store, runtime: Handle) -> Self {
        Self { objects, made, runtime }
    }

    /// Waits for `work` on a thread that may block.
    fn wait<T: Send>(&self, work: impl Future<Output = T> + Send) -> T {
        if Handle::try_current().is_err() {
            return self.runtime.block_on(work);
        }
        // A thread of a runtime may not wait for it itself.
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| self.runtime.block_on(work));
            match waiting.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    /// Waits for `work`, and tries it again while the servers choose a leader.
    fn again<F: Future<Output = io::Result<()>> + Send>(
        &self,
        work: impl Fn() -> F + Sync,
    ) -> io::Result<()> {
        self.wait(async {
            let end = Instant::now() + PATIENCE;
            loop {
                match work().await {
                    Err(error)
                        if Instant::now() <= end
                            && !matches!(
                                error.kind(),
                                io::ErrorKind::NotFound | io::ErrorKind::StorageFull
                            ) =>
                    {
                        tokio::time::sleep(PAUSE).await;
                    }
                    result => return result,
                }
            }
        })
    }
}

impl RemoteFiles for JetStreamFiles {
    fn put(&self, key: &str, from: &Path) -> io::Result<()> {
        self.again(|| async move {
            let mut file = tokio::fs::File::open(from).await?;
            self.objects.put(key, &mut file).await.map(|_| ()).map_err(other)
        })
    }

    fn put_folder(&self, folder: &str, names: &[String], from: &Path) -> io::Result<()> {
        self.again(|| async move {
            let names = serde_json::to_vec(names).map_err(io::Error::other)?;
            self.made.put(list(folder), names.into()).await.map(|_| ()).map_err(other)
        })?;
        names.iter().try_for_each(|name| self.put(&format!("{folder}/{name}"), &from.join(name)))
    }

    fn get(&self, key: &str, to: &Path) -> io::Result<()> {
        self.again(|| async move {
            let object = self.objects.get(key).await;
            let mut object = object.map_err(|error| match error.kind() {
                GetErrorKind::NotFound => io::Error::new(io::ErrorKind::NotFound, key),
                _ => other(error),
            })?;
            let mut file = tokio::fs::File::create(to).await?;
            // The object compares its SHA-256 at its end.
            tokio::io::copy(&mut object, &mut file).await?;
            file.sync_all().await
        })
    }

    fn remove(&self, key: &str) -> io::Result<()> {
        self.again(|| async move {
            match self.objects.delete(key).await {
                Err(error) if error.kind() != DeleteErrorKind::NotFound => Err(other(error)),
                _ => Ok(()),
            }
        })
    }

    fn older_than(&self, folder: &str, age: Duration) -> io::Result<Vec<String>> {
        let age = i64::try_from(age.as_secs()).unwrap_or(i64::MAX);
        let latest = (crate::job::now() / 1000).saturating_sub(age);
        self.wait(async {
            let mut list = self.objects.list().await.map_err(other)?;
            let mut names = Vec::new();
            while let Some(info) = list.next().await {
                let info = info.map_err(other)?;
                let Some(name) = info.name.strip_prefix(folder) else { continue };
                let Some(name) = name.strip_prefix('/') else { continue };
                if info.modified.is_some_and(|time| time.unix_timestamp() <= latest) {
                    names.push(name.to_owned());
                }
            }
            Ok(names)
        })
    }

    fn remove_folder(&self, folder: &str) -> io::Result<()> {
        let names = self.wait(self.made.get(list(folder))).map_err(other)?;
        let Some(names) = names else { return Ok(()) };
        let names: Vec<String> = serde_json::from_slice(&names).map_err(io::Error::other)?;
        names.iter().try_for_each(|name| self.remove(&format!("{folder}/{name}")))?;
        self.wait(self.made.purge(list(folder))).map_err(other)
    }
}
