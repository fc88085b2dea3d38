//! Writes sound files: WAV, FLAC, MP3 and Opus, with their tags.
//!
//! A file is built in memory, because its header depends on its end, or in pieces with the header
//! last. It appears whole or not at all.

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
};

use super::{
    Audio, flac,
    format::{Encoding, Format},
    tags::Tags,
    wav::{self, WavFormat},
};
use crate::{
    Error,
    files::{Existing, Part, write_whole},
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

/// A sound file of one channel that is written while its sound is made, with the bytes of [`save`].
///
/// WAV and FLAC are written in pieces. An MP3 is as loud as the whole sound allows, and it and Opus change
/// the rate of the whole sound: these keep their samples until the end.
pub struct SoundWriter {
    // First, because it is closed before the file may be removed.
    form: Form,
    part: Part,
    sample_rate: u32,
    encoding: Encoding,
}

enum Form {
    Wav(wav::Pieces<BufWriter<File>>),
    Flac(Box<flac::Pieces>),
    Whole(Vec<f32>),
}

impl SoundWriter {
    /// Begins a file.
    ///
    /// # Errors
    /// The errors of [`Part::begin`]; [`Error::File`]; [`Error::NotBuiltIn`].
    pub fn begin(
        path: &Path,
        sample_rate: u32,
        encoding: &Encoding,
        existing: Existing,
    ) -> Result<Self, Error> {
        let format = encoding.format.require()?;
        let part = Part::begin(path, existing)?;
        let form = Form::begin(&part, format, sample_rate).map_err(|error| part.failed(error))?;
        Ok(Self { form, part, sample_rate, encoding: *encoding })
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
        let written = match &mut self.form {
            Form::Wav(pieces) => pieces.write(&[samples]),
            Form::Flac(pieces) => pieces.write(samples),
            Form::Whole(all) => {
                all.extend_from_slice(samples);
                Ok(())
            }
        };
        written.map_err(|error| self.part.failed(error))
    }

    /// Completes the file.
    ///
    /// # Errors
    /// The errors of [`save`].
    pub fn finish(self) -> Result<(), Error> {
        let Self { form, part, sample_rate, encoding } = self;
        let written = match form {
            Form::Wav(pieces) => pieces.finish(),
            Form::Flac(pieces) => pieces.finish(),
            Form::Whole(all) => {
                let audio = Audio { channels: vec![all], sample_rate };
                let bytes = to_bytes(&audio, &encoding, None)?;
                part.open().and_then(|mut file| file.write_all(&bytes))
            }
        };
        written.map_err(|error| part.failed(error))?;
        part.finish()
    }
}

impl Form {
    fn begin(part: &Part, format: Format, sample_rate: u32) -> io::Result<Self> {
        let wav = |format: WavFormat| -> io::Result<Self> {
            let file = BufWriter::new(part.open()?);
            Ok(Self::Wav(wav::Pieces::begin(file, 1, sample_rate, format)?))
        };
        let flac = |bits: u16| -> io::Result<Self> {
            let pieces = flac::Pieces::begin(part.open()?, part.spare()?, sample_rate, bits)?;
            Ok(Self::Flac(Box::new(pieces)))
        };
        match format {
            Format::Wav16 => wav(WavFormat::Int16),
            Format::Wav24 => wav(WavFormat::Int24),
            Format::Wav32 => wav(WavFormat::Float32),
            Format::Flac => flac(24),
            Format::Flac16 => flac(16),
            Format::Mp3 | Format::Opus => Ok(Self::Whole(Vec::new())),
        }
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
