//! What can go wrong between a request and its audio, and how to mend it.

mod hint;

use std::path::PathBuf;

use burn::tensor::DType;

use crate::audio::read::Problem;

/// Something the user should know that stops nothing: a default taken, a setting without effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice(
    /// One sentence, lower case, no full stop, as a program prints it after `note: `.
    pub String,
);

impl std::fmt::Display for Notice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// What was tried with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// To read it.
    Read,
    /// To write what it should hold.
    Write,
    /// To make it.
    Create,
}

impl std::fmt::Display for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Create => "create",
        })
    }
}

/// Every error of this crate; [`Error::hint`] says how to mend it where that is known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A number outside its range, or not a number at all.
    #[error("`--{flag} {value}` is out of range: {range}")]
    OutOfRange {
        /// The option, without dashes.
        flag: &'static str,
        /// What was given.
        value: String,
        /// What is allowed.
        range: String,
    },
    /// A value that is not one of the choices, or that cannot be read.
    #[error("`--{flag} {value}` cannot be used: {why}")]
    BadValue {
        /// The option, without dashes.
        flag: &'static str,
        /// What was given, shortened.
        value: String,
        /// Why not.
        why: String,
        /// What was probably meant, if it is one of a few names.
        near: Option<String>,
    },
    /// Two options that exclude each other.
    #[error("{0}")]
    Conflict(String),
    /// Neither caption nor lyrics.
    #[error("there is nothing to sing or play: caption and lyrics are both empty")]
    NothingAsked,
    /// A language code the model was not trained on.
    #[error("`--vocal-language {code}` is not a language the model knows")]
    UnknownLanguage {
        /// What was given.
        code: String,
        /// Similar codes.
        near: Vec<&'static str>,
    },
    /// A feature of ACE-Step that is not built yet.
    #[error("{0} is not in this version")]
    NotInThisVersion(String),
    /// A request file that is not a JSON object.
    #[error("the request is not a JSON object: {0}")]
    RequestSyntax(String),
    /// A key no program of the family writes.
    #[error("the request has an unknown key `{key}`")]
    UnknownKey {
        /// The key.
        key: String,
        /// The most similar key that exists.
        near: Option<String>,
    },
    /// A key's value has the wrong type.
    #[error("the request's `{key}` is {value}, but {expected}")]
    RequestValue {
        /// The key.
        key: String,
        /// Its value as JSON, shortened.
        value: String,
        /// What it must be.
        expected: String,
    },
    /// An item of a list of audio codes that is no code.
    #[error("audio code {index} is `{item}`, but a code is a whole number such as 17")]
    BadCode {
        /// Its place, from 1.
        index: usize,
        /// The item, shortened.
        item: String,
    },
    /// A file could not be read or written.
    #[error("cannot {action} `{path}`")]
    File {
        /// What was tried.
        action: Action,
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A directory stands where a file should be written.
    #[error("cannot write `{path}`: it is a directory")]
    IsDirectory {
        /// Which.
        path: PathBuf,
    },
    /// A device, a pipe or a socket stands where a file should be written.
    #[error("cannot write `{path}`: it is not a regular file")]
    NotAFile {
        /// Which.
        path: PathBuf,
    },
    /// The output exists and may not be replaced.
    #[error("`{path}` exists already")]
    AlreadyExists {
        /// Which.
        path: PathBuf,
    },
    /// A file that was finished and could not have its name.
    #[error("{cause}; what was made is kept as `{}`", .kept.display())]
    Elsewhere {
        /// Where it is.
        kept: PathBuf,
        /// Why not.
        cause: Box<Self>,
    },
    /// A file of conditioning that does not have the promised form.
    #[error("`{path}` cannot be used as conditioning: {why}")]
    Conditioning {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A file that holds no latents.
    #[error("`{path}` cannot be used as latents: {why}")]
    Latents {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A file of what a language model has read that is none, or another model's.
    #[error("`{path}` cannot be used as what the language model has read: {why}")]
    Snapshot {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A sound file that cannot be heard.
    #[error("cannot listen to `{path}`: {problem}")]
    Unheard {
        /// Which.
        path: PathBuf,
        /// Why not.
        problem: Problem,
    },
    /// Sound of less than one frame of latents.
    #[error("{seconds:.3} s of sound are too short to listen to: one frame is {least:.3} s")]
    TooShort {
        /// How long it is.
        seconds: f64,
        /// How long a frame is.
        least: f64,
    },
    /// A source or a reference in which nothing can be heard.
    #[error("it is silent")]
    SilentSource,
    /// A song that is longer than any the networks know.
    #[error("the song would be {seconds:.1} s long, but {most} s is the most")]
    TooLong {
        /// How long it would be.
        seconds: f64,
        /// How long it may be.
        most: f64,
    },
    /// A task that starts from a song, without one.
    #[error("`--task-type {task}` needs a song to start from")]
    NoSource {
        /// The task.
        task: &'static str,
    },
    /// A task about one track that names none.
    #[error("`--task-type {task}` needs the name of a track")]
    NoTrack {
        /// The task.
        task: &'static str,
    },
    /// A task that the model was not trained for.
    #[error("{model} cannot do `{task}`: only base and sft models were trained for it")]
    WrongModel {
        /// The task.
        task: &'static str,
        /// The model.
        model: String,
    },
    /// Which heads of the model follow the lyrics is not known.
    #[error("where the lyrics are sung in a song of this model cannot be found")]
    NoAlignment(#[source] acestep_model::ConfigError),
    /// A picture could not be made into a file.
    #[error("the picture cannot be written as PNG: {0}")]
    Picture(String),
    /// Audio that a format cannot hold.
    #[error("this audio cannot be a {format}: {why}")]
    Encode {
        /// The format, as a person calls it.
        format: &'static str,
        /// What stands against it.
        why: String,
    },
    /// A cargo feature that this build was made without.
    #[error("{what} is not built into this program")]
    NotBuiltIn {
        /// What was asked for, as a noun phrase.
        what: String,
        /// The feature that has it.
        feature: &'static str,
    },
    /// A stage gave NaN or infinity.
    #[error("{stage} gave {count} values that are not finite, the first at {first}")]
    NotFinite {
        /// The stage, e.g. `the VAE`.
        stage: String,
        /// How many values.
        count: usize,
        /// Index of the first, in storage order.
        first: usize,
        /// The float type that was asked for; where it was too narrow, f32 did not help either.
        dtype: DType,
    },
    /// The audio is inaudible.
    #[error("{stage} gave silence: rms {rms:.1e}, peak {peak:.1e}")]
    Silent {
        /// The stage.
        stage: String,
        /// Root mean square.
        rms: f32,
        /// Largest magnitude.
        peak: f32,
    },
    /// The tokenizer knows tokens that the text encoder does not.
    #[error("the tokenizer gave token {id}, but the text encoder's table has {rows} rows")]
    ForeignTokenizer {
        /// The token.
        id: u32,
        /// Rows of the table.
        rows: usize,
    },
    /// A prompt that leaves no room for its answer.
    #[error("the language model would read and write {tokens} tokens, of at most {most}")]
    PromptTooLong {
        /// The least that is needed.
        tokens: usize,
        /// The limit.
        most: usize,
    },
    /// Scores of the language model that no token can be chosen by.
    #[error("the language model's scores cannot be used at token {step}{}", after(had))]
    Scores {
        /// How many tokens had been written.
        step: usize,
        /// The float type that was asked for; where it was too narrow, f32 did not help either.
        dtype: DType,
        /// What is wrong with them.
        #[source]
        source: crate::lm::sample::ScoreError,
        /// What was written until then.
        had: String,
    },
    /// A language model that does not come to an end.
    #[error("the language model did not come to an end within {tokens} tokens{}", after(had))]
    NeverStopped {
        /// How many it was allowed.
        tokens: usize,
        /// What it had written.
        had: String,
    },
    /// A language model that stands still.
    #[error("the language model wrote audio code {code} {times} times in a row{}", after(had))]
    Repeats {
        /// The code.
        code: u32,
        /// How often.
        times: usize,
        /// All codes.
        had: String,
    },
    /// An answer without anything that can be used.
    #[error("the language model wrote {what}{}", after(had))]
    NothingValid {
        /// What it wrote, or did not.
        what: String,
        /// The answer.
        had: String,
    },
    /// A device that is not there.
    #[error("device `{device}` is not available: {why}")]
    NoDevice {
        /// As it was asked for.
        device: String,
        /// Why not.
        why: String,
    },
    /// More memory than there is.
    #[error(
        "the {stage} stage needs about {} of memory, but {device} has {}", size(*needed), size(*free)
    )]
    OutOfMemory {
        /// The stage that needs most.
        stage: String,
        /// Bytes that are needed.
        needed: u64,
        /// Bytes that can be had.
        free: u64,
        /// The device.
        device: String,
    },
    /// A tensor larger than the device takes.
    #[error(
        "the {stage} stage needs a tensor of {}, but {device} takes at most {} in one piece",
        size(*needed), size(*most)
    )]
    TensorTooLarge {
        /// The stage.
        stage: String,
        /// Bytes of the tensor.
        needed: u64,
        /// Bytes that the device takes.
        most: u64,
        /// The device.
        device: String,
    },
    /// The device failed in the middle of its work.
    #[error("{device} failed in the {stage} stage: {why}")]
    DeviceFailed {
        /// The device.
        device: String,
        /// What it worked on.
        stage: String,
        /// What the backend says.
        why: String,
    },
    /// A network that overflowed in a narrow type, and has no room in f32.
    #[error(
        "{who} overflowed in {}, and in f32 it would need {} of memory, but {device} has {}, not all \
         of which can be used", crate::device::dtype::name(*dtype), size(*needed), size(*free)
    )]
    NoRoomForF32 {
        /// The network, as a noun phrase.
        who: &'static str,
        /// The type that was too narrow.
        dtype: DType,
        /// Bytes that are needed, with what stays in memory beside it.
        needed: u64,
        /// Bytes that can be had.
        free: u64,
        /// The device.
        device: String,
    },
    /// The user asked to stop.
    #[error("stopped")]
    Cancelled,
    /// The checkpoint could not deliver a part.
    #[error(transparent)]
    Checkpoint(Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// Wraps an error of the crate that reads checkpoints.
    pub fn checkpoint(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Checkpoint(Box::new(error))
    }

    /// Whether a wider float type might help.
    pub(crate) fn is_overflow(&self) -> bool {
        use crate::lm::sample::ScoreError;
        match self {
            Self::NotFinite { .. } => true,
            Self::Scores { source, .. } => {
                matches!(source, ScoreError::NotANumber { .. } | ScoreError::Infinite { .. })
            }
            _ => false,
        }
    }

    /// The same, where `dtype` was tried first.
    pub(crate) fn after(mut self, first: DType) -> Self {
        if let Self::NotFinite { dtype, .. } | Self::Scores { dtype, .. } = &mut self {
            *dtype = first;
        }
        self
    }
}

