//! Second phase: every stage of the run, with each network loaded once for all requests.
//!
//! ```text
//! Resolved -> language model for all -> songs of all, stage by stage -> their scores -> Run
//! ```
//!
//! A single request is a run of one.

use std::{path::PathBuf, rc::Rc, time::Instant};

use acestep_engine::Error;
use acestep_music::lm::compose::Composed;
use anyhow::Result;

use super::{Resolved, after, describe, memory, run, written::Written};
use crate::{commands::language, progress::Progress, report::Report};

/// Requests on their way through the networks.
pub(super) struct Run {
    pub(super) requested: Vec<Requested>,
    pub(super) progress: Progress,
    /// Requests that were decoded together, in their order.
    pub(super) groups: Vec<Vec<usize>>,
    pub(super) report: Report,
    /// True if the result is printed as JSON.
    pub(super) json: bool,
    start: Instant,
}

/// A request, and what was made of it.
pub(super) struct Requested {
    pub(super) resolved: Resolved,
    /// The request that the language model completed, if it was saved before the song was made.
    pub(super) kept: Option<PathBuf>,
    pub(super) made: Made,
}

/// Result of a request.
pub(super) enum Made {
    /// No result yet.
    Open,
    Written(Written),
    /// The song could not be made.
    Failed(anyhow::Error),
}

/// True if Ctrl-C ended the run; other errors end only one request.
fn is_cancelled(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(Error::Cancelled))
}

impl Run {
    /// Makes and writes the songs. The failure of one request is stored for the report and does
    /// not stop the others; with the run comes the error that ended it early:
    /// [`Error::Cancelled`] or [`Error::NoDevice`].
    pub(super) fn make(resolved: Vec<Resolved>, json: bool, report: Report) -> (Self, Result<()>) {
        let requested = with_shared_folders(resolved)
            .map(|resolved| Requested { resolved, kept: None, made: Made::Open })
            .collect();
        let (progress, start) = (Progress::new(report), Instant::now());
        let mut run = Self { requested, progress, groups: vec![], report, json, start };
        let ended = run.compose().and_then(|()| run.sing()).and_then(|()| run.judge());
        (run, ended)
    }

    /// Completes the requests with their language models, and plans the songs again.
    fn compose(&mut self) -> Result<()> {
        let key = |one: &Requested| {
            let composition = one.resolved.setup.composition.as_ref()?;
            Some(composition.folder.directory().root().to_owned())
        };
        for group in grouped(&self.requested, key) {
            let mut tasks = Vec::new();
            for &i in &group {
                let resolved = &self.requested[i].resolved;
                let Some(composition) = &resolved.setup.composition else { continue };
                let (name, origin) = (composition.folder.name(), describe::origin(resolved));
                // The device is printed later with the song.
                self.report.line(&format!("language model {name} · {origin}"));
                tasks.push((composition.composing(&resolved.request), self.progress.of(i)));
            }
            let setup = self.requested[group[0]].resolved.setup.clone();
            let Some(first) = &setup.composition else { continue };
            let composed = language::compose_all(&tasks, &first.folder, setup.engine)?;
            let mut results = Vec::new();
            for (i, composed) in group.into_iter().zip(composed) {
                results.push((i, self.requested[i].complete(composed, &self.report)));
            }
            self.keep_going(results)?;
        }
        for one in &self.requested {
            if matches!(one.made, Made::Open) {
                self.report.notes(&one.resolved.plan_notices);
            }
        }
        Ok(())
    }

    /// Makes the songs, and writes each one as soon as it is finished.
    fn sing(&mut self) -> Result<()> {
        for group in grouped(&self.requested, |one| Some(Rc::as_ptr(&one.resolved.folder))) {
            let is_open = |i: &usize| matches!(self.requested[*i].made, Made::Open);
            let group: Vec<usize> = group.into_iter().filter(is_open).collect();
            let song = |&i: &usize| (&self.requested[i].resolved, self.progress.of(i));
            let songs: Vec<_> = group.iter().map(song).collect();
            if songs.is_empty() {
                continue;
            }
            songs.iter().for_each(|(song, _)| self.report.line(&describe::headline(song)));
            let mut made = Vec::new();
            let run = run::songs(&songs, |k, rendered| {
                let Requested { resolved, kept, .. } = &self.requested[group[k]];
                let write =
                    |rendered| resolved.write(rendered, kept.as_deref(), self.start, self.json);
                made.push(rendered.map(write));
                Ok::<_, Error>(())
            });
            let mut results = Vec::new();
            for (&i, made) in group.iter().zip(made) {
                let result = made.map_err(Into::into).and_then(|(written, result)| {
                    self.requested[i].made = Made::Written(written);
                    result
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
        let key = |one: &Requested| Some(one.resolved.judge()?.0.directory().root().to_owned());
        for group in grouped(&self.requested, key) {
            let is_unscored = |i: &usize| match &self.requested[*i].made {
                Made::Written(written) => written.is_open(),
                Made::Open | Made::Failed(_) => false,
            };
            let group: Vec<usize> = group.into_iter().filter(is_unscored).collect();
            let song = |&i: &usize| (&self.requested[i].resolved, self.progress.of(i));
            let songs: Vec<_> = group.iter().map(song).collect();
            let judged = after::judge_all(&songs, self.start)?;
            let mut results = Vec::new();
            for (i, (judged, after)) in group.into_iter().zip(judged) {
                let Made::Written(written) = &mut self.requested[i].made else { continue };
                results.push((i, written.judged(judged, after)));
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
            match &mut self.requested[i].made {
                Made::Written(written) => written.fail(error),
                made => *made = Made::Failed(error),
            }
        }
        cancelled
    }
}

impl Requested {
    /// Takes the language model's decisions, and saves the request at once if that is wanted: the
    /// song may still fail or be interrupted.
    fn complete(&mut self, composed: Result<Composed, Error>, report: &Report) -> Result<()> {
        self.resolved = self.resolved.completed(composed?, report)?;
        memory::check(&self.resolved)?;
        if let Some(path) = &self.resolved.setup.outputs.request {
            self.resolved.save(path, self.resolved.setup.existing)?;
            self.kept = Some(path.clone());
        }
        Ok(())
    }
}

/// Lets requests with the same model and the same adapters share one folder, which records the
/// effect of its adapters.
fn with_shared_folders(resolved: Vec<Resolved>) -> impl Iterator<Item = Resolved> {
    let mut known = Vec::new();
    resolved.into_iter().map(move |one| {
        let Resolved { folder, request, .. } = &one;
        let scales = format!("{:?}", request.compute.adapter_scale);
        let key = (folder.path().to_owned(), request.compute.adapter.clone(), scales);
        match known.iter().find(|(other, _)| *other == key) {
            Some((_, folder)) => Resolved { folder: Rc::clone(folder), ..one },
            None => {
                known.push((key, folder.clone()));
                one
            }
        }
    })
}

/// Groups the indices of requests with the same `key`, in order; one without a key is in no group.
fn grouped<K: PartialEq>(
    requested: &[Requested],
    key: impl Fn(&Requested) -> Option<K>,
) -> Vec<Vec<usize>> {
    let mut groups: Vec<(K, Vec<usize>)> = Vec::new();
    for (i, one) in requested.iter().enumerate() {
        let Some(key) = key(one) else { continue };
        match groups.iter_mut().find(|(other, _)| *other == key) {
            Some((_, group)) => group.push(i),
            None => groups.push((key, vec![i])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}
