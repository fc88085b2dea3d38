//! Errors of the engine as errors of jobs.

use acestep_engine::Error;

use crate::{
    job::JobError,
    worker::{DISK_FULL, is_full},
};

/// Converts an error of a run.
pub fn of(error: &Error) -> JobError {
    let (code, param) = match error {
        error if is_disk_full(error) => (DISK_FULL, None),
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
        Error::Checkpoint(cause) => return of_model(&**cause),
        other => acestep_session::speech::reason(other).unwrap_or_else(|| {
            let code = if other.is_usage() { "bad_value" } else { "failed" };
            (code, None)
        }),
    };
    // Places of the server are no business of a client.
    let mut message = match error {
        Error::Unheard { problem, .. } => format!("cannot listen to the file: {problem}"),
        Error::File { action, .. } => format!("cannot {action} a file of the server"),
        Error::Elsewhere { .. } => "cannot write a file of the server".to_owned(),
        other => other.to_string(),
    };
    let mut source = match error {
        Error::Elsewhere { cause, .. } => std::error::Error::source(&**cause),
        other => std::error::Error::source(other),
    };
    while let Some(cause) = source {
        message += &format!(": {cause}");
        source = cause.source();
    }
    JobError { code: code.to_owned(), message, param, hint: error.hint() }
}

/// Error of a model that is not here, or whose files cannot be used. The log has their places.
fn of_model(cause: &(dyn std::error::Error + 'static)) -> JobError {
    tracing::warn!(%cause, "a model cannot be used");
    let (what, known) = match cause.downcast_ref() {
        Some(acestep_import::Error::Absent { what, known, .. }) if !what.contains(['/', '\\']) => {
            (what, known)
        }
        Some(acestep_import::Error::OtherKind { name, .. }) if !name.contains(['/', '\\']) => {
            return JobError::new("bad_value", cause.to_string());
        }
        Some(acestep_import::Error::Adapter(error)) => {
            let message =
                "the adapter cannot be used with this model; see the worker's or server's log";
            return JobError::new("bad_adapter", message).param("adapter").hint(error.hint());
        }
        _ => {
            let message = "the files of the model cannot be used; see the worker's or server's log";
            return JobError::new("bad_model", message)
                .hint("check them with `acestep model verify`");
        }
    };
    let the = if what.starts_with("the ") { "" } else { "the " };
    let absent = JobError::new("model_not_found", format!("{the}{what} is not here"));
    absent.hint(match known {
        Some(release) => format!("`acestep model pull {}` brings it", release.name),
        None => "`acestep model pull NAME` brings models".to_owned(),
    })
}

/// True if a file could not be written because the disk was full. Such a job runs again later.
fn is_disk_full(error: &Error) -> bool {
    match error {
        Error::File { source, .. } => is_full(source),
        Error::Elsewhere { cause, .. } => is_disk_full(cause),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use acestep_engine::Action;

    use super::*;

    fn file(kind: ErrorKind) -> Error {
        Error::File { action: Action::Write, path: "/secret/1.wav".into(), source: kind.into() }
    }

    #[test]
    fn a_model_that_cannot_be_used_tells_no_place() {
        let empty = tempfile::tempdir().expect("a folder");
        let layout = acestep_import::Layout::new([empty.path().to_owned()]);
        let place = empty.path().to_string_lossy().into_owned();
        for name in ["turbo", &place] {
            let error = acestep_import::open(name, &layout).expect_err("nothing is there");
            assert!(error.to_string().contains(&place), "else nothing is tested: {error}");
            let JobError { code, message, hint, .. } = of(&Error::checkpoint(error));
            assert!(name != "turbo" || code == "model_not_found", "{message}");
            let hint = hint.expect("a hint");
            assert!(!message.contains(&place) && !hint.contains(&place), "{message}: {hint}");
        }
    }

    #[test]
    fn a_full_disk_has_a_code_of_its_own_wherever_the_engine_meets_it() {
        let elsewhere =
            |kind| Error::Elsewhere { kept: "/secret/2.wav".into(), cause: Box::new(file(kind)) };
        for (error, code) in [
            (file(ErrorKind::StorageFull), "disk_full"),
            (file(ErrorKind::QuotaExceeded), "disk_full"),
            (file(ErrorKind::PermissionDenied), "failed"),
            (elsewhere(ErrorKind::StorageFull), "disk_full"),
            (elsewhere(ErrorKind::PermissionDenied), "failed"),
        ] {
            let JobError { code: given, message, .. } = of(&error);
            assert_eq!(given, code, "{error}");
            assert!(message.starts_with("cannot write a file of the server: "), "{message}");
            assert!(!message.contains("/secret"), "{message}");
        }
    }
}
