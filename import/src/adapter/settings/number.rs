//! Numbers in settings. Tools write them as integers, as floats and as text.

use regex::Regex;
use serde_json::{Map, Value};

/// True if `value` is empty, null or false.
pub(super) fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bool(true) | Value::Number(_) => false,
    }
}

/// Returns a finite number, also from text.
pub(super) fn finite(value: &Value) -> Option<f64> {
    let number = match value {
        Value::String(text) => text.trim().parse().ok(),
        value => value.as_f64(),
    };
    number.filter(|x| x.is_finite())
}

/// Returns an integer above 0, also from a float or from text.
pub(super) fn whole(value: &Value) -> Option<usize> {
    // Every f64 integer up to here is exact, and no rank is near it.
    const MOST: f64 = 4_294_967_295.0;
    let is_count = |x: &f64| x.fract() == 0.0 && (1.0..=MOST).contains(x);
    finite(value).filter(is_count).map(|x| x as usize)
}

pub(super) fn natural(object: &Map<String, Value>, key: &str) -> Result<Option<usize>, String> {
    match object.get(key).filter(|value| !value.is_null()) {
        Some(value) => {
            whole(value).map(Some).ok_or_else(|| format!("`{key}` is {value}, not a rank"))
        }
        None => Ok(None),
    }
}

/// Reads regular expressions for modules, with a number for each. PEFT takes the first one that
/// matches the end of the module's name, starting after a dot.
pub(super) fn patterns<T>(
    object: &Map<String, Value>,
    key: &str,
    number: impl Fn(&Value) -> Option<T>,
) -> Result<Vec<(Regex, T)>, String> {
    let Some(value) = object.get(key).filter(|value| !is_nothing(value)) else {
        return Ok(vec![]);
    };
    let Some(pairs) = value.as_object() else { return Err(format!("`{key}` is {value}")) };
    let pair = |(pattern, value): (&String, &Value)| {
        let regex = Regex::new(&format!("^(?:.*\\.)?(?:{pattern})$"))
            .map_err(|_| format!("`{key}` has the pattern `{pattern}`, which cannot be read"))?;
        let number = number(value).ok_or_else(|| format!("`{key}` of `{pattern}` is {value}"))?;
        Ok((regex, number))
    };
    pairs.iter().map(pair).collect()
}

pub(super) fn find<T: Copy>(patterns: &[(Regex, T)], name: &str) -> Option<T> {
    patterns.iter().find(|(regex, _)| regex.is_match(name)).map(|&(_, number)| number)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rank_may_have_a_point_or_be_text_and_must_count_something() {
        for (value, rank) in [
            (json!(64), Some(64)),
            (json!(64.0), Some(64)),
            (json!("64"), Some(64)),
            (json!(" 64.0 "), Some(64)),
            (json!(0), None),
            (json!(-4), None),
            (json!(1.5), None),
            (json!(1e300), None),
            (json!("none"), None),
            (json!("inf"), None),
            (json!(true), None),
        ] {
            assert_eq!(whole(&value), rank, "{value}");
        }
        assert_eq!(finite(&json!("0.5")), Some(0.5));
        assert_eq!(finite(&json!("NaN")), None);
    }
}
