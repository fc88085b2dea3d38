//! Second phase: every stage of the run, with each network loaded once for all requests.
//!
//! ```text
//! SongTask -> language model for all -> songs of all, stage by stage -> their scores -> Run
//! ```
//!
//! A single request is a run of one.

use std::{path::PathBuf, sync::Arc, time::Instant};

use acestep_engine::{Error, Observe};
use acestep_music::Composed;
use acestep_session::{language, song};
use anyhow::Result;

use super::{SongTask, written::Written};
use crate::{
    interrupt,
    progress::{Of, Progress},
    report::Report,
};

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
    pub(super) song: SongTask,
    /// The request that the language model completed, if it was saved before the song was made.
    pub(super) kept: Option<PathBuf>,
    pub(super) made: RequestState,
}

/// Result of a request.
pub(super) enum RequestState {
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
    pub(super) fn make(mut songs: Vec<SongTask>, json: bool, report: Report) -> (Self, Result<()>) {
        song::share_folders(songs.iter_mut().map(|song| &mut song.resolved));
        let open = |song| Requested { song, kept: None, made: RequestState::Open };
        let requested = songs.into_iter().map(open).collect();
        let (progress, start) = (Progress::new(report), Instant::now());
        let mut run = Self { requested, progress, groups: vec![], report, json, start };
        let ended = run.compose().and_then(|()| run.make_songs()).and_then(|()| run.judge());
        (run, ended)
    }

    /// Returns an observer for each request of `group`.
    fn observers(&self, group: &[usize]) -> Vec<Of<'_>> {
        group.iter().map(|&i| self.progress.of(i)).collect()
    }

    /// Returns the songs of `group`, each with its observer.
    fn songs<'a>(&'a self, group: &[usize], observers: &'a [Of<'a>]) -> Vec<song::SongRun<'a>> {
        let resolved = group.iter().map(|&i| &self.requested[i].song.resolved);
        resolved.zip(observers.iter().map(|of| of as &dyn Observe)).collect()
    }

    /// Completes the requests with their language models, and plans the songs again.
    fn compose(&mut self) -> Result<()> {
        let key = |one: &Requested| {
            let composition = one.song.resolved.setup.composition.as_ref()?;
            Some(composition.folder.directory().root().to_owned())
        };
        for group in song::grouped(&self.requested, key) {
            let observers = self.observers(&group);
            let mut asked = Vec::new();
            for (resolved, observe) in self.songs(&group, &observers) {
                let Some(composition) = &resolved.setup.composition else { continue };
                let (name, origin) = (composition.folder.name(), song::describe::origin(resolved));
                // The device is printed later with the song.
                self.report.line(&format!("language model {name} · {origin}"));
                asked.push((composition.composing(&resolved.request), observe));
            }
            let setup = self.requested[group[0]].song.resolved.setup.clone();
            let Some(first) = &setup.composition else { continue };
            let composed = language::compose_all(&asked, &first.folder, setup.engine)?;
            let mut results = Vec::new();
            for (i, composed) in group.into_iter().zip(composed) {
                results.push((i, self.requested[i].complete(composed, &self.report)));
            }
            self.keep_going(results)?;
        }
        for one in &self.requested {
            if matches!(one.made, RequestState::Open) {
                self.report.notes(&one.song.resolved.plan_notices);
            }
        }
        Ok(())
    }

    /// Makes the songs, and writes each one as soon as it is finished.
    fn make_songs(&mut self) -> Result<()> {
        let key = |one: &Requested| Some(Arc::as_ptr(&one.song.resolved.folder));
        for mut group in song::grouped(&self.requested, key) {
            group.retain(|&i| matches!(self.requested[i].made, RequestState::Open));
            if group.is_empty() {
                continue;
            }
            let observers = self.observers(&group);
            let songs = self.songs(&group, &observers);
            for (resolved, _) in &songs {
                self.report.line(&song::describe::headline(resolved));
            }
            let places = &self.requested[group[0]].song.places;
            let keep = |of: acestep_music::Conditioning| match &places.dump {
                Some(folder) => interrupt::whole(|| of.save(folder, places.existing)),
                None => Ok(()),
            };
            let keep = places.dump.is_some().then_some(&keep as song::OnConditions<'_>);
            let mut made = Vec::new();
            let run = song::songs(&songs, keep, &mut |k, rendered| {
                let Requested { song, kept, .. } = &self.requested[group[k]];
                let write = |rendered| song.write(rendered, kept.as_deref(), self.start, self.json);
                made.push(rendered.map(write));
                Ok(())
            });
            let mut results = Vec::new();
            for (&i, made) in group.iter().zip(made) {
                let result = made.map_err(Into::into).and_then(|(written, result)| {
                    self.requested[i].made = RequestState::Written(written);
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
        let key =
            |one: &Requested| Some(one.song.resolved.judge()?.0.directory().root().to_owned());
        for mut group in song::grouped(&self.requested, key) {
            group.retain(|&i| match &self.requested[i].made {
                RequestState::Written(written) => written.is_open(),
                RequestState::Open | RequestState::Failed(_) => false,
            });
            let observers = self.observers(&group);
            let judged = song::score_all(&self.songs(&group, &observers), self.start)?;
            let mut results = Vec::new();
            for (i, (judged, after)) in group.into_iter().zip(judged) {
                let RequestState::Written(written) = &mut self.requested[i].made else { continue };
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
                RequestState::Written(written) => written.fail(error),
                made => *made = RequestState::Failed(error),
            }
        }
        cancelled
    }
}

impl Requested {
    /// Takes the language model's decisions, and saves the request at once if that is wanted: the
    /// song may still fail or be interrupted.
    fn complete(&mut self, composed: Result<Composed, Error>, report: &Report) -> Result<()> {
        self.song = self.song.completed(composed?, report)?;
        self.song.resolved.check_memory()?;
        if let Some(path) = &self.song.places.outputs.request {
            self.song.save(path, self.song.places.existing)?;
            self.kept = Some(path.clone());
        }
        Ok(())
    }
}
