//! Errors and notices of a run.

mod family;
mod fault;
mod hint;
mod numbers;
mod problem;
mod scores;
mod types;

use std::path::PathBuf;

use burn::tensor::DType;

pub use family::{BoxedFamilyError, FamilyError};
pub use fault::GpuFault;
pub use numbers::{counted, seconds, short, size};
pub use problem::Problem;
pub use scores::ScoreError;
pub use types::dtype_name;

/// A message to the user that is not an error: a default taken, a setting without effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice(
    /// One sentence, lower case, without a full stop; programs print it after `note: `. It names
    /// fields as an [`Error`] does.
    pub String,
);

impl std::fmt::Display for Notice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// An operation on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Creating.
    Create,
    /// Deleting.
    Delete,
}

impl std::fmt::Display for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Create => "create",
            Self::Delete => "delete",
        })
    }
}

/// Every error of this crate; [`Error::hint`] suggests a fix if one is known.
///
/// Messages and hints name a field by its key in a request, as `` `key` `` or `` `key: value` ``,
/// and other settings in the same spelling (`device`, `dtype`, `force`). A program may replace
/// these by its own spelling: the command line writes `--key`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what most fields hold")]
pub enum Error {
    /// A number that is out of range, or not a number.
    #[error("`{field}: {value}` is out of range: {range}")]
    OutOfRange {
        /// The key of the request, or the name of a setting in the same spelling.
        field: &'static str,
        value: String,
        range: String,
    },
    /// A value that is not one of the choices, or that cannot be parsed.
    #[error("`{field}: {value}` cannot be used: {why}")]
    BadValue {
        /// The key of the request, or the name of a setting in the same spelling.
        field: &'static str,
        /// The given value, shortened.
        value: String,
        why: String,
        /// The most similar valid name, if any.
        near: Option<String>,
    },
    /// Two fields that exclude each other.
    #[error("{0}")]
    Conflict(String),
    /// A feature of ACE-Step that is not implemented.
    #[error("{0} is not in this version")]
    NotInThisVersion(String),
    /// A request file that is not a JSON object.
    #[error("the request is not a JSON object: {0}")]
    RequestSyntax(String),
    /// A setting that the request file has twice, with different values.
    #[error("the request has {0}: leave one out")]
    RequestTwice(String),
    /// A key that no known program writes.
    #[error("the request has an unknown key `{key}`")]
    UnknownKey {
        key: String,
        /// The most similar key that exists.
        near: Option<String>,
    },
    /// A key's value has the wrong type.
    #[error("the request's `{key}` is {value}, but {expected}")]
    RequestValue {
        key: String,
        /// Its value as JSON, shortened.
        value: String,
        expected: String,
    },
    /// A file could not be read or written.
    #[error("cannot {action} `{path}`")]
    File {
        action: Action,
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    /// The output path is a directory.
    #[error("cannot write `{path}`: it is a directory")]
    IsDirectory { path: PathBuf },
    /// The output path is a device, a pipe or a socket.
    #[error("cannot write `{path}`: it is not a regular file")]
    NotAFile { path: PathBuf },
    /// The output exists and may not be replaced.
    #[error("`{path}` exists already")]
    AlreadyExists { path: PathBuf },
    /// A finished file that could not get its name.
    #[error("{cause}; what was made is kept as `{}`", .kept.display())]
    Elsewhere { kept: PathBuf, cause: Box<Self> },
    /// A sound file that cannot be decoded.
    #[error("cannot listen to `{path}`: {problem}")]
    Unheard { path: PathBuf, problem: Problem },
    /// A picture that could not be encoded.
    #[error("the picture cannot be written as PNG: {0}")]
    Picture(String),
    /// Audio that a format cannot represent.
    #[error("this audio cannot be {format}: {why}")]
    Encode { format: &'static str, why: String },
    /// A cargo feature that this build lacks.
    #[error("{what} is not built into this program")]
    NotBuiltIn {
        /// The requested function, as a noun phrase.
        what: String,
        /// The cargo feature that provides it.
        feature: &'static str,
    },
    /// A stage returned NaN or infinity.
    #[error("{stage} gave {} not finite, the first at {first}", values(*count))]
    NotFinite {
        /// The stage, e.g. `the VAE`.
        stage: String,
        count: usize,
        /// Index of the first one, in storage order.
        first: usize,
        /// The requested float type. If it was narrower than f32, a second run in f32 failed too.
        dtype: DType,
    },
    /// The audio is silent.
    #[error("{stage} gave silence: rms {rms:.1e}, peak {peak:.1e}")]
    Silent { stage: String, rms: f32, peak: f32 },
    /// A token of the tokenizer that the text encoder does not have.
    #[error("the tokenizer gave token {id}, but the text encoder's table has {rows} rows")]
    ForeignTokenizer { id: u32, rows: usize },
    /// A prompt that leaves no room for the answer.
    #[error("the language model would read and write {tokens} tokens, of at most {most}")]
    PromptTooLong {
        /// The minimum number of tokens needed.
        tokens: usize,
        most: usize,
    },
    /// Logits of the language model that no token can be chosen from.
    #[error("the language model's scores cannot be used at token {step}{}", after(had))]
    Scores {
        /// The number of tokens written before.
        step: usize,
        /// The requested float type. If it was narrower than f32, a second run in f32 failed too.
        dtype: DType,
        #[source]
        source: ScoreError,
        had: String,
    },
    /// A language model that did not stop.
    #[error(
        "the language model did not come to an end within {}{}", counted(*tokens, "token"), after(had)
    )]
    NeverStopped { tokens: usize, had: String },
    /// A language model that repeats one code.
    #[error("the language model wrote audio code {code} {times} times in a row{}", after(had))]
    Repeats { code: u32, times: usize, had: String },
    /// An answer without any usable content.
    #[error("the language model wrote {what}{}", after(had))]
    NothingValid { what: String, had: String },
    /// A device that is not available.
    #[error("device `{device}` is not available: {why}")]
    NoDevice { device: String, why: String },
    /// A stage that needs more memory than is available.
    #[error(
        "the {stage} stage needs about {} of memory, but {device} has {}", size(*needed), size(*free)
    )]
    OutOfMemory {
        /// The stage that needs most memory.
        stage: String,
        /// Bytes needed.
        needed: u64,
        /// Bytes available.
        free: u64,
        device: String,
    },
    /// A tensor larger than the device's maximum.
    #[error(
        "the {stage} stage needs a tensor of {}, but {device} takes at most {} in one piece",
        size(*needed), size(*most)
    )]
    TensorTooLarge { stage: String, needed: u64, most: u64, device: String },
    /// A failure of the device during work.
    #[error("{device} failed in the {stage} stage: {why}")]
    DeviceFailed {
        device: String,
        stage: String,
        /// The backend's message.
        why: String,
    },
    /// A network that overflowed in a narrow float type, and does not fit into memory in f32.
    #[error(
        "{who} overflowed in {}, and in f32 it would need {} of memory, but {device} has {}, not all \
         of which can be used", dtype_name(*dtype), size(*needed), size(*free)
    )]
    NoRoomForF32 {
        /// The network, as a noun phrase.
        who: &'static str,
        dtype: DType,
        /// Bytes needed, including other data that stays in memory.
        needed: u64,
        /// Bytes available.
        free: u64,
        device: String,
    },
    /// The user cancelled the run.
    #[error("stopped")]
    Cancelled,
    /// The checkpoint could not load a network.
    #[error(transparent)]
    Checkpoint(Box<dyn std::error::Error + Send + Sync>),
    /// An error of a model family.
    #[error(transparent)]
    Family(BoxedFamilyError),
}

