//! Sound that another machine makes: the server asks the worker for it, and appends it to a file of its own.
//!
//! All listeners of an attempt follow that file, as they follow the file of a worker on this disk. So a slow
//! client delays nothing, a late one begins at the start, and a thousand need one request. Sound that is here
//! outlives the worker's own file. The file is removed with its last listener.

use std::{
    collections::HashMap,
    io,
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use tempfile::{NamedTempFile, TempPath};
use tokio::{
    fs::File,
    io::AsyncWriteExt,
    sync::watch,
    time::{self, Instant},
};
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

use super::{Server, hub::Listener};
use crate::{
    objects::{Live, LiveSamples, WAIT},
    preview::PreviewFormat,
    store::{Lease, Lookup, Store},
};

/// Time between two questions to a worker that does not answer.
const AGAIN: Duration = Duration::from_millis(200);
/// Time that a worker has to answer after the end of its job.
const PATIENCE: Duration = Duration::from_secs(10);

/// The error of sound whose attempt will not go on.
pub(super) const BEGAN_AGAIN: &str = "the worker was lost, and the job began again";

/// The relays of a server, by job and attempt.
#[derive(Debug, Default)]
pub(super) struct Relays(Mutex<HashMap<(Uuid, u32), Weak<Relay>>>);

/// Sound that comes from another machine, until this is dropped.
#[derive(Debug)]
struct Relay {
    file: TempPath,
    state: watch::Receiver<RelayState>,
    _task: AbortOnDropHandle<()>,
}

#[derive(Debug, Clone, Default)]
struct RelayState {
    /// The form of the samples, when there are some.
    format: Option<PreviewFormat>,
    /// True if more samples are certain to come after those in the file.
    goes_on: bool,
    /// True for the whole sound, or the reason why it is not.
    end: Option<Result<(), String>>,
}

impl Relays {
    /// Listens to an attempt on another machine.
    pub(super) fn listen(
        &self,
        server: &Server,
        live: &Arc<dyn Live>,
        lease: &Lease,
    ) -> io::Result<Relayed> {
        let mut known = self.0.lock();
        let key = (lease.id, lease.attempt);
        let relay = known.get(&key).and_then(Weak::upgrade);
        let relay = match relay.filter(|relay| !matches!(relay.state.borrow().end, Some(Err(_)))) {
            Some(relay) => relay,
            None => {
                known.retain(|_, relay| relay.strong_count() > 0);
                let relay = Arc::new(Relay::begin(server, live, lease)?);
                known.insert(key, Arc::downgrade(&relay));
                relay
            }
        };
        let state = relay.state.clone();
        Ok(Relayed { relay, state })
    }
}

impl Relay {
    fn begin(server: &Server, live: &Arc<dyn Live>, lease: &Lease) -> io::Result<Self> {
        // Beside parts of uploads, which are removed if a killed server leaves them.
        let (file, path) = NamedTempFile::new_in(server.objects.incoming())?.into_parts();
        let (sender, state) = watch::channel(RelayState::default());
        let mut asking = Asking {
            live: live.clone(),
            store: server.store.clone(),
            changes: server.hub.listen(&server.store, lease.id),
            lease: lease.clone(),
            is_ended: false,
        };
        let task = AbortOnDropHandle::new(tokio::spawn(async move {
            let end = asking.copy(File::from_std(file), &sender).await;
            if let Err(why) = &end {
                tracing::debug!(id = %asking.lease.id, why, "sound of another machine ends early");
            }
            sender.send_modify(|state| state.end = Some(end));
        }));
        Ok(Self { file: path, state, _task: task })
    }
}

struct Asking {
    live: Arc<dyn Live>,
    store: Arc<dyn Store>,
    changes: Listener,
    lease: Lease,
    /// True if the queue said that the job has ended.
    is_ended: bool,
}

impl Asking {
    /// Copies the sound into `file`, to its end.
    async fn copy(
        &mut self,
        mut file: File,
        state: &watch::Sender<RelayState>,
    ) -> Result<(), String> {
        let failed = |error: io::Error| error.to_string();
        let mut length = 0;
        // True if the worker had no more sound when it last answered, and the time of that answer.
        let (mut has_all, mut answered) = (false, Instant::now());
        let mut silent: Option<Instant> = None;
        self.look().await?;
        loop {
            let was_ended = self.is_ended;
            let Some(heard) = self.fetch_samples(length).await? else { continue };
            match heard {
                Ok(Some(heard)) => {
                    silent = None;
                    (has_all, answered) = (heard.is_all, Instant::now());
                    // Before the samples come, so that a listener never takes the last ones for others.
                    state.send_modify(|state| state.goes_on &= heard.goes_on);
                    file.write_all(&heard.bytes).await.map_err(failed)?;
                    file.flush().await.map_err(failed)?;
                    length += heard.bytes.len() as u64;
                    state.send_modify(|state| {
                        state.format = Some(heard.format);
                        state.goes_on = heard.goes_on;
                    });
                    if was_ended && has_all {
                        return Ok(());
                    }
                    if heard.bytes.is_empty() {
                        self.look().await?;
                    }
                }
                // The worker removed it for its next song, which it begins several answers of the queue after
                // the last sample. So who had all before has all.
                Ok(None) if was_ended && has_all => return Ok(()),
                Ok(None) if was_ended => return Err("the worker has no sound of it".to_owned()),
                Ok(None) => self.look().await?,
                // The worker ended after its job, and answered until then.
                Err(_) if was_ended && has_all && answered.elapsed() < 2 * WAIT => return Ok(()),
                Err(error) => {
                    let since = *silent.get_or_insert_with(Instant::now);
                    if was_ended && (length == 0 || since.elapsed() > PATIENCE) {
                        return Err(error.to_string());
                    }
                    // It may go on while nobody hears it.
                    has_all = false;
                    time::sleep(AGAIN).await;
                    self.look().await?;
                }
            }
        }
    }

    /// Asks the worker for the sound behind byte `from`. None if the end of the job came before the answer:
    /// then nobody should wait for more.
    async fn fetch_samples(
        &mut self,
        from: u64,
    ) -> Result<Option<io::Result<Option<LiveSamples>>>, String> {
        let live = self.live.clone();
        let wait = if self.is_ended { Duration::ZERO } else { WAIT };
        let mut answer = live.fetch_samples(self.lease.clone(), from, wait);
        loop {
            tokio::select! {
                heard = &mut answer => return Ok(Some(heard)),
                () = self.changes.changed(), if !self.is_ended => {
                    self.look().await?;
                    if self.is_ended {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Asks the queue for the job. Errors: the reason why this attempt will not go on.
    async fn look(&mut self) -> Result<(), String> {
        match self.store.get(self.lease.id).await {
            Ok(Lookup::Job(job)) if self.lease.is_over(&job) => Err(BEGAN_AGAIN.to_owned()),
            Ok(Lookup::Job(job)) => {
                self.is_ended = job.state.is_ended();
                Ok(())
            }
            Ok(Lookup::Forgotten | Lookup::Unknown) => Err("the job was removed".to_owned()),
            Err(error) => {
                tracing::debug!(%error, "the state of the job is unknown");
                Ok(())
            }
        }
    }
}

/// Sound from another machine, as one listener gets it.
#[derive(Debug)]
pub(super) struct Relayed {
    relay: Arc<Relay>,
    state: watch::Receiver<RelayState>,
}

impl Relayed {
    /// Opens the sound at its start, if it has begun.
    pub(super) async fn opened(&self) -> Option<(PreviewFormat, File)> {
        let format = self.state.borrow().format?;
        Some((format, File::open(&self.relay.file).await.ok()?))
    }

    /// True if nothing more comes.
    pub(super) fn is_over(&self) -> bool {
        self.state.borrow().end.is_some()
    }

    /// True if more samples are certain to come after those that were read before.
    pub(super) fn goes_on(&self) -> bool {
        self.state.borrow().goes_on
    }

    /// True if all sound is here. Errors: the reason why it will never be.
    pub(super) fn is_whole(&self) -> io::Result<bool> {
        match &self.state.borrow().end {
            None => Ok(false),
            Some(Ok(())) => Ok(true),
            Some(Err(why)) => Err(io::Error::other(why.clone())),
        }
    }

    /// Waits for more, or for the end; for ever after that.
    pub(super) async fn changed(&mut self) {
        if self.state.changed().await.is_err() {
            std::future::pending().await
        }
    }
}
