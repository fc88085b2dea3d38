//! Flags of `voice`: voices of recordings, kept for `speak`.

use std::path::PathBuf;

use acestep_session::speech::Fields;
use clap::Subcommand;
use serde::Serialize;

use super::{device::Where, files::Files, values::given};
use crate::cli_error::CliError;

/// Actions on voices.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Command {
    /// Keep the voice of a recording under a name.
    Make(Box<Make>),
    /// List the kept voices.
    List {
        /// Print one JSON object on standard output.
        #[arg(long)]
        json: bool,
    },
    /// Show one voice: its model, its words, its length.
    Show {
        /// Name, as `acestep voice list` shows it.
        #[arg(value_name = "NAME")]
        name: String,

        /// Print one JSON object on standard output.
        #[arg(long)]
        json: bool,
    },
    /// Delete voices.
    Remove {
        /// Names, as `acestep voice list` shows them.
        #[arg(value_name = "NAME", required = true)]
        names: Vec<String>,
    },
}

/// Flags of `voice make`.
#[derive(Debug, Clone, clap::Args, Serialize)]
pub(crate) struct Make {
    /// Name: letters, digits, - and _; not the name of a model's speaker.
    #[arg(value_name = "NAME")]
    #[serde(skip)]
    pub(crate) name: String,

    /// Recording of the voice, for a base model: 3 to 15 seconds of clear speech.
    #[arg(long, value_name = "FILE", aliases = ["ref-audio", "ref-wav"])]
    #[arg(required_unless_present = "speaker_1")]
    pub(crate) reference: Option<PathBuf>,

    /// Words of --reference; with them the manner of speaking is kept too. @FILE reads a file.
    #[arg(long, value_name = "TEXT", requires = "reference")]
    #[serde(skip)]
    pub(crate) transcript: Option<String>,

    /// Language that will be spoken; another one later reads the prompt anew [default: auto].
    #[arg(long, value_name = "NAME", requires = "reference")]
    pub(crate) language: Option<String>,

    /// Recording of the first speaker of scripts, for a dialogue model: 5 to 10 seconds.
    #[arg(long, value_name = "FILE", alias = "prefix-speaker-1", conflicts_with = "reference")]
    pub(crate) speaker_1: Option<PathBuf>,

    /// Words of --speaker-1 with their times, as JSON of an aligner [default: the recording's name with
    /// .json].
    #[arg(long, value_name = "FILE", requires = "speaker_1")]
    pub(crate) words_1: Option<PathBuf>,

    /// Recording of the second speaker.
    #[arg(long, value_name = "FILE", alias = "prefix-speaker-2", requires = "speaker_1")]
    pub(crate) speaker_2: Option<PathBuf>,

    /// As --words-1, for --speaker-2.
    #[arg(long, value_name = "FILE", requires = "speaker_2")]
    pub(crate) words_2: Option<PathBuf>,

    /// Model that makes it: a name of `acestep model list` or a directory [default: the first installed
    /// base model; with --speaker-1 the first installed dialogue model].
    #[arg(long, value_name = "NAME|DIR|FILE", help_heading = "Model and device")]
    #[serde(skip)]
    pub(crate) model: Option<String>,

    #[command(flatten)]
    #[serde(skip)]
    pub(crate) place: Where,

    #[command(flatten)]
    #[serde(skip)]
    pub(crate) files: Files,
}

impl Make {
    /// Returns the flags that were given as fields of a request, with the words of `transcript`.
    ///
    /// # Errors
    /// A file whose name is not UTF-8 text.
    pub(crate) fn fields(&self, transcript: Option<String>) -> Result<Fields, CliError> {
        let mut fields = given(self)?;
        fields.extend(transcript.map(|words| ("transcript".to_owned(), words.into())));
        Ok(fields)
    }
}
