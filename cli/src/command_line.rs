//! The command line: the commands, their help, and how it is parsed.

use std::{ffi::OsString, fmt::Write as _, process::ExitCode};

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand, parser::ValueSource};

use crate::{
    args::{self, Global, Typed},
    commands,
    exit::{EXIT_CODES, USAGE, exit},
    report::{Report, Stdout},
    settings::Settings,
    version,
};

pub(crate) mod defaults;
mod examples;
mod flags;
mod mistakes;

/// Make music and speech on your own machine.
#[derive(Debug, Parser)]
#[command(name = "acestep", version, max_term_width = 100, arg_required_else_help = true)]
#[command(subcommand_required = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a song from a caption, lyrics and metadata.
    Generate(Box<args::generate::Args>),
    /// Speak a text with a named voice or the voice of a recording.
    Speak(Box<args::speak::Speak>),
    /// Keep voices of recordings: make, list, show, remove.
    #[command(subcommand)]
    Voice(args::voice::Command),
    /// Let the language model plan a song: metadata, text, audio codes.
    Plan(Box<args::plan::Plan>),
    /// Let the language model write a song's text from a description.
    Inspire(Box<args::plan::Text>),
    /// Let the language model rewrite caption and lyrics in its own form.
    Format(Box<args::plan::Text>),
    /// Describe a song from its sound: caption, metadata and lyrics.
    Understand(Box<args::plan::Understand>),
    /// Serve music and speech over HTTP, with a page.
    Serve(Box<args::serve::Serve>),
    /// Run jobs of a server's queue on this machine.
    Work(Box<args::serve::Work>),
    /// Look after the jobs of a server: list, show, cancel, retry.
    #[command(subcommand)]
    Jobs(args::serve::Jobs),
    /// Manage models: list, pull, show, verify, quantize, remove.
    #[command(subcommand)]
    Model(args::model::Command),
    /// Inspect a LoRA or similar adapter, and check if it fits a model.
    #[command(subcommand)]
    Adapter(args::adapter::Command),
    /// Draw a sound file: waveform, spectrogram, lines.
    Plot(Box<args::after::Plot>),
    /// Play sound files.
    Play(args::after::Play),
    /// Encode a sound to latents, or decode latents to a sound.
    #[command(subcommand)]
    Codec(args::codec::Way),
    /// Train an adapter from a folder of songs.
    #[command(subcommand)]
    Train(args::train::What),
    /// Compare this machine's results with the reference.
    Verify(commands::verify::Args),
    /// Measure the speed of each stage.
    Bench(commands::bench::Args),
    /// Show what this machine has, and test whether it works.
    Doctor(args::doctor::Doctor),
    /// Show the settings and their sources, or write a settings file.
    #[command(subcommand)]
    Config(args::config::Command),
    /// Compile and tune a GPU's kernels before a song needs them.
    Warmup(args::doctor::Warmup),
    /// Check a GPU: results, kernels, lengths, speed; write a report.
    Check(Box<commands::check::Args>),
    /// Print completions for a shell.
    Completions(args::config::Completions),
    /// Print the manual, or write a page for each command.
    Man(args::config::Man),
}

impl Command {
    /// True if the command looks for models.
    pub(crate) fn uses_models(&self) -> bool {
        let others = matches!(
            self,
            Self::Completions(_) | Self::Man(_) | Self::Config(_) | Self::Plot(_) | Self::Play(_)
        );
        !others
    }

    /// True if the log on standard error is JSON: lines of the program itself are objects too.
    fn logs_json(&self) -> bool {
        let is_json = |of: &args::serve::Operation| of.log_format == args::serve::LogFormat::Json;
        matches!(self, Self::Serve(args) if is_json(&args.operation))
            || matches!(self, Self::Work(args) if is_json(&args.operation))
    }

    /// True if the command uses the configuration. A command that must work with a broken one does
    /// not.
    pub(crate) fn is_configured(&self) -> bool {
        match self {
            Self::Completions(_) | Self::Man(_) => false,
            Self::Config(command) => matches!(command, args::config::Command::Show { .. }),
            _ => true,
        }
    }
}

