//! `acestep`: make music and speech on your own machine.
//!
//! | module | contents |
//! |---|---|
//! | `command_line` | the commands, their help, and the parser |
//! | `args` | the flags of each command |
//! | `commands` | one file or folder for each verb |
//! | `report` | the only writer to standard output and standard error |
//! | `progress` | the progress display of a run |
//! | `interrupt` | Ctrl-C |
//! | `error`, `cli_error`, `exit` | `error` / `cause` / `hint`, and the exit codes |
//! | `fields`, `hint` | flags in place of the libraries' fields, and remedies |
//! | `settings`, `environment` | values from the configuration and the environment |
//! | `version` | version and build information |

mod args;
mod cli_error;
mod command_line;
mod commands;
mod environment;
mod error;
mod exit;
mod fields;
mod hint;
mod interrupt;
mod progress;
mod report;
mod settings;
mod version;

use std::process::ExitCode;

use args::train::What;
use command_line::{Cli, Command};

fn main() -> ExitCode {
    error::with_bug_report(|| serve().unwrap_or_else(|code| code))
}

/// Parses the command line and runs the command.
///
/// # Errors
/// The exit code, if the command does not run.
fn serve() -> Result<ExitCode, ExitCode> {
    fields::set_up(command_line::command);
    let mut cli = command_line::parse(None)?;
    if cli.command.is_configured() {
        let global = &cli.global;
        let read = settings::read(global.flags())
            .map_err(|error| global.report_before_settings().failure(&error.into()))?;
        if command_line::defaults::changes_any(&read) {
            cli = command_line::parse(Some(&read))?;
        }
        settings::set_up(read);
        #[cfg(feature = "cpu")]
        settings::lower_cpu_level();
    }
    let report = cli.global.report();
    settings::loaded().unknown_variables.iter().for_each(|text| report.note(text));
    interrupt::install(&report);
    if cli.command.uses_models() {
        tell_of_pins(&report);
    }
    let mut result = run(&cli);
    // At most four models can be missing: the model, two that it shares with others, and the
    // language model.
    for _ in 0..4 {
        let Err(error) = &result else { break };
        match commands::model::offer(error, &report) {
            Ok(true) => result = run(&cli),
            Ok(false) => break,
            Err(error) => result = Err(error),
        }
    }
    Ok(result.unwrap_or_else(|error| report.failure(&error)))
}

/// Tells which models are used in another version than the pulled one.
fn tell_of_pins(report: &report::Report) {
    match settings::layout().displaced() {
        Ok(models) if models.is_empty() => (),
        Ok(models) => {
            let names: Vec<_> = models.iter().map(|model| model.name).collect();
            let (all, pull) = (names.join(", "), names.join(" "));
            report.note(&format!("another version of {all} is used, because the pulled one is gone from the cache; `acestep model pull {pull}` pulls again"));
        }
        Err(error) => report.note(&format!(
            "the list of pulled models cannot be read, so any version in the cache is used: {error}"
        )),
    }
}

fn run(cli: &Cli) -> anyhow::Result<ExitCode> {
    let global = &cli.global;
    match &cli.command {
        Command::Generate(args) => return commands::generate::run((**args).clone(), global),
        Command::Speak(args) => commands::speak::run(args, global)?,
        Command::Voice(args) => commands::voice::run(args, global)?,
        Command::Plan(args) => commands::plan::plan(args, global)?,
        Command::Inspire(args) => commands::plan::inspire(args, global)?,
        Command::Format(args) => commands::plan::format(args, global)?,
        Command::Understand(args) => commands::understand::run(args, global)?,
        Command::Serve(args) => commands::serve::run(args, global)?,
        Command::Work(args) => commands::work::run(args, global)?,
        Command::Jobs(args) => commands::jobs::run(args, global)?,
        Command::Model(args) => return commands::model::run(args, global),
        Command::Adapter(args) => commands::adapter::run(args, global)?,
        Command::Play(args) => commands::play::run(args, global)?,
        Command::Plot(args) => commands::plot::run(args, global)?,
        Command::Codec(args) => commands::codec::run(args, global)?,
        Command::Train(What::Lora(args)) => commands::train::lora(args, &global.report())?,
        Command::Verify(args) => return commands::verify::run(args.clone(), global),
        Command::Bench(args) => commands::bench::run(args.clone(), global)?,
        Command::Doctor(args) => return commands::doctor::run(args, global),
        Command::Warmup(args) => commands::warmup::run(args, global)?,
        Command::Config(args) => commands::config::run(args, global)?,
        Command::Completions(args) => commands::shell::completions(args, command_line::command())?,
        Command::Man(args) => commands::shell::man(args, global, command_line::command())?,
        Command::Check(args) => return commands::check::run((**args).clone(), global),
    }
    Ok(ExitCode::SUCCESS)
}
