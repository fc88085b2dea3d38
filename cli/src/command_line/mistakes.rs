//! Clap's messages about wrong command lines, completed with tips.

use std::{
    error::Error as _,
    num::{IntErrorKind, ParseFloatError, ParseIntError},
};

use acestep_engine::nearest;
use clap::{
    Command, Error,
    error::{ContextKind, ContextValue, ErrorKind},
};

/// Returns `error` of `command`, with our words where clap's do not help.
pub(super) fn explained(mut error: Error, command: &Command) -> Error {
    match error.kind() {
        ErrorKind::UnknownArgument => {
            unknown(&mut error);
            if let Some(tip) = dashed(&text(&error, ContextKind::InvalidArg), &typed()) {
                let tips = ContextValue::StyledStrs(vec![tip.into()]);
                error.insert(ContextKind::Suggested, tips);
            }
        }
        ErrorKind::InvalidValue => another_value(&mut error),
        ErrorKind::InvalidSubcommand => another_command(&mut error, command),
        ErrorKind::ValueValidation => return no_number(error, command),
        _ => {}
    }
    error
}

/// Adds a tip for a second word after the caption, and corrects the suggestion of a hidden flag.
fn unknown(error: &mut Error) {
    if let Some(ContextValue::String(like)) = error.get(ContextKind::SuggestedArg) {
        // Upstream's spelling works but is not shown: our flags have hyphens.
        let ours = ContextValue::String(like.replace('_', "-"));
        error.insert(ContextKind::SuggestedArg, ours);
    }
    let (word, usage) = (text(error, ContextKind::InvalidArg), text(error, ContextKind::Usage));
    let has_caption = ["[CAPTION]", "[QUERY]"].iter().any(|name| usage.contains(name));
    if has_caption && !word.starts_with('-') {
        let tip = "put several words in quotes: \"slow rain, piano\"";
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
}

/// Returns the words of the command line.
fn typed() -> Vec<String> {
    std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect()
}

/// Returns a tip for a value or a caption that begins with a dash and was read as flags. `flag` is
/// the first of these flags, `-x` for `-x.wav`.
fn dashed(flag: &str, words: &[String]) -> Option<String> {
    let is_short = flag.starts_with('-') && !flag.starts_with("--");
    let longer = |word: &&String| word.len() > flag.len() && word.starts_with(flag);
    let at = words.iter().position(|word| longer(&word)).filter(|&at| is_short && at > 0)?;
    let (before, word) = (&words[at - 1], &words[at]);
    let quoted = if word.contains(' ') { format!("\"{word}\"") } else { word.clone() };
    Some(if before.starts_with('-') && before != "--" {
        format!("a value that begins with a dash follows an equals sign: {before}={quoted}")
    } else {
        format!("words that begin with a dash stand last, behind two dashes: -- {quoted}")
    })
}

/// Suggests a similar possible value where clap finds none.
fn another_value(error: &mut Error) {
    if error.get(ContextKind::SuggestedValue).is_some() {
        return;
    }
    let Some(ContextValue::Strings(valid)) = error.get(ContextKind::ValidValue) else { return };
    let typed = text(error, ContextKind::InvalidValue);
    let near = nearest(&typed, valid.iter().map(String::as_str)).map(str::to_owned);
    if let Some(near) = near {
        error.insert(ContextKind::SuggestedValue, ContextValue::String(near));
    }
}

/// Suggests a similar command after `help`, where clap suggests none.
fn another_command(error: &mut Error, command: &Command) {
    if let Some(ContextValue::Strings(similar)) = error.get(ContextKind::SuggestedSubcommand)
        && !similar.is_empty()
    {
        return;
    }
    let (typed, usage) =
        (text(error, ContextKind::InvalidSubcommand), text(error, ContextKind::Usage));
    // `Usage: acestep model <COMMAND>`: look for subcommands of the last name.
    let mut above = command;
    for word in usage.split_whitespace().skip_while(|word| *word != command.get_name()).skip(1) {
        let Some(below) = above.find_subcommand(word) else { break };
        above = below;
    }
    let near = nearest(&typed, above.get_subcommands().map(Command::get_name)).map(str::to_owned);
    if let Some(near) = near {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::String(near));
    }
}

/// Replaces Rust's message about a wrong number, such as "invalid digit found in string".
fn no_number(error: Error, command: &Command) -> Error {
    let source = error.source();
    let whole = source.and_then(|source| source.downcast_ref::<ParseIntError>());
    let tip = match whole.map(ParseIntError::kind) {
        Some(IntErrorKind::PosOverflow) => "it takes a smaller number",
        Some(IntErrorKind::NegOverflow) => "it takes a larger one",
        Some(_) => "it takes a whole number, such as 8",
        None if source.is_some_and(|source| source.is::<ParseFloatError>()) => {
            "it takes a number, such as 8 or 0.5"
        }
        None => return error,
    };
    let mut ours = Error::new(ErrorKind::ValueValidation).with_cmd(command);
    for kind in [ContextKind::InvalidArg, ContextKind::InvalidValue] {
        ours.insert(kind, ContextValue::String(text(&error, kind)));
    }
    ours.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    ours
}

/// Returns the value of `kind` in `error`, if it is a text.
fn text(error: &Error, kind: ContextKind) -> String {
    match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::StyledStr(text)) => text.to_string(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_with_a_dash_has_a_tip_that_works() {
        let tip = |flag: &str, words: &[&str]| {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            dashed(flag, &words)
        };
        assert_eq!(
            tip("-x", &["acestep", "generate", "rain", "-o", "-x.wav"]).as_deref(),
            Some("a value that begins with a dash follows an equals sign: -o=-x.wav")
        );
        assert_eq!(
            tip("-d", &["acestep", "generate", "-dark techno", "--model", "tiny"]).as_deref(),
            Some("words that begin with a dash stand last, behind two dashes: -- \"-dark techno\"")
        );
        assert_eq!(tip("--modle", &["acestep", "--modle"]), None);
        assert_eq!(tip("-x", &["acestep", "-x"]), None);
    }
}
