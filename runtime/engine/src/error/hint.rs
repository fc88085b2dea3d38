//! Remedies for errors.

use burn::tensor::DType;

use super::{Action, Error, GpuFault};

impl Error {
    /// Returns the remedy in one sentence, if one is known.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::UnknownKey { near: Some(near), .. } => format!("did you mean `{near}`?"),
            Self::NotInThisVersion(_) => "leave it out, or wait for the version that has it".into(),
            Self::File { action, source, .. } => {
                return file_hint(*action, source).map(str::to_owned);
            }
            Self::IsDirectory { .. } => "name a file in it".into(),
            Self::NotAFile { .. } => "name a file".into(),
            Self::AlreadyExists { .. } => "choose another name, or pass `force: true`".into(),
            Self::Elsewhere { cause, .. } => return cause.hint(),
            Self::NotFinite { dtype, .. } | Self::Scores { dtype, .. } if *dtype != DType::F32 => {
                "pass `dtype: f32`, which computes everything in f32; if that does not help, the \
                 weights are damaged or not what they claim to be: download them again"
                    .into()
            }
            Self::NotFinite { .. } | Self::Scores { .. } => {
                "if this machine computes right, the weights are damaged or not what they claim to \
                 be: download them again"
                    .into()
            }
            Self::ForeignTokenizer { .. } => {
                "the text encoder's folder mixes files of two models; download it again".into()
            }
            Self::NoDevice { .. } => {
                "pass `device: cpu`, or build with `--features cuda` or `--features wgpu`".into()
            }
            Self::OutOfMemory { .. } | Self::TensorTooLarge { .. } => {
                "make a shorter song (`duration`) or fewer at once (`batch_size`), decode less at \
                 once (`vae_chunk: 128`), leave `keep_loaded` out, choose a smaller `lm_model`, or \
                 pass `device: cpu`, with `dtype: q8` for half the memory"
                    .into()
            }
            Self::DeviceFailed { why, .. } => GpuFault::of(why).hint().into(),
            Self::NoRoomForF32 { dtype, .. } => {
                let wider = match dtype {
                    DType::F16 => {
                        "pass `dtype: bf16`, whose numbers reach as far as those of f32, "
                    }
                    _ => "",
                };
                format!(
                    "{wider}close other programs that use the device, leave `keep_loaded` out, choose \
                     a smaller model, or pass `device: cpu`"
                )
            }
            Self::PromptTooLong { .. } => "shorten caption and lyrics, or raise `max_seq`".into(),
            Self::NeverStopped { .. } => {
                "try another seed, a lower `lm_temperature`, or larger `max_tokens` and `max_seq`"
                    .into()
            }
            Self::NothingValid { .. } => "try another seed or a lower `lm_temperature`".into(),
            Self::Repeats { .. } => {
                "try another seed, a higher `lm_temperature` or `lm_repetition_penalty: 1.05`"
                    .into()
            }
            Self::NotBuiltIn { feature, .. } => format!(
                "build it with `--features {feature}`, or choose another format, e.g. \
                 `audio_format: flac`"
            ),
            Self::Unheard { problem, .. } => problem.hint().into(),
            Self::Silent { .. } => "try another seed; if it stays, check the weights".into(),
            Self::RequestSyntax(_) => "a request is one JSON object".into(),
            Self::UnknownKey { near: None, .. } => "take it out".into(),
            Self::Encode { .. } => {
                "try another `audio_format`, or `tags: false`, and please report it".into()
            }
            Self::Picture(_) => "leave `plot` out, and please report it".into(),
            Self::BadValue { near: Some(near), .. } => format!("did you mean `{near}`?"),
            // Other programs write these values for "decide yourself".
            Self::OutOfRange { field, value, .. } if ["-1", "0"].contains(&value.as_str()) => {
                format!("leave `{field}` out, and the program decides")
            }
            // These messages end with the values that can be used.
            Self::OutOfRange { .. }
            | Self::BadValue { near: None, .. }
            | Self::Conflict(_)
            | Self::RequestTwice(_)
            | Self::RequestValue { .. }
            | Self::Cancelled
            | Self::Checkpoint(_) => return None,
            Self::Family(_) => return self.family_hint(),
        };
        Some(hint)
    }
}

fn file_hint(action: Action, error: &std::io::Error) -> Option<&'static str> {
    use std::io::ErrorKind as Kind;
    Some(match (action, error.kind()) {
        (_, Kind::NotADirectory) => "a part of the path is a file, not a folder",
        (Action::Read, Kind::NotFound) => "check the path",
        (Action::Read, Kind::PermissionDenied) => "check the permissions of the file",
        (_, Kind::IsADirectory) => "name a file in it",
        (Action::Read, Kind::TimedOut) => "start the program that writes to it, then this one",
        (Action::Read, _) => return None,
        (_, Kind::NotFound) => "check the path; its folder must exist",
        (_, Kind::PermissionDenied) if cfg!(windows) => {
            "end the program that has the file open, or choose a folder you may write to"
        }
        (_, Kind::PermissionDenied | Kind::ReadOnlyFilesystem) => {
            "choose a folder you may write to"
        }
        (_, Kind::InvalidFilename | Kind::InvalidInput) => {
            "the name is too long for this file system, or it does not take it (exFAT and NTFS refuse \
             \" * : < > ? \\ |, Windows also nul, con, aux, prn, com1, lpt1): choose another name"
        }
        (_, Kind::StorageFull | Kind::QuotaExceeded) => "free some space, or choose another disk",
        (_, Kind::FileTooLarge) => {
            "no file may be so large here: raise the shell's limit (`ulimit -f unlimited`), or choose \
             another file system"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn what_other_programs_leave_open_is_left_out() {
        let hint = |value: &str| {
            let (value, range) = (value.to_owned(), String::new());
            Error::OutOfRange { field: "duration", value, range }.hint()
        };
        assert_eq!(hint("-1").as_deref(), Some("leave `duration` out, and the program decides"));
        assert_eq!(hint("700"), None);
    }

    #[test]
    fn the_hint_of_a_file_depends_on_what_was_tried() {
        use io::ErrorKind as Kind;
        for (action, kind, expected) in [
            (Action::Read, Kind::NotFound, Some("check the path")),
            (Action::Read, Kind::PermissionDenied, Some("check the permissions of the file")),
            (Action::Read, Kind::StorageFull, None),
            (Action::Create, Kind::NotFound, Some("check the path; its folder must exist")),
            (Action::Write, Kind::ReadOnlyFilesystem, Some("choose a folder you may write to")),
            (Action::Write, Kind::StorageFull, Some("free some space, or choose another disk")),
        ] {
            let error = Error::File { action, path: "a".into(), source: kind.into() };
            assert_eq!(error.hint().as_deref(), expected, "{action} {kind}");
        }
    }

    #[test]
    fn numbers_that_cannot_be_used_are_mended_by_a_wider_type_where_there_is_one() {
        for dtype in [DType::F32, DType::BF16, DType::F16] {
            let source = crate::error::ScoreError::NotANumber { token: 1 };
            let scores = Error::Scores { step: 1, dtype, source, had: String::new() };
            let sound = Error::NotFinite { stage: "the VAE".into(), count: 1, first: 0, dtype };
            for hint in [scores, sound].map(|error| error.hint().expect("a hint")) {
                let is_narrow = dtype != DType::F32;
                assert_eq!(hint.starts_with("pass `dtype: f32`"), is_narrow, "{hint}");
                assert_eq!(hint.contains("`dtype"), is_narrow, "{hint}");
            }
        }
    }
}
