//! What can go wrong while a network learns.

use std::path::PathBuf;

/// Why training stopped.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of the stage could not be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A file or folder could not be written.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A state that does not belong here, or is cut.
    #[error("`{}`: {reason}", path.display())]
    State {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A file that is written whole or not at all.
    #[error(transparent)]
    File(#[from] acestep_runtime::Error),
    /// A checkpoint that training starts from.
    #[error(transparent)]
    Checkpoint(#[from] acestep_import::Error),
    /// A size of a network that cannot be.
    #[error(transparent)]
    Config(#[from] acestep_model::ConfigError),
    /// A folder of songs from which nothing can be learned.
    #[error("`{}`: {reason}", path.display())]
    Dataset {
        /// The folder, or a file in it.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// No vocabulary could be learned.
    #[error("no vocabulary could be learned: {0}")]
    Vocabulary(String),
    /// The loss is no number any more.
    #[error("after step {step} the loss or its gradient is no number: begin anew at a lower rate")]
    Diverged {
        /// Steps that were taken.
        step: usize,
    },
}
