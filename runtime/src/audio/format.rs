//! Output formats, their options, and the formats that this build includes.
//!
//! Names and bitrates are upstream's (`audio_format`) and acestep.cpp's (`output_format`).

use std::{fmt, path::Path, str::FromStr};

use crate::{Error, Notice, Request, error::shortened, near::nearest, plan::limits::whole};

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
    /// MP3 of a constant bitrate, by LAME (cargo feature `mp3`).
    Mp3,
    /// Ogg Opus, by libopus (cargo feature `opus`).
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
            flag: "audio-format",
            value: shortened(text),
            why: match &*wanted {
                "aac" | "m4a" => {
                    "AAC is not written, for want of an encoder that may be built in; \
                                  use mp3, opus or flac"
                        .into()
                }
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
const MP3_BITRATES: [u32; 13] = [32, 40, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320];

impl Encoding {
    /// Returns `format` with the defaults: 128 kbit/s at 48 kHz.
    pub fn new(format: Format) -> Self {
        Self { format, mp3_bitrate: 128, mp3_sample_rate: 48_000, opus_bitrate: 128 }
    }

    /// Returns `format` with the options of `request`; adds a notice for each option without
    /// effect.
    ///
    /// # Errors
    /// [`Error::NotBuiltIn`], or [`Error::OutOfRange`] for a bitrate or a rate that the format does
    /// not support.
    pub fn resolve(
        request: &Request,
        format: Format,
        notices: &mut Vec<Notice>,
    ) -> Result<Self, Error> {
        let format = format.require()?;
        let mut encoding = Self::new(format);
        if let Some(asked) = request.mp3_bitrate {
            let known = MP3_BITRATES.into_iter().find(|&known| i64::from(known) == asked);
            encoding.mp3_bitrate = known.ok_or_else(|| {
                let range = MP3_BITRATES.map(|known| known.to_string()).join(", ");
                Error::OutOfRange { flag: "mp3-bitrate", value: asked.to_string(), range }
            })?;
        }
        match request.mp3_sample_rate {
            None => (),
            Some(44_100) => encoding.mp3_sample_rate = 44_100,
            Some(48_000) => encoding.mp3_sample_rate = 48_000,
            Some(other) => {
                let range = "44100 or 48000".into();
                let value = other.to_string();
                return Err(Error::OutOfRange { flag: "mp3-sample-rate", value, range });
            }
        }
        if let Some(asked) = request.opus_bitrate {
            encoding.opus_bitrate = whole("opus-bitrate", asked, 6, 510)?;
        }
        let usual = Self::new(format);
        let bitrate = "kbit/s";
        // Requests of other programs contain the defaults of all formats; these give no notice.
        for (key, of, asked, usual, unit) in [
            ("mp3_bitrate", Format::Mp3, encoding.mp3_bitrate, usual.mp3_bitrate, bitrate),
            ("mp3_sample_rate", Format::Mp3, encoding.mp3_sample_rate, usual.mp3_sample_rate, "Hz"),
            ("opus_bitrate", Format::Opus, encoding.opus_bitrate, usual.opus_bitrate, bitrate),
        ] {
            if format != of && asked != usual {
                let text = format!("{key} {asked} {unit} is not used: {format} is written");
                notices.push(Notice(text));
            }
        }
        Ok(encoding)
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
            "`--audio-format midi` cannot be used: use wav16, wav24, wav32, flac, flac16, mp3 or opus"
        );
    }

    #[test]
    fn a_format_that_is_not_built_in_names_its_feature() {
        for (format, feature, has) in [
            (Format::Mp3, "mp3", cfg!(feature = "mp3")),
            (Format::Opus, "opus", cfg!(feature = "opus")),
        ] {
            match format.require() {
                Ok(_) => assert!(has, "{format}"),
                Err(error) => {
                    assert!(!has, "{format}");
                    let hint = error.hint().expect("a hint");
                    assert!(hint.contains(&format!("--features {feature}")), "{hint}");
                }
            }
        }
        assert_eq!(Format::Flac.require().expect("always"), Format::Flac);
    }

    #[test]
    fn bitrates_and_rates_that_do_not_exist_are_refused() {
        let resolved = |request: Request| Encoding::resolve(&request, Format::Wav16, &mut vec![]);
        let plain = resolved(Request::default()).expect("defaults");
        assert_eq!(
            (plain.mp3_bitrate, plain.mp3_sample_rate, plain.opus_bitrate),
            (128, 48_000, 128)
        );
        let good = Request {
            mp3_bitrate: Some(320),
            mp3_sample_rate: Some(44_100),
            opus_bitrate: Some(510),
            ..Request::default()
        };
        let good = resolved(good).expect("in range");
        assert_eq!((good.mp3_bitrate, good.mp3_sample_rate, good.opus_bitrate), (320, 44_100, 510));
        for bad in [
            Request { mp3_bitrate: Some(127), ..Request::default() },
            Request { mp3_bitrate: Some(-128), ..Request::default() },
            Request { mp3_sample_rate: Some(22_050), ..Request::default() },
            Request { opus_bitrate: Some(5), ..Request::default() },
            Request { opus_bitrate: Some(511), ..Request::default() },
        ] {
            assert!(matches!(resolved(bad), Err(Error::OutOfRange { .. })));
        }
    }

    #[test]
    fn what_another_format_would_use_is_said() {
        let request = Request {
            mp3_bitrate: Some(320),
            mp3_sample_rate: Some(48_000),
            opus_bitrate: Some(96),
            ..Request::default()
        };
        let mut notices = vec![];
        Encoding::resolve(&request, Format::Flac, &mut notices).expect("in range");
        let texts = [
            "mp3_bitrate 320 kbit/s is not used: flac is written",
            "opus_bitrate 96 kbit/s is not used: flac is written",
        ];
        assert_eq!(notices, texts.map(|text| Notice(text.into())));
    }
}
