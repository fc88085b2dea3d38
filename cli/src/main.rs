//! `acestep`: make music on your own machine.
//!
//! | module | what |
//! |---|---|
//! | `args` | what can be typed, and what the help says |
//! | `commands` | one file or folder for each verb |
//! | `report` | the only writer to standard output and standard error |
//! | `progress` | what a run shows while it works |
//! | `interrupt` | Ctrl-C |
//! | `error` | `error` / `cause` / `hint`, and the exit codes |
//! | `settings` | what comes from the environment |

// The descriptions of a run are large JSON literals.
#![recursion_limit = "256"]

mod args;
mod commands;
mod error;
mod interrupt;
mod progress;
mod report;
mod settings;

use std::process::ExitCode;

use args::Command;

fn main() -> ExitCode {
    error::install_panic_hook();
    let cli = match args::parse() {
        Ok(cli) => cli,
        Err(code) => return code,
    };
    let report = cli.global.report();
    interrupt::install(&report);
    let result = match cli.command {
        Command::Generate(args) => commands::generate::run(*args, &cli.global),
        Command::Plan(args) => commands::plan::plan(&args, &cli.global),
        Command::Inspire(args) => commands::plan::inspire(&args, &cli.global),
        Command::Format(args) => commands::plan::format(&args, &cli.global),
        Command::Understand(args) => commands::understand::run(&args, &cli.global),
        Command::Adapter(args) => commands::adapter::run(&args, &cli.global),
        Command::Plot(args) => commands::plot::run(&args, &cli.global),
        Command::Codec(args) => commands::codec::run(&args, &cli.global),
        Command::Verify(args) => commands::verify::run(args, &cli.global),
        Command::Bench(args) => commands::bench::run(args, &cli.global),
        Command::Doctor(args) => commands::doctor::run(&args, &cli.global),
        Command::Warmup(args) => commands::warmup::run(&args, &cli.global),
        Command::Check(args) => commands::check::run(*args, &cli.global),
    };
    result.unwrap_or_else(|error| report.failure(&error))
}
