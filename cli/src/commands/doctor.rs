//! `acestep doctor`: checks the build, the machine, and whether songs can be made.
//!
//! Every subject is one check: `ok`, `missing` (absent and not required) or `broken`. Each song is
//! made by a child process of this program, so that a crashing driver ends only that process.

mod machine;
mod models;
mod song;

use std::process::ExitCode;

use acestep_engine::{
    Device,
    device::{BUILT_IN, Dtype, dtype::Supported, listing::Listing},
};
use anyhow::Result;
use burn::tensor::DType;
use serde::Serialize;
use serde_json::json;

use crate::{
    args::{Global, doctor::Doctor},
    exit,
    report::{self, Report},
};

/// State of a subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    /// Present and working.
    Ok,
    /// Absent and not required.
    Missing,
    /// Present or requested, but not working.
    Broken,
}

/// Result for one subject.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Check {
    state: State,
    /// Kind of the subject: `device`, `song`, `model`, ..
    what: &'static str,
    /// Name of the subject.
    name: String,
    /// Details about it.
    detail: String,
    /// Remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    /// Values for a program to read.
    #[serde(flatten)]
    figures: serde_json::Map<String, serde_json::Value>,
}

impl Check {
    pub(super) fn new(
        state: State,
        what: &'static str,
        name: impl Into<String>,
        detail: impl Into<String>,
    ) -> Self {
        let (name, detail) = (name.into(), detail.into());
        Self { state, what, name, detail, hint: None, figures: serde_json::Map::new() }
    }

    pub(super) fn hint(self, hint: Option<impl Into<String>>) -> Self {
        Self { hint: hint.map(Into::into), ..self }
    }

    /// Adds the keys of `figures`, an object.
    pub(super) fn with(mut self, figures: serde_json::Value) -> Self {
        if let serde_json::Value::Object(figures) = figures {
            self.figures.extend(figures);
        }
        self
    }

    fn line(&self, report: &Report) -> String {
        let (mark, color) = match self.state {
            State::Ok => ("ok", "\x1b[32m"),
            State::Missing => ("missing", "\x1b[33m"),
            State::Broken => ("BROKEN", "\x1b[1;31m"),
        };
        let subject = format!("{} {}", self.what, self.name);
        let mut line =
            report.plain(&format!("{color}{mark:<8}\x1b[0m {subject:<22} {}", self.detail));
        if let Some(hint) = &self.hint {
            for (i, text) in hint.lines().enumerate() {
                let label = if i == 0 { "hint:" } else { "" };
                line += &format!("\n         {label:<5} {}", text.trim());
            }
        }
        line
    }
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
    let mut checks = Checks { report, json: args.json, all: Vec::new() };
    let version = env!("CARGO_PKG_VERSION");
    let features = BUILT_IN.join(", ");
    let build = Check::new(State::Ok, "acestep", version, format!("built with {features}"));
    checks.add(build)?;

    let listing = Listing::look();
    for check in machine::devices(&listing, chosen) {
        checks.add(check)?;
    }
    for check in models::all() {
        checks.add(check)?;
    }
    for check in machine::folders(&listing) {
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

    let broken = checks.count(State::Broken);
    if args.json {
        let object = json!({
            "version": version,
            "features": BUILT_IN,
            "ok": broken == 0,
            "checks": checks.all,
        });
        report.output(&format!("{object:#}"))?;
    } else {
        let verdict = match broken {
            0 => "everything that is here works".to_owned(),
            1 => "one thing is broken".to_owned(),
            n => format!("{n} things are broken"),
        };
        report.output(&verdict)?;
    }
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
            self.report.output(&check.line(&self.report))?;
        }
        self.all.push(check);
        Ok(())
    }

    fn count(&self, state: State) -> usize {
        self.all.iter().filter(|check| check.state == state).count()
    }
}
