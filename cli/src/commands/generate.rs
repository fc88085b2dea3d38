//! `acestep generate`: makes songs from a request.
//!
//! ```text
//! flags, file -> Request -> Plan -> names of the output files
//!             -> language model -> Request -> Plan -> songs -> files -> one line
//! ```
//!
//! Every error that can be detected early is reported before the first network is loaded.

mod adapters;
mod after;
mod composition;
mod decide;
mod describe;
mod ending;
mod inputs;
mod memory;
pub(super) mod outputs;
mod request;
mod requests;
pub(super) mod run;
mod sounds;
mod together;
mod written;

use std::{process::ExitCode, rc::Rc};

use acestep_engine::{
    Engine, Notice, Residency, audio::format::Encoding, device::kernels::Kernels, files::Existing,
};
use acestep_import::AceStep;
use acestep_music::{
    ModelInfo, Plan, Request,
    lm::{
        compose::{Composed, Timing},
        metadata::Metadata,
    },
};
use anyhow::Result;

pub(crate) use crate::args::generate::Args;
use crate::{
    args::Global,
    commands::{engine, language},
    progress::Progress,
    report::Report,
};
use after::After;
use composition::Composition;
use decide::decide;
use describe::Resources;
pub(crate) use describe::counted;
use inputs::Inputs;
use outputs::Outputs;
use request::ResolvedRequest;
use together::BatchRun;
use written::Written;

/// All decisions before the first network is loaded.
struct Job {
    asked: ResolvedRequest,
    /// The song's plan; it lacks the language model's decisions until that model has run.
    plan: Plan,
    /// Task of the language model.
    composition: Option<Composition>,
    /// The language model's decisions, after it has run.
    metadata: Option<Metadata>,
    /// The language model's timing, after it has run.
    timing: Option<Timing>,
    /// True if the request was saved after the language model had run.
    is_kept: bool,
    /// True if the plan has changed since then.
    is_stale: bool,
    info: ModelInfo,
    /// The model; requests with the same model share it.
    folder: Rc<AceStep>,
    engine: Engine,
    residency: Residency,
    kernels: Kernels,
    /// Networks that were run again in f32, as noun phrases.
    widened: Vec<&'static str>,
    encoding: Encoding,
    /// True if songs get tags.
    tagged: bool,
    inputs: Inputs,
    outputs: Outputs,
    /// Extra outputs for the songs.
    after: After,
    notices: Vec<Notice>,
    /// Notices about the plan.
    plan_notices: Vec<Notice>,
}

/// Makes the songs of every request, or shows what would be made.
///
/// # Errors
/// Any failure, with a hint. Early errors stop the whole run. If one of several requests fails
/// later, the failure is printed and the others continue.
pub(crate) fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let report = global.report();
    let requests = requests::of(&args)?;
    let mut jobs = Vec::with_capacity(requests.len());
    for args in &requests {
        let job = decide(args, &report).map_err(|error| requests::named(error, args, &requests))?;
        job.notices.iter().for_each(|notice| report.note(&notice.0));
        jobs.push(job);
    }
    requests::check(&jobs, &args)?;
    if args.output.dry_run {
        return plan_only(&mut jobs, &args, &requests, &report);
    }
    check_memory(&jobs, &args, &requests)?;
    let mut run = BatchRun::new(jobs, &args, report);
    let ended = run.run();
    run.report(ended)
}

/// Refuses requests that do not fit into memory.
fn check_memory(jobs: &[Job], args: &Args, requests: &[Args]) -> Result<()> {
    let check = |(job, own): (&Job, &Args)| {
        memory::check(job, args.compute.residency())
            .map_err(|error| requests::named(error, own, requests))
    };
    jobs.iter().zip(requests).try_for_each(check)
}

