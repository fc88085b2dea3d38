//! The command line's spelling of the fields in the libraries' texts.
//!
//! A library names a field by its key, in backquotes: `` `bpm` ``, `` `bpm: 29` ``. Here it becomes
//! a flag: `` `--bpm` ``, `` `--bpm 29` ``. The flags are those of the parser; there is no other
//! table.

use std::{
    collections::HashMap,
    error::Error as StdError,
    sync::{LazyLock, OnceLock},
};

use acestep_engine::{Error, Notice};
use acestep_session::{outputs::OutputError, settings::SettingsError};
use clap::Command;

use crate::settings;

/// The parser's definition, from the module that may use all others.
static COMMAND: OnceLock<fn() -> Command> = OnceLock::new();

/// Flags by the key of their field.
static FLAGS: LazyLock<HashMap<String, String>> = LazyLock::new(|| {
    let mut flags = HashMap::new();
    if let Some(command) = COMMAND.get() {
        let command = command();
        // A flag's own name has priority over another flag's alias.
        add(&command, false, &mut flags);
        add(&command, true, &mut flags);
    }
    flags
});

/// Sets the definition of the command line. Until then texts stay as they are.
pub(crate) fn set_up(command: fn() -> Command) {
    // The first definition stays; there is only one.
    let _ = COMMAND.set(command);
}

/// Returns the command that the user typed.
pub(crate) fn typed() -> Command {
    let mut command = COMMAND.get().map_or_else(Command::default, |command| command());
    for word in std::env::args_os().skip(1) {
        command = command.find_subcommand(word).cloned().unwrap_or(command);
    }
    command
}

/// True if the command that the user typed has the flag `long`.
pub(crate) fn has(long: &str) -> bool {
    typed().get_arguments().any(|arg| arg.get_long() == Some(long))
}

/// Adds the flags of `command` and of its subcommands, by their names or by their `aliases`.
fn add(command: &Command, aliases: bool, flags: &mut HashMap<String, String>) {
    for arg in command.get_arguments() {
        let Some(long) = arg.get_long() else { continue };
        let names = match aliases {
            true => arg.get_all_aliases().unwrap_or_default(),
            false => vec![long],
        };
        for name in names {
            flags.entry(name.replace('-', "_")).or_insert_with(|| long.to_owned());
        }
    }
    command.get_subcommands().for_each(|below| add(below, aliases, flags));
}

/// Returns `text` with flags in place of fields. `` `key: true` `` is `` `--key` ``, and
/// `` `key: false` `` is `` `--no-key` `` if there is such a flag.
///
/// Only backquotes with nothing but a field change. So a path or a value in backquotes changes too
/// if it is spelled exactly as a field, such as a song in a file `seed` without an ending.
pub(crate) fn as_flags(text: &str) -> String {
    let mut spelled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('`') {
        spelled += before;
        spelled.push('`');
        rest = after;
        // A backquote may close the field before, or belong to a user's text: each may open one.
        if let Some((span, after)) = rest.split_once('`')
            && let Some(flag) = flag(span)
        {
            spelled += &flag;
            spelled.push('`');
            rest = after;
        }
    }
    spelled + rest
}

/// Returns the texts of `notices`, with flags in place of fields.
pub(crate) fn texts<'a>(notices: impl IntoIterator<Item = &'a Notice>) -> Vec<String> {
    notices.into_iter().map(|notice| as_flags(&notice.0)).collect()
}

/// The message of an error, with flags in place of fields. Only messages about a value of the
/// request name fields; others may quote a path that looks like one.
pub(crate) fn message(error: &(dyn StdError + 'static)) -> String {
    let text = error.to_string();
    let Some(error) = error.downcast_ref::<Error>().filter(|error| error.is_usage()) else {
        return text;
    };
    if let Some(output) = error.family::<OutputError>() {
        return if output.names_field() { as_flags(&text) } else { text };
    }
    // The value of a variable may be a word such as `json`.
    if error.family::<SettingsError>().is_some() {
        return text;
    }
    match settings::loaded().origin_in(&text) {
        // Nobody typed a flag.
        Some(origin) => format!("{text} (from {origin})"),
        None => as_flags(&text),
    }
}

/// Returns the flag, with its value, for `key` or `key: value`.
fn flag(span: &str) -> Option<String> {
    let (key, value) =
        span.split_once(": ").map_or((span, None), |(key, value)| (key, Some(value)));
    if value == Some("false")
        && let Some(no) = FLAGS.get(&format!("no_{key}"))
    {
        return Some(format!("--{no}"));
    }
    let long = FLAGS.get(key)?;
    Some(match value {
        None | Some("true") => format!("--{long}"),
        Some(value) => format!("--{long} {value}"),
    })
}

#[cfg(test)]
mod tests {
    use acestep_music::Request;

    use super::*;
    use crate::command_line;

    fn spelled(text: &str) -> String {
        set_up(command_line::command);
        as_flags(text)
    }

    #[test]
    fn a_field_in_backquotes_is_a_flag() {
        for (text, expected) in [
            (
                "`bpm: 29` is out of range: a whole number",
                "`--bpm 29` is out of range: a whole number",
            ),
            (
                "`seed` has 2 seeds, but `batch_size` is 3",
                "`--seed` has 2 seeds, but `--batch-size` is 3",
            ),
            ("pass `dtype: f32`, or `force: true`", "pass `--dtype f32`, or `--force`"),
            ("`thinking: false`, `tags: false`", "`--no-thinking`, `--no-tags`"),
            ("`enable_normalization: false` leaves it", "`--no-normalization` leaves it"),
            ("`use_constrained_decoding: false`", "`--no-constrained-decoding`"),
            ("`keyscale: ` cannot be used", "`--keyscale ` cannot be used"),
            ("`audio_format: midi: 2`", "`--audio-format midi: 2`"),
        ] {
            assert_eq!(spelled(text), expected);
        }
    }

    #[test]
    fn other_backquotes_stay() {
        for text in [
            "",
            "seed: 3",
            "`a/seed` and `seed.wav`",
            "`bpm 29`, `BPM` and `--bpm 29`",
            "`ffmpeg -i FILE song.flac`",
            "`lego`: it knows `C major`",
            "one ` alone",
            "`mp3-bitrate: 3`",
        ] {
            assert_eq!(spelled(text), text);
        }
    }

    #[test]
    fn a_backquote_in_a_value_hides_no_field_behind_it() {
        let text = spelled("`task_type: a`b` goes not with `bpm`");
        assert_eq!(text, "`--task-type a`b` goes not with `--bpm`");
    }

    /// Else a message would show a key where the user typed a flag.
    #[test]
    fn every_key_of_a_request_is_a_flag() {
        set_up(command_line::command);
        // Only request files have an instruction; `inspire` and `format` are commands; the loudness
        // can only be switched off.
        let others = ["instruction", "lm_mode", "enable_normalization"];
        for key in Request::known_keys().filter(|key| !others.contains(key)) {
            assert!(FLAGS.contains_key(key), "{key}");
        }
    }
}
