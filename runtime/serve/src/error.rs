//! Errors of the engine as errors of jobs.

use acestep_engine::Error;

use crate::job::JobError;

/// Converts an error of a run.
pub fn of(error: &Error) -> JobError {
    let (code, param) = match error {
        Error::OutOfRange { field, .. } => ("out_of_range", Some((*field).to_owned())),
        Error::BadValue { field, .. } => ("bad_value", Some((*field).to_owned())),
        Error::Conflict(_) => ("conflict", None),
        Error::NotInThisVersion(_) => ("not_in_this_version", None),
        Error::RequestSyntax(_) => ("bad_json", None),
        Error::RequestTwice(_) => ("repeated_key", None),
        Error::UnknownKey { key, .. } => ("unknown_key", Some(key.clone())),
        Error::RequestValue { key, .. } => ("bad_value", Some(key.clone())),
        Error::Unheard { .. } => ("bad_audio", None),
        Error::NotBuiltIn { .. } => ("not_built_in", None),
        Error::OutOfMemory { .. } | Error::TensorTooLarge { .. } | Error::NoRoomForF32 { .. } => {
            ("out_of_memory", None)
        }
        Error::NoDevice { .. } | Error::DeviceFailed { .. } => ("device_failed", None),
        Error::PromptTooLong { .. } => ("prompt_too_long", None),
        Error::NotFinite { .. } | Error::Silent { .. } | Error::Scores { .. } => {
            ("bad_result", None)
        }
        Error::NeverStopped { .. } | Error::Repeats { .. } | Error::NothingValid { .. } => {
            ("bad_answer", None)
        }
        Error::Checkpoint(_) => ("bad_model", None),
        other => acestep_session::speech::reason(other).unwrap_or(("failed", None)),
    };
    // Places of the server are no business of a client.
    let mut message = match error {
        Error::Unheard { problem, .. } => format!("cannot listen to the file: {problem}"),
        Error::File { action, .. } => format!("cannot {action} a file of the server"),
        other => other.to_string(),
    };
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        message += &format!(": {cause}");
        source = cause.source();
    }
    JobError { code: code.to_owned(), message, param, hint: error.hint() }
}