/// Shows what would be made, and makes nothing.
fn plan_only(
    jobs: &mut [Job],
    args: &Args,
    requests: &[Args],
    report: &Report,
) -> Result<ExitCode> {
    let mut objects = Vec::new();
    for (job, own) in jobs.iter_mut().zip(requests) {
        let named = |error| requests::named(error, own, requests);
        job.say_plan(report);
        job.folder.measure_adapters(job.engine.dtype).map_err(|error| named(error.into()))?;
        job.say_adapters(Some(report));
        let resources = Resources::of(job, args.compute.residency()).map_err(named)?;
        if args.output.json {
            let mut object = describe::to_json(job, &resources);
            object["dry_run"] = true.into();
            objects.push(object);
        } else {
            report.always(&describe::text(job, &resources));
        }
    }
    if args.output.json {
        report.output(&format!("{:#}", requests::one_or_all(objects, jobs.len())))?;
    }
    check_memory(jobs, args, requests)?;
    Ok(ExitCode::SUCCESS)
}

/// Makes songs and discards them, with all loading and computing of a real run.
///
/// # Errors
/// Errors of [`run()`].
pub(crate) fn rehearse(args: &Args, report: Report) -> Result<()> {
    let mut job = decide(args, &report)?;
    memory::check(&job, args.compute.residency())?;
    let progress = Progress::new(report);
    if job.compose(&report, &progress)? {
        memory::check(&job, args.compute.residency())?;
    }
    report.line(&describe::headline(&job));
    let made = run::songs(&[(&job, progress.of(0))], args, |_, rendered| rendered.map(drop));
    progress.finish();
    made?;
    engine::remember(&job.kernels, job.engine, &job.models());
    Ok(())
}

impl Job {
    /// Returns the seeds, if they have an effect.
    fn seeds(&self) -> Option<&[u64]> {
        self.inputs.seeds(&self.plan)
    }

    /// Returns the models whose kernels are used.
    fn models(&self) -> Vec<String> {
        let language = self.composition.as_ref().map(|of| language::label(&of.folder));
        [self.folder.name().to_owned()].into_iter().chain(language).collect()
    }

    /// Completes the request with the language model and plans the song again. Returns true if
    /// there was a language model to run.
    ///
    /// # Errors
    /// Errors of the language model; invalid decisions of it.
    fn compose(&mut self, report: &Report, progress: &Progress) -> Result<bool> {
        let Some(composition) = &self.composition else { return Ok(false) };
        let composed = composition.run(&self.asked.request, self.engine, progress)?;
        self.take(composed, report)?;
        Ok(true)
    }

    /// Applies the decisions of the language model.
    ///
    /// # Errors
    /// Invalid decisions.
    fn take(&mut self, composed: Composed, report: &Report) -> Result<()> {
        for notice in composed.changes {
            report.note(&notice.0);
            self.notices.push(notice);
        }
        self.metadata = Some(composed.metadata);
        self.timing = Some(composed.timing);
        // Keep the random seeds, because the songs' file names contain them.
        let request = Request { seed: Some(self.plan.seeds.clone()), ..composed.request };
        let (mut plan, notices) = Plan::with_sounds(&request, &self.info, &self.inputs.sounds)?;
        self.inputs.fit(&mut plan)?;
        self.asked.request = request;
        (self.plan, self.plan_notices) = (plan, notices);
        Ok(())
    }

    /// Saves the request with the language model's decisions, if a request is wanted: the song may
    /// still fail or be interrupted.
    fn keep(&mut self, existing: Existing) -> Result<()> {
        if let (Some(_), Some(path)) = (&self.composition, &self.outputs.request) {
            self.asked.save(&self.plan, &self.folder, path, existing)?;
            self.is_kept = true;
        }
        Ok(())
    }

    /// Returns a line per adapter with its effect; reports problems of the adapters to `report`.
    fn say_adapters(&mut self, report: Option<&Report>) -> Vec<String> {
        let (lines, notices) = adapters::outcome(&self.folder);
        for notice in notices {
            report.inspect(|report| report.note(&notice.0));
            self.notices.push(notice);
        }
        lines
    }

    /// Prints the notices about the plan, once it is final.
    fn say_plan(&mut self, report: &Report) {
        for notice in self.plan_notices.drain(..) {
            report.note(&notice.0);
            self.notices.push(notice);
        }
    }
}
