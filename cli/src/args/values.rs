//! Values of flags: their parsers, and their way into a request.

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
