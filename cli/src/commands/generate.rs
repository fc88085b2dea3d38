//! `acestep generate`: a request to songs.
//!
//! ```text
//! flags, file -> Request -> Plan -> what is written where
//!             -> language model -> Request -> Plan -> songs -> files -> one line
//! ```
//!
//! Everything that can be refused is refused before the first network is read.

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

use acestep_import::Folder;
use acestep_runtime::{
    Engine, ModelInfo, Notice, Plan, Request, Residency,
    audio::format::Encoding,
    device::kernels::Kernels,
    files::Existing,
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
use request::Asked;
use together::Together;
use written::Written;

/// Everything that is decided before the first network is read.
struct Job {
    asked: Asked,
    /// The song; without the language model's part until that is done.
    plan: Plan,
    /// What the language model is asked.
    composition: Option<Composition>,
    /// What it decided, once it has answered.
    metadata: Option<Metadata>,
    /// How long it took, once it has answered.
    timing: Option<Timing>,
    /// Whether the request was written as soon as it had.
    is_kept: bool,
    /// Whether the plan is another than it was then.
    is_stale: bool,
    info: ModelInfo,
    /// The model; requests of one run that have it in common share it.
    folder: Rc<Folder>,
    engine: Engine,
    residency: Residency,
    kernels: Kernels,
    /// Networks that were run again in f32, as noun phrases.
    widened: Vec<&'static str>,
    encoding: Encoding,
    /// Whether songs say what they are.
    tagged: bool,
    inputs: Inputs,
    outputs: Outputs,
    /// What is made of the songs.
    after: After,
    notices: Vec<Notice>,
    /// Of the plan alone.
    plan_notices: Vec<Notice>,
}

/// Makes the songs of every request, or says what would be made.
///
/// # Errors
/// Whatever stands in the way, with its remedy. What can be refused before any work is; of several
/// requests one that fails later is said, and stops no other.
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
    let mut run = Together::new(jobs, &args, report);
    let ended = run.run();
    run.report(ended)
}

/// Refuses requests that cannot fit into memory.
fn check_memory(jobs: &[Job], args: &Args, requests: &[Args]) -> Result<()> {
    let check = |(job, own): (&Job, &Args)| {
        memory::check(job, args.compute.residency())
            .map_err(|error| requests::named(error, own, requests))
    };
    jobs.iter().zip(requests).try_for_each(check)
}

/// Says what would be made, and makes nothing.
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

/// Makes songs and throws them away: everything is loaded and computed as it would be.
///
/// # Errors
/// As [`run()`].
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
    /// The seeds, if they decide anything.
    fn seeds(&self) -> Option<&[u64]> {
        self.inputs.seeds(&self.plan)
    }

    /// The models whose kernels are used.
    fn models(&self) -> Vec<String> {
        let language = self.composition.as_ref().map(|of| language::label(&of.folder));
        [self.folder.name().to_owned()].into_iter().chain(language).collect()
    }

    /// Lets the language model complete the request, and plans the song anew; whether it did.
    ///
    /// # Errors
    /// Those of the language model; what it decided can be refused as what was asked can.
    fn compose(&mut self, report: &Report, progress: &Progress) -> Result<bool> {
        let Some(composition) = &self.composition else { return Ok(false) };
        let composed = composition.run(&self.asked.request, self.engine, progress)?;
        self.take(composed, report)?;
        Ok(true)
    }

    /// Takes over what the language model decided.
    ///
    /// # Errors
    /// What it decided can be refused as what was asked can.
    fn take(&mut self, composed: Composed, report: &Report) -> Result<()> {
        for notice in composed.changes {
            report.note(&notice.0);
            self.notices.push(notice);
        }
        self.metadata = Some(composed.metadata);
        self.timing = Some(composed.timing);
        // Drawn seeds stay, as the songs' names have them.
        let request = Request { seed: Some(self.plan.seeds.clone()), ..composed.request };
        let (mut plan, notices) = Plan::with_sounds(&request, &self.info, &self.inputs.sounds)?;
        self.inputs.fit(&mut plan)?;
        self.asked.request = request;
        (self.plan, self.plan_notices) = (plan, notices);
        Ok(())
    }

    /// Writes the request, if it is saved, with what the language model decided: the song may yet
    /// fail or be interrupted.
    fn keep(&mut self, existing: Existing) -> Result<()> {
        if let (Some(_), Some(path)) = (&self.composition, &self.outputs.request) {
            self.asked.save(&self.plan, &self.folder, path, existing)?;
            self.is_kept = true;
        }
        Ok(())
    }

    /// Says what is wrong with what the adapters did, unless that was said, and gives what they did.
    fn say_adapters(&mut self, report: Option<&Report>) -> Vec<String> {
        let (lines, notices) = adapters::outcome(&self.folder);
        for notice in notices {
            report.inspect(|report| report.note(&notice.0));
            self.notices.push(notice);
        }
        lines
    }

    /// Says what is worth saying about the plan, once there is no other.
    fn say_plan(&mut self, report: &Report) {
        for notice in self.plan_notices.drain(..) {
            report.note(&notice.0);
            self.notices.push(notice);
        }
    }
}
