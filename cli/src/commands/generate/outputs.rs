//! Output files of the songs, decided and checked before any work.

use std::{
    collections::HashSet,
    fmt,
    path::{Path, PathBuf},
};

use acestep_engine::{
    Error, Notice,
    audio::format::Format,
    files::{Existing, check_target},
    nearest,
};
use acestep_music::{Request, latents};
use anyhow::Result;

use crate::{
    args::generate::Output,
    commands::text::{check_new_folder, is_absent},
    error::CliError,
};

/// Name of a song without `--output` and without extension; different seeds give different names.
const DEFAULT: &str = "song-{seed}";
/// Default name if no seed has an effect.
const DEFAULT_WITHOUT_SEED: &str = "song";

/// Extensions of sound formats that cannot be written.
const OTHER_FORMATS: [&str; 7] = ["ogg", "m4a", "aac", "wma", "aiff", "aif", "webm"];

/// Extensions that are written, if this build supports them.
const FORMATS: [&str; 4] = ["wav", "flac", "mp3", "opus"];

/// Extensions that are written but are not songs.
const NO_SONGS: [&str; 8] = ["safetensors", "vae", "nac8", "nac4", "json", "lrc", "vtt", "png"];

/// Output of a song.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    File(PathBuf),
    Stdout,
}

impl Target {
    /// Returns the title for a picture of the song.
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

/// True if `path` means standard output.
pub(in crate::commands) fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
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
        let request = output.save_request.then(|| match names.numbered {
            true => template.with_extension("json"),
            false => names.paths[0].with_extension("json"),
        });
        let mut seen = HashSet::new();
        let more = latents.iter().flat_map(|(paths, _)| paths);
        for path in names.paths.iter().chain(&request).chain(more) {
            if !seen.insert(path) {
                let message = format!("`{}` would be written twice", path.display());
                return Err(CliError::usage(message)
                    .hint(format!(
                        "put {{index}} into --output, and let it end in .{}",
                        format.extension()
                    ))
                    .into());
            }
        }
        Ok(Self { songs: names.paths.into_iter().map(Target::File).collect(), latents, request })
    }

    /// Returns every file.
    pub(super) fn all(&self) -> impl Iterator<Item = &Path> {
        let latents = self.latents.iter().flat_map(|(paths, _)| paths);
        self.files().chain(self.request.iter().chain(latents).map(PathBuf::as_path))
    }

    /// Returns the files of the songs.
    pub(super) fn files(&self) -> impl Iterator<Item = &Path> {
        self.songs.iter().filter_map(|target| match target {
            Target::File(path) => Some(path.as_path()),
            Target::Stdout => None,
        })
    }

    /// Refuses files that could not be written.
    ///
    /// # Errors
    /// Errors of [`check_target`].
    pub(super) fn check(&self, existing: Existing) -> Result<(), Error> {
        for target in &self.songs {
            if let Target::File(path) = target {
                check_target(path, existing)?;
            }
        }
        let latents = self.latents.iter().flat_map(|(paths, _)| paths);
        self.request.iter().chain(latents).try_for_each(|path| check_target(path, existing))
    }
}

/// Refuses a conditioning folder that could not be written; it may not exist yet.
///
/// # Errors
/// Errors of [`check_target`].
pub(super) fn check_conditioning(folder: &Path, existing: Existing) -> Result<(), Error> {
    if is_absent(folder) {
        return check_new_folder(folder);
    }
    for name in ["encoder_hidden_states.bin", "context_latents.bin", "initial_noise.bin"] {
        check_target(&folder.join(name), existing)?;
    }
    check_target(&folder.join("conditioning.safetensors"), existing)
}

