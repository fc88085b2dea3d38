//! Writes sound files: WAV, FLAC, MP3 and Opus, with their tags.
//!
//! A file is built in memory, because its header depends on its end, or in pieces with the header
//! last. It appears whole or not at all.

use std::{
    fmt::Display,
    io::{self, BufWriter, Write},
    path::Path,
};

use super::{
    Audio, flac,
    format::{Encoding, Format},
    tags::Tags,
    wav,
};
use crate::{
    Error, Observe, Unobserved,
    files::{Existing, PartialFile, write_whole},
    progress,
};

/// Samples that are encoded at a time: half a second at 48 kHz.
pub(super) const BLOCK: usize = 24_000;

/// Writes a sound file. This cannot be cancelled: see [`to_bytes`].
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
    let bytes = to_bytes(audio, encoding, tags, &Unobserved)?;
    write_whole(path, existing, |file| file.write_all(&bytes))
}

/// Encodes a sound file in memory.
///
/// # Errors
/// [`Error::Encode`] if the audio has no channels, more than two in MP3 or Opus, channels of
/// different lengths, a rate that the format does not support, or over 4 GiB;
/// [`Error::NotBuiltIn`]; [`Error::Cancelled`].
pub fn to_bytes(
    audio: &Audio,
    encoding: &Encoding,
    tags: Option<&Tags>,
    observe: &dyn Observe,
) -> Result<Vec<u8>, Error> {
    let format = encoding.format.require()?;
    let name = match format {
        Format::Wav16 | Format::Wav24 | Format::Wav32 => "a WAV file",
        Format::Flac | Format::Flac16 => "a FLAC file",
        Format::Mp3 => "an MP3 file",
        Format::Opus => "an Opus file",
    };
    let failed = |why: String| Error::Encode { format: name, why };
    check(audio, format).map_err(failed)?;
    let bytes = match format {
        Format::Wav16 => wav::to_bytes(audio, 16, observe),
        Format::Wav24 => wav::to_bytes(audio, 24, observe),
        Format::Wav32 => wav::to_bytes(audio, 32, observe),
        Format::Flac => flac::to_bytes(audio, 24, observe),
        Format::Flac16 => flac::to_bytes(audio, 16, observe),
        #[cfg(feature = "mp3")]
        Format::Mp3 => {
            let form = (encoding.mp3_bitrate, encoding.mp3_sample_rate);
            super::mp3::to_bytes(audio, form, observe)
        }
        #[cfg(feature = "opus")]
        Format::Opus => super::opus::to_bytes(audio, encoding.opus_bitrate, observe),
        #[cfg(not(all(feature = "mp3", feature = "opus")))]
        absent => Err(other(absent)),
    };
    let bytes =
        bytes.map_err(|error| unless_cancelled(error, |error| failed(error.to_string())))?;
    match tags {
        Some(tags) => tags.put_in(bytes, format),
        None => Ok(bytes),
    }
}

/// A sound file of one channel that is written while its sound is made, with the bytes of [`save`].
pub struct SoundWriter {
    // First, because it is closed before the file may be removed.
    file: Box<dyn Encode>,
    part: PartialFile,
}

impl SoundWriter {
    /// Begins a file.
    ///
    /// # Errors
    /// The errors of [`PartialFile::begin`]; [`Error::File`]; [`Error::NotBuiltIn`].
    pub fn begin(
        path: &Path,
        sample_rate: u32,
        encoding: &Encoding,
        existing: Existing,
    ) -> Result<Self, Error> {
        encoding.format.require()?;
        let part = PartialFile::begin(path, existing)?;
        let file = begin(&part, encoding, sample_rate).map_err(|error| part.failed(error))?;
        Ok(Self { file, part })
    }

    /// The place of the unfinished file.
    pub fn place(&self) -> &Path {
        self.part.place()
    }

    /// Writes the next samples.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn write(&mut self, samples: &[f32]) -> Result<(), Error> {
        self.file.write(&[samples]).map_err(|error| self.part.failed(error))
    }

    /// Completes the file. A loud MP3 is encoded again, which can be cancelled.
    ///
    /// # Errors
    /// [`Error::File`]; the errors of [`PartialFile::finish`]; [`Error::Cancelled`].
    pub fn finish(self, observe: &dyn Observe) -> Result<(), Error> {
        let Self { file, part } = self;
        let finished = file.finish(observe);
        finished.map_err(|error| unless_cancelled(error, |error| part.failed(error)))?;
        part.finish()
    }
}

