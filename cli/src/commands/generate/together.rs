//! Many requests in one run: each network is read once, whatever their number. Only the language model
//! that scores finished songs is read anew for each request.
//!
//! ```text
//! requests -> jobs -> language model for all -> songs of all, stage by stage -> what is said
//! ```
//!
//! One request is a run of one.

use std::{
    collections::HashSet,
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use acestep_runtime::{Error, Notice, lm::compose::Composed, pipeline::Rendered};
use anyhow::Result;
use serde_json::{Value, json};

use super::{
    Args, Job, Resources, Written,
    after::{self, Found},
    describe, elapsed_json, memory,
    outputs::is_stdout,
    run, summary,
};
use crate::{
    commands::{engine, language},
    error::{FAILED, Refusal, exit},
    progress::Progress,
    report::{self, Report},
};

/// The same flags for each request file that they name.
///
/// # Errors
/// Flags that make sense for one request only.
pub(super) fn requests(args: &Args) -> Result<Vec<Args>, Refusal> {
    let files = &args.song.words.request;
    if let [_, _, ..] = &files[..] {
        let sampling = &args.sampling;
        let reads_stdin = |text: Option<&str>| text == Some("@-");
        let texts = [args.song.words.lyrics.as_deref(), args.song.audio_codes.as_deref()];
        for (flag, is_given) in [
            ("@-", texts.into_iter().any(reads_stdin)),
            ("--flow-edit-source-lyrics @-", reads_stdin(sampling.sampler.source_lyrics())),
            ("--conditioning", sampling.conditioning.is_some()),
            ("--dump-conditioning", sampling.dump_conditioning.is_some()),
            ("--output -", args.output.output.as_deref().is_some_and(is_stdout)),
        ] {
            if is_given {
                let message = format!("`{flag}` is for one request, but there are {}", files.len());
                return Err(Refusal::usage(message).hint("run it once for each"));
            }
        }
    }
    let of = |file: Option<&PathBuf>| {
        let mut args = args.clone();
        args.song.words.request = file.into_iter().cloned().collect();
        let name = file.and_then(|file| file.file_stem()).and_then(|stem| stem.to_str());
        let name = name.filter(|&name| name != "-").unwrap_or("song");
        if files.len() > 1 {
            args.output.stem = Some(name.to_owned());
        }
        let after = &mut args.after;
        for template in [
            &mut args.output.output,
            &mut args.output.output_latents,
            &mut after.output_lrc,
            &mut after.output_vtt,
            &mut after.output_plot,
        ] {
            if let Some(text) = template.as_ref().and_then(|path| path.to_str()) {
                *template = Some(text.replace("{name}", name).into());
            }
        }
        args
    };
    if files.is_empty() {
        return Ok(vec![of(None)]);
    }
    Ok(files.iter().map(|file| of(Some(file))).collect())
}

/// Says of which of several requests an error is.
pub(super) fn named(error: anyhow::Error, args: &Args, all: &[Args]) -> anyhow::Error {
    match args.song.words.request.first() {
        Some(path) if all.len() > 1 => error.context(format!("in `{}`", path.display())),
        _ => error,
    }
}

/// Refuses two outputs in one file, and outputs in the place of the requests.
///
/// # Errors
/// The file.
pub(super) fn check(jobs: &[Job], args: &Args) -> Result<(), Refusal> {
    let files = &args.song.words.request;
    let requests: Vec<_> = files.iter().filter_map(|path| path.canonicalize().ok()).collect();
    let mut seen = HashSet::new();
    for path in jobs.iter().flat_map(|job| job.outputs.all().chain(job.after.all())) {
        if !seen.insert(path) {
            let message = format!("`{}` would be written twice", path.display());
            return Err(Refusal::usage(message).hint("put {name} into --output"));
        }
        if path.canonicalize().is_ok_and(|path| requests.contains(&path)) {
            let message = format!("`{}` is a request, and would be replaced", path.display());
            return Err(
                Refusal::usage(message).hint("choose another --output, e.g. {name}-song.wav")
            );
        }
    }
    Ok(())
}

/// The object of a run of one request, or a list of those of several.
pub(super) fn one_or_all(mut objects: Vec<Value>, requests: usize) -> Value {
    if requests < 2 && objects.len() == 1 { objects.remove(0) } else { objects.into() }
}

/// A run of all requests.
pub(super) struct Together<'a> {
    jobs: Vec<Job>,
    args: &'a Args,
    report: Report,
    start: Instant,
    progress: Progress,
    /// What became of each.
    made: Vec<Made>,
}

/// What became of a request.
enum Made {
    /// Nothing yet.
    Open,
    Done(Done),
    Failed(anyhow::Error),
}

/// Songs that are written, and what was found in them.
struct Done {
    written: Vec<Written>,
    found: Found,
    /// When, after the run began.
    after: Duration,
}

impl<'a> Together<'a> {
    pub(super) fn new(jobs: Vec<Job>, args: &'a Args, report: Report) -> Self {
        let made = jobs.iter().map(|_| Made::Open).collect();
        let progress = Progress::new(report);
        Self { jobs, args, report, start: Instant::now(), progress, made }
    }

