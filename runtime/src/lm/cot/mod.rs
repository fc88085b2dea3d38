//! Metadata as the YAML that stands between `<think>` tags, before the audio codes.
//!
//! The model was trained on what Python's PyYAML writes, so every byte of it counts: where a long
//! caption is folded, which values get quotes.
//!
//! Source: upstream `llm_inference.py`, `_format_metadata_as_cot`; the form of the values is
//! PyYAML 6.0.3's, see the modules below.

mod resolve;
mod scalar;

use super::{
    metadata::{Metadata, Scalar},
    parse::python,
};

/// The plan that the codes follow: `<think>\n{yaml}\n</think>`.
///
/// Genres are not written. A metre in quarters loses its `/4`. A text of digits only, in any field
/// and any script, is written as a number; digits that are no decimal ones (`²`) stay a text,
/// where upstream raises an error.
pub fn cot(metadata: &Metadata) -> String {
    let text = |text: &Option<String>| text.clone().map(Scalar::Text);
    let metre = metadata.timesignature.as_deref().map(quarters);
    let fields = [
        ("bpm", metadata.bpm.clone()),
        ("caption", text(&metadata.caption)),
        ("duration", metadata.duration.clone()),
        ("keyscale", text(&metadata.keyscale)),
        ("language", text(&metadata.language)),
        ("timesignature", metre.map(|metre| Scalar::Text(metre.into()))),
    ];
    let mut yaml = String::new();
    for (key, value) in fields {
        let Some(value) = value else { continue };
        yaml.push_str(key);
        yaml.push(':');
        match value {
            Scalar::Whole(value) => yaml.push_str(&format!(" {value}")),
            Scalar::Real(value) => yaml.push_str(&format!(" {}", float(value))),
            Scalar::Text(text) => match python::digits(&text) {
                Some(number) => yaml.push_str(&format!(" {number}")),
                None => scalar::write(&mut yaml, key.len() + 1, &text),
            },
        }
        yaml.push('\n');
    }
    // Strips as Python does: white space of any kind at the end of the last plain value goes too.
    format!("<think>\n{}\n</think>", python::strip(&yaml))
}

/// One field as PyYAML writes a mapping of it alone, stripped: `bpm: 120`, `timesignature: '4'`.
///
/// Unlike in [`cot`], a text stays one: where it reads as a number, it has quotes.
pub fn field(key: &str, value: &Scalar) -> String {
    let mut yaml = format!("{key}:");
    match value {
        Scalar::Whole(value) => yaml.push_str(&format!(" {value}")),
        Scalar::Real(value) => yaml.push_str(&format!(" {}", float(*value))),
        Scalar::Text(text) => scalar::write(&mut yaml, key.len() + 1, text),
    }
    python::strip(&yaml).to_owned()
}

/// `3/4` -> `3`; others, such as `6/8`, as they are.
fn quarters(metre: &str) -> &str {
    match metre.split_once('/') {
        Some((beats, _)) if metre.ends_with("/4") => beats,
        _ => metre,
    }
}

/// A float of YAML 1.1, whose exponent needs a point before it: `1e+16` -> `1.0e+16`.
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
