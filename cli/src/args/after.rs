//! Flags about a finished song: when its lines are sung, how good it is, a picture of it.

use std::path::PathBuf;

use clap::ValueHint;

/// Shown under the long help of `plot`.
pub(crate) const PLOT_EXAMPLES: &str = "\
Examples:
  acestep plot song.wav
      writes song.png: waveform, mel spectrogram, time axis
  acestep plot song.wav --show
      the same in letters, here
  acestep plot song.wav --lrc song.lrc -o picture.png
      the same with the lines of song.lrc at their times";

/// What is made of a finished song.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "After the song")]
pub(crate) struct After {
    /// Also writes song.lrc: when each line is sung.
    #[arg(long, hide_short_help = true)]
    pub(crate) lrc: bool,

    /// The same in a file of this name.
    ///
    /// {seed} and {index} are filled in; several files without either are told apart by _1, _2.
    #[arg(
        long,
        value_name = "FILE",
        alias = "output_lrc",
        hide_short_help = true,
        value_hint = ValueHint::FilePath
    )]
    pub(crate) output_lrc: Option<PathBuf>,

    /// The lines as WebVTT subtitles, in a file of this name.
    #[arg(
        long,
        value_name = "FILE",
        alias = "output_vtt",
        hide_short_help = true,
        value_hint = ValueHint::FilePath
    )]
    pub(crate) output_vtt: Option<PathBuf>,

    /// Also writes song.png: waveform, spectrogram, lines.
    #[arg(long, hide_short_help = true)]
    pub(crate) plot: bool,

    /// The same in a file of this name.
    #[arg(
        long,
        value_name = "FILE",
        alias = "output_plot",
        hide_short_help = true,
        value_hint = ValueHint::FilePath
    )]
    pub(crate) output_plot: Option<PathBuf>,

    /// Says how good each song is, the best first.
    ///
    /// The transformer says how well the words can be followed; the language model, if there is one
    /// and the song has audio codes, how much of what was asked for it hears in them.
    #[arg(long, hide_short_help = true)]
    pub(crate) score: bool,

    /// What the language model finds much likelier, in nats a token, 0.001 to 100 [default: 0.1].
    #[arg(
        long,
        value_name = "X",
        alias = "score_scale",
        hide_short_help = true,
        requires = "score",
        allow_negative_numbers = true
    )]
    pub(crate) score_scale: Option<f64>,
}

impl After {
    /// Whether the times of the lines are wanted.
    pub(crate) fn wants_lines(&self) -> bool {
        self.lrc || self.output_lrc.is_some() || self.output_vtt.is_some()
    }
}

/// Shown under the long help of `play`.
pub(crate) const PLAY_EXAMPLES: &str = "\
Examples:
  acestep play song.wav
      until it is over, or Ctrl-C
  acestep generate \"jazz trio\" | xargs acestep play
      what was just made: standard output is the path";

/// Flags of `play`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Play {
    /// Sound files: WAV, FLAC, MP3, Ogg, M4A, AIFF.
    #[arg(value_name = "SONG", required = true, value_hint = ValueHint::FilePath)]
    pub(crate) songs: Vec<PathBuf>,
}

/// Flags of `plot`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Plot {
    /// A sound file: WAV, FLAC, MP3, Ogg, M4A, AIFF.
    #[arg(value_name = "SONG", value_hint = ValueHint::FilePath)]
    pub(crate) song: PathBuf,

    /// The file to write [default: the song's name with .png].
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,

    /// Lines and their times, from a file that --lrc wrote.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) lrc: Option<PathBuf>,

    /// Shows it here, as letters, in place of a file; with --output both.
    ///
    /// In the colours that the terminal says it has, all (COLORTERM) or 256 (TERM), and in letters of
    /// ASCII, without colours, where those of its language are no Unicode. Where TERM is dumb, a file is
    /// written.
    #[arg(long)]
    pub(crate) show: bool,

    /// What stands above the picture [default: the song's name].
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    pub(crate) title: Option<String>,

    /// Replaces the file if it exists.
    #[arg(long)]
    pub(crate) force: bool,
}
