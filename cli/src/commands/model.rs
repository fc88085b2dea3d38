//! `acestep model`: download, inspect and delete the released models.

mod bar;
mod list;
mod offer;
mod pull;
mod remove;
mod show;
mod verify;

use std::{io, path::Path, process::ExitCode};

use acestep_engine::nearest;
use acestep_import::{
    Error, Layout, Release, SPEECH_MODELS,
    acestep::{COMPANIONS, LANGUAGE_MODELS, MODELS},
    built_in,
    hub::{Hub, State},
};
use anyhow::Result;

use crate::{
    args::{
        Global,
        model::{Args, Command},
    },
    error::CliError,
    settings,
};

pub(crate) use offer::offer;

/// Runs the command.
pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let report = global.report();
    match &args.command {
        Command::List(args) => list::run(args, &report),
        Command::Pull(args) => pull::run(args, &report),
        Command::Show(args) => show::run(args, &report),
        Command::Verify(args) => verify::run(args, &report),
        Command::Remove(args) => remove::run(args, global),
    }
}

/// Returns every model with a name, in the order of the list.
fn all() -> impl Iterator<Item = &'static Release> {
    MODELS.iter().chain(&LANGUAGE_MODELS).chain(&COMPANIONS).chain(&SPEECH_MODELS)
}

/// Returns the models of these names, each once. `nothing` is the action that is impossible for a
/// built-in model, such as "to fetch".
///
/// # Errors
/// The first unknown name, with the most similar known one.
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
    let is_it = |model: &&Release| {
        let size = model.name.strip_prefix("lm-");
        [Some(model.name), size, Some(model.directory), Some(model.repo)]
            .into_iter()
            .flatten()
            .any(|own| own.eq_ignore_ascii_case(name))
    };
    if let Some(model) = all().find(is_it) {
        return Ok(model);
    }
    if let Some(model) = built_in(name) {
        let hint = format!("`--model {0}` and `--lm-model {0}` use it", model.name);
        let what = format!("`{}` is part of the program: there is nothing {nothing}", model.name);
        return Err(CliError::usage(what).hint(hint));
    }
    let names: Vec<_> = all().map(|model| model.name).collect();
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

/// Installation state of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Here {
    No,
    /// A file of the model, or a model that it needs, is missing.
    Part,
    Yes,
}

/// Returns the state of `model` and its missing files or companion models.
fn here(model: &Release, layout: &Layout, hub: Option<&Hub>) -> (Here, Vec<String>) {
    if let (Some(State::Broken(_, files)), None) =
        (hub.map(|hub| hub.state(model)), layout.own(model))
    {
        return (Here::Part, files);
    }
    if !layout.has(model) {
        let begun = model.prefix.is_empty() && hub.is_some_and(|hub| hub.begun(model.repo) > 0);
        return (if begun { Here::Part } else { Here::No }, vec![]);
    }
    if !MODELS.contains(model) {
        return (Here::Yes, vec![]);
    }
    // Resolve it the same way as a song does.
    match layout.resolve(model.name) {
        Err(Error::Absent { known: Some(lacked), .. }) => {
            (Here::Part, vec![lacked.name.to_owned()])
        }
        Ok(_) | Err(_) => (Here::Yes, vec![]),
    }
}

/// Returns the approximate size of the missing parts of `model`; only the hub knows the exact size.
fn to_fetch(model: &'static Release, layout: &Layout) -> u64 {
    let is_here = |own: &Release| {
        layout.own(own).is_some() || layout.hub().is_some_and(|hub| hub.find(own).is_some())
    };
    let missing = model.with_needs().filter(|own| !is_here(own));
    missing.map(|own| (f64::from(own.gigabytes) * 1e9) as u64).sum()
}

/// Returns the files in `directory` with their sizes; links are followed.
fn files(directory: &Path) -> io::Result<Vec<(String, u64)>> {
    if directory.is_file() {
        let name = directory.file_name().unwrap_or_default().to_string_lossy().into_owned();
        return Ok(vec![(name, directory.metadata()?.len())]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_file() {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            files.push((name, path.metadata()?.len()));
        }
    }
    files.sort();
    Ok(files)
}