/// Returns the format: the typed one, else by the file's extension, else the request's. `template`
/// is `output` before placeholders were filled in.
///
/// # Errors
/// If the name contradicts the typed format, or has an extension that is not written.
pub(in crate::commands) fn format(
    typed: Option<&str>,
    output: Option<&Path>,
    template: Option<&Path>,
    request: &mut Request,
    notices: &mut Vec<Notice>,
) -> Result<Format> {
    let typed: Option<Format> = typed.map(str::parse).transpose()?;
    let output = output.filter(|path| !is_stdout(path));
    if let Some(path) = output.filter(|path| ends_as(path, &NO_SONGS)) {
        let message = format!("`{}` is no name of a song", path.display());
        let instead = path.with_extension(typed.unwrap_or_default().extension());
        let hint = format!("name it `{}`", instead.display());
        return Err(CliError::usage(message).hint(hint).into());
    }
    let named = output.and_then(Format::of);
    let fits = |format: Format| named.is_none_or(|n| n.extension() == format.extension());
    let path = output.unwrap_or(Path::new("")).display();
    let format = match (typed, named) {
        (Some(typed), _) if !fits(typed) => {
            let message = format!("`--audio-format {typed}` contradicts the name `{path}`");
            let hint = format!("name it .{}, or leave --audio-format out", typed.extension());
            return Err(CliError::usage(message).hint(hint).into());
        }
        (Some(typed), _) => typed,
        (None, named) => {
            let asked = request.audio_format.as_deref();
            let fitting = match (asked, named) {
                (Some(asked), Some(named)) => {
                    // An unknown format would not be written anyway.
                    let asked = asked.parse::<Format>().ok().filter(|&asked| fits(asked));
                    if asked.is_none() {
                        notices.push(Notice(format!(
                            "`{path}` is written as {named}, not as the request's audio_format {}",
                            request.audio_format.as_deref().unwrap_or_default()
                        )));
                    }
                    asked.unwrap_or(named)
                }
                // Requests of other programs always name a format; an unsupported one must not stop
                // the song.
                (Some(asked), None) => match asked.parse().and_then(Format::require) {
                    Ok(format) => format,
                    Err(error) => {
                        let text =
                            format!("the song is WAV, not {asked} as the request has it: {error}");
                        notices.push(Notice(text));
                        Format::default()
                    }
                },
                (None, named) => named.unwrap_or_default(),
            };
            // The value of `{name}` may itself contain dots.
            template.filter(|_| named.is_none()).map_or(Ok(()), check_extension)?;
            fitting
        }
    };
    request.audio_format = (format != Format::default()).then(|| format.name().to_owned());
    Ok(format)
}

/// Refuses an extension of another file type; a name without extension is a WAV.
fn check_extension(path: &Path) -> Result<(), CliError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let ending = path.extension().unwrap_or_default().to_string_lossy();
    // `{seed}` may follow the dot, and `No. 1` or `v1.5` are names without an extension.
    let is_ending = ending.starts_with(|first: char| first.is_ascii_alphabetic())
        && ending.chars().all(|letter| letter.is_ascii_alphanumeric());
    if !is_ending {
        return Ok(());
    }
    let message = format!("this program does not write `{}`", path.display());
    let has_opus = Format::Opus.require().is_ok();
    let is_written = |name: &&&str| name.parse::<Format>().and_then(Format::require).is_ok();
    let near = nearest(&ending, FORMATS).filter(|near| is_written(&near));
    let instead = match near {
        Some(near) => near,
        None if has_opus && ends_as(path, &["ogg"]) => "opus",
        None => "flac",
    };
    let instead = path.with_extension(instead);
    let hint = match ends_as(path, &OTHER_FORMATS) || near.is_some() {
        true => format!("name it `{}`", instead.display()),
        false => {
            let endings: Vec<_> =
                FORMATS.iter().filter(is_written).map(|ending| format!(".{ending}")).collect();
            let endings = endings.join(", ");
            format!("let it end in {endings}, or say with --audio-format what `{name}` is to be")
        }
    };
    Err(CliError::usage(message).hint(hint))
}

fn ends_as(path: &Path, extensions: &[&str]) -> bool {
    let is = |own: &std::ffi::OsStr| extensions.iter().any(|other| own.eq_ignore_ascii_case(other));
    path.extension().is_some_and(is)
}

