//! `acestep generate`: makes songs from requests, in three phases with one value each.
//!
//! ```text
//! flags, files --resolve--> Resolved --make--> Run --report--> JSON, summary, exit code
//! ```
//!
//! | phase | files | content |
//! |---|---|---|
//! | resolve | `resolve.rs`, `resolved.rs` | every decision and every check that needs no network |
//! | make | `make.rs`, `written.rs` | language models, songs (each written at once), scores |
//! | report | `ending.rs` | the last words, also after Ctrl-C or a failure |
//!
//! A value does not change after its phase: the language model makes one `Resolved` of another.

mod adapters;
mod after;
mod composition;
mod describe;
mod ending;
mod make;
mod memory;
mod outputs;
mod request;
mod requests;
mod resolve;
mod resolved;
pub(super) mod run;
mod saved;
mod sounds;
mod written;

use std::process::ExitCode;

use anyhow::Result;
use serde_json::Value;

pub(crate) use crate::args::generate::Args;
use crate::{args::Global, commands::language, progress::Progress, report::Report};
use make::Run;
use requests::Requests;
use resolve::resolve;
use resolved::Resolved;

/// Makes the songs of every request, or shows what would be made.
///
/// # Errors
/// Any failure, with a hint. Early errors stop the whole run. If one of several requests fails
/// later, the failure is printed and the others continue.
pub(crate) fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let report = global.report();
    let (json, dry_run) = (args.output.json, args.output.dry_run);
    let requests = Requests::of(&args)?;
    let resolved = requests.each(&requests.args, |args| {
        let resolved = resolve(args, &report)?;
        report.notes(&resolved.notices);
        Ok(resolved)
    })?;
    requests.check_outputs(&resolved)?;
    if dry_run {
        let objects = requests.each(&resolved, |one| show(one, json, &report))?;
        if json {
            report.output(&format!("{:#}", requests::one_or_all(objects, resolved.len())))?;
        }
    }
    requests.each(&resolved, memory::check)?;
    if dry_run {
        return Ok(ExitCode::SUCCESS);
    }
    let (run, ended) = Run::make(resolved, json, report);
    run.report(ended)
}

/// Shows what would be made: prints it as text, or returns it as JSON.
fn show(resolved: &Resolved, json: bool, report: &Report) -> Result<Value> {
    report.notes(&resolved.plan_notices);
    resolved.folder.measure_adapters(resolved.setup.engine.dtype)?;
    let (_, notices) = adapters::outcome(&resolved.folder);
    report.notes(&notices);
    let resources = describe::Resources::of(resolved, &[])?;
    if !json {
        report.always(&describe::text(resolved, &resources));
        return Ok(Value::Null);
    }
    let mut object = describe::to_json(resolved, &resources, &notices);
    object["dry_run"] = true.into();
    Ok(object)
}

/// Makes songs and discards them, with all loading and computing of a real run.
pub(crate) fn rehearse(args: &Args, report: Report) -> Result<()> {
    let mut resolved = resolve(args, &report)?;
    memory::check(&resolved)?;
    let progress = Progress::new(report);
    if let Some(composition) = &resolved.setup.composition {
        let task = (composition.composing(&resolved.request), progress.of(0));
        let engine = resolved.setup.engine;
        let composed = language::compose_all(&[task], &composition.folder, engine)?.remove(0);
        resolved = resolved.completed(composed?, &report)?;
        memory::check(&resolved)?;
    }
    report.line(&describe::headline(&resolved));
    let made = run::songs(&[(&resolved, progress.of(0))], |_, rendered| rendered.map(drop));
    progress.finish();
    made?;
    resolved.remember_kernels();
    Ok(())
}
