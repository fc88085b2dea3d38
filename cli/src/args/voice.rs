//! Flags of `voice`: voices of recordings, kept for `speak`.

use std::path::PathBuf;

use acestep_session::speech::Fields;
use clap::{Subcommand, ValueHint};

use super::{device::Where, files::Files};

/// Shown under the long help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  acestep voice make me --reference me.wav --transcript \"These are my words.\"
      keeps the voice of a recording, with its words also its manner
  acestep speak \"Good morning.\" --voice me
      speaks with it, and with the model that made it; the recording is not needed any more
  acestep voice make both --speaker-1 anna.wav --speaker-2 ben.wav --model dia2-1b
      keeps the voices of two speakers for scripts; anna.json and ben.json have the words and their times
  acestep voice list
      shows the kept voices
  acestep voice show me
      shows its model, its words and its file
  acestep voice remove me
      deletes one

A voice is one file in acestep/voices of the user's data directory, on Linux ~/.local/share. It holds
the voice's vector, the codes of the recording, and the state of the model after the rows of its prompt
that do not depend on the text. Other models of the same size can use it too, but read the prompt anew.
The voices of a dialogue are the codes and words of the recordings, and the state of the model after them.";

/// Flags of `voice`.
#[derive(Debug, Clone, clap::Args)]
#[command(arg_required_else_help = true, subcommand_required = true)]
#[command(disable_help_subcommand = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Actions on voices.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Command {
    /// Keep the voice of a recording under a name.
    Make(Box<Make>),
    /// List the kept voices.
    List(List),
    /// Show one voice: its model, its words, its length.
    Show(Show),
    /// Delete voices.
    Remove(Remove),
}

/// Flags of `voice make`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Make {
    /// Name: letters, digits, - and _.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// Recording of the voice, for a base model: 3 to 15 seconds of clear speech.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(required_unless_present = "speaker_1")]
    pub(crate) reference: Option<PathBuf>,

    /// Words of --reference; with them the manner of speaking is kept too. @FILE reads a file.
    #[arg(long, value_name = "TEXT", requires = "reference")]
    pub(crate) transcript: Option<String>,

    /// Language that will be spoken; another one later reads the prompt anew [default: auto].
    #[arg(long, value_name = "NAME", requires = "reference")]
    pub(crate) language: Option<String>,

    /// Recording of the first speaker of scripts, for a dialogue model: 5 to 10 seconds.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with = "reference")]
    pub(crate) speaker_1: Option<PathBuf>,

    /// Words of --speaker-1 with their times, as JSON of an aligner [default: the recording's name with
    /// .json].
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "speaker_1")]
    pub(crate) words_1: Option<PathBuf>,

    /// Recording of the second speaker.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "speaker_1")]
    pub(crate) speaker_2: Option<PathBuf>,

    /// As --words-1, for --speaker-2.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, requires = "speaker_2")]
    pub(crate) words_2: Option<PathBuf>,

    /// Model that makes it: a name of `acestep model list` or a directory [default: the first installed
    /// base model; with --speaker-1 the first installed dialogue model].
    #[arg(long, value_name = "NAME|DIR|FILE", help_heading = "Model and device")]
    pub(crate) model: Option<String>,

    #[command(flatten)]
    pub(crate) place: Where,

    #[command(flatten)]
    pub(crate) files: Files,
}

impl Make {
    /// Returns the flags that were given as fields of a request, with the words of `transcript`.
    pub(crate) fn fields(&self, transcript: Option<String>) -> Fields {
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let fields = [
            ("reference", path(&self.reference)),
            ("transcript", transcript),
            ("language", self.language.clone()),
            ("speaker_1", path(&self.speaker_1)),
            ("words_1", path(&self.words_1)),
            ("speaker_2", path(&self.speaker_2)),
            ("words_2", path(&self.words_2)),
        ];
        let given = fields.into_iter().filter_map(|(field, value)| Some((field, value?)));
        given.map(|(field, value)| (field.to_owned(), value.into())).collect()
    }
}

/// Flags of `voice list`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct List {
    /// Print one JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Flags of `voice show`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Show {
    /// Name, as `acestep voice list` shows it.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,

    /// Print one JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Flags of `voice remove`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Remove {
    /// Names, as `acestep voice list` shows them.
    #[arg(value_name = "NAME", required = true)]
    pub(crate) names: Vec<String>,
}
