//! Errors of training.

use std::path::PathBuf;

/// A reason why training stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of the stage could not be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A file or folder could not be written.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A state that is incomplete, or of another run.
    #[error("`{}`: {reason}", path.display())]
    State {
        /// The file.
        path: PathBuf,
        /// The problem.
        reason: String,
    },
    /// An error of the runtime, such as a failed write.
    #[error(transparent)]
    File(#[from] acestep_engine::Error),
    /// An error of a checkpoint that training starts from.
    #[error(transparent)]
    Checkpoint(#[from] acestep_import::Error),
    /// An invalid size of a network.
    #[error(transparent)]
    Config(#[from] acestep_model::ConfigError),
    /// A folder of songs that cannot be used for training.
    #[error("`{}`: {reason}", path.display())]
    Dataset {
        /// The folder, or a file in it.
        path: PathBuf,
        /// The problem.
        reason: String,
    },
    /// A failure of vocabulary training.
    #[error("no vocabulary could be learned: {0}")]
    Vocabulary(String),
    /// The loss or its gradient is NaN or infinite.
    #[error(
        "after step {step} the loss or its gradient is NaN or infinite: start again with a lower rate"
    )]
    Diverged {
        /// Number of completed steps.
        step: usize,
    },
}