/// `4.80 GB`, in powers of ten as disks are sold; three digits are enough.
pub fn size(bytes: u64) -> String {
    let (unit, name) = match bytes {
        0..1_000 => return format!("{bytes} B"),
        1_000..1_000_000 => (1e3, "kB"),
        1_000_000..1_000_000_000 => (1e6, "MB"),
        _ => (1e9, "GB"),
    };
    let value = bytes as f64 / unit;
    let digits = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.digits$} {name}")
}

/// The end of what a language model had written, to be read in a message.
fn after(had: &str) -> String {
    const SHOWN: usize = 200;
    let had = had.trim();
    if had.is_empty() {
        return String::new();
    }
    let count = had.chars().count();
    // Without what a terminal would obey: a model may write anything.
    let plain = |c: char| if c.is_control() && c != '\n' { ' ' } else { c };
    let end: String = had.chars().skip(count.saturating_sub(SHOWN)).map(plain).collect();
    format!("; it had written: {}{end}", if count > SHOWN { "... " } else { "" })
}

impl Error {
    /// What the language model had written when it failed, in full.
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

/// `text` cut to fit into a message.
pub(crate) fn shortened(text: &str) -> String {
    const MOST: usize = 40;
    if text.chars().count() <= MOST {
        return text.to_owned();
    }
    text.chars().take(MOST).chain("...".chars()).collect()
}
