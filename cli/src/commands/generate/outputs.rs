//! Where each song goes, decided and checked before any work.

use std::{
    collections::HashSet,
    fmt,
    path::{Path, PathBuf},
};

use acestep_runtime::{
    Error,
    files::{Existing, check_target},
};
use anyhow::Result;

use crate::{
    args::generate::Output,
    commands::text::{check_new_folder, is_absent},
    error::Refusal,
};

/// The name of a song without `--output`: two seeds never meet.
const DEFAULT: &str = "song-{seed}.wav";
/// The same if no seed decides anything.
const DEFAULT_WITHOUT_SEED: &str = "song.wav";

/// What cannot be written, by its usual extension.
const OTHER_FORMATS: [&str; 9] =
    ["mp3", "flac", "ogg", "opus", "m4a", "aac", "wma", "aiff", "webm"];

/// Where a song goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    File(PathBuf),
    Stdout,
}

impl Target {
    /// What a picture of the song is called.
    pub(super) fn title(&self) -> String {
        match self {
            Self::File(path) => {
                path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into())
            }
            Self::Stdout => "song".to_owned(),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Stdout => f.write_str("-"),
        }
    }
}

/// Everything that will be written.
#[derive(Debug)]
pub(super) struct Outputs {
    /// One for each song.
    pub(super) songs: Vec<Target>,
    /// The request, if it is saved.
    pub(super) request: Option<PathBuf>,
    /// Whether standard output carries JSON.
    pub(super) json: bool,
}

/// Whether `path` means standard output.
pub(super) fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

impl Outputs {
    /// Names the files of `count` songs, and of their `seeds` if those decide anything.
    pub(super) fn decide(output: &Output, count: usize, seeds: Option<&[u64]>) -> Result<Self> {
        let of_request = output.stem.as_ref().map(|stem| format!("{stem}.wav"));
        let default = if seeds.is_some() { DEFAULT } else { DEFAULT_WITHOUT_SEED };
        let default = of_request.as_deref().unwrap_or(default);
        let template = output.output.as_deref().unwrap_or(Path::new(default));
        let json = output.json;
        if is_stdout(template) {
            if count > 1 {
                let message = format!("{count} songs cannot share standard output");
                return Err(Refusal::usage(message).hint("name a file with --output").into());
            }
            return Ok(Self { songs: vec![Target::Stdout], request: None, json });
        }
        check_extension(template)?;
        let names = names(template, count, seeds)?;
        // One request makes all songs: it bears the name that they share.
        let request = output.save_request.then(|| match names.numbered {
            true => template.with_extension("json"),
            false => names.paths[0].with_extension("json"),
        });
        let mut seen = HashSet::new();
        for path in names.paths.iter().chain(&request) {
            if !seen.insert(path) {
                let message = format!("`{}` would be written twice", path.display());
                return Err(Refusal::usage(message)
                    .hint("put {index} into --output, and let it end in .wav")
                    .into());
            }
        }
        Ok(Self { songs: names.paths.into_iter().map(Target::File).collect(), request, json })
    }

    /// The songs' files.
    pub(super) fn files(&self) -> impl Iterator<Item = &Path> {
        self.songs.iter().filter_map(|target| match target {
            Target::File(path) => Some(path.as_path()),
            Target::Stdout => None,
        })
    }

    /// Refuses what could not be written.
    ///
    /// # Errors
    /// Those of [`check_target`].
    pub(super) fn check(&self, existing: Existing) -> Result<(), Error> {
        for target in &self.songs {
            if let Target::File(path) = target {
                check_target(path, existing)?;
            }
        }
        self.request.iter().try_for_each(|path| check_target(path, existing))
    }
}

/// Refuses a folder that conditioning could not be written to; it may not exist yet.
///
/// # Errors
/// Those of [`check_target`].
pub(super) fn check_conditioning(folder: &Path, existing: Existing) -> Result<(), Error> {
    if is_absent(folder) {
        return check_new_folder(folder);
    }
    for name in ["encoder_hidden_states.bin", "context_latents.bin", "initial_noise.bin"] {
        check_target(&folder.join(name), existing)?;
    }
    check_target(&folder.join("conditioning.safetensors"), existing)
}

