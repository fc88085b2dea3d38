//! Flags of the sound file: format, loudness, fades.

use acestep_music::Request;

use super::language::put;

/// Properties of the sound file.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Sound file")]
pub(crate) struct Sound {
    /// wav16, wav24, wav32, flac, flac16, mp3 or opus [default: as --output ends, else wav16].
    ///
    /// flac has 24 bits. mp3 and opus need a program that was built with the features of these
    /// names.
    #[arg(
        long,
        value_name = "FORMAT",
        visible_alias = "format",
        aliases = ["audio_format", "output-format", "output_format"],
        hide_short_help = true
    )]
    pub(crate) audio_format: Option<String>,

    /// Bitrate of an MP3 in kbit/s, 32 to 320 [default: 128].
    #[arg(
        long,
        value_name = "KBIT",
        alias = "mp3_bitrate",
        value_parser = kilobits,
        hide_short_help = true
    )]
    pub(crate) mp3_bitrate: Option<i64>,

    /// Sample rate of an MP3 in Hz, 44100 or 48000 [default: 48000].
    #[arg(long, value_name = "HZ", alias = "mp3_sample_rate", hide_short_help = true)]
    pub(crate) mp3_sample_rate: Option<i64>,

    /// Bitrate of an Opus file in kbit/s, 6 to 510 [default: 128].
    #[arg(
        long,
        value_name = "KBIT",
        alias = "opus_bitrate",
        value_parser = kilobits,
        hide_short_help = true
    )]
    pub(crate) opus_bitrate: Option<i64>,

    /// Level of the loudest sample in dB relative to full scale, -60 to 0 [default: -1].
    #[arg(
        long,
        value_name = "DB",
        alias = "normalization_db",
        hide_short_help = true,
        allow_negative_numbers = true,
        conflicts_with_all = ["no_normalization", "lufs", "peak_clip"]
    )]
    pub(crate) normalization_db: Option<f64>,

    /// Keep the loudness as it is, unless it exceeds full scale.
    #[arg(
        long,
        alias = "no_normalization",
        hide_short_help = true,
        conflicts_with_all = ["lufs", "peak_clip"]
    )]
    pub(crate) no_normalization: bool,

    /// Integrated loudness in LUFS (EBU R 128), in place of a peak level, e.g. -14.
    ///
    /// If the true peak would exceed -1 dB, the song gets less loud, and a note says so.
    #[arg(
        long,
        value_name = "LUFS",
        hide_short_help = true,
        allow_negative_numbers = true,
        conflicts_with = "peak_clip"
    )]
    pub(crate) lufs: Option<f64>,

    /// Samples per million that may be clipped, 0 to 999; acestep.cpp's loudness.
    #[arg(
        long,
        value_name = "N",
        alias = "peak_clip",
        hide_short_help = true,
        allow_negative_numbers = true
    )]
    pub(crate) peak_clip: Option<i64>,

    /// Length of the fade-in in seconds [default: 0].
    #[arg(
        long,
        value_name = "SECONDS",
        visible_alias = "fade-in",
        alias = "fade_in_duration",
        hide_short_help = true,
        allow_negative_numbers = true
    )]
    pub(crate) fade_in_duration: Option<f64>,

    /// Length of the fade-out in seconds [default: 0].
    #[arg(
        long,
        value_name = "SECONDS",
        visible_alias = "fade-out",
        alias = "fade_out_duration",
        hide_short_help = true,
        allow_negative_numbers = true
    )]
    pub(crate) fade_out_duration: Option<f64>,
}

impl Sound {
    /// Puts the typed flags over `request`, except the format, which depends on the file's name
    /// too.
    pub(crate) fn put_over(&self, request: &mut Request) {
        // There are several ways to set the loudness: a typed one clears the others.
        if self.normalization_db.is_some() || self.lufs.is_some() || self.peak_clip.is_some() {
            (request.lufs, request.peak_clip, request.normalization_db) = (None, None, None);
            request.enable_normalization = Some(true);
        }
        if self.no_normalization {
            request.enable_normalization = Some(false);
        }
        put(&mut request.normalization_db, self.normalization_db.as_ref());
        put(&mut request.lufs, self.lufs.as_ref());
        put(&mut request.peak_clip, self.peak_clip.as_ref());
        put(&mut request.fade_in_duration, self.fade_in_duration.as_ref());
        put(&mut request.fade_out_duration, self.fade_out_duration.as_ref());
        put(&mut request.mp3_bitrate, self.mp3_bitrate.as_ref());
        put(&mut request.mp3_sample_rate, self.mp3_sample_rate.as_ref());
        put(&mut request.opus_bitrate, self.opus_bitrate.as_ref());
    }
}

/// Parses `128`, or upstream's `128k`.
fn kilobits(text: &str) -> Result<i64, String> {
    let text = text.trim();
    let number = text.strip_suffix(['k', 'K']).unwrap_or(text);
    number.parse().map_err(|_| "a bitrate is a number of kilobits a second, e.g. 128".to_owned())
}
