//! Formats of sound files, as the APIs name them.

use acestep_engine::Format;

use super::ApiError;

/// Returns the name of a format in our spelling. Without a name it is MP3, or WAV if this build cannot
/// write MP3.
/// Errors: a format that does not exist, or that this build cannot write; the error lists the others.
pub(super) fn choose(field: &'static str, named: Option<&str>) -> Result<Format, ApiError> {
    let Some(name) = named.map(str::trim).filter(|name| !name.is_empty()) else {
        return Ok(Format::Mp3.require().unwrap_or(Format::Wav16));
    };
    let found = name.parse::<Format>().and_then(Format::require);
    found.map_err(|error| {
        ApiError::bad("bad_format", error.to_string())
            .param(field)
            .hint(format!("this build writes {}", built().join(", ")))
    })
}

pub(super) fn built() -> Vec<&'static str> {
    Format::all().filter(|format| format.require().is_ok()).map(Format::name).collect()
}

pub(super) fn media_type(format: Format) -> &'static str {
    crate::objects::media_type(&format!("x.{}", format.extension()))
}
