//! A worker: takes jobs one after the other, and keeps their leases while it works.
//!
//! The work blocks its thread, which may be minutes. Leases are extended by a task of the runtime, so a
//! busy device never looks dead.

mod file_errors;
mod keeper;
mod refused;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use acestep_engine::Observe;
use serde_json::{Map, Value};
use tokio::{runtime::Handle, time};

pub use self::file_errors::of_files;
pub(crate) use self::file_errors::{DISK_FULL, WAITS_FOR_ROOM, is_full, of_upload, reason};
use self::{
    file_errors::{ROOM, Trouble},
    keeper::{Watch, keeper},
    refused::Refused,
};
use crate::{
    job::{Job, JobError, Kind, Output, RunOutput},
    objects::{LocalAttempts, Objects},
    stages::{self, Clock},
    store::{Claim, End, Lease, ModelFilter, Store, StoreError},
};

/// Time that a worker waits for a queue that cannot be used.
const OUTAGE: Duration = Duration::from_secs(600);

/// Returns a name that no other worker has: `of`, the name of this machine, and a number.
pub fn unique_name(of: &str) -> String {
    let host = hostname::get().unwrap_or_default();
    let letters = host.to_string_lossy();
    // It stands in command lines, logs and messages.
    let plain = letters.chars().filter(|letter| letter.is_ascii_alphanumeric() || *letter == '-');
    let host: String = plain.take(64).collect();
    format!("{of}-{host}-{}", uuid::Uuid::now_v7())
}

/// Times of a worker.
#[derive(Debug, Clone, Copy)]
pub struct WorkerTimes {
    /// Length of a lease.
    pub lease: Duration,
    /// Time between two extensions of a lease.
    pub extend: Duration,
    /// Shortest time between two reports of progress.
    pub report: Duration,
    /// Longest time between two looks into the queue.
    pub poll: Duration,
    /// No job waits longer than this behind jobs of the model in memory.
    pub patience: Duration,
    /// Time that other workers have to take a job that does not fit into the memory of this one.
    pub refused: Duration,
    /// Time between two looks for free space, after the disk was full.
    pub full: Duration,
    /// A job without progress for this time hangs: its worker is given up. Zero for never.
    pub stall: Duration,
}

impl Default for WorkerTimes {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(60),
            extend: Duration::from_secs(15),
            report: Duration::from_secs(1),
            poll: Duration::from_secs(1),
            patience: Duration::from_secs(300),
            refused: Duration::from_secs(10),
            full: Duration::from_secs(60),
            stall: Duration::from_secs(30 * 60),
        }
    }
}

/// The reason why a runner made no complete result.
#[derive(Debug, Clone)]
pub enum Stopped {
    /// The observer cancelled it.
    Cancelled,
    /// It failed; a retry would fail too.
    Failed(JobError),
    /// It does not fit into the memory of this machine, and nothing was made yet.
    TooLarge(JobError),
}

impl Stopped {
    fn without_places(self, objects: &Objects) -> Self {
        let hidden = |error: JobError| JobError {
            message: objects.without_places(&error.message),
            hint: error.hint.map(|hint| objects.without_places(&hint)),
            ..error
        };
        match self {
            Self::Cancelled => Self::Cancelled,
            Self::Failed(error) => Self::Failed(hidden(error)),
            Self::TooLarge(error) => Self::TooLarge(hidden(error)),
        }
    }
}

/// A job, as its runner gets it.
pub struct JobTask<'a> {
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
    pub made: &'a mut Vec<RunOutput>,
}

impl JobTask<'_> {
    /// The request; without fields if it is no object.
    pub(crate) fn request(&self) -> Map<String, Value> {
        self.job.request.as_object().cloned().unwrap_or_default()
    }
}