/// Reads the command line and prints help, version and usage errors. `settings` give defaults of
/// flags.
///
/// # Errors
/// The exit code, if nothing is left to do.
pub(crate) fn parse(settings: Option<&Settings>) -> Result<Cli, ExitCode> {
    let typed: Vec<OsString> = std::env::args_os().collect();
    // Enable `acestep help model pull`. Completions, manual and book omit it: they have each page
    // already.
    let mut command = command()
        .color(help_color(&typed))
        .disable_help_subcommand(false)
        .mut_subcommands(|verb| verb.disable_help_subcommand(true));
    if let Some(settings) = settings {
        command = defaults::with(command, settings);
    }
    let read = command.try_get_matches_from_mut(typed).and_then(|mut matches| {
        let is_typed = |name| matches.value_source(name) == Some(ValueSource::CommandLine);
        let typed = Typed { color: is_typed("color"), progress: is_typed("progress") };
        let mut cli = Cli::from_arg_matches_mut(&mut matches)?;
        cli.global.typed = typed;
        if cli.command.logs_json() {
            (cli.global.progress, cli.global.no_progress) = (args::Watch::Json, false);
        }
        Ok(cli)
    });
    read.map_err(|error| mistakes::explained(error, &command)).map_err(|error| {
        match error.print().map_err(Stdout) {
            _ if error.use_stderr() => exit(USAGE),
            // A closed pipe, as in `acestep --help | head -1`, is no failure there.
            Err(error) => Report::SILENT.failure(&error.into()),
            Ok(()) => ExitCode::SUCCESS,
        }
    })
}

/// Returns the whole command line as shown in help, completions and manual pages.
pub(crate) fn command() -> clap::Command {
    let mut command = flags::completed(Cli::command()).long_version(version::long());
    let template = template(&command);
    command = command.help_template(template);
    command = examples::with_examples(command, &exit_codes());
    for (verb, words) in args::plan::OTHER_WORDS {
        for (flag, text) in *words {
            command =
                command.mut_subcommand(verb, |verb| verb.mut_arg(flag, |flag| flag.help(text)));
        }
    }
    command = command.mut_subcommand("inspire", |inspire| {
        inspire
            .mut_arg("positional_caption", |query| query.value_name("QUERY"))
            // The flag still parses, so that the user gets an explanation of who writes the lyrics.
            .mut_arg("lyrics", |lyrics| lyrics.hide(true))
    });
    command.mut_subcommand("understand", |understand| {
        // There is one answer, and --seed is its seed.
        understand.mut_arg("lm_seed", |seed| seed.hide(true))
    })
}

/// The commands, grouped by purpose.
const GROUPS: [(&str, &[&str]); 7] = [
    ("Make songs", &["generate", "plan", "inspire", "format"]),
    ("Make speech", &["speak", "voice"]),
    ("Hear and see them", &["play", "plot", "understand", "codec"]),
    ("Serve", &["serve", "work", "jobs"]),
    ("Models", &["model", "adapter", "train"]),
    ("This machine", &["doctor", "config", "warmup", "completions", "man"]),
    ("Proof and speed", &["verify", "bench", "check"]),
];

/// Returns the template of the main help: commands in groups.
fn template(command: &clap::Command) -> String {
    let mut text = "{about-with-newline}\n{usage-heading} {usage}\n".to_owned();
    for (title, names) in GROUPS {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n{title}:\n");
        for name in names {
            let about = command.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {name:<12} {about}");
        }
    }
    text + "\nOptions:\n{options}{after-help}"
}

/// Reads `--color` before parsing, because help and usage errors are printed earlier.
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
    let lines = EXIT_CODES.map(|(code, meaning)| format!("  {code:>3}  {meaning}"));
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
    fn every_command_is_in_one_group() {
        let command = Cli::command();
        let mut known: Vec<_> = command.get_subcommands().map(clap::Command::get_name).collect();
        let mut grouped: Vec<_> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        known.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(known, grouped);
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

    /// Scripts of users contain these names: a removed line breaks them.
    #[test]
    fn every_flag_keeps_its_names() {
        fn list(command: &clap::Command, typed: &str, lines: &mut Vec<String>) {
            for arg in command.get_arguments() {
                let Some(long) = arg.get_long() else { continue };
                let mut others = arg.get_all_aliases().unwrap_or_default();
                others.sort_unstable();
                let short = arg.get_short().map(|short| format!(" -{short}")).unwrap_or_default();
                let others: String = others.iter().map(|name| format!(" --{name}")).collect();
                lines.push(format!("{typed} --{long}{short}{others}"));
            }
            command.get_subcommands().for_each(|below| {
                list(below, &format!("{typed} {}", below.get_name()), lines);
            });
        }
        let mut lines = Vec::new();
        list(&command(), "acestep", &mut lines);
        lines.sort_unstable();
        insta::assert_snapshot!(lines.join("\n"));
    }
}
