//! Formats of sounds, latents and times: by a field, by the extension of the output, or by the request.

use std::{ffi::OsStr, path::Path};

use acestep_engine::{Error, Notice, audio::format::Format, nearest};
use acestep_music::{Request, latents};
use acestep_speech::TimesFormat;

use super::OutputError;

/// Extensions of sound formats that cannot be written.
const OTHER_FORMATS: [&str; 7] = ["ogg", "m4a", "aac", "wma", "aiff", "aif", "webm"];

/// Extensions that are written, if this build supports them.
const FORMATS: [&str; 4] = ["wav", "flac", "mp3", "opus"];

/// Extensions that are written but are not songs.
const NO_SONGS: [&str; 8] = ["safetensors", "vae", "nac8", "nac4", "json", "lrc", "vtt", "png"];

/// Returns the format of a song: the `typed` one, else by the extension of `output`, else the
/// request's. `template` is `output` before placeholders were filled in. The request then has the
/// format.
///
/// # Errors
/// If the name contradicts the typed format, or has an extension that is not written.
pub fn song_format(
    typed: Option<&str>,
    output: Option<&Path>,
    template: Option<&Path>,
    request: &mut Request,
    notices: &mut Vec<Notice>,
) -> Result<Format, Error> {
    let typed: Option<Format> = typed.map(str::parse).transpose()?;
    if let Some(path) = output.filter(|path| ends_as(path, &NO_SONGS)) {
        let instead = path.with_extension(typed.unwrap_or_default().extension());
        return Err(OutputError::NoSong { path: path.to_owned(), instead }.into());
    }
    let named = output.and_then(Format::of);
    let format = match typed {
        Some(typed) => fitting(typed, named, output)?,
        None => {
            let asked = request.output.audio_format.as_deref();
            let format = asked_format(asked, output, named, notices);
            // The value of `{name}` may itself contain dots.
            template.filter(|_| named.is_none()).map_or(Ok(()), check_extension)?;
            if let (Some(path), None) = (output, named) {
                let path = path.display();
                notices.push(Notice(format!("`{path}` has no ending: it is written as {format}")));
            }
            format
        }
    };
    request.output.audio_format = (format != Format::default()).then(|| format.name().to_owned());
    Ok(format)
}

/// Returns the format of speech: the `typed` one, else by the extension of `output`.
///
/// # Errors
/// A name that contradicts the typed format, names a folder, or has no extension of a format.
pub fn speech_format(typed: Option<&str>, output: &Path) -> Result<Format, Error> {
    let typed: Option<Format> = typed.map(str::parse).transpose()?;
    let named = Format::of(output);
    match typed {
        Some(typed) => Ok(fitting(typed, named, Some(output))?),
        None if output.is_dir() => Err(Error::IsDirectory { path: output.to_owned() }),
        None => named.ok_or_else(|| OutputError::NoSound(output.to_owned()).into()),
    }
}

/// Returns the form of a file with the times of words, by its name.
///
/// # Errors
/// [`OutputError::NoTimes`].
pub fn times_format(path: &Path) -> Result<TimesFormat, Error> {
    let all = [TimesFormat::Json, TimesFormat::Srt, TimesFormat::Vtt];
    let format = all.into_iter().find(|format| ends_as(path, &[format.extension()]));
    format.ok_or_else(|| OutputError::NoTimes(path.to_owned()).into())
}

/// Returns `typed` if the extension of `output` is not another format's.
fn fitting(
    typed: Format,
    named: Option<Format>,
    output: Option<&Path>,
) -> Result<Format, OutputError> {
    if fits(typed, named) {
        return Ok(typed);
    }
    Err(OutputError::Contradicts {
        field: "audio_format",
        format: typed.to_string(),
        extension: typed.extension(),
        path: output.unwrap_or(Path::new("")).to_owned(),
    })
}

fn fits(format: Format, named: Option<Format>) -> bool {
    named.is_none_or(|named| named.extension() == format.extension())
}

