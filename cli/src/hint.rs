//! Remedies as the command line says them: with its flags and commands.

use std::path::Path;

use acestep_engine::{Action, Error, device::GpuFault, error::FamilyError, nearest};
use acestep_import::{AdapterError, Release, TINY_SPEECH, Unknown, hub::HubError};
use acestep_music::SongError;
use acestep_session::{SessionError, settings::SettingsError};
use acestep_speech::SpeechError;
use burn::tensor::DType;

use crate::{cli_error::CliError, fields, fields::as_flags, settings};

/// The hint that helps with `error`.
pub(crate) fn of(error: &anyhow::Error) -> Option<String> {
    error.chain().find_map(|cause| {
        if let Some(error) = cause.downcast_ref::<CliError>() {
            return error.hint.clone();
        }
        if let Some(error) = cause.downcast_ref::<acestep_import::Error>() {
            return of_model(error);
        }
        if let Some(error) = cause.downcast_ref::<HubError>() {
            return error.hint().map(|hint| as_flags(&hint));
        }
        if let Some(error) = cause.downcast_ref::<acestep_proof::Error>() {
            return of_proof(error);
        }
        if let Some(error) = cause.downcast_ref::<acestep_train::Error>() {
            return of_training(error);
        }
        match cause.downcast_ref::<Error>()? {
            // The runtime does not know the type of the error that it carries.
            Error::Checkpoint(inner) => of_model(inner.downcast_ref()?),
            error => of_engine(error),
        }
    })
}

/// The library's hint, and the command that helps.
pub(crate) fn of_engine(error: &Error) -> Option<String> {
    if let Error::Elsewhere { cause, .. } = error {
        return of_engine(cause);
    }
    if let Some(SongError::Unusable { source, .. }) = error.family() {
        return of_engine(source);
    }
    if let Some(error) = error.family() {
        return of_session(error);
    }
    if let Some(error) = error.family() {
        return of_settings(error);
    }
    if let Some(SpeechError::UnknownField { known, .. }) = error.family() {
        // Some fields are of requests in JSON alone.
        let flags = known.iter().map(|field| as_flags(&format!("`{field}`")));
        let flags: Vec<_> = flags.filter(|flag| flag.starts_with("`--")).collect();
        return Some(format!("it takes {}", flags.join(", ")));
    }
    let hint = error.hint()?;
    // These repeat a key of the request file, or a value.
    if matches!(error, Error::UnknownKey { near: Some(_), .. } | Error::BadValue { .. }) {
        return Some(hint);
    }
    let hint = as_flags(&hint);
    Some(match error {
        Error::NotAFile { .. } => {
            format!("{hint}; sound goes to standard output with `--output -`")
        }
        Error::NotFinite { dtype: DType::F32, .. } | Error::Scores { dtype: DType::F32, .. } => {
            format!("`acestep verify` tests this machine; {hint}")
        }
        Error::File { action: Action::Read, path, .. } if path == Path::new("-") => {
            "name a file: standard input is /dev/stdin, but not on Windows".into()
        }
        Error::NoDevice { .. } => format!("`acestep doctor` shows what there is; {hint}"),
        Error::OutOfMemory { .. } | Error::TensorTooLarge { .. } => {
            format!("{hint}; `--dry-run` shows what each stage needs")
        }
        Error::DeviceFailed { why, .. } => match GpuFault::of(why) {
            GpuFault::Kernel => format!("{hint} with what `acestep doctor` prints"),
            GpuFault::Unknown => format!("`acestep doctor` tests the device; {hint}"),
            GpuFault::Memory | GpuFault::Lost => hint,
        },
        Error::NeverStopped { .. } | Error::NothingValid { .. } | Error::Repeats { .. } => {
            format!(
                "{hint}; `acestep generate --no-thinking` makes songs without the language model"
            )
        }
        Error::RequestSyntax(_) => {
            format!("{hint}, as `acestep generate --save-request` writes it beside a song")
        }
        Error::UnknownKey { .. } => {
            format!("{hint}; the keys are the flags of `acestep generate`, with _ for -")
        }
        Error::Family(_) => match error.family() {
            Some(SongError::Latents { .. }) => {
                format!("`acestep codec encode SONG` writes latents; {hint}")
            }
            _ => hint,
        },
        _ => hint,
    })
}

fn of_session(error: &SessionError) -> Option<String> {
    Some(match error {
        SessionError::NoLanguageModel(absent) => {
            let remedy = remedy(absent).unwrap_or_default();
            format!("{remedy}\n      to make the song without it, pass --no-thinking")
        }
        SessionError::NoWordsInCondition => {
            "leave --lrc, --output-lrc, --output-vtt and --score out".into()
        }
        SessionError::FollowsSong(_) => "pass --no-codes, or leave --codes out".into(),
        SessionError::NoDescription => {
            "write acestep inspire \"a soft love song for a quiet evening\"".into()
        }
        SessionError::KeptVoice { .. } => {
            "pass the --model that made it; `acestep voice list` names it".into()
        }
        error => as_flags(&error.hint()?),
    })
}

