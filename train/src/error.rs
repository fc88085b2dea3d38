//! Errors of training.

use std::{io::ErrorKind, path::PathBuf};

/// A reason why training stopped.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what most fields hold")]
pub enum Error {
    /// A file of the stage could not be read.
    #[error("cannot read `{}`", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    /// A file or folder could not be written.
    #[error("cannot write `{}`", path.display())]
    Write { path: PathBuf, source: std::io::Error },
    /// A state that is incomplete, or of another run.
    #[error("`{}`: {reason}", path.display())]
    State { path: PathBuf, reason: String },
    /// Another process trains in the folder.
    #[error("another training run uses `{}`", path.display())]
    Busy { path: PathBuf },
    /// An error of the runtime, such as a failed write.
    #[error(transparent)]
    File(#[from] acestep_engine::Error),
    /// An error of a checkpoint that training starts from.
    #[error(transparent)]
    Checkpoint(#[from] acestep_import::Error),
    /// An invalid size of a network.
    #[error(transparent)]
    Config(#[from] acestep_model::ConfigError),
    /// A data set that cannot be used for training.
    #[error("`{}`: {reason}", path.display())]
    Dataset {
        /// The folder or the file.
        path: PathBuf,
        reason: String,
    },
    /// A failure of vocabulary training.
    #[error("no vocabulary could be learned: {0}")]
    Vocabulary(String),
    /// The loss or its gradient is NaN or infinite.
    #[error("after step {step} the loss or its gradient is NaN or infinite")]
    Diverged {
        /// Number of completed steps.
        step: usize,
    },
}

/// Remedy if there are no usable songs.
const SONGS: &str = "name a folder of songs, each with a text beside it, or give all of them one \
                     with `caption`";

impl Error {
    /// Returns the remedy in one sentence, if one is known.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::State { .. } => "start again with `force: true`",
            Self::Busy { .. } => "wait for its end, or name another folder with `output`",
            Self::Diverged { .. } => "use a smaller `learning_rate` or `alpha`",
            Self::Dataset { path, .. } if path.is_file() => {
                "mend that file: texts of a song in JSON have keys of a request, such as caption and lyrics"
            }
            Self::Dataset { .. } => SONGS,
            Self::Read { source, .. } => match source.kind() {
                ErrorKind::NotFound | ErrorKind::NotADirectory => SONGS,
                _ => "check its permissions, and the disk",
            },
            Self::Write { .. } => {
                "check its permissions and the free space, or name another folder with `output`"
            }
            Self::File(_) | Self::Checkpoint(_) | Self::Config(_) | Self::Vocabulary(_) => {
                return None;
            }
        })
    }
}
