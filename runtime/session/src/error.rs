//! Errors that only tasks have.

use std::{error::Error as StdError, num::NonZero, path::PathBuf};

use acestep_engine::{
    Error,
    error::{FamilyError, counted},
};

/// An error of a task; inside [`acestep_engine::Error::Family`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what most fields hold")]
pub enum SessionError {
    /// A song wants a language model, and there is none. The song can be made without it.
    #[error("{0}")]
    NoLanguageModel(#[source] acestep_import::Error),
    /// Times of lines or scores of words for a condition that was read.
    #[error("a conditioning from files does not tell where the lyrics stand")]
    NoWordsInCondition,
    /// Codes for a task that follows a song.
    #[error("`{0}` follows a song, and has no use for a plan's codes")]
    FollowsSong(&'static str),
    /// An empty caption for the language model that writes a song from it.
    #[error("there is no description to be inspired by")]
    NoDescription,
    /// Speech that does not fit into memory.
    #[error("{0}")]
    SpeechTooLarge(Box<Error>),
    /// A text that cannot be spoken, of several.
    #[error("line {line} cannot be spoken: {error}")]
    Line { line: usize, error: Box<Error> },
    /// Settings of speech of the wrong types.
    #[error("the settings of speech cannot be read: {why}")]
    SpeechFields { why: String },
    /// No folder of kept voices.
    #[error("there is no home directory to keep voices in")]
    NoVoices,
    /// A kept voice, for a model with voices of its own.
    #[error("`{name}` is a kept voice, and `{model}` takes none")]
    KeptVoice { name: String, model: String },
    /// A name for a kept voice that a model's own voice has.
    #[error("`{name}` is a voice of the model `{model}`")]
    VoiceOfModel { name: String, model: String },
    /// A model that speaks only with voices of its own.
    #[error("`{model}` speaks with voices of its own, and keeps none of recordings")]
    KeepsNoVoices { model: String },
    /// A text that is too large.
    #[error("{what} is larger than {most} MiB")]
    TooLarge { what: String, most: u64 },
    /// A text in no known encoding.
    #[error("{what} is not UTF-8 text: line {line} has a byte that is none")]
    NotText { what: String, line: usize },
    /// A song without a request.
    #[error("the song `{}` has no request in its tags", .path.display())]
    NoRequest { path: PathBuf },
    /// A list of genres without any.
    #[error("`{}` names no genre", .path.display())]
    NoGenre { path: PathBuf },
    /// Threads that the system does not start.
    #[error("{} for computing cannot be started", counted(count.get(), "thread"))]
    Threads { count: NonZero<usize>, source: Box<dyn StdError + Send + Sync> },
    /// A released model without a network that is quantised.
    #[error("no network of `{0}` runs in int8")]
    NotQuantized(&'static str),
    /// A recording that would make a kept voice too large.
    #[error("the recording is longer than {most} s")]
    LongRecording { most: f64 },
}

impl FamilyError for SessionError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoLanguageModel(absent) => {
                let other = "make the song without it: `thinking: false`";
                absent.hint().map_or_else(|| other.into(), |hint| format!("{hint}; or {other}"))
            }
            Self::NoWordsInCondition => "leave times of lines and scores out".into(),
            Self::FollowsSong(_) => "leave the codes out".into(),
            Self::NoDescription => "describe the song in `caption`".into(),
            Self::SpeechTooLarge(_) => {
                "pass `dtype: q8`, fewer texts at once, a shorter recording or limit, or a smaller model"
                    .into()
            }
            Self::Line { error, .. } => return error.hint(),
            Self::SpeechFields { .. } => "give each field a value of its type".into(),
            Self::NoVoices => "name a data directory with XDG_DATA_HOME (Windows: APPDATA)".into(),
            Self::KeptVoice { .. } => "pass the `model` that made it".into(),
            Self::VoiceOfModel { .. } => "choose another name".into(),
            Self::KeepsNoVoices { .. } => "choose a base model or a dialogue model".into(),
            Self::TooLarge { .. } => "check the path: no text or request is that long".into(),
            Self::NotText { .. } => "save it as UTF-8".into(),
            Self::NoRequest { .. } => {
                "only songs that this program made from a request have one".into()
            }
            Self::NoGenre { .. } => "write one genre a line, such as lo-fi hip hop".into(),
            Self::Threads { .. } => {
                "ask for fewer threads with `threads`, or close other programs".into()
            }
            Self::NotQuantized(_) => "quantise the models that use it".into(),
            Self::LongRecording { .. } => "pass 3 to 15 seconds of clear speech".into(),
        })
    }

    fn is_usage(&self) -> bool {
        match self {
            Self::NoWordsInCondition
            | Self::FollowsSong(_)
            | Self::NoDescription
            | Self::SpeechFields { .. }
            | Self::KeepsNoVoices { .. }
            | Self::NotQuantized(_)
            | Self::VoiceOfModel { .. }
            | Self::KeptVoice { .. } => true,
            Self::Line { error, .. } => error.is_usage(),
            Self::NoLanguageModel(_)
            | Self::SpeechTooLarge(_)
            | Self::NoVoices
            | Self::TooLarge { .. }
            | Self::NotText { .. }
            | Self::NoRequest { .. }
            | Self::NoGenre { .. }
            | Self::Threads { .. }
            | Self::LongRecording { .. } => false,
        }
    }
}
