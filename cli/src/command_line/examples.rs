//! The examples in the long help of each command.
//!
//! A group such as `model` shows the examples of all its subcommands; each of these shows its own.

/// The examples: those of a command follow a line such as `# generate`, and those of the program
/// `# acestep`.
const ALL: &str = include_str!("examples.txt");

/// Returns the commands, each with its examples.
fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    let sections = ALL.trim_start_matches("# ").trim_end().split("\n\n# ");
    sections.filter_map(|section| section.split_once('\n'))
}

/// Adds the examples to the program and its commands, with `end` below each.
pub(super) fn with_examples(mut command: clap::Command, end: &str) -> clap::Command {
    let shown = |examples: &str| format!("Examples:\n{examples}\n\n{end}");
    for (verb, examples) in all() {
        if verb == command.get_name() {
            command = command.after_long_help(shown(examples));
            continue;
        }
        command = command.mut_subcommand(verb, |group| {
            let below: Vec<_> =
                group.get_subcommands().map(|below| below.get_name().to_owned()).collect();
            let group = group.after_long_help(shown(examples));
            below.iter().fold(group, |group, name| {
                let own = of_one(examples, &format!("acestep {verb} {name}"));
                group.mut_subcommand(name, |one| one.after_long_help(shown(&own)))
            })
        });
    }
    command
}

/// Keeps the examples of the command that is typed as `typed`, and the text below all examples.
fn of_one(examples: &str, typed: &str) -> String {
    let mut lines = Vec::new();
    let mut is_own = false;
    for line in examples.lines() {
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
            assert!(help.starts_with("Examples:\n  "), "{typed}: {help}");
            assert!(help.contains(&format!("  {typed}")), "{typed}: {help}");
            assert!(help.contains("Exit codes:"), "{typed}: {help}");
            // The widest help; it would break a longer line once more.
            assert!(help.lines().all(|line| line.len() <= 100), "{typed}: {help}");
            command.get_subcommands().for_each(|below| look(below, &format!("{typed} ")));
        }
        look(&crate::command_line::command(), "");
    }

    #[test]
    fn an_example_of_another_command_is_left_out() {
        let group = "  acestep a b\n      why\n  acestep a c\n      why not\n\nOf all.";
        assert_eq!(of_one(group, "acestep a c"), "  acestep a c\n      why not\n\nOf all.");
    }
}
