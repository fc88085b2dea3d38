//! The configuration, from YAML to JSON.
//!
//! Only what a configuration needs: maps with texts as keys, lists, and plain values. Tags are
//! refused: they would construct objects.
//!
//! Source: YAML 1.2.2, core schema, by the crate `saphyr-parser`.

use std::collections::HashMap;

use saphyr_parser::{Event, Parser, ScalarStyle};
use serde_json::{Map, Number, Value};

/// More values than any configuration has, aliases counted as often as they stand there.
const MOST_VALUES: usize = 200_000;
/// Maximum depth of maps and lists in each other.
const DEPTH: usize = 64;
/// Largest text.
const LONGEST: usize = 4 << 20;

/// A list or a map that is not complete.
enum Open {
    List(Vec<Value>),
    Map(Map<String, Value>, Option<String>),
}

/// Parses one document.
///
/// # Errors
/// The reason why it is not a configuration.
pub(super) fn parse(text: &str) -> Result<Value, String> {
    if text.len() > LONGEST {
        return Err(format!("it has {} bytes, the limit is {LONGEST}", text.len()));
    }
    let mut builder = Builder::default();
    for event in Parser::new_from_str(text) {
        let (event, _) = event.map_err(|error| error.to_string())?;
        builder.take(event)?;
    }
    builder.whole.ok_or_else(|| "it is empty".to_owned())
}

#[derive(Default)]
struct Builder {
    /// The open lists and maps, with their anchors.
    stack: Vec<(Open, usize)>,
    anchors: HashMap<usize, (Value, usize)>,
    values: usize,
    whole: Option<Value>,
}

impl Builder {
    fn take(&mut self, event: Event<'_>) -> Result<(), String> {
        match event {
            Event::Scalar(_, _, _, Some(tag))
            | Event::SequenceStart(_, Some(tag))
            | Event::MappingStart(_, Some(tag)) => Err(format!("it has the tag `{tag}`")),
            Event::Scalar(text, style, anchor, None) => {
                let value = match style {
                    ScalarStyle::Plain => plain(&text),
                    _ => Value::String(text.into_owned()),
                };
                self.add(value, anchor, 1)
            }
            Event::SequenceStart(anchor, None) => self.open(Open::List(Vec::new()), anchor),
            Event::MappingStart(anchor, None) => self.open(Open::Map(Map::new(), None), anchor),
            Event::SequenceEnd | Event::MappingEnd => {
                let (open, anchor) = self.stack.pop().ok_or("a list ends that did not begin")?;
                let value = match open {
                    Open::List(list) => Value::Array(list),
                    Open::Map(map, None) => Value::Object(map),
                    Open::Map(_, Some(key)) => return Err(format!("key `{key}` has no value")),
                };
                self.add(value, anchor, 1)
            }
            Event::Alias(anchor) => {
                let (value, size) =
                    self.anchors.get(&anchor).cloned().ok_or("an alias of nothing")?;
                self.add(value, 0, size)
            }
            Event::DocumentStart(_) if self.whole.is_some() => {
                Err("it has a second document".to_owned())
            }
            _ => Ok(()),
        }
    }

    fn open(&mut self, open: Open, anchor: usize) -> Result<(), String> {
        if self.stack.len() == DEPTH {
            return Err(format!("maps and lists lie {DEPTH} deep in each other"));
        }
        self.stack.push((open, anchor));
        Ok(())
    }

    /// Adds a value of `size` values to the innermost list or map.
    fn add(&mut self, value: Value, anchor: usize, size: usize) -> Result<(), String> {
        self.values = self.values.saturating_add(size);
        if self.values > MOST_VALUES {
            return Err(format!("it has more than {MOST_VALUES} values"));
        }
        if anchor > 0 {
            self.anchors.insert(anchor, (value.clone(), count(&value)));
        }
        match self.stack.last_mut() {
            None => self.whole = Some(value),
            Some((Open::List(list), _)) => list.push(value),
            Some((Open::Map(map, key), _)) => match key.take() {
                None => *key = Some(text_of(value)?),
                Some(own) => {
                    if map.insert(own.clone(), value).is_some() {
                        return Err(format!("key `{own}` is there twice"));
                    }
                }
            },
        }
        Ok(())
    }
}

/// Returns the number of values in `value`.
fn count(value: &Value) -> usize {
    match value {
        Value::Array(list) => 1 + list.iter().map(count).sum::<usize>(),
        Value::Object(map) => 1 + map.values().map(count).sum::<usize>(),
        _ => 1,
    }
}

fn text_of(key: Value) -> Result<String, String> {
    match key {
        Value::String(text) => Ok(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(key.to_string()),
        Value::Array(_) | Value::Object(_) => Err("a key is a list or a map".to_owned()),
    }
}

/// Returns the value of a text without quotation marks.
fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return true.into(),
        "false" | "False" | "FALSE" => return false.into(),
        _ => (),
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if !digits.is_empty()
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && let Ok(number) = text.parse::<i64>()
    {
        return number.into();
    }
    let is_number = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && digits.bytes().any(|byte| byte.is_ascii_digit())
        && digits.bytes().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte));
    let number = is_number.then(|| text.parse::<f64>().ok()).flatten().and_then(Number::from_f64);
    number.map_or_else(|| Value::String(text.to_owned()), Value::Number)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_configuration_keeps_its_values_and_their_order() {
        let text = "b: nemo:0f_x.txt\na:\n- 1\n- -2.5\n- 1.0e-05\n- '1'\n- null\nflag: true\n\
                    version: 2.6.0\nempty: ''\nother: {}\n";
        let value = parse(text).expect("YAML");
        assert_eq!(
            value.to_string(),
            json!({
                "b": "nemo:0f_x.txt", "a": [1, -2.5, 1e-5, "1", null], "flag": true,
                "version": "2.6.0", "empty": "", "other": {},
            })
            .to_string()
        );
    }

    #[test]
    fn what_a_configuration_never_has_is_refused() {
        let bomb: String =
            (1..10).fold("a0: &a0 [x, x, x, x, x, x, x, x, x]\n".into(), |all, n| {
                let refer = vec![format!("*a{}", n - 1); 9].join(", ");
                format!("{all}a{n}: &a{n} [{refer}]\n")
            });
        let deep = "[".repeat(100);
        for (text, says) in [
            ("a: !!python/object/apply:os.system [ls]\n", "tag"),
            ("a: 1\na: 2\n", "key `a` is there twice"),
            ("a: 1\n--- \nb: 2\n", "second document"),
            (bomb.as_str(), "more than 200000 values"),
            (deep.as_str(), "64 deep"),
            ("", "it is empty"),
            ("a: [1\n", ""),
        ] {
            let error = parse(text).expect_err(says);
            assert!(error.contains(says), "{says}: {error}");
        }
    }
}
