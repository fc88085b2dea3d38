//! What is said of a run when it is over, also of one that was interrupted or went wrong: the songs
//! that are written are named in any case.

use std::{process::ExitCode, time::Duration};

use acestep_runtime::{Error, Notice, Stage, files::Existing, vae::Tiling};
use anyhow::Result;
use serde_json::{Value, json};

use super::{
    Job, Resources, Written, after, describe, requests,
    together::{Done, Made, Together, is_cancelled},
};
use crate::{
    commands::engine,
    error::{FAILED, exit},
    progress::{self, Outcome},
    report::Report,
};

impl Together<'_> {
    /// Says how the run went, which `ended` so. Of several requests the exit code is that of a
    /// failure if one of them has failed.
    ///
    /// # Errors
    /// What has ended the run, or failed if it is the only request; if standard output is closed, or
    /// a request cannot be written.
    pub(super) fn report(self, ended: Result<()>) -> Result<ExitCode> {
        let Self { mut jobs, args, report, start: _, progress, made } = self;
        let is_alone = jobs.len() == 1;
        let mut objects = Vec::new();
        let mut code = ExitCode::SUCCESS;
        let mut alone = None;
        let mut open = Vec::new();
        let outcomes = progress.finish_all(jobs.len());
        for ((job, made), outcome) in jobs.iter_mut().zip(made).zip(&outcomes) {
            job.learn(outcome);
            job.say_adapters(&report).iter().for_each(|line| report.line(line));
            let (error, why) = match made {
                Made::Done(mut done) => {
                    let mut error = done.error.take();
                    // The others are whole, but for this one no more can be said.
                    let is_whole = done.written.len() == job.outputs.songs.len();
                    if error.is_none() && !is_whole {
                        error = Some(Error::Cancelled.into());
                    }
                    let missing = job.missing_after(&done.found);
                    missing.iter().for_each(|notice| report.note(&notice.0));
                    if is_whole {
                        engine::remember(&job.kernels, job.engine, &job.models());
                        job.keep_tiles()?;
                    }
                    if args.output.json {
                        let mut object = job.to_json(&done, &missing)?;
                        object["elapsed"] = elapsed_json(&outcome.elapsed, done.after);
                        if let Some(error) = &error {
                            object["error"] = chain(error);
                        }
                        objects.push(object);
                    }
                    report.line(&summary(job, &done.written, done.after));
                    if let Some(table) = after::table(&done.found, &done.written) {
                        report.line(&table);
                    }
                    (
                        error.filter(|error| !is_cancelled(error)),
                        "is written, but not all that was wanted of it",
                    )
                }
                Made::Open => {
                    job.say_kept(&report);
                    open.push(job.first_song());
                    if !is_alone && let Err(error) = &ended {
                        objects.push(json!({"outputs": [], "error": chain(error)}));
                    }
                    continue;
                }
                Made::Failed(error) => {
                    job.say_kept(&report);
                    if !is_alone {
                        objects.push(json!({"outputs": [], "error": chain(&error)}));
                    }
                    (Some(error), "was not finished")
                }
            };
            match error {
                Some(error) if is_alone => alone = Some(error),
                Some(error) => {
                    let song = job.first_song();
                    report.failure(&error.context(format!("the song `{song}` {why}")));
                    code = exit(FAILED);
                }
                None => (),
            }
        }
        if args.output.json && !objects.is_empty() {
            report.output(&format!("{:#}", requests::one_or_all(objects, jobs.len())))?;
        }
        if !is_alone && !open.is_empty() {
            let open = open.iter().map(|song| format!("`{song}`")).collect::<Vec<_>>().join(", ");
            report.note(&format!("not made: {open}"));
        }
        ended?;
        alone.map_or(Ok(code), Err)
    }
}

/// An error and what it came from, as a list of sentences.
fn chain(error: &anyhow::Error) -> Value {
    error.chain().map(ToString::to_string).collect()
}

impl Job {
    /// What one of several requests is called.
    fn first_song(&self) -> String {
        self.outputs.songs.first().map(ToString::to_string).unwrap_or_default()
    }

    fn to_json(&self, done: &Done, missing: &[Notice]) -> Result<Value> {
        let Done { written, found, .. } = done;
        let resources = Resources::of(self, self.residency)?;
        let mut object = describe::to_json(self, &resources);
        object["outputs"] = (0..written.len())
            .map(|index| {
                let mut song = written[index].to_json();
                song.extend(found.to_json(self, index));
                Value::from(song)
            })
            .collect();
        if let Some(ranking) = after::ranking(self, found, written) {
            object["ranking"] = ranking;
        }
        if let Some(notices) = object["notices"].as_array_mut() {
            notices.extend(missing.iter().map(|notice| notice.0.clone().into()));
        }
        Ok(object)
    }

    /// Takes over what turned out on the way.
    fn learn(&mut self, outcome: &Outcome) {
        self.notices.extend(outcome.notices.iter().cloned());
        self.widened = outcome.widened.clone();
        // Never more than there were, so that they fit.
        if let Some(Ok(used)) =
            outcome.vae_chunk.map(|chunk| Tiling { chunk, ..self.plan.tiling }.fitted())
        {
            self.plan.tiling = used;
            self.is_stale = true;
        }
    }

    /// Writes the request once more, if the tiles turned out to be others than it says.
    fn keep_tiles(&self) -> Result<()> {
        if let Some(path) = self.outputs.request.as_ref().filter(|_| self.is_stale) {
            self.asked.save(&self.plan, &self.folder, path, Existing::Replace)?;
        }
        Ok(())
    }

    /// Says where the language model's work is, if the song came to nothing.
    fn say_kept(&self, report: &Report) {
        let Some(path) = self.outputs.request.as_ref().filter(|_| self.is_kept) else { return };
        let what = if self.plan.has_codes() { "codes" } else { "words" };
        let path = path.display();
        report.note(&format!("the request with the language model's {what} is kept in `{path}`"));
    }
}

/// Seconds of each stage, and of everything.
fn elapsed_json(stages: &[(Stage, Duration)], total: Duration) -> Value {
    let mut object = serde_json::Map::new();
    for (stage, elapsed) in stages {
        let key = stage.name().to_lowercase().replace(' ', "_");
        let before = object.get(&key).and_then(Value::as_f64).unwrap_or(0.0);
        object.insert(key, (before + elapsed.as_secs_f64()).into());
    }
    object.insert("total".into(), total.as_secs_f64().into());
    object.into()
}

/// `seed 1234567 · 8 steps · 30.0 s of audio in 11.3 s · song.wav`
fn summary(job: &Job, written: &[Written], elapsed: Duration) -> String {
    let targets: Vec<_> = written.iter().map(|song| song.target.to_string()).collect();
    let seconds: f64 = written.iter().map(|song| song.seconds).sum();
    format!(
        "{} · {} · {seconds:.1} s of audio in {} · {}",
        describe::origin(job),
        describe::counted(job.plan.steps(), "step"),
        progress::seconds(elapsed),
        targets.join(", ")
    )
}
