//! The requests of one run: flags for each, and distinct output files.

use std::{collections::HashSet, ffi::OsStr, path::PathBuf};

use anyhow::Result;
use serde_json::Value;

use super::{Args, SongTask};
use crate::{
    commands::target::{check_distinct, is_stdout},
    error::CliError,
};

/// The flags of each request.
pub(super) struct Requests {
    pub(super) args: Vec<Args>,
}

impl Requests {
    /// Splits the flags of the command line: one set for each request file.
    pub(super) fn of(args: &Args) -> Result<Self, CliError> {
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
                    let message =
                        format!("`{flag}` is for one request, but there are {}", files.len());
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
        let all = match files.is_empty() {
            true => vec![one(None)],
            false => files.iter().map(|file| one(Some(file))).collect(),
        };
        Ok(Self { args: all })
    }

    /// Returns the result of `work` for each of `items`, one per request. An error names the
    /// request's file, if there are several.
    pub(super) fn each<'a, T, R>(
        &self,
        items: &'a [T],
        work: impl Fn(&'a T) -> Result<R>,
    ) -> Result<Vec<R>> {
        let named = |error: anyhow::Error, args: &Args| match args.song.words.request.first() {
            Some(path) if self.args.len() > 1 => error.context(format!("in `{}`", path.display())),
            _ => error,
        };
        let pairs = items.iter().zip(&self.args);
        pairs.map(|(item, args)| work(item).map_err(|error| named(error, args))).collect()
    }

    /// Refuses two outputs with the same path, and outputs that would overwrite requests.
    pub(super) fn check_outputs(&self, songs: &[SongTask]) -> Result<(), CliError> {
        let files = self.args.iter().flat_map(|args| &args.song.words.request);
        let requests: Vec<_> = files.filter_map(|path| path.canonicalize().ok()).collect();
        let outputs = || {
            let places = songs.iter().map(|song| &song.places);
            places.flat_map(|places| places.outputs.all().chain(places.extras.all()))
        };
        let mut names = HashSet::new();
        let is_new = |file: &PathBuf| names.insert(file.file_stem().map(OsStr::to_owned));
        let hint = match self.args.iter().flat_map(|args| &args.song.words.request).all(is_new) {
            true => "put {name} into the name of each output",
            false => "two requests have one name: rename a file, or run it once for each",
        };
        check_distinct(outputs(), hint)?;
        for path in outputs() {
            if path.canonicalize().is_ok_and(|path| requests.contains(&path)) {
                let message = format!("`{}` is a request, and would be replaced", path.display());
                let hint = "choose another --output, e.g. {name}-song.wav";
                return Err(CliError::usage(message).hint(hint));
            }
        }
        Ok(())
    }
}

/// Returns the object of a single request, or the list of all objects.
pub(super) fn one_or_all(mut objects: Vec<Value>, requests: usize) -> Value {
    if requests < 2 && objects.len() == 1 { objects.remove(0) } else { objects.into() }
}
