//! A worker: takes jobs one after the other, and keeps their leases while it works.
//!
//! The work blocks its thread, which may be minutes. Leases are extended by a task of the runtime, so a
//! busy device never looks dead.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use acestep_engine::{Event, Observe};
use serde_json::Value;
use tokio::{runtime::Handle, task::JoinHandle, time};

use crate::{
    job::{Content, Job, JobError, Kind, Output, Progress},
    objects::Objects,
    store::{Claim, End, Held, Lease, News, Store, StoreError},
};

/// Time that a worker waits for a queue that cannot be used.
const OUTAGE: Duration = Duration::from_secs(600);

/// Times of a worker.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// Length of a lease.
    pub lease: Duration,
    /// Time between two extensions of a lease.
    pub extend: Duration,
    /// Shortest time between two reports of progress.
    pub report: Duration,
    /// Longest time between two looks into the queue.
    pub look: Duration,
    /// No job waits longer than this behind jobs of the model in memory.
    pub patience: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(60),
            extend: Duration::from_secs(15),
            report: Duration::from_secs(1),
            look: Duration::from_secs(1),
            patience: Duration::from_secs(300),
        }
    }
}

/// A result that a runner wrote into the job's folder.
#[derive(Debug, Clone)]
pub struct Made {
    /// The song of the job, from 1.
    pub track: u32,
    /// The content.
    pub content: Content,
    /// The name in the folder.
    pub name: String,
    /// The seed of the song.
    pub seed: Option<u64>,
    /// The length of the sound in seconds.
    pub seconds: Option<f64>,
}

/// The reason why a runner made no complete result.
#[derive(Debug, Clone)]
pub enum Stopped {
    /// The observer cancelled it.
    Cancelled,
    /// It failed; a retry would fail too.
    Failed(JobError),
}

/// A job, as its runner gets it.
pub struct Task<'a> {
    /// The job.
    pub job: &'a Job,
    /// The folder for its results.
    pub folder: &'a Path,
    /// Files that clients sent.
    pub objects: &'a Objects,
    /// The observer of its progress; it knows if the job is cancelled.
    pub observe: &'a dyn Observe,
    /// Receives the request with all decisions.
    pub resolved: &'a dyn Fn(Value),
    /// Results so far; those of a job that stops early are kept.
    pub made: &'a mut Vec<Made>,
}

impl std::fmt::Debug for Task<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Task").field("job", &self.job.id).finish_non_exhaustive()
    }
}

/// The work behind the queue.
pub trait Runner {
    /// The tasks that it can run.
    fn kinds(&self) -> Vec<Kind>;
    /// The model in memory.
    fn resident(&self) -> Option<String>;
    /// Runs a job, and writes its results into its folder.
    ///
    /// # Errors
    /// The reason of a failure; results in `task.made` are kept.
    fn run(&mut self, task: Task<'_>) -> Result<(), Stopped>;
}

/// A worker of a queue.
pub struct Worker<'a> {
    /// Its name, unique among those that run.
    pub name: String,
    /// The queue.
    pub store: Arc<dyn Store>,
    /// The files.
    pub objects: Objects,
    /// Its times.
    pub times: Times,
    /// True: take no more jobs.
    pub is_draining: &'a AtomicBool,
    /// True: release the present job too.
    pub is_ending: Arc<AtomicBool>,
}

