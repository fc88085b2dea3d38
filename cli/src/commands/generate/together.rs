//! A run of many requests: each stage loads its network once for all of them.
//!
//! ```text
//! jobs -> language model for all -> songs of all, stage by stage -> their scores -> report
//! ```
//!
//! A single request is a run of one.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use acestep_engine::Error;
use acestep_music::{lm::compose::Composed, pipeline::Rendered};
use anyhow::Result;

use super::{
    Args, Job, Written,
    after::{self, Found},
    describe, memory,
    outputs::Target,
    run,
};
use crate::{
    commands::language,
    interrupt,
    progress::Progress,
    report::{self, Report},
};

/// A run of all requests.
pub(super) struct BatchRun<'a> {
    pub(super) jobs: Vec<Job>,
    pub(super) args: &'a Args,
    pub(super) report: Report,
    pub(super) start: Instant,
    pub(super) progress: Progress,
    /// Result of each request.
    pub(super) made: Vec<Made>,
    /// Requests that were decoded together, in their order.
    pub(super) groups: Vec<Vec<usize>>,
}

/// Result of a request.
pub(super) enum Made {
    /// No result yet.
    Open,
    Done(Done),
    /// The song could not be made.
    Failed(anyhow::Error),
}

/// Written files and results for a song.
#[derive(Default)]
pub(super) struct Done {
    pub(super) written: Vec<Written>,
    /// Other written files: latents, the request, and extra outputs.
    pub(super) files: Vec<PathBuf>,
    pub(super) found: Found,
    /// Time from the start of the run to the end of this request.
    pub(super) after: Duration,
    /// True if nothing is left to do.
    pub(super) is_finished: bool,
    /// Error on the way.
    pub(super) error: Option<anyhow::Error>,
}

/// True if Ctrl-C ended the run; other errors end only one request.
pub(super) fn is_cancelled(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(Error::Cancelled))
}

impl<'a> BatchRun<'a> {
    pub(super) fn new(jobs: Vec<Job>, args: &'a Args, report: Report) -> Self {
        let made = jobs.iter().map(|_| Made::Open).collect();
        let progress = Progress::new(report);
        Self { jobs, args, report, start: Instant::now(), progress, made, groups: vec![] }
    }

    /// Runs all stages; the failure of one request is stored for the report and does not stop the
    /// others.
    ///
    /// # Errors
    /// [`Error::Cancelled`], [`Error::NoDevice`].
    pub(super) fn run(&mut self) -> Result<()> {
        self.compose()?;
        self.sing()?;
        self.judge()
    }

    /// Completes the requests with their language models, and plans the songs again.
    fn compose(&mut self) -> Result<()> {
        let key = |job: &Job| {
            let composition = job.composition.as_ref()?;
            Some(composition.folder.directory().root().to_owned())
        };
        for group in grouped(&self.jobs, key) {
            let mut asks = Vec::new();
            for &i in &group {
                let job = &self.jobs[i];
                let Some(composition) = &job.composition else { continue };
                let name = composition.folder.name();
                let origin = describe::origin(job);
                // The device is printed later with the song.
                self.report.line(&format!("language model {name} · {origin}"));
                asks.push((composition.job(&job.asked.request), self.progress.of(i)));
            }
            let Some(first) = self.jobs[group[0]].composition.as_ref() else { continue };
            let engine = self.jobs[group[0]].engine;
            let composed = language::compose_all(&asks, &first.folder, engine)?;
            let mut results = Vec::new();
            for (i, composed) in group.into_iter().zip(composed) {
                // Save the result at once: later stages may fail.
                let taken = self
                    .take(i, composed)
                    .and_then(|()| self.jobs[i].keep(self.args.output.existing()));
                results.push((i, taken));
            }
            self.keep_going(results)?;
        }
        for (job, made) in self.jobs.iter_mut().zip(&self.made) {
            if matches!(made, Made::Open) {
                job.say_plan(&self.report);
            }
        }
        Ok(())
    }

    fn take(&mut self, i: usize, composed: Result<Composed, Error>) -> Result<()> {
        self.jobs[i].take(composed?, &self.report)?;
        // The song may be longer now.
        memory::check(&self.jobs[i], self.args.compute.residency())
    }

