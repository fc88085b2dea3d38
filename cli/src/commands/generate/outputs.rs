//! Output files of the songs, decided and checked before any work.

use std::path::{Path, PathBuf};

use acestep_engine::{
    Error,
    audio::format::Format,
    files::{Existing, check_target},
};
use acestep_music::latents;
use anyhow::Result;

use crate::{
    args::generate::Output,
    commands::{
        formats::{is_stdout, latents_format},
        target::{Target, check_distinct, numbered},
        text::{check_new_folder, is_absent},
    },
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
    pub(super) latents: Option<(Vec<PathBuf>, latents::Format)>,
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
                latents_format("output-latents", None, path)?,
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
        let hint =
            format!("put {{index}} into --output, and let it end in .{}", format.extension());
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

/// Refuses a conditioning folder that could not be written; it may not exist yet.
pub(super) fn check_conditioning(folder: &Path, existing: Existing) -> Result<(), Error> {
    if is_absent(folder) {
        return check_new_folder(folder);
    }
    for name in ["encoder_hidden_states.bin", "context_latents.bin", "initial_noise.bin"] {
        check_target(&folder.join(name), existing)?;
    }
    check_target(&folder.join("conditioning.safetensors"), existing)
}

/// A path for each song.
pub(super) struct Names {
    pub(super) paths: Vec<PathBuf>,
    /// True if `_1`, `_2` were added.
    are_numbered: bool,
}

/// Fills in `{seed}` and `{index}` (from 1); several songs without either are numbered.
pub(super) fn names(
    template: &Path,
    count: usize,
    seeds: Option<&[u64]>,
) -> Result<Names, CliError> {
    let all_numbered = || Names { paths: numbered(template, count), are_numbered: count > 1 };
    let Some(text) = template.to_str() else {
        // A path that is not UTF-8 is taken without placeholders.
        return Ok(all_numbered());
    };
    check_placeholders(text)?;
    if !text.contains("{seed}") && !text.contains("{index}") {
        return Ok(all_numbered());
    }
    if text.contains("{seed}") && seeds.is_none() {
        let message = format!("`--output {text}` has a seed, but the noise is from a file");
        return Err(CliError::usage(message).hint("leave {seed} out, or put {index} in its place"));
    }
    let fill = |i: usize| {
        let text = text.replace("{index}", &(i + 1).to_string());
        let seed = seeds.map_or_else(String::new, |seeds| seeds[i].to_string());
        PathBuf::from(text.replace("{seed}", &seed))
    };
    Ok(Names { paths: (0..count).map(fill).collect(), are_numbered: false })
}

fn check_placeholders(text: &str) -> Result<(), CliError> {
    for rest in text.split('{').skip(1) {
        let Some((name, _)) = rest.split_once('}') else { continue };
        if !["seed", "index"].contains(&name) {
            return Err(CliError::usage(format!("`--output {text}` has an unknown `{{{name}}}`"))
                .hint("{seed} and {index} are filled in"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(template: &str, seeds: &[u64]) -> Vec<String> {
        let names = names(Path::new(template), seeds.len(), Some(seeds)).expect("names");
        names.paths.iter().map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn several_songs_are_numbered_before_the_extension() {
        assert_eq!(paths("a.b/c.d.wav", &[7, 8]), ["a.b/c.d_1.wav", "a.b/c.d_2.wav"]);
        assert_eq!(paths("song", &[7, 8]), ["song_1", "song_2"]);
    }

    #[test]
    fn a_seed_that_decides_nothing_is_in_no_name() {
        let output = |template: &str, songs| {
            names(Path::new(template), songs, None).map(|names| names.paths)
        };
        assert_eq!(output("{index}.wav", 2).expect("names"), ["1.wav", "2.wav"].map(PathBuf::from));
        assert!(output("{seed}.wav", 1).is_err());
    }
}