    /// Lets the language models complete the requests, and plans the songs anew.
    ///
    /// # Errors
    /// Of a single request those of its own; [`Error::Cancelled`].
    pub(super) fn compose(&mut self) -> Result<()> {
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
                self.report.line(&format!("{name} on {} · {origin}", job.engine));
                asks.push(composition.job(&job.asked.request));
            }
            let Some(first) = self.jobs[group[0]].composition.as_ref() else { continue };
            let engine = self.jobs[group[0]].engine;
            let composed = language::compose_all(&asks, &first.folder, engine, &self.progress)?;
            for (i, composed) in group.into_iter().zip(composed) {
                // What it wrote is kept at once: whatever follows may fail.
                let taken = self
                    .take(i, composed)
                    .and_then(|()| self.jobs[i].keep(self.args.output.existing()));
                self.keep_going(i, taken)?;
            }
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
        // It may be longer now.
        memory::check(&self.jobs[i], self.args.compute.residency())
    }

    /// Makes the songs, and writes each as soon as it is made.
    ///
    /// # Errors
    /// As [`Self::compose`].
    pub(super) fn sing(&mut self) -> Result<()> {
        let key = |job: &Job| {
            let request = &job.asked.request;
            let model = job.folder.path().to_owned();
            Some((model, request.adapter.clone(), format!("{:?}", request.adapter_scale)))
        };
        for group in grouped(&self.jobs, key) {
            // What its adapters did is known to all of them.
            let folder = self.jobs[group[0]].folder.clone();
            group.iter().for_each(|&i| self.jobs[i].folder = folder.clone());
            let is_open = |i: &usize| matches!(self.made[*i], Made::Open);
            let group: Vec<usize> = group.into_iter().filter(is_open).collect();
            let jobs: Vec<&Job> = group.iter().map(|&i| &self.jobs[i]).collect();
            if jobs.is_empty() {
                continue;
            }
            jobs.iter().for_each(|job| self.report.line(&describe::headline(job)));
            let (args, start) = (self.args, self.start);
            let mut made = Vec::new();
            let run = run::songs(&jobs, args, &self.progress, |k, rendered| {
                let done = rendered.map_err(Into::into).and_then(|rendered| {
                    let (written, found) = jobs[k].write_down(rendered, args)?;
                    Ok(Done { written, found, after: start.elapsed() })
                });
                made.push(done);
                Ok::<_, Error>(())
            });
            for (i, done) in group.iter().copied().zip(made) {
                match done {
                    Ok(done) => self.made[i] = Made::Done(done),
                    Err(error) => self.keep_going(i, Err(error))?,
                }
            }
            run?;
            for i in group {
                self.judge(i)?;
            }
        }
        Ok(())
    }

    /// Lets the language model judge the songs of a request, if that is wanted.
    fn judge(&mut self, i: usize) -> Result<()> {
        let Made::Done(done) = &mut self.made[i] else { return Ok(()) };
        let judged = self.jobs[i].judge(self.args, &self.progress);
        if let Err(error) = done.found.take_judged(judged) {
            // The songs are written all the same.
            return self.keep_going(i, Err(error));
        }
        Ok(())
    }

    /// Of several requests one that fails is said and left, and the others go on; of one it is the
    /// end.
    fn keep_going(&mut self, i: usize, result: Result<()>) -> Result<()> {
        let Err(error) = result else { return Ok(()) };
        self.jobs[i].say_kept(&self.report);
        let is_cancelled = matches!(error.downcast_ref(), Some(Error::Cancelled));
        if is_cancelled || self.jobs.len() == 1 {
            return Err(error);
        }
        self.made[i] = Made::Failed(error);
        Ok(())
    }

    /// Says how the run went; the exit code is that of a failure if one of the requests has failed.
    ///
    /// # Errors
    /// If standard output is closed, or a request cannot be written.
    pub(super) fn report(self) -> Result<ExitCode> {
        let Self { mut jobs, args, report, start, progress, made } = self;
        let outcome = progress.finish();
        let elapsed = start.elapsed();
        let mut objects = Vec::new();
        let mut code = ExitCode::SUCCESS;
        for (job, made) in jobs.iter_mut().zip(made) {
            let stages = job.learn(&outcome);
            job.say_adapters(&report).iter().for_each(|line| report.line(line));
            let done = match made {
                Made::Done(done) => done,
                Made::Open => continue,
                Made::Failed(error) => {
                    let error = error.context(job.failure());
                    objects.push(json!({
                        "outputs": [],
                        "error": error.chain().map(ToString::to_string).collect::<Vec<_>>(),
                    }));
                    report.failure(&error);
                    code = exit(FAILED);
                    continue;
                }
            };
            engine::remember(&job.kernels, job.engine, &job.models());
            job.keep_tiles()?;
            let missing = job.missing_after(&done.found);
            missing.iter().for_each(|notice| report.note(&notice.0));
            if args.output.json {
                let mut object = job.to_json(&done, &missing)?;
                object["elapsed"] = elapsed_json(&stages, elapsed);
                objects.push(object);
            }
            report.line(&summary(job, &done.written, done.after));
            if let Some(table) = after::table(&done.found, &done.written) {
                report.line(&table);
            }
        }
        if args.output.json {
            report.output(&format!("{:#}", one_or_all(objects, jobs.len())))?;
        }
        Ok(code)
    }
}

impl Job {
    /// What a failure of one of several requests is about.
    fn failure(&self) -> String {
        let song = self.outputs.songs.first().map(ToString::to_string).unwrap_or_default();
        format!("the song `{song}` was not finished")
    }

    /// Writes the songs and what is made of them; then names the files, unless JSON will.
    fn write_down(&self, rendered: Rendered, args: &Args) -> Result<(Vec<Written>, Found)> {
        let existing = args.output.existing();
        let Rendered { songs, latents, aligned } = rendered;
        self.write_latents(&latents, existing)?;
        let written = self.write(&songs, existing)?;
        let found = Found::of(aligned)?;
        let more = self.write_after(&songs, &written, &found, existing)?;
        if !args.output.json {
            more.iter().try_for_each(|path| report::path(path))?;
        }
        Ok((written, found))
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
}

/// The places of jobs that have `key` in common, in the order in which they come; without one a job is
/// in no group.
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
