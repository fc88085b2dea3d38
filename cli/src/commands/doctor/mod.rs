//! `acestep doctor`: what is built in, what this machine has, and whether it works.
//!
//! Every subject is one check: `ok`, `missing` (it is not there and need not be) or `broken`. Each
//! song is made by this program run once more, so that a driver that crashes takes only that along.

mod machine;
mod models;
mod song;

use std::process::ExitCode;

use acestep_runtime::{
    Device,
    device::{BUILT_IN, Dtype, listing::Listing},
};
use anyhow::Result;
use serde::Serialize;
use serde_json::json;

use crate::{
    args::{Global, doctor::Doctor},
    error, report,
    report::Report,
};

/// How a subject is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    /// It is there, and fine.
    Ok,
    /// It is not there, and need not be.
    Missing,
    /// It is there or was asked for, and does not work.
    Broken,
}

/// One subject.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Check {
    state: State,
    /// What kind of thing: `device`, `song`, `model`, ..
    what: &'static str,
    /// Which of them.
    name: String,
    /// What is known of it.
    detail: String,
    /// How to mend it.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    /// Figures for a program to read.
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
///
/// # Errors
/// If what was asked for cannot be understood.
pub(crate) fn run(args: &Doctor, global: &Global) -> Result<ExitCode> {
    let report = global.report();
    // What is no device or no type at all is a mistake of the command line.
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
            let types = machine::types(device, &listing);
            let lacked = dtype.named().filter(|dtype| !types.contains(dtype));
            checks.add(match lacked {
                // Whoever has chosen the device wants to know why it cannot be.
                Some(dtype) if chosen.is_none() => song::impossible(device, dtype),
                _ => {
                    report.line(&song::announcement(device));
                    song::make(device, &args.place.dtype)?
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
    Ok(if broken == 0 { ExitCode::SUCCESS } else { error::exit(error::FAILED) })
}

/// What was found so far; each is shown at once, as a song takes a while.
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