impl Error {
    /// Wraps an error of the crate that reads checkpoints.
    pub fn checkpoint(error: impl Into<acestep_model::CheckpointError>) -> Self {
        Self::Checkpoint(error.into())
    }

    /// True if a wider float type might help.
    pub(crate) fn is_overflow(&self) -> bool {
        match self {
            Self::NotFinite { .. } => true,
            Self::Scores { source, .. } => {
                matches!(source, ScoreError::NotANumber { .. } | ScoreError::Infinite { .. })
            }
            _ => false,
        }
    }

    /// Replaces the float type by `first`, the type of the first attempt.
    #[must_use]
    pub fn after(mut self, first: DType) -> Self {
        if let Self::NotFinite { dtype, .. } | Self::Scores { dtype, .. } = &mut self {
            *dtype = first;
        }
        self
    }

    /// Returns the full text that the language model had written when it failed.
    pub fn written(&self) -> Option<&str> {
        match self {
            Self::Scores { had, .. }
            | Self::NeverStopped { had, .. }
            | Self::Repeats { had, .. }
            | Self::NothingValid { had, .. } => Some(had),
            _ => None,
        }
    }
}

/// Returns a number of values, before `not finite`.
fn values(count: usize) -> String {
    if count == 1 { "1 value that is".to_owned() } else { format!("{count} values that are") }
}

/// Returns the end of a language model's text, formatted for a message.
fn after(had: &str) -> String {
    const SHOWN: usize = 200;
    let had = had.trim();
    if had.is_empty() {
        return String::new();
    }
    let count = had.chars().count();
    // Replace control characters, which a terminal would obey.
    let plain = |c: char| if c.is_control() && c != '\n' { ' ' } else { c };
    let end: String = had.chars().skip(count.saturating_sub(SHOWN)).map(plain).collect();
    format!("; it had written: {}{end}", if count > SHOWN { "... " } else { "" })
}

/// Truncates `text` for a message.
pub fn shortened(text: &str) -> String {
    const MOST: usize = 40;
    if text.chars().count() <= MOST {
        return text.to_owned();
    }
    text.chars().take(MOST).chain("...".chars()).collect()
}
