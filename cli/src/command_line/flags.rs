//! One pass over all flags adds the properties that follow from a flag's name, type and group.

use std::{any::TypeId, num::NonZero};

use clap::{Arg, Command, ValueHint};

/// Groups with many flags; the short help shows only the named ones.
const LARGE_GROUPS: [(&str, &[&str]); 6] = [
    ("From another song", &["task_type", "src_audio", "reference_audio"]),
    ("Language model", &["thinking", "no_thinking", "lm_model"]),
    ("Sampling", &["seed", "batch_size", "inference_steps", "guidance_scale"]),
    ("Sound file", &[]),
    ("After the song", &[]),
    ("Global", &["quiet", "verbose"]),
];

/// Completes the flags of `command` and of its subcommands.
pub(super) fn completed(command: Command) -> Command {
    let command = command.disable_help_subcommand(true);
    command.mut_args(complete).mut_subcommands(completed)
}

fn complete(mut arg: Arg) -> Arg {
    if !arg.is_positional() {
        let upstreams = upstreams_spelling(&arg);
        arg = arg.aliases(upstreams);
    }
    if arg.get_action().takes_values() {
        let name = arg.get_value_names().and_then(<[_]>::first).map(ToString::to_string);
        arg = match name.as_deref() {
            Some("FILE" | "SONG" | "SOUND" | "LATENTS") => arg.value_hint(ValueHint::FilePath),
            Some("DIR" | "SONGS") => arg.value_hint(ValueHint::DirPath),
            Some("PATH" | "PATH[:SCALE]") => arg.value_hint(ValueHint::AnyPath),
            // A text may begin with a dash.
            Some("TEXT" | "TEXT|@FILE" | "CODES|@FILE") if !arg.is_positional() => {
                arg.allow_hyphen_values(true)
            }
            _ => arg,
        };
        if is_number(&arg) {
            // Else `--bpm -3` would be read as a flag, and the user not told the range.
            arg = arg.allow_negative_numbers(true);
        }
    }
    let group = LARGE_GROUPS.iter().find(|(group, _)| Some(*group) == arg.get_help_heading());
    match group {
        Some((_, shown)) if !shown.contains(&arg.get_id().as_str()) => arg.hide_short_help(true),
        _ => arg,
    }
}

/// Returns the names of a flag with `_` for `-`, as upstream writes them; they are not shown.
fn upstreams_spelling(arg: &Arg) -> Vec<String> {
    let others = arg.get_all_aliases().unwrap_or_default();
    let known: Vec<&str> = arg.get_long().into_iter().chain(others).collect();
    let with_hyphens = known.iter().filter(|name| name.contains('-'));
    let mut new: Vec<String> = with_hyphens.map(|name| name.replace('-', "_")).collect();
    new.retain(|name| !known.contains(&name.as_str()));
    new
}

fn is_number(arg: &Arg) -> bool {
    let value = arg.get_value_parser().type_id();
    let numbers = [
        TypeId::of::<i64>(),
        TypeId::of::<u64>(),
        TypeId::of::<f64>(),
        TypeId::of::<f32>(),
        TypeId::of::<u32>(),
        TypeId::of::<u16>(),
        TypeId::of::<usize>(),
        TypeId::of::<NonZero<usize>>(),
    ];
    numbers.iter().any(|number| value == *number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_has_upstreams_spelling_and_takes_a_negative_number() {
        let command = completed(
            Command::new("x")
                .arg(Arg::new("a").long("the-step").alias("a-step").alias("the_step"))
                .arg(Arg::new("b").long("b").value_parser(clap::value_parser!(i64)))
                .arg(Arg::new("c").long("c"))
                .arg(Arg::new("d").long("d").value_parser(clap::value_parser!(f32))),
        );
        let read = |words: &[&str]| command.clone().try_get_matches_from([&["x"], words].concat());
        for name in ["--the-step", "--the_step", "--a-step", "--a_step"] {
            let found = read(&[name, "1"]).expect("a flag");
            assert_eq!(found.get_one::<String>("a").map(String::as_str), Some("1"));
        }
        assert_eq!(read(&["--b", "-3"]).expect("a number").get_one::<i64>("b"), Some(&-3));
        assert!(read(&["--c", "-3"]).is_err());
        assert_eq!(read(&["--d", "-1"]).expect("a number").get_one::<f32>("d"), Some(&-1.0));
    }

    #[test]
    fn large_groups_name_flags_that_exist() {
        let command = crate::command_line::command();
        let generate = command.find_subcommand("generate").expect("a command");
        let all: Vec<_> = command.get_arguments().chain(generate.get_arguments()).collect();
        for (group, shown) in LARGE_GROUPS {
            assert!(all.iter().any(|arg| arg.get_help_heading() == Some(group)), "{group}");
            for name in shown {
                let arg = all.iter().find(|arg| arg.get_id() == name).expect("a flag");
                assert_eq!(arg.get_help_heading(), Some(group), "{name}");
                assert!(!arg.is_hide_short_help_set(), "{name}");
            }
        }
    }
}