    /// Makes the songs, and writes each one as soon as it is finished.
    fn sing(&mut self) -> Result<()> {
        let key = |job: &Job| {
            let request = &job.asked.request;
            let model = job.folder.path().to_owned();
            Some((model, request.adapter.clone(), format!("{:?}", request.adapter_scale)))
        };
        for group in grouped(&self.jobs, key) {
            // Requests of a group share one folder, which records the effect of its adapters.
            let folder = self.jobs[group[0]].folder.clone();
            group.iter().for_each(|&i| self.jobs[i].folder = folder.clone());
            let is_open = |i: &usize| matches!(self.made[*i], Made::Open);
            let group: Vec<usize> = group.into_iter().filter(is_open).collect();
            let (args, progress) = (self.args, &self.progress);
            let jobs: Vec<_> = group.iter().map(|&i| (&self.jobs[i], progress.of(i))).collect();
            if jobs.is_empty() {
                continue;
            }
            jobs.iter().for_each(|(job, _)| self.report.line(&describe::headline(job)));
            let mut made = Vec::new();
            let run = run::songs(&jobs, args, |k, rendered| {
                let (job, _) = jobs[k];
                made.push(rendered.map(|rendered| job.write_down(rendered, args, self.start)));
                Ok::<_, Error>(())
            });
            let mut results = Vec::new();
            for (&i, made) in group.iter().zip(made) {
                let result = made.map_err(Into::into).and_then(|mut done| {
                    let error = done.error.take();
                    self.made[i] = Made::Done(done);
                    error.map_or(Ok(()), Err)
                });
                results.push((i, result));
            }
            self.groups.push(group);
            self.keep_going(results)?;
            run?;
        }
        Ok(())
    }

    /// Scores the written songs with the language models, if wanted.
    fn judge(&mut self) -> Result<()> {
        let key = |job: &Job| Some(job.judge()?.0.directory().root().to_owned());
        for group in grouped(&self.jobs, key) {
            let is_whole = |i: &usize| match &self.made[*i] {
                Made::Done(done) => done.error.is_none(),
                Made::Open | Made::Failed(_) => false,
            };
            let group: Vec<usize> = group.into_iter().filter(is_whole).collect();
            let question = |&i: &usize| self.jobs[i].question(self.progress.of(i));
            let questions: Vec<_> = group.iter().filter_map(question).collect();
            let Some((folder, _)) = group.first().and_then(|&i| self.jobs[i].judge()) else {
                continue;
            };
            let engine = self.jobs[group[0]].engine;
            let judged = after::judge_all(&questions, folder, engine, self.start)?;
            let mut results = Vec::new();
            for (i, (judged, after)) in group.into_iter().zip(judged) {
                let Made::Done(done) = &mut self.made[i] else { continue };
                let taken = done.found.take_judged(judged);
                (done.after, done.is_finished) = (after, taken.is_ok());
                results.push((i, taken.map_err(Into::into)));
            }
            self.keep_going(results)?;
        }
        Ok(())
    }

    /// Stores the errors of requests, so that the others continue.
    ///
    /// # Errors
    /// Only the cancellation by the user.
    fn keep_going(&mut self, results: Vec<(usize, Result<()>)>) -> Result<()> {
        let mut cancelled = Ok(());
        for (i, result) in results {
            let Err(error) = result else { continue };
            if is_cancelled(&error) {
                cancelled = Err(error);
                continue;
            }
            match &mut self.made[i] {
                Made::Done(done) => done.error = Some(error),
                made => *made = Made::Failed(error),
            }
        }
        cancelled
    }
}

impl Job {
    /// Writes the songs and their extra outputs until an error occurs. Then prints the paths,
    /// unless JSON names them.
    fn write_down(&self, rendered: Rendered, args: &Args, start: Instant) -> Done {
        let mut done = Done::default();
        let written = self.write_into(&mut done, rendered, args);
        done.is_finished = written.is_ok() && self.judge().is_none();
        // Print paths even if a later file failed: these files exist.
        let named = if args.output.json { Ok(()) } else { done.name_files() };
        done.error = written.and(named).err();
        done.after = start.elapsed();
        done
    }

    fn write_into(&self, done: &mut Done, rendered: Rendered, args: &Args) -> Result<()> {
        let existing = args.output.existing();
        let Rendered { songs, latents, aligned } = rendered;
        if interrupt::was_pressed() {
            return Err(Error::Cancelled.into());
        }
        let found = Found::of(aligned).map(|found| done.found = found);
        self.write_latents(&latents, existing, &mut done.files)?;
        self.write(&songs, existing, done)?;
        found?;
        self.write_after(&songs, existing, done)
    }
}

impl Done {
    /// Prints the paths, songs first.
    fn name_files(&self) -> Result<()> {
        let song = |written: &Written| match &written.target {
            Target::File(path) => Some(path.clone()),
            Target::Stdout => None,
        };
        let songs: Vec<_> = self.written.iter().filter_map(song).collect();
        Ok(songs.iter().chain(&self.files).try_for_each(|path| report::path(path))?)
    }
}

/// Groups the indices of jobs with the same `key`, in order; a job without a key is in no group.
fn grouped<K: PartialEq>(jobs: &[Job], key: impl Fn(&Job) -> Option<K>) -> Vec<Vec<usize>> {
    let mut groups: Vec<(K, Vec<usize>)> = Vec::new();
    for (i, job) in jobs.iter().enumerate() {
        let Some(key) = key(job) else { continue };
        match groups.iter_mut().find(|(other, _)| *other == key) {
            Some((_, group)) => group.push(i),
            None => groups.push((key, vec![i])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}