fn of_settings(error: &SettingsError) -> Option<String> {
    Some(match error {
        SettingsError::Unread { .. } => {
            "name another with --config, or leave it out with --no-config".into()
        }
        SettingsError::Wrong { .. } => "mend it there, or leave the file out with --no-config; \
                                        `acestep config init` writes one with every key"
            .into(),
        SettingsError::Defaults { source, .. } => of_engine(source)?,
        error => error.hint()?,
    })
}

fn of_proof(error: &acestep_proof::Error) -> Option<String> {
    let hint = as_flags(&error.hint()?);
    Some(match error {
        acestep_proof::Error::NothingFinished(_) => {
            format!("`acestep doctor` tests the device; {hint}")
        }
        _ => hint,
    })
}

fn of_training(error: &acestep_train::Error) -> Option<String> {
    let hint = as_flags(error.hint()?);
    Some(match error {
        acestep_train::Error::Dataset { .. } => format!("{hint}: `acestep train lora --help`"),
        _ => hint,
    })
}

/// The hint that helps with an error of a model's files: [`remedy`], and other ways.
pub(crate) fn of_model(error: &acestep_import::Error) -> Option<String> {
    let mut hint = remedy(error)?;
    let acestep_import::Error::Absent { what, known, unknown, .. } = error else {
        return Some(hint);
    };
    if let Some(by) = settings::offline().filter(|_| known.is_some()) {
        hint = format!("{hint} without {by}, which forbids downloads");
    }
    let near = |of: &Unknown| nearest(&of.name, of.names.iter().copied());
    if let Some(near) = unknown.as_deref().and_then(near) {
        hint = format!("did you mean `{near}`? {hint}");
    }
    let speaks = match known {
        Some(model) => Release::speech().any(|own| own == *model),
        None => unknown.as_deref().is_some_and(|of| of.names.contains(&TINY_SPEECH)),
    };
    let name = if speaks { TINY_SPEECH } else { acestep_import::BUILT_IN_MODELS[0].name };
    // It takes no recording and no kept voice, for which these are wanted by name.
    let is_for_recordings = |of: &Release| of.name.ends_with("-base") || of.name.contains("dia2");
    if speaks && what != "a speech model" && known.is_some_and(is_for_recordings) {
        return Some(hint);
    }
    if !hint.contains(name) && fields::has("model") {
        hint += &format!("\n      to try the program without a download, pass `--model {name}`");
    }
    Some(hint)
}

/// The library's remedy for an error of a model's files, and the command that helps.
pub(crate) fn remedy(error: &acestep_import::Error) -> Option<String> {
    if let acestep_import::Error::Absent { known: Some(model), .. } = error {
        return Some(format!("run `acestep model pull {}`", model.name));
    }
    let hint = as_flags(&error.hint()?);
    Some(match error {
        acestep_import::Error::Adapter(
            AdapterError::WrongShape { .. } | AdapterError::NoMatch { .. },
        ) => format!("{hint}: `acestep adapter show FILE` says what it changes"),
        acestep_import::Error::OtherKind { name, .. } => {
            format!("`acestep {} --model {name}` uses it", command_of(name))
        }
        _ => hint,
    })
}

/// Returns the command that uses the model `name`.
pub(crate) fn command_of(name: &str) -> &'static str {
    if acestep_import::is_speech(name) { "speak" } else { "generate" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line;

    fn hint(error: impl Into<anyhow::Error>) -> String {
        fields::set_up(command_line::command);
        of(&error.into()).expect("a hint")
    }

    #[test]
    fn the_hint_of_a_checkpoint_is_found_inside_the_runtimes_error() {
        let absent = acestep_import::Error::NotADirectory { path: "x".into() };
        let wanted = absent.hint().expect("a hint");
        assert_eq!(hint(Error::checkpoint(absent)), wanted);
    }

    #[test]
    fn a_hint_names_flags_and_commands() {
        let failed = |why: &str| {
            let (device, stage) = ("cuda:0".into(), "VAE".into());
            hint(Error::DeviceFailed { device, stage, why: why.into() })
        };
        let kernel = failed("shader compilation");
        assert!(kernel.contains("pass `--device cpu`"), "{kernel}");
        assert!(kernel.ends_with("please report it with what `acestep doctor` prints"), "{kernel}");
        let unknown = failed("?");
        assert!(unknown.starts_with("`acestep doctor` tests the device; "), "{unknown}");
        assert!(unknown.contains("(`--duration`, `--batch-size`, `--vae-chunk 128`)"), "{unknown}");
        let repeats = Error::Repeats { code: 1, times: 9, had: String::new() };
        assert_eq!(
            hint(repeats),
            "try another seed, a higher `--lm-temperature` or `--lm-repetition-penalty 1.05`; \
             `acestep generate --no-thinking` makes songs without the language model"
        );
        let path = "x.safetensors".into();
        assert_eq!(hint(Error::AlreadyExists { path }), "choose another name, or pass `--force`");
    }

    /// A key of a request file stays, even where a flag has its name.
    #[test]
    fn what_is_suggested_for_a_key_or_a_value_is_no_flag() {
        let near = || Some("seed".to_owned());
        assert_eq!(
            hint(Error::UnknownKey { key: "sed".into(), near: near() }),
            "did you mean `seed`?"
        );
        let (value, why) = ("sed".into(), String::new());
        let error = Error::BadValue { field: "task_type", value, why, near: near() };
        assert_eq!(hint(error), "did you mean `seed`?");
    }
}
