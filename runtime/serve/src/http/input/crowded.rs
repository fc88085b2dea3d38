//! Bodies with very many values. A value in memory is up to seventy times as large as its text, so a body
//! of the size of an upload would fill the memory. Sound as base64 is one value, however large.

use serde_json::{Map, Value};

use crate::http::ApiError;

/// The most separators of a body.
const MOST: usize = 1 << 16;

/// Refuses JSON with too many commas, colons and brackets outside of texts, before it is read.
pub(in crate::http) fn check_json(text: &str) -> Result<(), ApiError> {
    let (mut number, mut is_text, mut is_escaped) = (0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b',' | b':' | b'[' | b']' | b'{' | b'}' if !is_text => number += 1,
            _ => {}
        }
        if number > MOST {
            return Err(too_many("the JSON has more than 65536 commas, colons and brackets"));
        }
    }
    Ok(())
}

/// Refuses a form with too many fields, before it is read.
pub(super) fn check_form(text: &str) -> Result<(), ApiError> {
    match text.bytes().filter(|byte| *byte == b'&').count() {
        0..=MOST => Ok(()),
        _ => Err(too_many("the form has more than 65536 fields")),
    }
}

/// Returns the bytes of all keys and texts of an object.
pub(in crate::http) fn size(object: &Map<String, Value>) -> usize {
    object.iter().map(|(key, value)| key.len() + bytes_of(value)).sum()
}

fn bytes_of(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(bytes_of).sum(),
        Value::Object(object) => size(object),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

fn too_many(message: &str) -> ApiError {
    ApiError::too_large(message).hint("send sound as base64, or as a file with POST /v1/files")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_with_more_separators_than_a_request_needs_is_refused() {
        // The braces, the colon and the brackets are five.
        let list = |commas: usize| format!(r#"{{"x":[0{}]}}"#, ",0".repeat(commas));
        check_json(&list(MOST - 5)).expect("at the limit");
        let error = check_json(&list(MOST - 4)).expect_err("beyond the limit");
        assert_eq!((error.status.as_u16(), &*error.error.code), (413, "too_large"));
        check_json(&"[".repeat(MOST + 1)).expect_err("brackets");
        check_json(&"{\"\":".repeat(MOST)).expect_err("objects");
    }

    #[test]
    fn separators_within_a_text_do_not_count() {
        for text in [",", ":[]{}", r#"\","#, r#"\\\","#] {
            let json = format!(r#"{{"lyrics":"{}"}}"#, text.repeat(MOST + 1));
            check_json(&json).unwrap_or_else(|error| panic!("{text}: {error:?}"));
        }
        // The text ends after an escaped backslash.
        check_json(&format!(r#"["\\"{}]"#, ",0".repeat(MOST))).expect_err("values");
    }

    #[test]
    fn a_form_with_more_fields_than_a_request_needs_is_refused() {
        check_form(&"&a=1".repeat(MOST)).expect("at the limit");
        let error = check_form(&"&a=1".repeat(MOST + 1)).expect_err("beyond the limit");
        assert_eq!(error.status.as_u16(), 413);
    }
}
