//! Final report of a run, also after an interruption or a failure: written songs are always named.

use std::{path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use acestep_engine::{
    Error, Notice,
    error::{counted, size},
    files::Existing,
    process,
};
use acestep_import::AceStep;
use acestep_session::{
    outcome::{self, Outcome},
    song::{
        Resolved, adapters,
        describe::{self, Resources},
    },
};
use anyhow::Result;
use serde_json::{Value, json};

use super::{
    SongTask,
    make::{RequestState, Requested, Run},
    requests,
    written::{Completion, Written, WrittenSong},
};
use crate::{
    error::code_of,
    exit::{FAILED, exit},
    fields::message,
    progress,
    report::Report,
};

impl Run {
    /// Reports the run, which ended with `ended`. With several requests, the exit code is a failure
    /// if one of them failed.
    ///
    /// # Errors
    /// The error that ended the run; the error of the only request; a closed standard output.
    pub(super) fn report(self, ended: Result<()>) -> Result<ExitCode> {
        let Self { requested, progress, groups, report, json, .. } = self;
        let requests = requested.len();
        let mut outcomes = progress.finish_all(requests);
        let dtype = |one: &Requested| one.song.resolved.setup.engine.dtype;
        let dtypes: Vec<_> = requested.iter().map(dtype).collect();
        outcome::spread(&groups, &mut outcomes, &dtypes);
        let mut summary = Summary::new(report, json, requests == 1);
        for (one, outcome) in requested.into_iter().zip(outcomes) {
            summary.requested(one, outcome, &ended);
        }
        let Summary { is_alone, objects, not_made, failure, code, .. } = summary;
        let told = match json && !objects.is_empty() {
            true => report.object(&requests::one_or_all(objects, requests)),
            false => Ok(()),
        };
        if !is_alone && !not_made.is_empty() {
            let songs: Vec<_> = not_made.iter().map(|song| format!("`{song}`")).collect();
            report.note(&format!("not made: {}", songs.join(", ")));
        }
        ended?;
        failure.map_or(Ok(()), Err)?;
        told?;
        Ok(exit(code))
    }
}

/// Collected output for all requests.
struct Summary {
    report: Report,
    json: bool,
    is_alone: bool,
    objects: Vec<Value>,
    not_made: Vec<String>,
    /// Error of the only request.
    failure: Option<anyhow::Error>,
    code: u8,
    /// Models whose adapters were already reported.
    models: Vec<Arc<AceStep>>,
}

/// A request, and what is known of it only after the run.
struct Ended {
    song: SongTask,
    /// The request that the language model completed, if it was saved before the song was made.
    kept: Option<PathBuf>,
    outcome: Outcome,
    /// True if the VAE used smaller tiles than planned.
    has_other_tiles: bool,
}

impl Ended {
    fn of(song: SongTask, kept: Option<PathBuf>, outcome: Outcome) -> Self {
        let (resolved, has_other_tiles) = song.resolved.after(&outcome);
        Self { song: SongTask { resolved, ..song }, kept, outcome, has_other_tiles }
    }

    /// Returns the output of the first song.
    fn first_song(&self) -> String {
        self.song.places.outputs.songs.first().map(ToString::to_string).unwrap_or_default()
    }

    /// Describes the written songs; `unusable` is an error beside the one that ended the work.
    fn to_json(&self, written: &Written, unusable: Option<&anyhow::Error>) -> Result<Value> {
        let Written { songs, files, found, .. } = written;
        let outputs = &self.song.places.outputs;
        let resources = Resources::of(&self.song.resolved, &self.outcome.widened)?;
        let mut object = self.song.to_json(&resources, &self.outcome.notices);
        let song = |song: &WrittenSong| {
            let index = song.index;
            let mut song = json!(song);
            if let Some(keys) = song.as_object_mut() {
                keys.extend(self.song.extras_json(found, index, files));
            }
            song
        };
        object["outputs"] = songs.iter().map(song).collect();
        let shown = |path: &PathBuf| files.contains(path).then(|| path.display().to_string());
        object["request"] = outputs.request.as_ref().and_then(shown).into();
        object["latents"] = outputs.latents().filter_map(shown).collect();
        if self.song.resolved.setup.extras.judges {
            object["ranking"] = found.ranking(&written.ranked());
        }
        object["elapsed"] = self.outcome.elapsed_json(written.after);
        let mut errors = match &written.end {
            Completion::Failed(error) => chain(error),
            // No other reason is possible.
            Completion::Open => vec![Error::Cancelled.to_string()],
            Completion::Whole => vec![],
        };
        errors.extend(unusable.map(chain).unwrap_or_default());
        if !errors.is_empty() {
            object["error"] = errors.into();
        }
        Ok(object)
    }

    /// Writes the request again if the run used other tiles than it says.
    fn keep_tiles(&self) -> Result<(), Error> {
        match &self.song.places.outputs.request {
            Some(path) if self.has_other_tiles => self.song.save(path, Existing::Replace),
            _ => Ok(()),
        }
    }
}

impl Summary {
    fn new(report: Report, json: bool, is_alone: bool) -> Self {
        let (objects, not_made, models) = (vec![], vec![], vec![]);
        Self { report, json, is_alone, objects, not_made, failure: None, code: 0, models }
    }

    /// Reports a request of a run that ended with `run`.
    fn requested(&mut self, requested: Requested, outcome: Outcome, run: &Result<()>) {
        let Requested { song, kept, made } = requested;
        let mut ended = Ended::of(song, kept, outcome);
        ended.outcome.notices.extend(self.adapters(&ended.song.resolved.folder));
        match made {
            RequestState::Written(written) => self.written(ended, written),
            RequestState::Open => {
                self.say_kept(&ended);
                let songs = &ended.song.places.outputs.songs;
                self.not_made.extend(songs.iter().map(ToString::to_string));
                if let Err(error) = run {
                    self.nothing(&ended, error);
                }
            }
            RequestState::Failed(error) => {
                self.say_kept(&ended);
                self.nothing(&ended, &error);
                self.failed(ended.first_song(), error, "was not finished");
            }
        }
    }

    /// Reports adapters once for each model. Returns notices about them, for every request.
    fn adapters(&mut self, folder: &Arc<AceStep>) -> Vec<Notice> {
        let (lines, notices) = adapters::outcome(folder);
        if !self.models.iter().any(|model| Arc::ptr_eq(model, folder)) {
            self.report.notes(&notices);
            lines.iter().for_each(|line| self.report.line(line));
            self.models.push(folder.clone());
        }
        notices
    }

    fn written(&mut self, mut ended: Ended, mut written: Written) {
        let report = self.report;
        let missing = ended.song.resolved.missing(&written.found);
        report.notes(&missing);
        ended.outcome.notices.extend(missing);
        let places = ended.song.places.clone();
        let is_written = |index: usize| written.songs.iter().any(|song| song.index == index);
        let songs = places.outputs.songs.iter().enumerate();
        let unwritten = songs.filter(|(index, _)| !is_written(*index));
        let unwritten: Vec<String> = unwritten.map(|(_, song)| song.to_string()).collect();
        let is_complete = unwritten.len() == written.unusable.len();
        self.not_made.extend(unwritten);
        if is_complete {
            ended.song.remember_kernels();
            if let (Err(error), false) =
                (ended.keep_tiles(), matches!(written.end, Completion::Failed(_)))
            {
                written.fail(error.into());
            }
        } else if places.outputs.request.as_ref().is_some_and(|path| !written.files.contains(path))
        {
            self.say_kept(&ended);
        }
        let mut unusable = written.unusable(&ended.song.resolved);
        if matches!(written.end, Completion::Whole)
            && let Some(error) = unusable.take()
        {
            written.fail(error);
        }
        if let Some(error) = &unusable {
            // Another error becomes the program's.
            report.failure(error);
        }
        if self.json && !(self.is_alone && written.songs.is_empty()) {
            match ended.to_json(&written, unusable.as_ref()) {
                Ok(object) => self.objects.push(object),
                Err(error) => {
                    self.nothing(&ended, &error);
                    if !matches!(written.end, Completion::Failed(_)) {
                        written.fail(error);
                    }
                }
            }
        }
        if !written.songs.is_empty() {
            report.line(&summary_line(&ended.song.resolved, &written.songs, written.after));
            if report.verbosity > 0 {
                report.line(&ended.outcome.table(written.after));
            }
        }
        if let Some(table) = written.found.table(&written.ranked()) {
            report.line(&table);
        }
        if let Completion::Failed(error) = written.end {
            match written.songs.first() {
                None => self.failed(ended.first_song(), error, "is not written"),
                Some(song) => {
                    let why = "is written, but not all that was wanted of it";
                    self.failed(song.target.to_string(), error, why);
                }
            }
        }
    }

    /// Prints where the language model's result is saved, if there is no song.
    fn say_kept(&self, ended: &Ended) {
        let Some(path) = &ended.kept else { return };
        let what = if ended.song.resolved.plan.source.has_codes() { "codes" } else { "words" };
        let path = path.display();
        let text = format!("the request with the language model's {what} is kept in `{path}`");
        self.report.note(&text);
    }

    /// Adds a request without a song to the list of JSON objects.
    fn nothing(&mut self, ended: &Ended, error: &anyhow::Error) {
        if !self.is_alone {
            self.objects.push(json!({
                "outputs": [],
                "request": ended.kept.as_ref().map(|path| path.display().to_string()),
                "error": chain(error),
            }));
        }
    }

    /// Records a failure. The failure of the only request becomes the program's error.
    fn failed(&mut self, song: String, error: anyhow::Error, why: &str) {
        if self.is_alone {
            self.failure = Some(error);
            return;
        }
        // A closed standard output is no failure.
        if code_of(&error) != 0 {
            self.code = FAILED;
        }
        self.report.failure(&error.context(format!("the song `{song}` {why}")));
    }
}

/// Returns an error and its causes as a list of sentences.
fn chain(error: &anyhow::Error) -> Vec<String> {
    error.chain().map(message).collect()
}

/// Returns the summary line:
/// `seed 1234567 · 8 steps · 30.0 s of audio in 11.3 s, 3.24 GB of memory · song.wav`
fn summary_line(resolved: &Resolved, songs: &[WrittenSong], elapsed: Duration) -> String {
    let targets: Vec<_> = songs.iter().map(|song| song.target.to_string()).collect();
    let seconds: f64 = songs.iter().map(|song| song.seconds).sum();
    format!(
        "{} · {} · {seconds:.1} s of audio in {}{} · {}",
        describe::origin(resolved),
        counted(resolved.plan.steps(), "step"),
        progress::seconds(elapsed),
        process::peak().map_or(String::new(), |bytes| format!(", {} of memory", size(bytes))),
        targets.join(", ")
    )
}
