//! `acestep generate`: makes songs from requests, in three phases with one value each.
//!
//! ```text
//! flags, files --resolve--> SongTask --make--> Run --report--> JSON, summary, exit code
//! ```
//!
//! | phase | files | content |
//! |---|---|---|
//! | resolve | `resolve.rs`, `song.rs` | every decision and every check that needs no network |
//! | make | `make.rs`, `written.rs` | language models, songs (each written at once), scores |
//! | report | `ending.rs` | the last words, also after Ctrl-C or a failure |
//!
//! A value does not change after its phase: the language model makes one `SongTask` of another.

mod after;
mod composition;
mod describe;
mod ending;
mod make;
mod outputs;
mod request;
mod requests;
mod resolve;
mod song;
mod written;

use std::process::ExitCode;

use acestep_session::song::{adapters, describe::Resources};
use anyhow::Result;
use serde_json::Value;

pub(crate) use crate::args::generate::Args;
use crate::{args::Global, report::Report};
use make::Run;
use requests::Requests;
use resolve::resolve;
use song::SongTask;

/// Makes the songs of every request, or shows what would be made.
///
/// # Errors
/// Any failure, with a hint. Early errors stop the whole run. If one of several requests fails
/// later, the failure is printed and the others continue.
pub(crate) fn run(args: Args, global: &Global) -> Result<ExitCode> {
    let report = global.report();
    let (json, dry_run) = (args.output.json, args.output.dry_run);
    let requests = Requests::of(&args)?;
    let songs = requests.each(&requests.args, |args| {
        let song = resolve(args, &report)?;
        report.notes(&song.resolved.notices);
        Ok(song)
    })?;
    requests.check_outputs(&songs)?;
    if dry_run {
        let objects = requests.each(&songs, |song| show(song, json, &report))?;
        if json {
            report.object(&requests::one_or_all(objects, songs.len()))?;
        }
    }
    requests.each(&songs, |song| Ok(song.resolved.check_memory()?))?;
    if dry_run {
        return Ok(ExitCode::SUCCESS);
    }
    let (run, ended) = Run::make(songs, json, report);
    run.report(ended)
}

/// Shows what would be made: prints it as text, or returns it as JSON.
fn show(song: &SongTask, json: bool, report: &Report) -> Result<Value> {
    let resolved = &song.resolved;
    report.notes(&resolved.plan_notices);
    resolved.folder.measure_adapters(resolved.setup.engine.dtype)?;
    let (_, notices) = adapters::outcome(&resolved.folder);
    report.notes(&notices);
    let resources = Resources::of(resolved, &[])?;
    if !json {
        report.always(&song.text(&resources));
        return Ok(Value::Null);
    }
    let mut object = song.to_json(&resources, &notices);
    object["dry_run"] = true.into();
    Ok(object)
}