/// Returns the format of a latents file, which `flag` names: `typed`, else by the extension.
///
/// # Errors
/// If the name contradicts `typed`, or there is neither a typed format nor a known extension.
pub(in crate::commands) fn latents_format(
    flag: &str,
    typed: Option<latents::Format>,
    path: &Path,
) -> Result<latents::Format, CliError> {
    let named = latents::Format::of(path);
    let is_sound = Format::of(path).is_some() || ends_as(path, &OTHER_FORMATS);
    let lies = is_sound || ends_as(path, &NO_SONGS);
    match (typed, named) {
        (Some(typed), named) if named != Some(typed) && lies => {
            let message = format!("`--format {typed}` contradicts the name `{}`", path.display());
            let hint = format!("name it .{typed}, or leave --format out");
            Err(CliError::usage(message).hint(hint))
        }
        (Some(format), _) | (None, Some(format)) => Ok(format),
        (None, None) => {
            let message = format!("`--{flag} {}` does not say its format", path.display());
            Err(CliError::usage(message).hint("let it end in .safetensors, .vae, .nac8 or .nac4"))
        }
    }
}

/// A path for each song.
pub(super) struct Names {
    pub(super) paths: Vec<PathBuf>,
    /// True if `_1`, `_2` were added.
    numbered: bool,
}

/// Fills in `{seed}` and `{index}` (from 1); several songs without either are numbered.
pub(super) fn names(
    template: &Path,
    count: usize,
    seeds: Option<&[u64]>,
) -> Result<Names, CliError> {
    let Some(text) = template.to_str() else {
        // A path that is not UTF-8 is taken without placeholders.
        return Ok(numbered(template, count));
    };
    check_placeholders(text)?;
    if !text.contains("{seed}") && !text.contains("{index}") {
        return Ok(numbered(template, count));
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
        assert_eq!(paths("song-{seed}.wav", &[7, 9]), ["song-7.wav", "song-9.wav"]);
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

    /// Returns the format, the request's remaining format, and the number of notices.
    fn decided(typed: Option<&str>, output: Option<&str>, asked: Option<&str>) -> Option<String> {
        let mut request = Request { audio_format: asked.map(str::to_owned), ..Request::default() };
        let mut notices = vec![];
        let output = output.map(Path::new);
        let format = format(typed, output, output, &mut request, &mut notices).ok()?;
        let kept = request.audio_format.unwrap_or_default();
        Some(format!("{format} {kept} {}", notices.len()))
    }

    #[test]
    fn the_format_is_typed_or_named_or_asked_for() {
        for (typed, output, asked, expected) in [
            (None, None, None, Some("wav16  0")),
            (None, None, Some("flac"), Some("flac flac 0")),
            (None, Some("-"), Some("wav24"), Some("wav24 wav24 0")),
            (None, Some("a.flac"), None, Some("flac flac 0")),
            (None, Some("a.WAV"), Some("wav32"), Some("wav32 wav32 0")),
            // The name overrides the request's format, with a notice.
            (None, Some("a.wav"), Some("mp3"), Some("wav16  1")),
            (None, Some("a.flac"), Some("aac"), Some("flac flac 1")),
            (Some("wav24"), Some("a.wav"), Some("mp3"), Some("wav24 wav24 0")),
            (Some("flac16"), Some("a.flac"), None, Some("flac16 flac16 0")),
            (Some("opus"), Some("a.ogg"), None, Some("opus opus 0")),
            (Some("flac"), Some("a.bin"), None, Some("flac flac 0")),
            (Some("flac"), Some("a.wav"), None, None),
            (Some("wav"), Some("a.mp3"), None, None),
            (Some("aac"), None, None, None),
            // An unsupported format in another program's request stops no song.
            (None, None, Some("aac"), Some("wav16  1")),
            (None, Some("a.m4a"), None, None),
            (None, Some("a.ogg"), None, None),
            (None, Some("a.ogg"), Some("flac"), None),
            (None, Some("a.xyz"), None, None),
            (None, Some("a.xyz"), Some("flac"), None),
            (Some("wav"), Some("a.xyz"), None, Some("wav16  0")),
            // Names without a format.
            (None, Some("song"), None, Some("wav16  0")),
            (None, Some("take-1.5"), None, Some("wav16  0")),
            (None, Some("No. 5"), Some("flac"), Some("flac flac 0")),
            (None, Some("a.{seed}"), None, Some("wav16  0")),
        ] {
            let found = decided(typed, output, asked);
            assert_eq!(found.as_deref(), expected, "{typed:?} {output:?} {asked:?}");
        }
    }
}