/// The work behind the queue.
pub trait Runner {
    /// The tasks that it can run.
    fn kinds(&self) -> Vec<Kind>;
    /// The model in memory.
    fn resident(&self) -> Option<String>;
    /// The models that it can load.
    fn has(&mut self) -> ModelFilter {
        ModelFilter::all()
    }
    /// Runs a job, and writes its results into its folder.
    ///
    /// # Errors
    /// The reason of a failure; results in `task.made` are kept.
    fn run(&mut self, task: JobTask<'_>) -> Result<(), Stopped>;
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
    pub times: WorkerTimes,
    /// True: take no more jobs.
    pub is_draining: &'a AtomicBool,
    /// True: release the present job too.
    pub is_ending: Arc<AtomicBool>,
    /// Called when a job hangs. The device's thread cannot be stopped, so this ends the process.
    pub on_hang: fn(),
    /// Called with true when the disk is full and the worker waits, with false when it goes on.
    pub on_disk_full: fn(bool),
}

impl Worker<'_> {
    /// Runs jobs until it is drained. Blocks: the caller's thread is the device's. It waits while
    /// the queue cannot be used, e.g. while a full disk is cleared.
    ///
    /// # Errors
    /// If the queue could not be used for ten minutes.
    pub fn run(&self, runtime: &Handle, runner: &mut dyn Runner) -> Result<(), StoreError> {
        // Listeners of other machines hear what is made here.
        let live = self.objects.live();
        let _answering =
            live.map(|live| live.answer(&self.name, LocalAttempts::new(self.objects.clone())));
        let mut changes = self.store.changes();
        let mut last = Instant::now();
        let (mut trouble, mut refused) = (Trouble::default(), Refused::default());
        while !self.is_draining.load(Ordering::Relaxed) {
            if trouble.is_full {
                self.wait_for_room(&mut trouble);
                continue;
            }
            match self.run_next(runtime, runner, &mut trouble, &mut refused) {
                Ok(true) => {}
                Ok(false) => {
                    // A change or the end of the time: both are a reason to look.
                    let _ = runtime
                        .block_on(async { time::timeout(self.times.poll, changes.recv()).await });
                }
                // The queue may be on another disk than this worker's.
                Err(error) if error.is_full && self.objects.has_room(ROOM).is_err() => {
                    tracing::warn!(%error, "the worker waits for room");
                    (self.on_disk_full)(true);
                    trouble.is_full = true;
                }
                Err(error) if last.elapsed() > OUTAGE => return Err(error),
                Err(error) => {
                    tracing::warn!(%error, "the worker tries again");
                    std::thread::sleep(self.times.poll);
                    continue;
                }
            }
            last = Instant::now();
        }
        Ok(())
    }

    /// Stores the last news and the end of an attempt. The results are there, so it is worth to try
    /// again.
    fn finish(
        &self,
        runtime: &Handle,
        lease: &Lease,
        end: &End,
        watch: &Watch,
    ) -> Result<bool, StoreError> {
        let start = Instant::now();
        let store = async || {
            // The last notices come before the end.
            watch.extend(&*self.store, lease, self.times.lease).await?;
            self.store.finish(lease.clone(), end.clone()).await
        };
        loop {
            match runtime.block_on(store()) {
                Err(error)
                    if start.elapsed() < OUTAGE && !self.is_ending.load(Ordering::Relaxed) =>
                {
                    tracing::warn!(%error, "the end of the job is not stored yet");
                    std::thread::sleep(self.times.poll);
                }
                answer => return answer,
            }
        }
    }

