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
        let resolved = |[mp3_bitrate, mp3_sample_rate, opus_bitrate]: [Option<i64>; 3]| {
            let options = EncodingOptions { mp3_bitrate, mp3_sample_rate, opus_bitrate };
            let encoding = Encoding::resolve(options, Format::Wav16, &mut vec![]);
            encoding.map(|of| [of.mp3_bitrate, of.mp3_sample_rate, of.opus_bitrate])
        };
        assert_eq!(resolved([None; 3]).expect("defaults"), [128, 48_000, 128]);
        let good = [Some(320), Some(44_100), Some(510)];
        assert_eq!(resolved(good).expect("in range"), [320, 44_100, 510]);
        for bad in [
            [Some(127), None, None],
            [Some(-128), None, None],
            [None, Some(22_050), None],
            [None, None, Some(5)],
            [None, None, Some(511)],
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
