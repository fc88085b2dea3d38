//! The requests of one run: flags for each, and distinct output files.

use std::{collections::HashSet, path::PathBuf};

use serde_json::Value;

use super::{Args, Job, outputs::is_stdout};
use crate::error::CliError;

/// Returns one set of flags for each request file.
///
/// # Errors
/// Flags that only work with one request.
pub(super) fn of(args: &Args) -> Result<Vec<Args>, CliError> {
    let files = &args.song.words.request;
    if let [_, _, ..] = &files[..] {
        let sampling = &args.sampling;
        let reads_stdin = |text: Option<&str>| text == Some("@-");
        let texts = [args.song.words.lyrics.as_deref(), args.song.audio_codes.as_deref()];
        for (flag, is_given) in [
            ("@-", texts.into_iter().any(reads_stdin)),
            ("--flow-edit-source-lyrics @-", reads_stdin(sampling.sampler.source_lyrics())),
            ("--conditioning", sampling.conditioning.is_some()),
            ("--dump-conditioning", sampling.dump_conditioning.is_some()),
            ("--output -", args.output.output.as_deref().is_some_and(is_stdout)),
        ] {
            if is_given {
                let message = format!("`{flag}` is for one request, but there are {}", files.len());
                return Err(CliError::usage(message).hint("run it once for each"));
            }
        }
    }
    let one = |file: Option<&PathBuf>| {
        let mut args = args.clone();
        args.song.words.request = file.into_iter().cloned().collect();
        let name = file.and_then(|file| file.file_stem()).and_then(|stem| stem.to_str());
        let name = name.filter(|&name| name != "-").unwrap_or("song");
        if files.len() > 1 {
            args.output.stem = Some(name.to_owned());
        }
        args.output.template.clone_from(&args.output.output);
        let after = &mut args.after;
        for template in [
            &mut args.output.output,
            &mut args.output.output_latents,
            &mut after.output_lrc,
            &mut after.output_vtt,
            &mut after.output_plot,
        ] {
            if let Some(text) = template.as_ref().and_then(|path| path.to_str()) {
                *template = Some(text.replace("{name}", name).into());
            }
        }
        args
    };
    if files.is_empty() {
        return Ok(vec![one(None)]);
    }
    Ok(files.iter().map(|file| one(Some(file))).collect())
}

/// Adds the request's file name to an error, if there are several requests.
pub(super) fn named(error: anyhow::Error, args: &Args, all: &[Args]) -> anyhow::Error {
    match args.song.words.request.first() {
        Some(path) if all.len() > 1 => error.context(format!("in `{}`", path.display())),
        _ => error,
    }
}

/// Refuses two outputs with the same path, and outputs that would overwrite requests.
///
/// # Errors
/// The conflicting file.
pub(super) fn check(jobs: &[Job], args: &Args) -> Result<(), CliError> {
    let files = &args.song.words.request;
    let requests: Vec<_> = files.iter().filter_map(|path| path.canonicalize().ok()).collect();
    let mut seen = HashSet::new();
    for path in jobs.iter().flat_map(|job| job.outputs.all().chain(job.after.all())) {
        if !seen.insert(path) {
            let message = format!("`{}` would be written twice", path.display());
            return Err(CliError::usage(message).hint("put {name} into --output"));
        }
        if path.canonicalize().is_ok_and(|path| requests.contains(&path)) {
            let message = format!("`{}` is a request, and would be replaced", path.display());
            return Err(
                CliError::usage(message).hint("choose another --output, e.g. {name}-song.wav")
            );
        }
    }
    Ok(())
}

/// Returns the object of a single request, or the list of all objects.
pub(super) fn one_or_all(mut objects: Vec<Value>, requests: usize) -> Value {
    if requests < 2 && objects.len() == 1 { objects.remove(0) } else { objects.into() }
}
