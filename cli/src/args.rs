//! What can be typed: the verbs, and the flags that all of them share.

use std::{ffi::OsString, path::PathBuf, process::ExitCode};

use anstream::ColorChoice;
use clap::{ArgAction, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum, ValueHint};

use crate::{commands, error, report::Report};

pub(crate) mod adapter;
#[allow(
    rustdoc::broken_intra_doc_links,
    reason = "flags are documented for the terminal: `[default: 0.1]`"
)]
pub(crate) mod after;
pub(crate) mod codec;
#[allow(
    rustdoc::broken_intra_doc_links,
    reason = "flags are documented for the terminal: `cuda[:N]`"
)]
pub(crate) mod device;
pub(crate) mod doctor;
pub(crate) mod editing;
#[allow(
    rustdoc::broken_intra_doc_links,
    reason = "flags are documented for the terminal: `[Verse]`"
)]
pub(crate) mod generate;
pub(crate) mod language;
pub(crate) mod model;
pub(crate) mod plan;
pub(crate) mod sampler;
pub(crate) mod sound;
pub(crate) mod thinking;

/// Make music on your own machine.
#[derive(Debug, Parser)]
#[command(name = "acestep", version, max_term_width = 100, arg_required_else_help = true)]
#[command(subcommand_required = true, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a song from a caption, lyrics and metadata.
    Generate(Box<generate::Args>),
    /// Let the language model plan a song: metadata, words, outline.
    Plan(Box<plan::Plan>),
    /// Let the language model write caption, lyrics and metadata from a description.
    Inspire(Box<plan::Inspire>),
    /// Let the language model bring caption and lyrics into its own form.
    Format(Box<plan::Format>),
    /// Read a song back: caption, metadata and lyrics from its sound.
    Understand(Box<plan::Understand>),
    /// Get models: list, pull, show, verify, remove.
    Model(model::Args),
    /// Say what a LoRA or the like holds, and whether it fits a model.
    Adapter(adapter::Args),
    /// Draw a sound file: waveform, spectrogram, lines.
    Plot(Box<after::Plot>),
    /// Turn a sound into latents, and latents into a sound.
    Codec(codec::Codec),
    /// Compare this machine's results with the reference's.
    Verify(commands::verify::Args),
    /// Measure how fast each stage is.
    Bench(commands::bench::Args),
    /// Say what this machine has, and whether it works.
    Doctor(doctor::Doctor),
    /// Compile and tune a card's kernels before a song needs them.
    Warmup(doctor::Warmup),
    /// Check a card: results, kernels, lengths, speed; writes a report.
    Check(Box<commands::check::Args>),
}

/// Flags of every verb. Those of models come after its own, in the order of the help.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Global")]
pub(crate) struct Global {
    /// Say less: errors only.
    #[arg(short, long, global = true, action = ArgAction::Count, conflicts_with = "verbose")]
    quiet: u8,

    /// Say more: what each stage took.
    #[arg(short, long, global = true, action = ArgAction::Count)]
    verbose: u8,

    /// When to use colour; `auto` obeys NO_COLOR.
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        hide_short_help = true
    )]
    color: Color,

    /// Where models lie that were put there by hand; pulled ones are found in any case.
    ///
    /// [default: acestep/models in the user's data directory, on Linux ~/.local/share]
    /// [env: ACESTEP_MODELS_DIR]
    #[arg(
        long,
        global = true,
        value_name = "DIR",
        alias = "models_dir",
        value_hint = ValueHint::DirPath,
        hide_short_help = true
    )]
    pub(crate) models_dir: Option<PathBuf>,

    /// Ask no server for anything.
    #[arg(long, global = true, hide_short_help = true)]
    pub(crate) offline: bool,

    /// Answer every question with yes: pull the models that are missing.
    #[arg(short, long, global = true, hide_short_help = true, conflicts_with = "offline")]
    pub(crate) yes: bool,

    /// Show no moving lines.
    #[arg(long, global = true, alias = "no_progress", hide_short_help = true)]
    no_progress: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Color {
    Auto,
    Always,
    Never,
}

impl Global {
    /// The streams as these flags want them.
    pub(crate) fn report(&self) -> Report {
        let count = |n: u8| i8::try_from(n).unwrap_or(i8::MAX);
        Report {
            verbosity: count(self.verbose) - count(self.quiet),
            color: match self.color {
                Color::Auto => ColorChoice::Auto,
                Color::Always => ColorChoice::Always,
                Color::Never => ColorChoice::Never,
            },
            progress: !self.no_progress,
        }
    }
}