fn begin(part: &PartialFile, encoding: &Encoding, sample_rate: u32) -> io::Result<Box<dyn Encode>> {
    let file = || part.open().map(BufWriter::new);
    let wav = |bits| wav::Pieces::begin(file()?, 1, sample_rate, bits);
    let flac = |bits| flac::Pieces::begin(part.open()?, part.spare()?, sample_rate, bits);
    let pieces: Box<dyn Encode> = match encoding.format {
        Format::Wav16 => Box::new(wav(16)?),
        Format::Wav24 => Box::new(wav(24)?),
        Format::Wav32 => Box::new(wav(32)?),
        Format::Flac => Box::new(flac(24)?),
        Format::Flac16 => Box::new(flac(16)?),
        #[cfg(feature = "mp3")]
        Format::Mp3 => {
            let (rates, bitrate) = ([sample_rate, encoding.mp3_sample_rate], encoding.mp3_bitrate);
            Box::new(super::mp3::Pieces::begin(part.open()?, part.spare()?, rates, bitrate)?)
        }
        #[cfg(feature = "opus")]
        Format::Opus => {
            let bitrate = encoding.opus_bitrate;
            Box::new(super::opus::Pieces::begin(file()?, 1, sample_rate, bitrate)?)
        }
        #[cfg(not(all(feature = "mp3", feature = "opus")))]
        absent => return Err(other(absent)),
    };
    Ok(pieces)
}

/// A file that is encoded in pieces.
pub(super) trait Encode {
    /// Encodes the next samples of each channel.
    fn write(&mut self, channels: &[&[f32]]) -> io::Result<()>;

    /// Completes the file. If that takes long, it can be cancelled.
    fn finish(self: Box<Self>, observe: &dyn Observe) -> io::Result<()>;
}

/// Encodes a whole sound, in blocks: no encoder copies all of it.
pub(super) fn encode(
    audio: &Audio,
    mut file: Box<dyn Encode + '_>,
    observe: &dyn Observe,
) -> io::Result<()> {
    for start in (0..audio.samples()).step_by(BLOCK) {
        check_cancelled(observe)?;
        let end = audio.samples().min(start + BLOCK);
        let channels = audio.channels.iter().map(|channel| &channel[start..end]);
        file.write(&channels.collect::<Vec<_>>())?;
    }
    file.finish(observe)
}

/// Returns [`Error::Cancelled`] within an error of an encoder; [`unless_cancelled`] takes it out again.
pub(super) fn check_cancelled(observe: &dyn Observe) -> io::Result<()> {
    progress::check(observe).map_err(io::Error::other)
}

fn unless_cancelled(error: io::Error, failed: impl FnOnce(io::Error) -> Error) -> Error {
    match error.downcast() {
        Ok(Error::Cancelled) => Error::Cancelled,
        Ok(error) => failed(io::Error::other(error)),
        Err(error) => failed(error),
    }
}

/// Returns an error for channels of different lengths, none, or more than MP3 and Opus have.
fn check(audio: &Audio, format: Format) -> Result<(), String> {
    let count = audio.channels.len();
    if count == 0 || count > 2 && matches!(format, Format::Mp3 | Format::Opus) {
        return Err(format!("it has {count} channels"));
    }
    if audio.channels.iter().any(|channel| channel.len() != audio.samples()) {
        let lengths: Vec<_> = audio.channels.iter().map(Vec::len).collect();
        return Err(format!("its channels have different lengths: {lengths:?}"));
    }
    Ok(())
}

/// Returns the samples of all channels at a time, one after the other.
pub(super) fn interleaved(channels: &[impl AsRef<[f32]>]) -> impl Iterator<Item = f32> {
    let samples = channels.first().map_or(0, |channel| channel.as_ref().len());
    (0..samples).flat_map(move |i| channels.iter().map(move |channel| channel.as_ref()[i]))
}

/// An error of an encoder.
pub(super) fn other(error: impl Display) -> io::Error {
    io::Error::other(error.to_string())
}

#[cfg(test)]
mod tests;
