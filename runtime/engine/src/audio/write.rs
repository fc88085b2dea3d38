//! Writes sound files: WAV, FLAC, MP3 and Opus, with their tags.
//!
//! A file is built in memory, because its header depends on its end. It appears whole or not at
//! all.

use std::{io::Write, path::Path};

use super::{
    Audio, flac,
    format::{Encoding, Format},
    tags::Tags,
    wav::{self, WavFormat},
};
use crate::{
    Error,
    files::{Existing, write_whole},
};

/// Writes a sound file.
///
/// # Errors
/// The errors of [`to_bytes`] and [`write_whole`].
pub fn save(
    path: &Path,
    audio: &Audio,
    encoding: &Encoding,
    tags: Option<&Tags>,
    existing: Existing,
) -> Result<(), Error> {
    let bytes = to_bytes(audio, encoding, tags)?;
    write_whole(path, existing, |file| file.write_all(&bytes))
}

/// Encodes a sound file in memory.
///
/// # Errors
/// [`Error::Encode`] if the audio has no channels, more than two in MP3 or Opus, channels of
/// different lengths, a rate that the format does not support, or over 4 GiB;
/// [`Error::NotBuiltIn`].
pub fn to_bytes(audio: &Audio, encoding: &Encoding, tags: Option<&Tags>) -> Result<Vec<u8>, Error> {
    let format = encoding.format.require()?;
    let bytes = match format {
        Format::Wav16 => wav::to_bytes(audio, WavFormat::Int16),
        Format::Wav24 => wav::to_bytes(audio, WavFormat::Int24),
        Format::Wav32 => wav::to_bytes(audio, WavFormat::Float32),
        Format::Flac => flac::to_bytes(audio, 24),
        Format::Flac16 => flac::to_bytes(audio, 16),
        #[cfg(feature = "mp3")]
        Format::Mp3 => super::mp3::to_bytes(audio, encoding.mp3_bitrate, encoding.mp3_sample_rate),
        #[cfg(feature = "opus")]
        Format::Opus => super::opus::to_bytes(audio, encoding.opus_bitrate),
        #[cfg(not(all(feature = "mp3", feature = "opus")))]
        absent => absent.require().map(|_| Vec::new()),
    }?;
    match tags {
        Some(tags) => tags.put_in(bytes, format),
        None => Ok(bytes),
    }
}

/// Returns an error if the audio has no channels, or channels of different lengths.
pub(super) fn check(audio: &Audio) -> Result<(), String> {
    if audio.channels.is_empty() {
        return Err("it has 0 channels".into());
    }
    if audio.channels.iter().any(|channel| channel.len() != audio.samples()) {
        let lengths: Vec<_> = audio.channels.iter().map(Vec::len).collect();
        return Err(format!("its channels have different lengths: {lengths:?}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
