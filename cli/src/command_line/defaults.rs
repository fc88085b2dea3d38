//! Settings as the defaults of the flags of their names.

use acestep_session::settings::Settings;
use clap::Command;

/// Settings that are flags, of the program or of some commands.
const FLAGS: [&str; 7] = ["device", "dtype", "keep_loaded", "offline", "yes", "color", "progress"];

/// Flags that have to be typed, and their commands. `doctor` tests every device, and `check` is for a GPU
/// and takes hours on a CPU. `verify` compares the types that it is told.
const TYPED: [(&str, &[&str]); 2] =
    [("device", &["doctor", "check"]), ("dtype", &["doctor", "check", "verify"])];

/// True if a flag has another default than the built-in one.
pub(crate) fn changes_any(settings: &Settings) -> bool {
    FLAGS.iter().any(|flag| settings.get(flag).is_some())
}

/// Sets the defaults in `command` and in its subcommands.
pub(super) fn with(mut command: Command, settings: &Settings) -> Command {
    for flag in FLAGS {
        let has = command.get_arguments().any(|arg| arg.get_id() == flag);
        let is_typed = |(typed, commands): &(&str, &[&str])| {
            *typed == flag && commands.contains(&command.get_name())
        };
        if let Some(value) = settings.get(flag).filter(|_| has && !TYPED.iter().any(is_typed)) {
            command = command.mut_arg(flag, |arg| arg.default_value(value.text.clone()));
        }
    }
    command.mut_subcommands(|below| with(below, settings))
}

#[cfg(test)]
mod tests {
    use acestep_session::settings::KEYS;

    use super::*;
    use crate::command_line;

    #[test]
    fn every_setting_that_is_a_flag_has_one_and_commands_that_want_it_typed_too() {
        let command = command_line::command();
        let has =
            |command: &Command, flag: &str| command.get_arguments().any(|arg| arg.get_id() == flag);
        let generate = command.find_subcommand("generate").expect("a command");
        for flag in FLAGS {
            assert!(has(&command, flag) || has(generate, flag), "{flag}");
            assert!(KEYS.iter().any(|key| key.name == flag), "{flag}");
        }
        for (flag, commands) in TYPED {
            for name in commands {
                let command = command.find_subcommand(name).expect("a command");
                assert!(has(command, flag), "{name} {flag}");
            }
        }
    }
}
