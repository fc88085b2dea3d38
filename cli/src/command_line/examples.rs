//! The examples in the long help of each command.
//!
//! A group such as `model` shows the examples of all its subcommands; each of these shows its own.

use crate::args::{
    adapter, after, codec, config, doctor, generate, model, plan, serve, speak, train, voice,
};

/// Shown under the long help of the program.
const PROGRAM: &str = "\
Examples:
  acestep generate \"dark techno, driving, fast\" --instrumental --model demo
      makes a song at once, with the small built-in model
  acestep model pull turbo lm-1.7b
      downloads a real model, about 10 GB
  acestep generate \"upbeat pop, female voice\" --lyrics @song.txt --bpm 120 -o pop.wav
      makes a song with it; `acestep generate --help` shows more
  acestep speak \"Good morning.\" --voice ryan -o morning.wav
      speaks, with a model of `acestep model list`
  acestep serve
      opens a page and an API on http://127.0.0.1:8001
  acestep doctor
      shows what this machine has, and tests whether it works";

const VERIFY: &str = "\
Examples:
  acestep verify
      compares the built-in networks with the reference, on the device that makes songs
  acestep verify --device cpu --json
      tests the CPU, with output for a program
  acestep verify --model qwen3-tts-0.6b-base --dtype q8
      shows how often a speech model in int8 chooses the codes that it chooses in f32";

const BENCH: &str = "\
Examples:
  acestep bench
      measures each stage of a ten-second song with turbo, at full size, with random weights
  acestep bench --preset base --duration 30 --dtype q8
      measures other networks, a longer song, another weight type
  acestep bench --stage dit --stage vae --json > mine.json
      measures two stages, with output for a program
  acestep bench --preset qwen3-tts-0.6b --dtype q8 --stress 5
      speaks for five minutes: real-time factors, frames a second, memory";

const CHECK: &str = "\
Examples:
  acestep check --device cuda --out report
      measures everything about a GPU; writes report/check.md and report/check.json
  acestep check --quick
      tests whether the check works here, in about a minute
  acestep check --only bench --preset turbo
      runs one part with one preset";

const OF_COMMANDS: [(&str, &str); 24] = [
    ("generate", generate::EXAMPLES),
    ("speak", speak::EXAMPLES),
    ("voice", voice::EXAMPLES),
    ("serve", serve::EXAMPLES),
    ("work", serve::WORK_EXAMPLES),
    ("jobs", serve::JOBS_EXAMPLES),
    ("plan", plan::EXAMPLES),
    ("inspire", plan::INSPIRE_EXAMPLES),
    ("format", plan::FORMAT_EXAMPLES),
    ("understand", plan::UNDERSTAND_EXAMPLES),
    ("model", model::EXAMPLES),
    ("adapter", adapter::EXAMPLES),
    ("plot", after::PLOT_EXAMPLES),
    ("play", after::PLAY_EXAMPLES),
    ("codec", codec::EXAMPLES),
    ("train", train::EXAMPLES),
    ("doctor", doctor::EXAMPLES),
    ("warmup", doctor::WARMUP_EXAMPLES),
    ("config", config::EXAMPLES),
    ("completions", config::COMPLETIONS_EXAMPLES),
    ("man", config::MAN_EXAMPLES),
    ("verify", VERIFY),
    ("bench", BENCH),
    ("check", CHECK),
];

/// Adds the examples to all commands, with `end` below each.
pub(super) fn with_examples(command: clap::Command, end: &str) -> clap::Command {
    let mut command = command.after_long_help(format!("{PROGRAM}\n\n{end}"));
    for (verb, examples) in OF_COMMANDS {
        command = command.mut_subcommand(verb, |group| {
            let below: Vec<_> =
                group.get_subcommands().map(|below| below.get_name().to_owned()).collect();
            let group = group.after_long_help(format!("{examples}\n\n{end}"));
            below.iter().fold(group, |group, name| {
                let own = of_one(examples, &format!("acestep {verb} {name}"));
                group.mut_subcommand(name, |one| one.after_long_help(format!("{own}\n\n{end}")))
            })
        });
    }
    command
}

/// Keeps the examples of the command that is typed as `typed`, and the text below all examples.
fn of_one(examples: &str, typed: &str) -> String {
    let mut lines = vec!["Examples:"];
    let mut is_own = false;
    for line in examples.lines().skip(1) {
        if !line.starts_with("      ") {
            let is_example = line.starts_with("  ");
            is_own = !is_example || line.contains(typed);
        }
        if is_own {
            lines.push(line);
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_an_example_of_its_own() {
        fn look(command: &clap::Command, typed: &str) {
            let typed = format!("{typed}{}", command.get_name());
            let help = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains(&format!("  {typed}")), "{typed}: {help}");
            assert!(help.contains("Exit codes:"), "{typed}: {help}");
            command.get_subcommands().for_each(|below| look(below, &format!("{typed} ")));
        }
        look(&crate::command_line::command(), "");
    }

    #[test]
    fn an_example_of_another_command_is_left_out() {
        let group = "Examples:\n  acestep a b\n      why\n  acestep a c\n      why not\n\nOf all.";
        assert_eq!(
            of_one(group, "acestep a c"),
            "Examples:\n  acestep a c\n      why not\n\nOf all."
        );
    }
}
