//! Flags of every command.

use std::{ffi::OsString, path::PathBuf};

use anstream::ColorChoice;
use clap::{ArgAction, ValueEnum};

use super::values::{name, words};
use crate::{environment, report::Report, settings::Flags};

/// Flags of every command, shown after the command's own flags.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Global")]
pub(crate) struct Global {
    /// Print less: errors only.
    #[arg(short, long, global = true, action = ArgAction::Count, conflicts_with = "verbose")]
    quiet: u8,

    /// Print more: the time of each stage.
    #[arg(short, long, global = true, action = ArgAction::Count)]
    verbose: u8,

    /// When to use colour; `auto` obeys NO_COLOR.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    color: Color,

    /// Directory of manually installed models; pulled models are found in any case.
    ///
    /// [default: acestep/models in the user's data directory, on Linux ~/.local/share]
    /// [env: ACESTEP_MODELS_DIR]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) models_dir: Option<PathBuf>,

    /// Contact no server.
    #[arg(long, global = true)]
    pub(crate) offline: bool,

    /// Answer every question with yes, such as the download of missing models.
    #[arg(short, long, global = true, conflicts_with = "offline")]
    pub(crate) yes: bool,

    /// Display of a run's progress.
    #[arg(long, global = true, value_name = "HOW", default_value = "auto")]
    #[arg(conflicts_with = "no_progress")]
    pub(crate) progress: Watch,

    /// Show no moving lines: `--progress none`.
    #[arg(long, global = true)]
    pub(crate) no_progress: bool,

    /// Configuration file, in place of the user's [env: ACESTEP_CONFIG].
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Read no configuration.
    #[arg(long, global = true, conflicts_with = "config")]
    pub(crate) no_config: bool,

    /// The flags with a default that were typed.
    #[arg(skip)]
    pub(crate) typed: Typed,
}

/// Flags that always have a value; true if the value was typed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Typed {
    pub(crate) color: bool,
    pub(crate) progress: bool,
}

/// Display of a run's progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Watch {
    /// A moving line, on a terminal.
    Auto,
    /// No moving lines.
    None,
    /// One JSON object per line on standard error, and nothing else there.
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Color {
    Auto,
    Always,
    Never,
}

impl Global {
    /// Returns the flags that concern the settings.
    pub(crate) fn flags(&self) -> Flags {
        Flags { config: self.config.clone(), no_config: self.no_config, said: self.said() }
    }

    /// Returns the typed settings: key, value, flag.
    fn said(&self) -> Vec<(&'static str, String, &'static str)> {
        let yes = || "true".to_owned();
        let dir = self.models_dir.as_ref().map(|dir| dir.to_string_lossy().into_owned());
        let Typed { color, progress } = self.typed;
        [
            self.offline.then(|| ("offline", yes(), "--offline")),
            self.yes.then(|| ("yes", yes(), "--yes")),
            dir.map(|dir| ("models_dir", dir, "--models-dir")),
            color.then(|| ("color", name(&self.color), "--color")),
            progress.then(|| ("progress", name(&self.progress), "--progress")),
            self.no_progress.then(|| ("progress", "none".to_owned(), "--no-progress")),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Returns the flags that another process of this program needs too.
    pub(crate) fn passed_on(&self) -> Vec<OsString> {
        let mut flags = Vec::new();
        flags.extend(words("--models-dir", self.models_dir.as_ref()));
        flags.extend(words("--config", self.config.as_ref()));
        flags.extend(self.no_config.then(|| "--no-config".into()));
        flags.extend(self.offline.then(|| "--offline".into()));
        let (flag, times) = match self.verbose {
            0 => ("--quiet", self.quiet),
            more => ("--verbose", more),
        };
        flags.extend((0..times).map(|_| OsString::from(flag)));
        flags
    }

    /// Returns the output settings of an error in the settings: of these flags, else of the variable.
    pub(crate) fn report_before_settings(&self) -> Report {
        let json = environment::set("ACESTEP_PROGRESS").is_some_and(|value| value == "json");
        let json = json && !self.typed.progress && !self.no_progress;
        Report { json: json || self.report().json, ..self.report() }
    }

    /// Returns the output settings of these flags.
    pub(crate) fn report(&self) -> Report {
        let count = |n: u8| i8::try_from(n).unwrap_or(i8::MAX);
        Report {
            verbosity: count(self.verbose) - count(self.quiet),
            color: match self.color {
                Color::Auto => ColorChoice::Auto,
                Color::Always => ColorChoice::Always,
                Color::Never => ColorChoice::Never,
            },
            progress: self.progress != Watch::None && !self.no_progress,
            json: self.progress == Watch::Json && !self.no_progress,
        }
    }
}
