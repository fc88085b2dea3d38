//! Flags about a finished song: times of its lines, scores, a picture.

use std::path::PathBuf;

/// Extra outputs for a finished song.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "After the song")]
pub(crate) struct After {
    /// Also write song.lrc: the time of each line.
    #[arg(long)]
    pub(crate) lrc: bool,

    /// Write these times to a file of this name, in place of song.lrc.
    ///
    /// {seed} and {index} are filled in; without either, several files get the suffixes _1, _2.
    #[arg(long, value_name = "FILE")]
    pub(crate) output_lrc: Option<PathBuf>,

    /// Also write the lines as WebVTT subtitles to a file of this name.
    #[arg(long, value_name = "FILE")]
    pub(crate) output_vtt: Option<PathBuf>,

    /// Also write song.png: waveform, spectrogram, lines.
    #[arg(long)]
    pub(crate) plot: bool,

    /// Write this picture to a file of this name, in place of song.png.
    #[arg(long, value_name = "FILE")]
    pub(crate) output_plot: Option<PathBuf>,

    /// Score each song, and list the best first.
    ///
    /// The diffusion transformer scores how well the lyrics can be followed. If there is a language
    /// model and the song has audio codes, it scores how much of the request it recognises in them.
    #[arg(long)]
    pub(crate) score: bool,

    /// Difference of the language model's scores that counts as large, in nats per token, 0.001 to
    /// 100 [default: 0.1].
    #[arg(long, value_name = "X", requires = "score")]
    pub(crate) score_scale: Option<f64>,
}

impl After {
    /// True if the times of the lines are wanted.
    pub(crate) fn wants_lines(&self) -> bool {
        self.lrc || self.output_lrc.is_some() || self.output_vtt.is_some()
    }
}

/// Flags of `play`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Play {
    /// Sound files: WAV, FLAC, MP3, Ogg, M4A, AIFF.
    #[arg(value_name = "SONG", required = true)]
    pub(crate) songs: Vec<PathBuf>,
}

/// Flags of `plot`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Plot {
    /// Sound file: WAV, FLAC, MP3, Ogg, M4A, AIFF.
    #[arg(value_name = "SONG")]
    pub(crate) song: PathBuf,

    /// File to write [default: the song's name with .png].
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// File with the lines and their times, as --lrc writes it.
    #[arg(long, value_name = "FILE")]
    pub(crate) lrc: Option<PathBuf>,

    /// Show the picture in the terminal, not in a file; with --output both.
    ///
    /// It has all colours if COLORTERM reports them, or 256 if TERM does. If the locale is not
    /// Unicode, it is ASCII without colours. If TERM is dumb, a file is written instead.
    #[arg(long)]
    pub(crate) show: bool,

    /// Title above the picture [default: the song's name].
    #[arg(long, value_name = "TEXT")]
    pub(crate) title: Option<String>,

    /// Replace an existing file.
    #[arg(long)]
    pub(crate) force: bool,
}
