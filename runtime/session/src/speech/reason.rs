//! Errors of speech for programs: a word, and the field that is wrong.

use acestep_engine::Error;
use acestep_speech::SpeechError;

use super::{dia2, magpie};
use crate::SessionError;

/// A word for programs, and the field of the request that is wrong.
pub type Reason = (&'static str, Option<String>);

/// Returns the reason of an error that only speech has.
pub fn reason(error: &Error) -> Option<Reason> {
    if let Some(error) = error.family::<SpeechError>() {
        return of_speech(error);
    }
    if let Some(error) = error.family::<SessionError>() {
        return match error {
            SessionError::SpeechFields { .. } => Some(("bad_value", None)),
            SessionError::KeptVoice { .. } | SessionError::NoVoices => {
                Some(("voice_not_found", Some("voice".into())))
            }
            SessionError::LongRecording { .. } => Some(("bad_audio", Some("reference".into()))),
            SessionError::SpeechTooLarge(_) => Some(("out_of_memory", None)),
            SessionError::Line { error, .. } => reason(error),
            _ => None,
        };
    }
    dia2::reason(error).or_else(|| magpie::reason(error))
}

fn of_speech(error: &SpeechError) -> Option<Reason> {
    let field = |field: &str| Some(field.to_owned());
    Some(match error {
        SpeechError::NotForThisModel { field: name, .. } => ("unknown_key", field(name)),
        SpeechError::UnknownField { field: name, .. } => ("unknown_key", field(name)),
        SpeechError::NoVoice { .. } => ("missing", field("reference")),
        SpeechError::NoSuchVoice { .. } | SpeechError::VoiceName { .. } => {
            ("voice_not_found", field("voice"))
        }
        SpeechError::TooShort { .. } => ("bad_audio", None),
        SpeechError::NothingToSay { .. } => ("bad_value", field("text")),
        SpeechError::TooLong { .. } => ("prompt_too_long", field("text")),
        SpeechError::Scores { .. } => ("bad_result", None),
        _ => return None,
    })
}
