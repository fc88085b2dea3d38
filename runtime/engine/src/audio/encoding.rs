//! The file format of a song, and its options.

use super::format::{Encoding, Format, MP3_BITRATES};
use crate::{Error, Notice, check::whole};

/// The options of all formats, as a user gave them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EncodingOptions {
    /// kbit/s.
    pub mp3_bitrate: Option<i64>,
    /// Hz.
    pub mp3_sample_rate: Option<i64>,
    /// kbit/s.
    pub opus_bitrate: Option<i64>,
}

impl Encoding {
    /// Returns `format` with the options of the user; adds a notice for each option without
    /// effect.
    ///
    /// # Errors
    /// [`Error::NotBuiltIn`], or [`Error::OutOfRange`] for a bitrate or a rate that the format does
    /// not support.
    pub fn resolve(
        options: EncodingOptions,
        format: Format,
        notices: &mut Vec<Notice>,
    ) -> Result<Self, Error> {
        let format = format.require()?;
        let mut encoding = Self::new(format);
        if let Some(asked) = options.mp3_bitrate {
            let known = MP3_BITRATES.into_iter().find(|&known| i64::from(known) == asked);
            encoding.mp3_bitrate = known.ok_or_else(|| {
                let range = MP3_BITRATES.map(|known| known.to_string()).join(", ");
                Error::OutOfRange { field: "mp3_bitrate", value: asked.to_string(), range }
            })?;
        }
        match options.mp3_sample_rate {
            None => (),
            Some(44_100) => encoding.mp3_sample_rate = 44_100,
            Some(48_000) => encoding.mp3_sample_rate = 48_000,
            Some(other) => {
                let range = "44100 or 48000".into();
                let value = other.to_string();
                return Err(Error::OutOfRange { field: "mp3_sample_rate", value, range });
            }
        }
        if let Some(asked) = options.opus_bitrate {
            encoding.opus_bitrate = whole("opus_bitrate", asked, 6, 510)?;
        }
        let usual = Self::new(format);
        // Requests of other programs contain the defaults of all formats; these give no notice.
        for (key, of, asked, usual) in [
            ("mp3_bitrate", Format::Mp3, encoding.mp3_bitrate, usual.mp3_bitrate),
            ("mp3_sample_rate", Format::Mp3, encoding.mp3_sample_rate, usual.mp3_sample_rate),
            ("opus_bitrate", Format::Opus, encoding.opus_bitrate, usual.opus_bitrate),
        ] {
            if format != of && asked != usual {
                let text = format!("`{key}: {asked}` is not used: {format} is written");
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
    fn bitrates_and_rates_that_do_not_exist_are_refused() {
        let resolved =
            |options: EncodingOptions| Encoding::resolve(options, Format::Wav16, &mut vec![]);
        let plain = resolved(EncodingOptions::default()).expect("defaults");
        assert_eq!(
            (plain.mp3_bitrate, plain.mp3_sample_rate, plain.opus_bitrate),
            (128, 48_000, 128)
        );
        let good = EncodingOptions {
            mp3_bitrate: Some(320),
            mp3_sample_rate: Some(44_100),
            opus_bitrate: Some(510),
        };
        let good = resolved(good).expect("in range");
        assert_eq!((good.mp3_bitrate, good.mp3_sample_rate, good.opus_bitrate), (320, 44_100, 510));
        for bad in [
            EncodingOptions { mp3_bitrate: Some(127), ..EncodingOptions::default() },
            EncodingOptions { mp3_bitrate: Some(-128), ..EncodingOptions::default() },
            EncodingOptions { mp3_sample_rate: Some(22_050), ..EncodingOptions::default() },
            EncodingOptions { opus_bitrate: Some(5), ..EncodingOptions::default() },
            EncodingOptions { opus_bitrate: Some(511), ..EncodingOptions::default() },
        ] {
            assert!(matches!(resolved(bad), Err(Error::OutOfRange { .. })));
        }
    }

    #[test]
    fn what_another_format_would_use_is_said() {
        let options = EncodingOptions {
            mp3_bitrate: Some(320),
            mp3_sample_rate: Some(48_000),
            opus_bitrate: Some(96),
        };
        let mut notices = vec![];
        Encoding::resolve(options, Format::Flac, &mut notices).expect("in range");
        let texts = [
            "`mp3_bitrate: 320` is not used: flac is written",
            "`opus_bitrate: 96` is not used: flac is written",
        ];
        assert_eq!(notices, texts.map(|text| Notice(text.into())));
    }
}
