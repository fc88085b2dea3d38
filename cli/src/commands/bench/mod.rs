//! `acestep bench`.

use std::process::ExitCode;

use crate::{args::Global, error::Refusal};

/// The flags of `bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

/// Runs the command.
pub(crate) fn run(_args: Args, _global: &Global) -> anyhow::Result<ExitCode> {
    Err(Refusal::new("`bench` is not in this version").into())
}
