//! Output files of the songs, decided and checked before any work.

use std::path::{Path, PathBuf};

use acestep_engine::{
    Error,
    audio::format::Format,
    files::{Existing, check_target},
};
use acestep_music::latents;
use acestep_session::outputs::{latents_format, names};
use anyhow::Result;

use crate::{
    args::generate::Output,
    commands::target::{Target, check_distinct, is_stdout},
    error::CliError,
};

/// Name of a song without `--output` and without extension; different seeds give different names.
const DEFAULT: &str = "song-{seed}";
/// Default name if no seed has an effect.
const DEFAULT_WITHOUT_SEED: &str = "song";

/// All files that will be written.
#[derive(Debug)]
pub(super) struct Outputs {
    /// One for each song.
    pub(super) songs: Vec<Target>,
    /// Files and format of the latents, if they are kept.
    pub(super) latents: Option<(Vec<PathBuf>, latents::LatentsFormat)>,
    /// File of the request, if it is saved.
    pub(super) request: Option<PathBuf>,
}

impl Outputs {
    /// Names the files of `count` songs in `format`, with their `seeds` if these have an effect.
    pub(super) fn decide(
        output: &Output,
        format: Format,
        count: usize,
        seeds: Option<&[u64]>,
    ) -> Result<Self> {
        let stem = if seeds.is_some() { DEFAULT } else { DEFAULT_WITHOUT_SEED };
        let stem = output.stem.as_deref().unwrap_or(stem);
        let default = format!("{stem}.{}", format.extension());
        let template = output.output.as_deref().unwrap_or(Path::new(&default));
        let latents = match &output.output_latents {
            Some(path) => Some((
                names(path, count, seeds)?.paths,
                latents_format("output_latents", None, path)?,
            )),
            None => None,
        };
        if is_stdout(template) {
            if count > 1 {
                let message = format!("{count} songs cannot share standard output");
                return Err(CliError::usage(message).hint("name a file with --output").into());
            }
            return Ok(Self { songs: vec![Target::Stdout], latents, request: None });
        }
        let names = names(template, count, seeds)?;
        // One request makes all songs, so its file has their common name.
        let request = output.save_request.then(|| match names.are_numbered {
            true => template.with_extension("json"),
            false => names.paths[0].with_extension("json"),
        });
        let songs = names.paths.into_iter().map(Target::File).collect();
        let this = Self { songs, latents, request };
        let ending = format.extension();
        let hint = format!("put {{index}} into each name, and let the song's end in .{ending}");
        check_distinct(this.all(), &hint)?;
        Ok(this)
    }

    /// Returns every file.
    pub(super) fn all(&self) -> impl Iterator<Item = &Path> {
        self.files().chain(self.request.iter().chain(self.latents()).map(PathBuf::as_path))
    }

    /// Returns the files of the latents.
    pub(super) fn latents(&self) -> impl Iterator<Item = &PathBuf> {
        self.latents.iter().flat_map(|(paths, _)| paths)
    }

    /// Returns the files of the songs.
    pub(super) fn files(&self) -> impl Iterator<Item = &Path> {
        self.songs.iter().filter_map(Target::file)
    }

    /// Refuses files that could not be written.
    pub(super) fn check(&self, existing: Existing) -> Result<(), Error> {
        self.all().try_for_each(|path| check_target(path, existing))
    }
}
