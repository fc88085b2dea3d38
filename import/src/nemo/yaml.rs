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
/// More bytes than the texts of any configuration have, aliases counted as often as they stand there.
const MOST_BYTES: usize = 4 * LONGEST;

/// A list or a map that is not complete.
enum Open {
    List(Vec<Value>),
    Map(Map<String, Value>, Option<String>),
}

/// Parses one document.
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

/// The size of a value.
#[derive(Debug, Clone, Copy, Default)]
struct Size {
    /// The value itself, and those in it.
    values: usize,
    /// Bytes of all texts, keys included.
    bytes: usize,
}

impl Size {
    /// Returns the size of `value`.
    fn of(value: &Value) -> Self {
        let one = Self { values: 1, bytes: 0 };
        match value {
            Value::String(text) => Self { bytes: text.len(), ..one },
            Value::Array(list) => list.iter().map(Self::of).fold(one, Self::plus),
            Value::Object(map) => {
                let keys = Self { bytes: map.keys().map(String::len).sum(), ..one };
                map.values().map(Self::of).fold(keys, Self::plus)
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => one,
        }
    }

    /// Returns the sum, without overflow.
    fn plus(self, other: Self) -> Self {
        Self {
            values: self.values.saturating_add(other.values),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }
}

#[derive(Default)]
struct Builder {
    /// The open lists and maps, with their anchors.
    stack: Vec<(Open, usize)>,
    anchors: HashMap<usize, (Value, Size)>,
    size: Size,
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
                self.grow(Size::of(&value))?;
                self.add(value, anchor)
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
                // The values in it are counted already.
                self.grow(Size { values: 1, bytes: 0 })?;
                self.add(value, anchor)
            }
            Event::Alias(anchor) => {
                let &(_, size) = self.anchors.get(&anchor).ok_or("an alias of nothing")?;
                // Before the copy, which may be too large.
                self.grow(size)?;
                let value = self.anchors[&anchor].0.clone();
                self.add(value, 0)
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

    /// Counts `size` more.
    fn grow(&mut self, size: Size) -> Result<(), String> {
        self.size = self.size.plus(size);
        match self.size {
            Size { values, .. } if values > MOST_VALUES => {
                Err(format!("it has more than {MOST_VALUES} values"))
            }
            Size { bytes, .. } if bytes > MOST_BYTES => {
                Err(format!("its texts have more than {MOST_BYTES} bytes"))
            }
            _ => Ok(()),
        }
    }

    /// Adds a value, which is counted already, to the innermost list or map.
    fn add(&mut self, value: Value, anchor: usize) -> Result<(), String> {
        if anchor > 0 {
            let size = Size::of(&value);
            // The anchor keeps a copy.
            self.grow(Size { values: 0, ..size })?;
            self.anchors.insert(anchor, (value.clone(), size));
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
    fn a_long_text_that_stands_there_a_few_times_is_no_bomb() {
        let text = format!("a: &a '{}'\nb: [*a, *a]\n", "x".repeat(1 << 20));
        let value = parse(&text).expect("YAML");
        assert_eq!(value["b"][1].as_str().map(str::len), Some(1 << 20));
    }

    #[test]
    fn what_a_configuration_never_has_is_refused() {
        let bomb: String =
            (1..10).fold("a0: &a0 [x, x, x, x, x, x, x, x, x]\n".into(), |all, n| {
                let refer = vec![format!("*a{}", n - 1); 9].join(", ");
                format!("{all}a{n}: &a{n} [{refer}]\n")
            });
        let deep = "[".repeat(100);
        let long =
            format!("a: &a '{}'\nb: [{}]\n", "x".repeat(1 << 20), vec!["*a"; 100].join(", "));
        let keys =
            format!("a: &a {{'{}': 1}}\nb: [{}]\n", "x".repeat(500), vec!["*a"; 90_000].join(", "));
        for (text, says) in [
            ("a: !!python/object/apply:os.system [ls]\n", "tag"),
            ("a: 1\na: 2\n", "key `a` is there twice"),
            ("a: 1\n--- \nb: 2\n", "second document"),
            (bomb.as_str(), "more than 200000 values"),
            (long.as_str(), "its texts have more than 16777216 bytes"),
            (keys.as_str(), "its texts have more than 16777216 bytes"),
            (deep.as_str(), "64 deep"),
            ("", "it is empty"),
            ("a: [1\n", ""),
        ] {
            let error = parse(text).expect_err(says);
            assert!(error.contains(says), "{says}: {error}");
        }
    }
}