    /// Runs the next job; false if none waits.
    fn run_next(
        &self,
        runtime: &Handle,
        runner: &mut dyn Runner,
        trouble: &mut Trouble,
        refused: &mut Refused,
    ) -> Result<bool, StoreError> {
        let claim = Claim {
            worker: self.name.clone(),
            kinds: runner.kinds(),
            has: runner.has(),
            except: refused.recent(self.times.refused),
            resident: runner.resident(),
            patience: self.times.patience,
            lease: self.times.lease,
        };
        let Some(job) = runtime.block_on(self.store.claim(claim))? else { return Ok(false) };
        let lease = Lease { id: job.id, worker: self.name.clone(), attempt: job.attempts };
        let span = tracing::info_span!("job", id = %job.id, kind = job.kind.name());
        let _entered = span.enter();
        tracing::info!(attempt = job.attempts, "begins");
        let past = stages::Times::read(self.objects.folder()).of(&job);
        let watch =
            Arc::new(Watch::new(self.is_ending.clone(), Clock::new(past), self.objects.clone()));
        // The lease is kept until the end is stored.
        let _keeper = keeper(runtime, self, &lease, &watch);
        let end = self.attempt(runner, &job, &lease, &watch, refused);
        let end = end.unwrap_or_else(|error| self.troubled(&lease, error, &watch, trouble));
        if let End::Failed(error, _) = &end {
            tracing::warn!(code = error.code, reason = error.message, "failed");
        }
        let stored = self.finish(runtime, &lease, &end, &watch)?;
        if stored {
            tracing::info!("{}", <&str>::from(&end));
            if let End::Done(_) = end {
                self.remember(&job, &watch);
            }
            if let Err(error) = self.objects.remove_earlier(&lease) {
                tracing::warn!(%error, "files of an earlier attempt stay");
            }
        } else {
            tracing::warn!("the lease was lost: what was made is not used");
        }
        Ok(true)
    }

    /// Adds the times of a job to those of this machine.
    fn remember(&self, job: &Job, watch: &Watch) {
        let spent = watch.spent();
        if spent.is_empty() {
            return;
        }
        if let Err(error) = stages::Times::add(self.objects.folder(), job, &spent) {
            tracing::warn!(%error, "the times of the stages are not kept");
        }
    }

    /// Runs a job. The error is one of files that could not be stored or fetched.
    fn attempt(
        &self,
        runner: &mut dyn Runner,
        job: &Job,
        lease: &Lease,
        watch: &Watch,
        refused: &mut Refused,
    ) -> Result<End, JobError> {
        let folder = self.objects.attempt(lease).map_err(|error| of_files(&error))?;
        self.objects.prepare(&job.request).map_err(|error| of_files(&error))?;
        let mut made = Vec::new();
        let task = JobTask {
            job,
            folder: &folder,
            objects: &self.objects,
            observe: watch,
            resolved: &|value| watch.news().resolved = Some(value),
            made: &mut made,
        };
        // A panic of one job must not end the worker.
        let result = catch_unwind(AssertUnwindSafe(|| runner.run(task))).unwrap_or_else(|_| {
            let message = "a mistake in this program ended the job; see the worker's log";
            Err(Stopped::Failed(JobError::new("internal", message)))
        });
        let result = result.map_err(|stopped| stopped.without_places(&self.objects));
        let outputs = self.outputs(lease, &made).map_err(|error| of_files(&error))?;
        Ok(match result {
            Err(Stopped::Failed(error)) if error.code == DISK_FULL => return Err(error),
            Ok(()) => End::Done(outputs),
            Err(Stopped::TooLarge(error)) if outputs.is_empty() => {
                if let Err(error) = std::fs::remove_dir_all(&folder) {
                    tracing::warn!(%error, "the folder of an attempt stays");
                }
                refused.end(lease.id, error)
            }
            Err(Stopped::Failed(error) | Stopped::TooLarge(error)) => End::Failed(error, outputs),
            Err(Stopped::Cancelled) if self.is_ending.load(Ordering::Relaxed) => End::Released,
            Err(Stopped::Cancelled) => End::Cancelled(outputs),
        })
    }

    fn outputs(&self, lease: &Lease, made: &[RunOutput]) -> std::io::Result<Vec<Output>> {
        let outputs = made.iter().map(|made| self.objects.output(lease, made));
        let outputs = outputs.collect::<std::io::Result<Vec<_>>>()?;
        self.objects.publish(lease, &outputs)?;
        Ok(outputs)
    }
}
