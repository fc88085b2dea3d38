//! The task that keeps the lease of a job, and the observer that it asks.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use acestep_engine::{Event, Observe};
use parking_lot::Mutex;
use tokio::{runtime::Handle, time};
use tokio_util::task::AbortOnDropHandle;
use tracing::Instrument;

use super::{Worker, WorkerTimes};
use crate::{
    job::{Progress, State},
    objects::Objects,
    stages::{Clock, LOADING, Spent},
    store::{Lease, LeaseState, Lookup, News, Store, StoreError},
};

/// Begins a task that keeps a lease and reports news; it ends when its handle is dropped.
pub(super) fn keeper(
    runtime: &Handle,
    worker: &Worker<'_>,
    lease: &Lease,
    watch: &Arc<Watch>,
) -> AbortOnDropHandle<()> {
    let (store, times, on_hang) = (worker.store.clone(), worker.times, worker.on_hang);
    let (lease, watch) = (lease.clone(), watch.clone());
    let keeping = async move {
        keep(&*store, times, &lease, &watch).await;
        on_hang();
    };
    // Its lines of the log name the job too.
    AbortOnDropHandle::new(runtime.spawn(keeping.in_current_span()))
}

/// Extends the lease and reports news, until the job hangs. Then the lease runs out, if the process does
/// not end before.
async fn keep(store: &dyn Store, times: WorkerTimes, lease: &Lease, watch: &Watch) {
    // A lease may be shorter than the time between two reports.
    let pause = times.report.min(times.extend);
    let mut quiet = Duration::ZERO;
    loop {
        time::sleep(pause).await;
        quiet += pause;
        let still = watch.still();
        if !times.stall.is_zero() && still > times.stall {
            return tracing::error!(
                seconds = still.as_secs(),
                "no progress: the worker is given up"
            );
        }
        let is_quiet = watch.news().is_empty();
        if is_quiet && quiet < times.extend {
            // A wish to cancel comes with the answer, so ask often.
            match store.get(lease.id).await {
                Ok(Lookup::Job(job)) if job.state == State::Running => {}
                Ok(_) => watch.cancel.store(true, Ordering::Relaxed),
                Err(error) => tracing::warn!(%error, "the state of the job is unknown"),
            }
            continue;
        }
        quiet = Duration::ZERO;
        match watch.extend(store, lease, times.lease).await {
            Ok(LeaseState::Yes) => {}
            Ok(LeaseState::Cancel | LeaseState::Lost) => {
                watch.cancel.store(true, Ordering::Relaxed)
            }
            Err(error) => {
                // The next try comes after a pause, not after the time of an extension.
                quiet = times.extend;
                tracing::warn!(%error, "the lease could not be extended");
            }
        }
    }
}

/// Observer of a job: collects news, and knows if the job is cancelled.
pub(super) struct Watch {
    news: Mutex<News>,
    clock: Mutex<Clock>,
    /// When the job last told something.
    moved: Mutex<Instant>,
    /// Held while news is stored, so that the end of a job comes after it.
    storing: tokio::sync::Mutex<()>,
    cancel: AtomicBool,
    ending: Arc<AtomicBool>,
    objects: Objects,
}

impl Watch {
    /// An observer that cancels when `ending` is true. Notices do not tell the places of `objects`.
    pub(super) fn new(ending: Arc<AtomicBool>, clock: Clock, objects: Objects) -> Self {
        Self {
            news: Mutex::default(),
            clock: Mutex::new(clock),
            moved: Mutex::new(Instant::now()),
            storing: tokio::sync::Mutex::default(),
            cancel: AtomicBool::default(),
            ending,
            objects,
        }
    }

    /// The time since the job last told something.
    fn still(&self) -> Duration {
        self.moved.lock().elapsed()
    }

    /// The seconds of the stages of a job that has ended.
    pub(super) fn spent(&self) -> Vec<Spent> {
        self.clock.lock().end(Instant::now())
    }

    /// Takes progress over, with the time left.
    fn progressed(&self, progress: Progress) {
        let mut clock = self.clock.lock();
        let left = clock.tick(&progress, Instant::now());
        let eta_s = left.map(|seconds| seconds.ceil() as u64);
        self.news().progress = Some(Progress { eta_s, ..progress });
    }

    pub(super) fn news(&self) -> parking_lot::MutexGuard<'_, News> {
        self.news.lock()
    }

    /// Extends the lease, and stores the news. News that could not be stored is kept for the next time.
    pub(super) async fn extend(
        &self,
        store: &dyn Store,
        lease: &Lease,
        length: Duration,
    ) -> Result<LeaseState, StoreError> {
        let _storing = self.storing.lock().await;
        let news = std::mem::take(&mut *self.news());
        let held = store.extend(lease.clone(), length, news.clone()).await;
        if held.is_err() {
            self.news().restore(news);
        }
        held
    }
}

impl Observe for Watch {
    fn event(&self, event: Event) {
        *self.moved.lock() = Instant::now();
        match event {
            Event::Loading(stage) => {
                let stage = format!("{LOADING}{}", stage.name);
                self.progressed(Progress { stage, ..Progress::default() });
            }
            Event::Advanced { stage, done, total } => self.progressed(Progress {
                stage: stage.name.to_owned(),
                unit: stage.unit.name().to_owned(),
                done: done as u64,
                total: total as u64,
                eta_s: None,
            }),
            Event::Noticed(notice) => {
                let text = self.objects.without_places(&notice.0);
                self.news().notices.push(text);
            }
            Event::Overflowed { who, dtype } => {
                self.news().notices.push(acestep_engine::retry::notice(who, dtype).0);
            }
            Event::Again { stage, frames, why } => {
                let text = format!(
                    "the device failed in the {} stage ({why}): it runs again in tiles of {frames} \
                     frames",
                    stage.name
                );
                self.news().notices.push(text);
            }
            Event::Finished { .. } => {}
        }
    }

    fn cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed) || self.ending.load(Ordering::Relaxed)
    }
}
