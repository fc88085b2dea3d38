//! `acestep model`: download, inspect and delete the released models.

mod bar;
mod list;
mod offer;
mod pull;
mod quantize;
mod remove;
mod show;
mod verify;

use std::process::ExitCode;

use acestep_engine::nearest;
use acestep_import::{Release, all_built_in, hub::Hub};
use anyhow::Result;

use crate::{
    args::{Global, model::Command},
    error::CliError,
    hint::command_of,
    settings,
};

pub(crate) use offer::offer;

pub(crate) fn run(command: &Command, global: &Global) -> Result<ExitCode> {
    let report = global.report();
    match command {
        Command::List { json } => list::run(*json, &report)?,
        Command::Pull { names, revision, dry_run } => {
            pull::run(names, revision.as_deref(), *dry_run, &report)?;
        }
        Command::Show { name, json } => show::run(name, *json)?,
        Command::Verify { names, json } => return verify::run(names, *json, &report),
        Command::Quantize { names } => quantize::run(names, &report)?,
        Command::Remove { names } => remove::run(names, &report)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the models of these names, each once. `nothing` is the action that is impossible for a
/// built-in model, such as "to fetch".
fn named(names: &[String], nothing: &str) -> Result<Vec<&'static Release>, CliError> {
    let mut models: Vec<&Release> = Vec::new();
    for name in names {
        let model = find(name, nothing)?;
        if !models.contains(&model) {
            models.push(model);
        }
    }
    Ok(models)
}

fn find(name: &str, nothing: &str) -> Result<&'static Release, CliError> {
    if let Some(model) = Release::named(name) {
        return Ok(model);
    }
    if all_built_in().any(|own| own.0 == name) {
        let hint = format!("`acestep {} --model {name}` uses it", command_of(name));
        let what = format!("`{name}` is part of the program: there is nothing {nothing}");
        return Err(CliError::usage(what).hint(hint));
    }
    let names: Vec<_> = Release::all().map(|model| model.name).collect();
    let hint = match nearest(name, names.iter().copied()) {
        Some(near) => format!("did you mean `{near}`? `acestep model list` has all"),
        None => format!("it is one of {}", names.join(", ")),
    };
    Err(CliError::usage(format!("no model is called `{name}`")).hint(hint))
}

/// Returns the cache of the hub.
fn hub() -> Result<Hub, CliError> {
    settings::hub().ok_or_else(|| {
        CliError::new("there is no home directory to keep models in")
            .hint("name one with HF_HOME, and with ACESTEP_MODELS_DIR")
    })
}
