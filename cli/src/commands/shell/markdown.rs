//! Manual pages for the book: clap's data of a command, as Markdown.

use std::fmt::Write as _;

use clap::{Arg, Command};

/// Returns the page of `command`, which is called `title`, with links to its subcommands.
pub(super) fn page(command: &Command, title: &str) -> String {
    let name = title.replace('-', " ");
    let mut text = format!("# {name}\n\n");
    let about = command.get_long_about().or(command.get_about());
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{}\n", sentence(&about.map(ToString::to_string).unwrap_or_default()));
    let _ = writeln!(text, "```text\n{}\n```", usage(command));
    let below: Vec<_> = command.get_subcommands().filter(|below| !below.is_hide_set()).collect();
    if !below.is_empty() {
        text += "\n| command | what it does |\n|---|---|\n";
        for below in below {
            let own = below.get_name();
            let about = below.get_about().map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "| [{name} {own}]({title}-{own}.md) | {} |", escaped(&about));
        }
    }
    for (heading, flags) in headings(command) {
        if heading == "Global" && title != "acestep" {
            text += "\nThe [global flags](acestep.md#global) work here too.\n";
            continue;
        }
        let _ = writeln!(text, "\n## {heading}");
        for flag in flags {
            let _ = write!(text, "\n{}", entry(flag));
        }
    }
    if let Some(more) = command.get_after_long_help() {
        let _ = writeln!(text, "\n## Examples and exit codes\n\n```text\n{more}\n```");
    }
    text
}

/// Returns a text such as `acestep generate [OPTIONS] [CAPTION]`.
pub(super) fn usage(command: &Command) -> String {
    let usage = command.clone().render_usage().to_string();
    usage.strip_prefix("Usage: ").unwrap_or(&usage).trim().to_owned()
}

/// Groups flags by their headings, in the order of the help.
fn headings(command: &Command) -> Vec<(&str, Vec<&Arg>)> {
    let mut headings: Vec<(&str, Vec<&Arg>)> = Vec::new();
    for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
        let heading = match arg.get_help_heading() {
            Some(heading) => heading,
            None if arg.is_positional() => "Arguments",
            None => "Options",
        };
        match headings.iter_mut().find(|(known, _)| *known == heading) {
            Some((_, flags)) => flags.push(arg),
            None => headings.push((heading, vec![arg])),
        }
    }
    // Flags of every command come last.
    headings.sort_by_key(|(heading, _)| ["Options", "Global"].contains(heading));
    headings
}

/// Returns a flag and its help as a list item.
fn entry(arg: &Arg) -> String {
    let values = match arg.get_value_names() {
        Some(names) if arg.get_action().takes_values() => {
            names.iter().map(|name| format!(" <{name}>")).collect()
        }
        _ => String::new(),
    };
    let spelled = match (arg.get_short(), arg.get_long()) {
        (Some(short), Some(long)) => format!("-{short}, --{long}{values}"),
        (None, Some(long)) => format!("--{long}{values}"),
        _ => values.trim().to_owned(),
    };
    let about = arg.get_long_help().or(arg.get_help()).map(ToString::to_string);
    let mut about = about.unwrap_or_default();
    let default: Vec<_> = arg.get_default_values().iter().map(|v| v.to_string_lossy()).collect();
    if !default.is_empty() && !arg.is_hide_default_value_set() && arg.get_action().takes_values() {
        let _ = write!(about, " [default: {}]", default.join(", "));
    }
    let words: Vec<_> = arg
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set() && arg.get_action().takes_values())
        .map(|value| value.get_name().to_owned())
        .collect();
    if !words.is_empty() {
        let _ = write!(about, " [possible values: {}]", words.join(", "));
    }
    let mut paragraphs = about.split("\n\n").map(|text| escaped(&text.replace('\n', " ")));
    let mut text = format!("- `{spelled}`: {}\n", paragraphs.next().unwrap_or_default());
    for more in paragraphs {
        let _ = write!(text, "\n  {more}\n");
    }
    text
}

/// Returns the escaped text with a full stop.
fn sentence(text: &str) -> String {
    let text = escaped(text);
    if text.ends_with('.') { text } else { format!("{text}.") }
}

/// Escapes brackets and other special characters of Markdown.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    let mut is_code = false;
    for letter in text.chars() {
        is_code ^= letter == '`';
        if !is_code && ['<', '>', '[', ']', '*', '|', '_'].contains(&letter) {
            out.push('\\');
        }
        out.push(letter);
    }
    out
}
