//! Paths of the extra files of a song.

use std::path::{Path, PathBuf};

use acestep_engine::files::{Existing, check_target};
use acestep_session::outputs::{check_picture, names};
use anyhow::Result;

use super::super::outputs::Outputs;
use crate::{
    args::after::After as Flags,
    commands::target::{Target, check_distinct, is_stdout},
    error::CliError,
};

/// Names that the songs already use.
pub(in super::super) struct Named<'a> {
    pub(in super::super) outputs: &'a Outputs,
    /// The seeds, if they have an effect.
    pub(in super::super) seeds: Option<&'a [u64]>,
    pub(in super::super) existing: Existing,
}

/// Extra files: one per song, or none.
#[derive(Debug)]
pub(in super::super) struct Files {
    /// Times of the lines, as LRC.
    lrc: Vec<PathBuf>,
    /// Times of the lines, as WebVTT.
    vtt: Vec<PathBuf>,
    /// Pictures of the sound.
    plot: Vec<PathBuf>,
}

impl Files {
    /// Names the files.
    pub(in super::super) fn decide(flags: &Flags, named: &Named<'_>) -> Result<Self> {
        let Named { outputs, existing, .. } = named;
        let picture = flags.output_plot.as_deref();
        if let Some(path) = picture.filter(|path| !is_stdout(path)) {
            check_picture("output_plot", path)?;
        }
        let files = Self {
            lrc: of(flags.lrc, flags.output_lrc.as_deref(), "lrc", named)?,
            vtt: of(false, flags.output_vtt.as_deref(), "vtt", named)?,
            plot: of(flags.plot, picture, "png", named)?,
        };
        let all = outputs.all().chain(files.all());
        check_distinct(all, "give each file a name of its own")?;
        files.all().try_for_each(|path| check_target(path, *existing))?;
        Ok(files)
    }

    /// Returns all files.
    pub(in super::super) fn all(&self) -> impl Iterator<Item = &Path> {
        [&self.lrc, &self.vtt, &self.plot].into_iter().flatten().map(PathBuf::as_path)
    }

    /// Returns the files of a song, each with its kind.
    pub(super) fn of_song(&self, index: usize) -> impl Iterator<Item = (&'static str, &PathBuf)> {
        let all = [("lrc", &self.lrc), ("vtt", &self.vtt), ("plot", &self.plot)];
        all.into_iter().filter_map(move |(kind, paths)| Some((kind, paths.get(index)?)))
    }
}

/// Returns the paths of `template`, or paths beside the songs if `beside`.
fn of(
    beside: bool,
    template: Option<&Path>,
    extension: &str,
    named: &Named<'_>,
) -> Result<Vec<PathBuf>> {
    let songs = &named.outputs.songs;
    if let Some(template) = template {
        if is_stdout(template) {
            let message = format!("only a song goes to standard output, not its .{extension}");
            return Err(CliError::usage(message).hint("name a file").into());
        }
        return Ok(names(template, songs.len(), named.seeds)?.paths);
    }
    if !beside {
        return Ok(vec![]);
    }
    let path = |target: &Target| match target {
        Target::File(path) => Ok(path.with_extension(extension)),
        Target::Stdout => {
            let flag = if extension == "png" { "plot" } else { "lrc" };
            let message = format!("`--{flag}` writes beside the song, which has no place");
            Err(CliError::usage(message).hint(format!("name a file with --output-{flag}")).into())
        }
    };
    songs.iter().map(path).collect()
}
