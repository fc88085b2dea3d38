//! Errors that only speech has.

use std::path::PathBuf;

use acestep_engine::{error::FamilyError, nearest};

/// An error of a speech request or model; inside [`acestep_engine::Error::Family`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what most fields hold")]
pub enum SpeechError {
    /// A field that this kind of model does not take.
    #[error("`{model}` takes no `{field}`: it is {kind}")]
    NotForThisModel {
        model: String,
        field: &'static str,
        /// The kind of the model, as a noun phrase.
        kind: &'static str,
    },
    /// A field that no model of this family takes.
    #[error("`{model}` takes no `{field}`")]
    UnknownField {
        model: String,
        field: String,
        /// The fields that it takes.
        known: Vec<String>,
    },
    /// A model that speaks with the voice of a recording, without one.
    #[error("`{model}` speaks with the voice of a recording, and there is none")]
    NoVoice { model: String },
    /// A recording that is too short for the networks.
    #[error("{seconds:.3} s of recording are too short: {least:.3} s is the least")]
    TooShort { seconds: f64, least: f64 },
    /// A kept voice of another model.
    #[error("this voice was made with another model: {why}")]
    ForeignVoice { why: String },
    /// A name that no kept voice can have.
    #[error("`{name}` cannot be the name of a voice")]
    VoiceName { name: String },
    /// No kept voice has this name.
    #[error("no voice is called `{name}`")]
    NoSuchVoice { name: String, names: Vec<String> },
    /// A file that is not a kept voice.
    #[error("`{}` cannot be used as a voice: {why}", path.display())]
    BadVoice { path: PathBuf, why: String },
    /// A text without words.
    #[error("there is nothing to say in the {field}")]
    NothingToSay { field: &'static str },
    /// The prompt leaves no room for a frame.
    #[error("the text is {tokens} tokens long with its prompt, and {most} is the most")]
    TooLong {
        /// Rows of the prompt.
        tokens: usize,
        most: usize,
    },
    /// Logits that no code can be chosen from.
    #[error("the model's scores cannot be used at frame {frame}: {why}")]
    Scores { frame: usize, why: acestep_engine::error::ScoreError },
}

/// The hint of scores that cannot be used.
pub(crate) const BAD_SCORES: &str =
    "the weights are damaged, or the type is too narrow: pass `dtype: f32`";

/// Returns a hint: the known name that is like `name`, else all of them.
pub(crate) fn one_of(name: &str, known: &[String]) -> String {
    match nearest(name, known.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("it is one of {}", known.join(", ")),
    }
}

impl FamilyError for SpeechError {
    fn hint(&self) -> Option<String> {
        let text = match self {
            Self::NotForThisModel { .. } => {
                "leave it out, or take another model: `-custom` has named speakers, `-design` \
                 a described voice, `-base` the voice of a recording"
            }
            // Most are fields of another family: a near name would be another setting.
            Self::UnknownField { known, .. } => {
                let known: Vec<String> = known.iter().map(|known| format!("`{known}`")).collect();
                return Some(format!("it takes {}", known.join(", ")));
            }
            Self::NoVoice { .. } => {
                "pass `reference` (a recording of the voice, and `transcript`, its words), or the \
                 name of a kept voice as `voice`"
            }
            Self::VoiceName { .. } => "use letters, digits, - and _, at most 100 bytes",
            Self::NoSuchVoice { names, .. } if names.is_empty() => {
                "no voice is kept yet: make one from a recording"
            }
            Self::NoSuchVoice { name, names } => return Some(one_of(name, names)),
            Self::TooShort { .. } => "pass a recording of 3 to 15 seconds of clear speech",
            Self::ForeignVoice { .. } | Self::BadVoice { .. } => {
                "make the voice again with this model"
            }
            Self::NothingToSay { .. } => "write words",
            Self::TooLong { .. } => {
                "pass a shorter recording or instruction, or lower `max_text_tokens_per_segment`"
            }
            Self::Scores { .. } => BAD_SCORES,
        };
        Some(text.to_owned())
    }

    fn is_usage(&self) -> bool {
        !matches!(self, Self::Scores { .. } | Self::BadVoice { .. })
    }
}
