//! Metadata as the YAML between `<think>` tags, before the audio codes.
//!
//! The model was trained on the output of Python's PyYAML, so every byte must match, including the
//! folds of a long caption and the quotes.
//!
//! Source: upstream `llm_inference.py`, `_format_metadata_as_cot`; the format of the values is
//! PyYAML 6.0.3's, see the modules below.

mod resolve;
mod scalar;

use super::metadata::{Metadata, Scalar};
use crate::python;

/// Returns the plan that precedes the codes: `<think>\n{yaml}\n</think>`.
///
/// Genres are not written. A time signature in quarters loses its `/4`. A text of digits, in any
/// field and any script, becomes a number. Digits that are not decimal (`²`) stay a text; upstream
/// raises an error for them.
pub fn cot(metadata: &Metadata) -> String {
    let timesignature = metadata.timesignature.as_deref().map(|metre| quarters(metre).to_owned());
    let written = Metadata { genres: None, timesignature, ..metadata.clone() };
    let mut yaml = String::new();
    for (key, value) in written.fields() {
        let digits = match &value {
            Scalar::Text(text) => python::digits(text),
            Scalar::Whole(_) | Scalar::Real(_) => None,
        };
        yaml += &digits.map_or_else(|| line(key, &value), |number| format!("{key}: {number}"));
        yaml.push('\n');
    }
    // As Python's strip: any white space at the end of the last plain value is removed too.
    format!("<think>\n{}\n</think>", python::strip(&yaml))
}

/// Returns one field as PyYAML writes a mapping with this field only, stripped: `bpm: 120`,
/// `timesignature: '4'`.
///
/// Unlike in [`cot`], a text stays a text: it gets quotes if it looks like a number.
pub fn field(key: &str, value: &Scalar) -> String {
    python::strip(&line(key, value)).to_owned()
}

fn line(key: &str, value: &Scalar) -> String {
    let mut yaml = format!("{key}:");
    match value {
        Scalar::Whole(value) => yaml.push_str(&format!(" {value}")),
        Scalar::Real(value) => yaml.push_str(&format!(" {}", float(*value))),
        Scalar::Text(text) => scalar::write(&mut yaml, key.len() + 1, text),
    }
    yaml
}

/// Converts `3/4` to `3`; others, such as `6/8`, stay.
fn quarters(metre: &str) -> &str {
    match metre.split_once('/') {
        Some((beats, _)) if metre.ends_with("/4") => beats,
        _ => metre,
    }
}

/// Returns a YAML 1.1 float, whose exponent needs a point before it: `1e+16` -> `1.0e+16`.
fn float(value: f64) -> String {
    let text = python::repr(value);
    match (value.is_finite(), text.strip_prefix('-')) {
        (false, Some(text)) => format!("-.{text}"),
        (false, None) => format!(".{text}"),
        (true, _) if text.contains('.') => text,
        (true, _) => text.replacen('e', ".0e", 1),
    }
}

#[cfg(test)]
mod tests;