/// Returns the format that a request `asked` for, if the name allows it.
fn asked_format(
    asked: Option<&str>,
    output: Option<&Path>,
    named: Option<Format>,
    notices: &mut Vec<Notice>,
) -> Format {
    let path = output.unwrap_or(Path::new("")).display();
    match (asked, named) {
        (Some(asked), Some(named)) => {
            // An unknown format would not be written anyway.
            let format = asked.parse::<Format>().ok().filter(|&format| fits(format, Some(named)));
            if format.is_none() {
                notices.push(Notice(format!(
                    "`{path}` is written as {named}, not as the request's audio_format {asked}"
                )));
            }
            format.unwrap_or(named)
        }
        // Requests of other programs always name a format; an unsupported one must not stop the
        // song.
        (Some(asked), None) => match asked.parse().and_then(Format::require) {
            Ok(format) => format,
            Err(error) => {
                let text = format!("the song is WAV, not {asked} as the request has it: {error}");
                notices.push(Notice(text));
                Format::default()
            }
        },
        (None, named) => named.unwrap_or_default(),
    }
}

/// Refuses an extension of another file type; a name without extension is a WAV.
fn check_extension(path: &Path) -> Result<(), OutputError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let ending = path.extension().unwrap_or_default().to_string_lossy();
    // `{seed}` may follow the dot, and `No. 1` or `v1.5` are names without an extension.
    let is_ending = ending.starts_with(|first: char| first.is_ascii_alphabetic())
        && ending.chars().all(|letter| letter.is_ascii_alphanumeric());
    if !is_ending {
        return Ok(());
    }
    let has_opus = Format::Opus.require().is_ok();
    let is_written = |name: &&&str| name.parse::<Format>().and_then(Format::require).is_ok();
    let near = nearest(&ending, FORMATS).filter(|near| is_written(&near));
    let instead = match near {
        Some(near) => near,
        None if has_opus && ends_as(path, &["ogg"]) => "opus",
        None => "flac",
    };
    let remedy = match ends_as(path, &OTHER_FORMATS) || near.is_some() {
        true => format!("name it `{}`", path.with_extension(instead).display()),
        false => {
            let endings: Vec<_> =
                FORMATS.iter().filter(is_written).map(|ending| format!(".{ending}")).collect();
            let endings = endings.join(", ");
            format!("let it end in {endings}, or say with `audio_format` what `{name}` is to be")
        }
    };
    Err(OutputError::NotWritten { path: path.to_owned(), remedy })
}

fn ends_as(path: &Path, extensions: &[&str]) -> bool {
    let is = |own: &OsStr| extensions.iter().any(|other| own.eq_ignore_ascii_case(other));
    path.extension().is_some_and(is)
}

/// Returns the format of a latents file, which `field` names: `typed`, else by the extension.
///
/// # Errors
/// If the name contradicts `typed`, or there is neither a typed format nor a known extension.
pub fn latents_format(
    field: &'static str,
    typed: Option<latents::LatentsFormat>,
    path: &Path,
) -> Result<latents::LatentsFormat, Error> {
    let named = latents::LatentsFormat::of(path);
    let is_sound = Format::of(path).is_some() || ends_as(path, &OTHER_FORMATS);
    let lies = is_sound || ends_as(path, &NO_SONGS);
    match (typed, named) {
        (Some(typed), named) if named != Some(typed) && lies => Err(OutputError::Contradicts {
            field: "format",
            format: typed.to_string(),
            extension: typed.name(),
            path: path.to_owned(),
        }
        .into()),
        (Some(format), _) | (None, Some(format)) => Ok(format),
        (None, None) => Err(OutputError::NoFormat { field, path: path.to_owned() }.into()),
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
        let format = song_format(typed, output, output, &mut request, &mut notices).ok()?;
        let kept = request.output.audio_format.unwrap_or_default();
        Some(format!("{format} {kept} {}", notices.len()))
    }

    #[test]
    fn the_format_is_typed_or_named_or_asked_for() {
        for (typed, output, asked, expected) in [
            (None, None, None, Some("wav16  0")),
            (None, None, Some("flac"), Some("flac flac 0")),
            (None, None, Some("wav24"), Some("wav24 wav24 0")),
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
            (Some("flac"), Some("song"), None, Some("flac flac 0")),
            // The format is said.
            (None, Some("song"), None, Some("wav16  1")),
            (None, Some("take-1.5"), None, Some("wav16  1")),
            (None, Some("No. 5"), Some("flac"), Some("flac flac 1")),
            (None, Some("a.{seed}"), None, Some("wav16  1")),
        ] {
            let found = decided(typed, output, asked);
            assert_eq!(found.as_deref(), expected, "{typed:?} {output:?} {asked:?}");
        }
    }
}