/// The flags of `generate` as if `words` were typed after it.
///
/// # Errors
/// If they are none.
pub(crate) fn generate_args(words: Vec<OsString>) -> Result<generate::Args, clap::Error> {
    let typed = ["acestep".into(), "generate".into()].into_iter().chain(words);
    match Cli::try_parse_from(typed)?.command {
        Command::Generate(args) => Ok(*args),
        _ => Err(clap::Error::new(clap::error::ErrorKind::InvalidSubcommand)),
    }
}

/// Reads the command line; help, version and mistakes are printed here.
///
/// # Errors
/// The exit code, where there is nothing left to do.
pub(crate) fn parse() -> Result<Cli, ExitCode> {
    let typed: Vec<OsString> = std::env::args_os().collect();
    let mut command = Cli::command().color(help_color(&typed)).after_long_help(exit_codes());
    for (verb, examples) in [
        ("generate", generate::EXAMPLES),
        ("plan", plan::EXAMPLES),
        ("inspire", plan::INSPIRE_EXAMPLES),
        ("format", plan::FORMAT_EXAMPLES),
        ("understand", plan::UNDERSTAND_EXAMPLES),
        ("model", model::EXAMPLES),
        ("adapter", adapter::EXAMPLES),
        ("plot", after::PLOT_EXAMPLES),
        ("codec", codec::EXAMPLES),
        ("doctor", doctor::EXAMPLES),
        ("warmup", doctor::WARMUP_EXAMPLES),
    ] {
        let text = format!("{examples}\n\n{}", exit_codes());
        command = command.mut_subcommand(verb, |verb| verb.after_long_help(text));
    }
    for (verb, words) in plan::OTHER_WORDS {
        for (flag, text) in *words {
            command =
                command.mut_subcommand(verb, |verb| verb.mut_arg(flag, |flag| flag.help(text)));
        }
    }
    command = command.mut_subcommand("inspire", |inspire| {
        inspire
            .mut_arg("positional_caption", |query| query.value_name("QUERY"))
            // Typed all the same, it is told what it is that writes them.
            .mut_arg("lyrics", |lyrics| lyrics.hide(true))
    });
    command = command.mut_subcommand("understand", |understand| {
        // There is one answer, and --seed is its seed.
        understand.mut_arg("lm_seed", |seed| seed.hide(true))
    });
    command
        .try_get_matches_from_mut(typed)
        .and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches))
        .map_err(|error| {
            // A closed pipe, as of `acestep --help | head -1`, is no failure.
            let _ = error.print();
            if error.use_stderr() { error::exit(error::USAGE) } else { ExitCode::SUCCESS }
        })
}

/// `--color` as typed: help and usage errors are printed before it is parsed.
fn help_color(typed: &[OsString]) -> clap::ColorChoice {
    let mut words = typed.iter().filter_map(|word| word.to_str());
    let value = words.find_map(|word| match word.strip_prefix("--color") {
        Some("") => Some(String::new()),
        Some(rest) => rest.strip_prefix('=').map(str::to_owned),
        None => None,
    });
    match value.as_deref().map(|value| if value.is_empty() { words.next() } else { Some(value) }) {
        Some(Some("always")) => clap::ColorChoice::Always,
        Some(Some("never")) => clap::ColorChoice::Never,
        _ => clap::ColorChoice::Auto,
    }
}

fn exit_codes() -> String {
    let lines = error::EXIT_CODES.map(|(code, meaning)| format!("  {code:>3}  {meaning}"));
    format!("Exit codes:\n{}", lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_color_of_help_is_found_wherever_it_stands() {
        let color =
            |words: &[&str]| help_color(&words.iter().map(OsString::from).collect::<Vec<_>>());
        assert_eq!(color(&["acestep", "--color=never", "-h"]), clap::ColorChoice::Never);
        assert_eq!(color(&["acestep", "--color", "always"]), clap::ColorChoice::Always);
        assert_eq!(color(&["acestep", "--color"]), clap::ColorChoice::Auto);
        assert_eq!(color(&["acestep"]), clap::ColorChoice::Auto);
    }
}
