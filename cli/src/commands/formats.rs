//! Formats of sounds and latents: by a flag, by the extension of the output, or by the request.

use std::path::Path;

use acestep_engine::{Notice, audio::format::Format, nearest};
use acestep_music::{Request, latents};
use anyhow::Result;

use crate::error::CliError;

/// Extensions of sound formats that cannot be written.
const OTHER_FORMATS: [&str; 7] = ["ogg", "m4a", "aac", "wma", "aiff", "aif", "webm"];

/// Extensions that are written, if this build supports them.
const FORMATS: [&str; 4] = ["wav", "flac", "mp3", "opus"];

/// Extensions that are written but are not songs.
const NO_SONGS: [&str; 8] = ["safetensors", "vae", "nac8", "nac4", "json", "lrc", "vtt", "png"];

/// True if `path` means standard output.
pub(super) fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// Returns the format: the typed one, else by the file's extension, else the request's. `template`
/// is `output` before placeholders were filled in.
///
/// # Errors
/// If the name contradicts the typed format, or has an extension that is not written.
pub(super) fn format(
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
            let asked = request.output.audio_format.as_deref();
            let fitting = match (asked, named) {
                (Some(asked), Some(named)) => {
                    // An unknown format would not be written anyway.
                    let asked = asked.parse::<Format>().ok().filter(|&asked| fits(asked));
                    if asked.is_none() {
                        notices.push(Notice(format!(
                            "`{path}` is written as {named}, not as the request's audio_format {}",
                            request.output.audio_format.as_deref().unwrap_or_default()
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
    request.output.audio_format = (format != Format::default()).then(|| format.name().to_owned());
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
pub(super) fn latents_format(
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the format, the request's remaining format, and the number of notices.
    fn decided(typed: Option<&str>, output: Option<&str>, asked: Option<&str>) -> Option<String> {
        let mut request =
            Request::default().with(|r| r.output.audio_format = asked.map(str::to_owned));
        let mut notices = vec![];
        let output = output.map(Path::new);
        let format = format(typed, output, output, &mut request, &mut notices).ok()?;
        let kept = request.output.audio_format.unwrap_or_default();
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
