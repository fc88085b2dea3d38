//! `acestep doctor`: checks the build, the machine, and whether songs can be made.
//!
//! Every subject is one check: `ok`, `missing` (absent and not required) or `broken`. Each song is
//! made by a child process of this program, so that a crashing driver ends only that process.

mod models;
mod song;

use std::process::ExitCode;

use acestep_engine::{
    Device,
    device::{BUILT_IN, Dtype, dtype::Supported, listing::Listing},
};
use acestep_session::doctor::{self, Check, Status};
use anyhow::Result;
use burn::tensor::DType;
use serde_json::json;

use crate::{
    args::{Global, doctor::Doctor},
    exit,
    report::{self, Report},
    settings,
};

/// Returns a check as text, with its hint below it.
fn line(check: &Check, report: &Report) -> String {
    let Check { state, what, name, detail, hint, .. } = check;
    let (mark, color) = match state {
        Status::Ok => ("ok", "\x1b[32m"),
        Status::Missing => ("missing", "\x1b[33m"),
        Status::Broken => ("BROKEN", "\x1b[1;31m"),
    };
    let subject = format!("{what} {name}");
    let mut line = report.plain(&format!("{color}{mark:<8}\x1b[0m {subject:<22} {detail}"));
    for (i, text) in hint.iter().flat_map(|hint| hint.lines()).enumerate() {
        let label = if i == 0 { "hint:" } else { "" };
        line += &format!("\n         {label:<5} {}", text.trim());
    }
    line
}

/// Runs the command: exit code 1 if something is broken.
pub(crate) fn run(args: &Doctor, global: &Global) -> Result<ExitCode> {
    let report = global.report();
    // An unknown device or type is a usage error.
    let dtype: Dtype = args.place.dtype.parse()?;
    let chosen = match args.place.device.as_str() {
        "auto" => None,
        named => Some(named.parse::<Device>()?),
    };
    report.notes(&settings::loaded().check_models_dir()?);
    let mut checks = Checks { report, json: args.json, all: Vec::new() };
    let version = env!("CARGO_PKG_VERSION");
    let features = BUILT_IN.join(", ");
    let build = Check::new(Status::Ok, "acestep", version, format!("built with {features}"));
    checks.add(build)?;

    let listing = Listing::query();
    for check in doctor::devices(&listing, chosen, settings::threads()) {
        checks.add(check)?;
    }
    for check in models::all() {
        checks.add(check)?;
    }
    checks.add(doctor::working_directory())?;
    // The CPU's kernels are part of the program.
    if listing.cuda.is_some() || listing.wgpu.is_some() {
        let folder = settings::kernels_dir();
        let mut check = doctor::kept_kernels(folder.as_deref());
        if let Some(hint) = check.hint.as_mut().filter(|_| folder.is_some()) {
            *hint += "; `acestep warmup` compiles them ahead";
        }
        checks.add(check)?;
    }
    if !args.no_song {
        for device in song::devices(&listing, chosen) {
            let types = Supported::listed(device, &listing);
            let has = |dtype: &DType| types.as_ref().is_some_and(|of| of.all.contains(dtype));
            let lacked = dtype.named().filter(|dtype| !has(dtype));
            checks.add(match lacked {
                // A user who chose the device wants to see the reason.
                Some(dtype) if chosen.is_none() => song::impossible(device, dtype),
                _ => {
                    report.line(&song::announcement(device));
                    song::make(device, &args.place)?
                }
            })?;
        }
    }

    let broken = checks.all.iter().filter(|check| check.state == Status::Broken).count();
    let object = json!({
        "version": version,
        "features": BUILT_IN,
        "ok": broken == 0,
        "checks": checks.all,
    });
    let verdict = match broken {
        0 => "everything that is here works\n".to_owned(),
        1 => "one thing is broken\n".to_owned(),
        n => format!("{n} things are broken\n"),
    };
    report::result(args.json, &object, verdict)?;
    Ok(if broken == 0 { ExitCode::SUCCESS } else { exit::exit(exit::FAILED) })
}

/// All checks so far; each is printed at once, because a song takes a while.
struct Checks {
    report: Report,
    json: bool,
    all: Vec<Check>,
}

impl Checks {
    fn add(&mut self, check: Check) -> Result<(), report::Stdout> {
        if !self.json {
            self.report.output(&line(&check, &self.report))?;
        }
        self.all.push(check);
        Ok(())
    }
}