fn check_extension(path: &Path) -> Result<(), Refusal> {
    let extension = path.extension().map(|e| e.to_string_lossy().to_lowercase());
    match extension {
        Some(other) if OTHER_FORMATS.contains(&other.as_str()) => {
            let message = format!("this version writes WAV only, not `{}`", path.display());
            let instead = path.with_extension("wav");
            Err(Refusal::usage(message).hint(format!("name it `{}`", instead.display())))
        }
        _ => Ok(()),
    }
}

/// A path for each seed.
pub(super) struct Names {
    pub(super) paths: Vec<PathBuf>,
    /// Whether `_1`, `_2` were added.
    numbered: bool,
}

/// Fills `{seed}` and `{index}` (from 1) in; several songs without either are numbered.
pub(super) fn names(
    template: &Path,
    count: usize,
    seeds: Option<&[u64]>,
) -> Result<Names, Refusal> {
    let Some(text) = template.to_str() else {
        // Not text, so it has no placeholders that were meant.
        return Ok(numbered(template, count));
    };
    check_placeholders(text)?;
    if !text.contains("{seed}") && !text.contains("{index}") {
        return Ok(numbered(template, count));
    }
    if text.contains("{seed}") && seeds.is_none() {
        let message = format!("`--output {text}` has a seed, but the noise is from a file");
        return Err(Refusal::usage(message).hint("leave {seed} out, or put {index} in its place"));
    }
    let fill = |i: usize| {
        let text = text.replace("{index}", &(i + 1).to_string());
        let seed = seeds.map_or_else(String::new, |seeds| seeds[i].to_string());
        PathBuf::from(text.replace("{seed}", &seed))
    };
    Ok(Names { paths: (0..count).map(fill).collect(), numbered: false })
}

fn numbered(template: &Path, songs: usize) -> Names {
    if songs == 1 {
        return Names { paths: vec![template.to_owned()], numbered: false };
    }
    let number = |i: usize| {
        let mut name = template.file_stem().unwrap_or_default().to_owned();
        name.push(format!("_{i}"));
        if let Some(extension) = template.extension() {
            name.push(".");
            name.push(extension);
        }
        template.with_file_name(name)
    };
    Names { paths: (1..=songs).map(number).collect(), numbered: true }
}

fn check_placeholders(text: &str) -> Result<(), Refusal> {
    for rest in text.split('{').skip(1) {
        let Some((name, _)) = rest.split_once('}') else { continue };
        if !["seed", "index"].contains(&name) {
            return Err(Refusal::usage(format!("`--output {text}` has an unknown `{{{name}}}`"))
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
    fn one_song_has_the_name_that_was_typed() {
        assert_eq!(paths("a/b.wav", &[7]), ["a/b.wav"]);
    }

    #[test]
    fn several_songs_are_numbered_before_the_extension() {
        assert_eq!(paths("a.b/c.d.wav", &[7, 8]), ["a.b/c.d_1.wav", "a.b/c.d_2.wav"]);
        assert_eq!(paths("song", &[7, 8]), ["song_1", "song_2"]);
    }

    #[test]
    fn placeholders_are_filled_in() {
        assert_eq!(paths(DEFAULT, &[7, 9]), ["song-7.wav", "song-9.wav"]);
        assert_eq!(paths("{index}/{seed}.wav", &[7, 9]), ["1/7.wav", "2/9.wav"]);
    }

    #[test]
    fn a_seed_that_decides_nothing_is_in_no_name() {
        let output = |template: &str, songs| {
            names(Path::new(template), songs, None).map(|names| names.paths)
        };
        assert_eq!(output("{index}.wav", 2).expect("names"), ["1.wav", "2.wav"].map(PathBuf::from));
        assert!(output("{seed}.wav", 1).is_err());
    }

    #[test]
    fn an_unknown_placeholder_is_refused() {
        let error = check_placeholders("{bpm}.wav").expect_err("unknown");
        assert_eq!(error.to_string(), "`--output {bpm}.wav` has an unknown `{bpm}`");
        assert!(check_placeholders("a{b.wav").is_ok());
    }
}
