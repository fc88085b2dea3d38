//! Values of flags: their parsers, and their way into a request.

use std::ffi::OsString;

use acestep_session::speech::Fields;
use clap::ValueEnum;
use serde::Serialize;
use serde_json::Value;

use crate::cli_error::CliError;

/// Sets the named fields of a request's topic to the same fields of typed flags, if these are
/// given.
macro_rules! put_all {
    ($from:expr => $to:expr; $($field:ident),+ $(,)?) => {
        $($crate::args::values::put(&mut $to.$field, $from.$field.as_ref());)+
    };
}
pub(crate) use put_all;

/// Replaces `to` by `from` if `from` is set.
pub(crate) fn put<T: Clone>(to: &mut Option<T>, from: Option<&T>) {
    if from.is_some() {
        *to = from.cloned();
    }
}

/// Combines a flag and its opposite; the parser keeps only the last one.
pub(super) fn pair(yes: bool, no: bool) -> Option<bool> {
    (yes || no).then_some(yes)
}

/// Returns the flags that were given as fields of a request: those that are not null.
///
/// # Errors
/// A file whose name is not UTF-8 text: JSON cannot have it.
pub(super) fn given(flags: &impl Serialize) -> Result<Fields, CliError> {
    let Ok(Value::Object(mut fields)) = serde_json::to_value(flags) else {
        let error = CliError::usage("the name of a file is not UTF-8 text");
        return Err(error.hint("rename the file, or link to it"));
    };
    fields.retain(|_, value| !value.is_null());
    Ok(fields)
}

/// True for a switch that is off, which is no field of a request.
pub(super) fn is_off(switch: &bool) -> bool {
    !switch
}

/// Returns `flag` and its value as words of a command line; none without a value.
pub(crate) fn words(
    flag: &str,
    value: Option<impl Into<OsString>>,
) -> impl Iterator<Item = OsString> {
    let words = value.map(|value| -> [OsString; 2] { [flag.into(), value.into()] });
    words.into_iter().flatten()
}

/// Returns the name of a flag's value.
pub(crate) fn name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// Parses flags as they are typed.
#[cfg(test)]
pub(super) fn typed<T: clap::Args>(flags: &[&str]) -> T {
    let command = T::augment_args(clap::Command::new("acestep"));
    let typed = command.try_get_matches_from([&["acestep"], flags].concat()).expect("flags");
    T::from_arg_matches(&typed).expect("flags")
}

/// Parses a seed.
///
/// # Errors
/// A description of valid seeds.
pub(super) fn seed(text: &str) -> Result<u64, String> {
    fixed_seed(text).map_err(|why| match text.trim() {
        "-1" => "for a random seed leave it out".to_owned(),
        _ => why,
    })
}

/// Parses a number that is not NaN and not infinite: JSON has neither.
///
/// # Errors
/// The reason.
pub(super) fn finite(text: &str) -> Result<f32, String> {
    let number: f32 = text.trim().parse().map_err(|_| "it is not a number".to_owned())?;
    match number.is_finite() {
        true => Ok(number),
        false => Err("it is not a finite number".to_owned()),
    }
}

/// Parses a seed that has a fixed default, so a random one is never drawn.
///
/// # Errors
/// A description of valid seeds.
pub(super) fn fixed_seed(text: &str) -> Result<u64, String> {
    let range = |_| format!("a seed is a whole number from 0 to {}", u64::MAX);
    text.trim().parse().map_err(range)
}
