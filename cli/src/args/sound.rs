//! Flags of the sound file: format, loudness, fades.

use acestep_music::request::Output;

use super::values::put_all;

/// Properties of the sound file.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Sound file")]
pub(crate) struct Sound {
    /// wav16, wav24, wav32, flac, flac16, mp3 or opus [default: as --output ends, else wav16].
    ///
    /// flac has 24 bits. A program that was built without the features mp3 and opus lacks these.
    #[arg(long, value_name = "FORMAT", visible_alias = "format", alias = "output-format")]
    pub(crate) audio_format: Option<String>,

    /// Bitrate of an MP3 in kbit/s, 32 to 320 [default: 128].
    #[arg(long, value_name = "KBIT", value_parser = kilobits)]
    pub(crate) mp3_bitrate: Option<i64>,

    /// Sample rate of an MP3 in Hz, 44100 or 48000 [default: 48000].
    #[arg(long, value_name = "HZ")]
    pub(crate) mp3_sample_rate: Option<i64>,

    /// Bitrate of an Opus file in kbit/s, 6 to 510 [default: 128].
    #[arg(long, value_name = "KBIT", value_parser = kilobits)]
    pub(crate) opus_bitrate: Option<i64>,

    /// Level of the loudest sample in dB relative to full scale, -60 to 0 [default: -1].
    #[arg(long, value_name = "DB", conflicts_with_all = ["no_normalization", "lufs", "peak_clip"])]
    pub(crate) normalization_db: Option<f64>,

    /// Keep the loudness as it is, unless it exceeds full scale.
    #[arg(long, alias = "no-enable-normalization")]
    #[arg(conflicts_with_all = ["lufs", "peak_clip"])]
    pub(crate) no_normalization: bool,

    /// Integrated loudness in LUFS (EBU R 128), -60 to -5, in place of a peak level, e.g. -14.
    ///
    /// If the true peak would exceed -1 dB, the song gets less loud, and a note says so.
    #[arg(long, value_name = "LUFS", conflicts_with = "peak_clip")]
    pub(crate) lufs: Option<f64>,

    /// Samples per million that may be clipped, 0 to 999; acestep.cpp's loudness.
    #[arg(long, value_name = "N")]
    pub(crate) peak_clip: Option<i64>,

    /// Length of the fade-in in seconds, up to 600 [default: 0].
    #[arg(long, value_name = "SECONDS", visible_alias = "fade-in")]
    pub(crate) fade_in_duration: Option<f64>,

    /// Length of the fade-out in seconds, up to 600 [default: 0].
    #[arg(long, value_name = "SECONDS", visible_alias = "fade-out")]
    pub(crate) fade_out_duration: Option<f64>,
}

impl Sound {
    /// Puts the typed flags over `output`, except the format, which depends on the file's name
    /// too.
    pub(crate) fn put_over(&self, output: &mut Output) {
        // There are several ways to set the loudness: a typed one clears the others.
        if self.normalization_db.is_some() || self.lufs.is_some() || self.peak_clip.is_some() {
            (output.lufs, output.peak_clip, output.normalization_db) = (None, None, None);
            output.enable_normalization = Some(true);
        }
        if self.no_normalization {
            output.enable_normalization = Some(false);
        }
        put_all!(self => output;
            normalization_db, lufs, peak_clip, fade_in_duration, fade_out_duration, mp3_bitrate,
            mp3_sample_rate, opus_bitrate);
    }
}

/// Parses `128`, or upstream's `128k`.
fn kilobits(text: &str) -> Result<i64, String> {
    let text = text.trim();
    let number = text.strip_suffix(['k', 'K']).unwrap_or(text);
    number.parse().map_err(|_| "a bitrate is a number of kilobits a second, e.g. 128".to_owned())
}