impl std::fmt::Debug for Worker<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Worker<'_> {
    /// Runs jobs until it is drained. Blocks: the caller's thread is that of the device. It waits while
    /// the queue cannot be used, e.g. while a full disk is cleared.
    ///
    /// # Errors
    /// If the queue could not be used for ten minutes.
    pub fn run(&self, runtime: &Handle, runner: &mut dyn Runner) -> Result<(), StoreError> {
        let mut changes = self.store.changes();
        let mut last = Instant::now();
        while !self.is_draining.load(Ordering::Relaxed) {
            match self.run_next(runtime, runner) {
                Ok(true) => {}
                Ok(false) => {
                    // A change or the end of the time: both are a reason to look.
                    let _ = runtime
                        .block_on(async { time::timeout(self.times.look, changes.recv()).await });
                }
                Err(error) if last.elapsed() > OUTAGE => return Err(error),
                Err(error) => {
                    tracing::warn!(%error, "the worker tries again");
                    std::thread::sleep(self.times.look);
                    continue;
                }
            }
            last = Instant::now();
        }
        Ok(())
    }

    /// Stores the end of an attempt. The results are there, so it is worth to try again.
    fn finish(&self, runtime: &Handle, lease: &Lease, end: &End) -> Result<bool, StoreError> {
        let start = Instant::now();
        loop {
            match runtime.block_on(self.store.finish(lease.clone(), end.clone())) {
                Err(error)
                    if start.elapsed() < OUTAGE && !self.is_ending.load(Ordering::Relaxed) =>
                {
                    tracing::warn!(%error, "the end of the job is not stored yet");
                    std::thread::sleep(self.times.look);
                }
                answer => return answer,
            }
        }
    }

    /// Runs the next job; false if none waits.
    ///
    /// # Errors
    /// If the queue cannot be used.
    pub fn run_next(&self, runtime: &Handle, runner: &mut dyn Runner) -> Result<bool, StoreError> {
        let claim = Claim {
            worker: self.name.clone(),
            kinds: runner.kinds(),
            resident: runner.resident(),
            patience: self.times.patience,
            lease: self.times.lease,
        };
        let Some(job) = runtime.block_on(self.store.claim(claim))? else { return Ok(false) };
        let lease = Lease { id: job.id, worker: self.name.clone(), attempt: job.attempts };
        let span = tracing::info_span!("job", id = %job.id, kind = job.kind.name());
        let _entered = span.enter();
        tracing::info!(attempt = job.attempts, "begins");
        let end = self.attempt(runtime, runner, &job, &lease);
        let name = match &end {
            End::Done(_) => "done",
            End::Failed(error, _) => {
                tracing::warn!(code = error.code, message = error.message, "failed");
                "failed"
            }
            End::Cancelled(_) => "cancelled",
            End::Released => "released",
        };
        let stored = self.finish(runtime, &lease, &end)?;
        if stored {
            tracing::info!("{name}");
            if let Err(error) = self.objects.remove_earlier(&lease) {
                tracing::warn!(%error, "files of an earlier attempt stay");
            }
        } else {
            tracing::warn!("the lease was lost: what was made is not used");
        }
        Ok(true)
    }

    fn attempt(&self, runtime: &Handle, runner: &mut dyn Runner, job: &Job, lease: &Lease) -> End {
        let folder = match self.objects.attempt(lease) {
            Ok(folder) => folder,
            Err(error) => return End::Failed(of_files(&error), Vec::new()),
        };
        let watch = Arc::new(Watch { ending: self.is_ending.clone(), ..Watch::default() });
        let keeper = self.keep(runtime, lease.clone(), watch.clone());
        if let Err(error) = self.objects.prepare(&job.request) {
            keeper.abort();
            return End::Failed(of_files(&error), Vec::new());
        }
        let mut made = Vec::new();
        let task = Task {
            job,
            folder: &folder,
            objects: &self.objects,
            observe: &*watch,
            resolved: &|value| watch.news().resolved = Some(value),
            made: &mut made,
        };
        // A panic of one job must not end the worker.
        let result = catch_unwind(AssertUnwindSafe(|| runner.run(task))).unwrap_or_else(|_| {
            let message = "a mistake in this program ended the job; see the worker's log";
            Err(Stopped::Failed(JobError::new("internal", message)))
        });
        // The lease is kept until the results are where they belong.
        let outputs = self.outputs(lease, &made);
        keeper.abort();
        // The last notices come before the end.
        let news = std::mem::take(&mut *watch.news());
        let held = runtime.block_on(self.store.extend(lease.clone(), self.times.lease, news));
        if let Err(error) = held {
            tracing::error!(%error, "the last news of the job are not stored");
        }
        let outputs = match outputs {
            Ok(outputs) => outputs,
            Err(error) => return End::Failed(of_files(&error), Vec::new()),
        };
        match result {
            Ok(()) => End::Done(outputs),
            Err(Stopped::Failed(error)) => End::Failed(error, outputs),
            Err(Stopped::Cancelled) if self.is_ending.load(Ordering::Relaxed) => End::Released,
            Err(Stopped::Cancelled) => End::Cancelled(outputs),
        }
    }

    fn outputs(&self, lease: &Lease, made: &[Made]) -> std::io::Result<Vec<Output>> {
        let output = |made: &Made| {
            let output = self.objects.output(lease, made.track, made.content, &made.name)?;
            Ok(Output { seed: made.seed, seconds: made.seconds, ..output })
        };
        let outputs = made.iter().map(output).collect::<std::io::Result<Vec<_>>>()?;
        self.objects.publish(lease, &outputs)?;
        Ok(outputs)
    }

    /// Extends the lease and reports news, until the task is aborted.
    fn keep(&self, runtime: &Handle, lease: Lease, watch: Arc<Watch>) -> JoinHandle<()> {
        let (store, times) = (self.store.clone(), self.times);
        runtime.spawn(async move {
            let mut quiet = Duration::ZERO;
            loop {
                time::sleep(times.report).await;
                quiet += times.report;
                let news = std::mem::take(&mut *watch.news());
                let is_news = news.progress.is_some() || !news.notices.is_empty();
                if !is_news && news.resolved.is_none() && quiet < times.extend {
                    // A wish to cancel comes with the answer, so ask often.
                    match store.get(lease.id).await {
                        Ok(crate::store::Found::Job(job))
                            if job.state == crate::job::State::Running => {}
                        Ok(_) => watch.cancel.store(true, Ordering::Relaxed),
                        Err(error) => tracing::warn!(%error, "the state of the job is unknown"),
                    }
                    continue;
                }
                quiet = Duration::ZERO;
                match store.extend(lease.clone(), times.lease, news).await {
                    Ok(Held::Yes) => {}
                    Ok(Held::Cancel | Held::Lost) => watch.cancel.store(true, Ordering::Relaxed),
                    Err(error) => tracing::warn!(%error, "the lease could not be extended"),
                }
            }
        })
    }
}

/// Error of files that the server itself writes.
pub fn of_files(error: &std::io::Error) -> JobError {
    let code = match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => "disk_full",
        _ => "internal",
    };
    JobError::new(code, format!("the results cannot be stored: {error}"))
}

/// Observer of a job: collects news, and knows if the job is cancelled.
#[derive(Debug, Default)]
struct Watch {
    news: Mutex<News>,
    cancel: AtomicBool,
    ending: Arc<AtomicBool>,
}

impl Watch {
    fn news(&self) -> std::sync::MutexGuard<'_, News> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observe for Watch {
    fn event(&self, event: Event) {
        match event {
            Event::Loading(stage) => {
                let stage = format!("loading: {}", stage.name);
                self.news().progress = Some(Progress { stage, ..Progress::default() });
            }
            Event::Advanced { stage, done, total } => {
                self.news().progress = Some(Progress {
                    stage: stage.name.to_owned(),
                    unit: stage.unit.name().to_owned(),
                    done: done as u64,
                    total: total as u64,
                });
            }
            Event::Noticed(notice) => self.news().notices.push(notice.0),
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
