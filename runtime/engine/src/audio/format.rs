//! Output formats, their options, and the formats that this build includes.
//!
//! Names and bitrates are upstream's (`audio_format`) and acestep.cpp's (`output_format`).

use std::{fmt, path::Path, str::FromStr};

use crate::{Error, error::shortened, suggest::nearest};

/// A format of output sound files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Format {
    /// WAV of 16-bit integers, which every player reads.
    #[default]
    Wav16,
    /// WAV of 24-bit integers.
    Wav24,
    /// WAV of 32-bit floats, unclipped.
    Wav32,
    /// FLAC of 24 bits: the samples of [`Self::Wav24`] in less space.
    Flac,
    /// FLAC of 16 bits.
    Flac16,
    /// MP3 of a constant bitrate (cargo feature `mp3`; with `lame` by LAME).
    Mp3,
    /// Ogg Opus (cargo feature `opus`).
    Opus,
}

/// The names of every format, the canonical one first.
const NAMES: &[(Format, &[&str])] = &[
    (Format::Wav16, &["wav16", "wav"]),
    (Format::Wav24, &["wav24"]),
    (Format::Wav32, &["wav32"]),
    (Format::Flac, &["flac", "flac24"]),
    (Format::Flac16, &["flac16"]),
    (Format::Mp3, &["mp3"]),
    (Format::Opus, &["opus"]),
];

impl Format {
    /// Returns all formats, also those that this build lacks.
    pub fn all() -> impl Iterator<Item = Self> {
        NAMES.iter().map(|&(format, _)| format)
    }

    /// Returns the name in requests and flags.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(format, _)| *format == self).map_or("", |(_, names)| names[0])
    }

    /// Returns the file extension.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Wav16 | Self::Wav24 | Self::Wav32 => "wav",
            Self::Flac | Self::Flac16 => "flac",
            Self::Mp3 => "mp3",
            Self::Opus => "opus",
        }
    }

    /// Returns the format of `path`'s extension; the first one if several share it.
    pub fn of(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?;
        Self::all().find(|format| extension.eq_ignore_ascii_case(format.extension()))
    }

    /// Returns the format if this build can write it.
    ///
    /// # Errors
    /// [`Error::NotBuiltIn`].
    pub fn require(self) -> Result<Self, Error> {
        let feature = match self {
            Self::Mp3 if cfg!(not(feature = "mp3")) => "mp3",
            Self::Opus if cfg!(not(feature = "opus")) => "opus",
            _ => return Ok(self),
        };
        Err(Error::NotBuiltIn { what: format!("writing {self}"), feature })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = Error;

    /// Parses a name; `wav` is `wav16`.
    fn from_str(text: &str) -> Result<Self, Error> {
        let wanted = text.trim().to_ascii_lowercase();
        let known = NAMES.iter().find(|(_, names)| names.contains(&&*wanted));
        known.map(|&(format, _)| format).ok_or_else(|| Error::BadValue {
            field: "audio_format",
            value: shortened(text),
            why: match &*wanted {
                "aac" | "m4a" => "AAC is not written: use mp3, opus or flac".into(),
                _ => "use wav16, wav24, wav32, flac, flac16, mp3 or opus".into(),
            },
            near: nearest(text, NAMES.iter().flat_map(|(_, names)| *names).copied())
                .map(str::to_owned),
        })
    }
}

/// A format and its options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Encoding {
    /// The format.
    pub format: Format,
    /// Bitrate of an MP3, in kilobits per second.
    pub mp3_bitrate: u32,
    /// Sample rate of an MP3, in Hz.
    pub mp3_sample_rate: u32,
    /// Bitrate of an Opus file, in kilobits per second.
    pub opus_bitrate: u32,
}

/// The constant bitrates of an MP3 at 44.1 or 48 kHz, except 56, which LAME's binding lacks.
pub const MP3_BITRATES: [u32; 13] = [32, 40, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320];

impl Encoding {
    /// Returns `format` with the defaults: 128 kbit/s at 48 kHz.
    pub fn new(format: Format) -> Self {
        Self { format, mp3_bitrate: 128, mp3_sample_rate: 48_000, opus_bitrate: 128 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_back_and_every_extension_known() {
        for format in Format::all() {
            assert_eq!(format.name().parse::<Format>().expect("a format"), format);
            let path = format!("a.b.{}", format.extension().to_uppercase());
            let found = Format::of(Path::new(&path)).expect("a format");
            assert_eq!(found.extension(), format.extension());
        }
        assert_eq!("wav".parse::<Format>().expect("a format"), Format::Wav16);
        assert_eq!(Format::of(Path::new("song.wav")), Some(Format::Wav16));
        assert_eq!(Format::of(Path::new("song.ogg")), None);
        assert_eq!(Format::of(Path::new("wav")), None);
    }

    #[test]
    fn what_is_not_written_says_what_is() {
        let error = "aac".parse::<Format>().expect_err("no encoder");
        assert!(error.to_string().contains("AAC is not written"), "{error}");
        let error = "midi".parse::<Format>().expect_err("unknown");
        assert_eq!(
            error.to_string(),
            "`audio_format: midi` cannot be used: use wav16, wav24, wav32, flac, flac16, mp3 or opus"
        );
    }
}
