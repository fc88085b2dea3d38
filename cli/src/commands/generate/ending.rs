//! Final report of a run, also after an interruption or a failure: written songs are always named.

use std::{path::PathBuf, process::ExitCode, rc::Rc, time::Duration};

use acestep_engine::{Error, Notice, Stage, error::size, files::Existing, retry, tiling::Tiling};
use acestep_import::AceStep;
use acestep_music::lm;
use anyhow::Result;
use serde_json::{Value, json};

use super::{
    Args, Job, Resources, Written, after, describe, requests,
    together::{BatchRun, Done, Made},
};
use crate::{
    commands::engine,
    error::code_of,
    exit::{FAILED, exit},
    process,
    progress::{self, Outcome},
    report::Report,
};

impl BatchRun<'_> {
    /// Reports the run, which ended with `ended`. With several requests, the exit code is a failure
    /// if one of them failed.
    ///
    /// # Errors
    /// The error that ended the run; the error of the only request; a closed standard output.
    pub(super) fn report(self, ended: Result<()>) -> Result<ExitCode> {
        let Self { jobs, args, report, progress, made, groups, .. } = self;
        let mut outcomes = progress.finish_all(jobs.len());
        spread(&groups, &mut outcomes, &jobs);
        let mut said = Said { is_alone: jobs.len() == 1, ..Said::default() };
        for ((mut job, made), outcome) in jobs.into_iter().zip(made).zip(&outcomes) {
            job.learn(outcome);
            said.adapters(&mut job, &report);
            match made {
                Made::Done(done) => said.done(&job, done, outcome, args, &report),
                Made::Open => {
                    job.say_kept(&report);
                    said.not_made.extend(job.outputs.songs.iter().map(ToString::to_string));
                    if let Err(error) = &ended {
                        said.nothing(&job, error);
                    }
                }
                Made::Failed(error) => {
                    job.say_kept(&report);
                    said.nothing(&job, &error);
                    said.failed(&job, error, "was not finished", &report);
                }
            }
        }
        let Said { is_alone, objects, not_made, failure, code, .. } = said;
        let told = match args.output.json && !objects.is_empty() {
            true => {
                let requests = if is_alone { 1 } else { outcomes.len() };
                report.output(&format!("{:#}", requests::one_or_all(objects, requests)))
            }
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

/// Marks a network that one request needed in f32 for the later requests of its group: it stays in
/// f32, but they get no event.
fn spread(groups: &[Vec<usize>], outcomes: &mut [Outcome], jobs: &[Job]) {
    for group in groups {
        let mut widened: Vec<&'static str> = Vec::new();
        for &i in group {
            let (own, dtype) = (outcomes[i].widened.clone(), jobs[i].engine.dtype);
            for who in widened.iter().filter(|who| !own.contains(who)) {
                outcomes[i].widened.push(who);
                outcomes[i].notices.push(retry::notice(who, dtype));
            }
            // The language model starts in its own type for each request.
            widened.extend(own.into_iter().filter(|&who| who != lm::NAME));
        }
    }
}

/// Collected output for all requests.
#[derive(Default)]
struct Said {
    is_alone: bool,
    objects: Vec<Value>,
    not_made: Vec<String>,
    /// Error of the only request.
    failure: Option<anyhow::Error>,
    code: u8,
    /// Models whose adapters were already reported.
    models: Vec<Rc<AceStep>>,
}

impl Said {
    /// Reports adapters once for each model; every request gets the notices.
    fn adapters(&mut self, job: &mut Job, report: &Report) {
        let is_new = !self.models.iter().any(|model| Rc::ptr_eq(model, &job.folder));
        let lines = job.say_adapters(is_new.then_some(report));
        if is_new {
            lines.iter().for_each(|line| report.line(line));
            self.models.push(job.folder.clone());
        }
    }

    fn done(&mut self, job: &Job, mut done: Done, outcome: &Outcome, args: &Args, report: &Report) {
        let missing = job.missing_after(&done.found);
        missing.iter().for_each(|notice| report.note(&notice.0));
        let songs = &job.outputs.songs;
        let is_whole = done.written.len() == songs.len();
        if is_whole {
            engine::remember(&job.kernels, job.engine, &job.models());
            done.error = done.error.or_else(|| job.keep_tiles().err());
        } else {
            let unwritten = &songs[done.written.len()..];
            self.not_made.extend(unwritten.iter().map(ToString::to_string));
            if job.outputs.request.as_ref().is_some_and(|path| !done.files.contains(path)) {
                job.say_kept(report);
            }
        }
        // No other reason is possible.
        let stopped = (!done.is_finished && done.error.is_none()).then_some(Error::Cancelled);
        if args.output.json && !(self.is_alone && done.written.is_empty()) {
            match job.to_json(&done, &missing) {
                Ok(mut object) => {
                    object["elapsed"] = elapsed_json(&outcome.elapsed, done.after);
                    if let Some(error) = &done.error {
                        object["error"] = chain(error);
                    } else if let Some(error) = &stopped {
                        object["error"] = json!([error.to_string()]);
                    }
                    self.objects.push(object);
                }
                Err(error) => {
                    self.nothing(job, &error);
                    done.error.get_or_insert(error);
                }
            }
        }
        if !done.written.is_empty() {
            report.line(&summary(job, &done.written, done.after));
        }
        if report.verbosity > 0 && !done.written.is_empty() {
            report.line(&table(&outcome.elapsed, done.after));
        }
        if let Some(table) = after::table(&done.found, &done.written) {
            report.line(&table);
        }
        if let Some(error) = done.error {
            let why = match done.written.len() {
                0 => "is not written",
                _ => "is written, but not all that was wanted of it",
            };
            self.failed(job, error, why, report);
        }
    }

    /// Adds a request without a song to the list of JSON objects.
    fn nothing(&mut self, job: &Job, error: &anyhow::Error) {
        if !self.is_alone {
            let kept = job.outputs.request.as_ref().filter(|_| job.is_kept);
            self.objects.push(json!({
                "outputs": [],
                "request": kept.map(|path| path.display().to_string()),
                "error": chain(error),
            }));
        }
    }

    /// Records a failure. The failure of the only request becomes the program's error.
    fn failed(&mut self, job: &Job, error: anyhow::Error, why: &str, report: &Report) {
        if self.is_alone {
            self.failure = Some(error);
            return;
        }
        // A closed standard output is no failure.
        if code_of(&error) != 0 {
            self.code = FAILED;
        }
        let song = job.outputs.songs.first().map(ToString::to_string).unwrap_or_default();
        report.failure(&error.context(format!("the song `{song}` {why}")));
    }
}

/// Returns an error and its causes as a list of sentences.
fn chain(error: &anyhow::Error) -> Value {
    error.chain().map(ToString::to_string).collect()
}

impl Job {
    fn to_json(&self, done: &Done, missing: &[Notice]) -> Result<Value> {
        let Done { written, files, found, .. } = done;
        let resources = Resources::of(self, self.residency)?;
        let mut object = describe::to_json(self, &resources);
        object["outputs"] = (0..written.len())
            .map(|index| {
                let mut song = written[index].to_json();
                song.extend(found.to_json(self, index, files));
                Value::from(song)
            })
            .collect();
        let shown = |path: &PathBuf| files.contains(path).then(|| path.display().to_string());
        object["request"] = self.outputs.request.as_ref().and_then(shown).into();
        let latents = self.outputs.latents.iter().flat_map(|(paths, _)| paths);
        object["latents"] = latents.filter_map(shown).collect();
        if let Some(ranking) = after::ranking(self, found, written) {
            object["ranking"] = ranking;
        }
        if let Some(notices) = object["notices"].as_array_mut() {
            notices.extend(missing.iter().map(|notice| notice.0.clone().into()));
        }
        Ok(object)
    }

    /// Applies results that are known only after the run.
    fn learn(&mut self, outcome: &Outcome) {
        self.notices.extend(outcome.notices.iter().cloned());
        self.widened = outcome.widened.clone();
        // The used chunk is never larger than the planned one, so it fits.
        if let Some(Ok(used)) =
            outcome.vae_chunk.map(|chunk| Tiling { chunk, ..self.plan.tiling }.fitted())
        {
            self.plan.tiling = used;
            self.is_stale = true;
        }
    }

    /// Writes the request again if the run used other tiles than it says.
    fn keep_tiles(&self) -> Result<()> {
        if let Some(path) = self.outputs.request.as_ref().filter(|_| self.is_stale) {
            self.asked.save(&self.plan, &self.folder, path, Existing::Replace)?;
        }
        Ok(())
    }

    /// Prints where the language model's result is saved, if there is no song.
    fn say_kept(&self, report: &Report) {
        let Some(path) = self.outputs.request.as_ref().filter(|_| self.is_kept) else { return };
        let what = if self.plan.has_codes() { "codes" } else { "words" };
        let path = path.display();
        report.note(&format!("the request with the language model's {what} is kept in `{path}`"));
    }
}

/// Seconds of each stage, and in total.
fn elapsed_json(stages: &[(Stage, Duration)], total: Duration) -> Value {
    let mut object = serde_json::Map::new();
    for (stage, elapsed) in stages {
        let key = stage.name.to_lowercase().replace(' ', "_");
        let before = object.get(&key).and_then(Value::as_f64).unwrap_or(0.0);
        object.insert(key, (before + elapsed.as_secs_f64()).into());
    }
    object.insert("total".into(), total.as_secs_f64().into());
    object.into()
}

/// Returns the summary line:
/// `seed 1234567 · 8 steps · 30.0 s of audio in 11.3 s, 3.24 GB of memory · song.wav`
fn summary(job: &Job, written: &[Written], elapsed: Duration) -> String {
    let targets: Vec<_> = written.iter().map(|song| song.target.to_string()).collect();
    let seconds: f64 = written.iter().map(|song| song.seconds).sum();
    format!(
        "{} · {} · {seconds:.1} s of audio in {}{} · {}",
        describe::origin(job),
        describe::counted(job.plan.steps(), "step"),
        progress::seconds(elapsed),
        process::peak().map_or(String::new(), |bytes| format!(", {} of memory", size(bytes))),
        targets.join(", ")
    )
}

/// Returns a table of the stages' times and their shares of `elapsed`.
fn table(stages: &[(Stage, Duration)], elapsed: Duration) -> String {
    let row = |name: &str, time: Duration| {
        let share = 100.0 * time.as_secs_f64() / elapsed.as_secs_f64().max(1e-9);
        format!("{name:<14}{:>8}  {share:>3.0} %", progress::seconds(time))
    };
    let mut sums: Vec<(Stage, Duration)> = Vec::new();
    for (stage, time) in stages {
        // Each of several songs has its own entry.
        match sums.iter_mut().find(|(known, _)| known == stage) {
            Some((_, sum)) => *sum += *time,
            None => sums.push((*stage, *time)),
        }
    }
    let mut rows: Vec<_> = sums.iter().map(|(stage, time)| row(stage.name, *time)).collect();
    let known: Duration = sums.iter().map(|(_, time)| *time).sum();
    rows.push(row("files, rest", elapsed.saturating_sub(known)));
    rows.push(row("all", elapsed));
    rows.join("\n")
}
