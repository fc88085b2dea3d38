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

use crate::fields;

/// Returns `error` of `command`, with our words where clap's do not help.
pub(super) fn explained(mut error: Error, command: &Command) -> Error {
    match error.kind() {
        ErrorKind::UnknownArgument => {
            unknown(&mut error);
            if let Some(tip) = dashed(&text(&error, ContextKind::InvalidArg)) {
                let tips = ContextValue::StyledStrs(vec![tip.into()]);
                error.insert(ContextKind::Suggested, tips);
            }
        }
        ErrorKind::InvalidValue => another_value(&mut error),
        ErrorKind::InvalidSubcommand => another_command(&mut error),
        ErrorKind::ValueValidation => return no_number(error, command),
        _ => {}
    }
    error
}

/// Flags of other programs whose spelling leads elsewhere, each before ours.
const OTHERS: &str = "tempo bpm speed bpm key keyscale meter timesignature metre timesignature \
    negative lm-negative-prompt guidance guidance-scale num-steps inference-steps time duration \
    length duration seconds duration prompt caption style caption style instruct count batch-size \
    lang vocal-language no-vocals instrumental random-seed seed temp temperature \
    temp lm-temperature source src-audio strength audio-cover-strength volume lufs \
    ref-text transcript precision dtype gpu device file output audio-duration duration";

/// Adds a tip for a second word of a text or a file name, and corrects the suggestion of another flag.
fn unknown(error: &mut Error) {
    let (word, usage) = (text(error, ContextKind::InvalidArg), text(error, ContextKind::Usage));
    let names: Vec<&str> = OTHERS.split_whitespace().collect();
    let is_meant = |pair: &&[&str]| word == format!("--{}", pair[0]) && fields::has(pair[1]);
    let meant = names.chunks(2).find(is_meant).map(|pair| format!("--{}", pair[1]));
    if meant.is_some() {
        // They have the flag of the nearest spelling, and a text that begins with dashes.
        error.remove(ContextKind::Usage);
        error.remove(ContextKind::Suggested);
    }
    // Upstream's spelling works but is not shown: our flags have hyphens.
    let like = meant.unwrap_or_else(|| text(error, ContextKind::SuggestedArg).replace('_', "-"));
    if !like.is_empty() {
        error.insert(ContextKind::SuggestedArg, ContextValue::String(like));
    }
    let takes_words = ["CAPTION", "QUERY", "TEXT]", "SONG"].iter().any(|name| usage.contains(name));
    if takes_words && !word.starts_with('-') {
        let tip = "put several words in quotes: \"slow rain, piano\"";
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
}

/// Returns a tip for a value or a caption that begins with a dash and was read as flags. `flag` is
/// the first of these flags, `-x` for `-x.wav`.
fn dashed(flag: &str) -> Option<String> {
    let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    let words: Vec<String> = words.collect();
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
fn another_command(error: &mut Error) {
    let similar = error.get(ContextKind::SuggestedSubcommand);
    if matches!(similar, Some(ContextValue::Strings(names)) if !names.is_empty()) {
        return;
    }
    let (typed, above) = (text(error, ContextKind::InvalidSubcommand), fields::typed());
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
