//! JSON whose keys have one value, at any depth. Readers of JSON take the last of several, silently.

use std::{cell::OnceCell, fmt};

use acestep_engine::{Error, error::shortened};
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Reads a JSON object; a repeated key, at any depth, must have equal values.
///
/// # Errors
/// [`Error::RequestSyntax`]; [`Error::RequestTwice`] for a key with different values.
pub fn object(text: &str) -> Result<Map<String, Value>, Error> {
    match read(text, true)? {
        Value::Object(object) => Ok(object),
        other => Err(Error::RequestSyntax(shortened(&other.to_string()))),
    }
}

/// Reads JSON of any kind, as [`object`].
///
/// # Errors
/// As [`object`].
pub fn json(text: &str) -> Result<Value, Error> {
    read(text, false)
}

fn read(text: &str, is_object: bool) -> Result<Value, Error> {
    let twice = OnceCell::new();
    let mut reader = serde_json::Deserializer::from_str(text);
    let read = match is_object {
        true => Deserializer::deserialize_map(&mut reader, Once(&twice)),
        false => Deserializer::deserialize_any(&mut reader, Once(&twice)),
    };
    let read = read.and_then(|value| reader.end().map(|()| value));
    let value = read.map_err(|error| Error::RequestSyntax(error.to_string()))?;
    twice.into_inner().map_or(Ok(value), Err)
}

/// Returns the error for two different values of one setting.
pub(super) fn differ(keys: [&str; 2], values: [&Value; 2]) -> Error {
    let [first, second] = values.map(|value| shortened(&value.to_string()));
    let [one, other] = keys;
    let what = if one == other {
        format!("`{one}` twice, {first} and {second}")
    } else {
        format!("`{one}` {first} and `{other}` {second}, which mean the same")
    };
    Error::RequestTwice(what)
}

/// Gives a field of another program our name. Under both names it may have one value; null and an empty text
/// are none.
///
/// # Errors
/// [`Error::RequestTwice`].
pub fn rename(object: &mut Map<String, Value>, theirs: &str, ours: &str) -> Result<(), Error> {
    let is_set = |value: &Value| !value.is_null() && *value != "";
    let Some(value) = object.remove(theirs) else { return Ok(()) };
    match object.get(ours).filter(|own| is_set(own)) {
        Some(own) if is_set(&value) && *own != value => Err(differ([theirs, ours], [&value, own])),
        Some(_) => Ok(()),
        None if value.is_null() => Ok(()),
        None => {
            object.insert(ours.to_owned(), value);
            Ok(())
        }
    }
}

/// A reader of values that notes the first key with different ones.
#[derive(Clone, Copy)]
struct Once<'a>(&'a OnceCell<Error>);

impl<'de> DeserializeSeed<'de> for Once<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

macro_rules! plain {
    ($($visit:ident $of:ty),+) => {
        $(fn $visit<E>(self, value: $of) -> Result<Value, E> {
            Ok(value.into())
        })+
    };
}

impl<'de> Visitor<'de> for Once<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    plain!(visit_bool bool, visit_i64 i64, visit_u64 u64, visit_f64 f64, visit_str &str);

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element_seed(self)? {
            values.push(value);
        }
        Ok(values.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let value = map.next_value_seed(self)?;
            if let Some(other) = object.get(&key)
                && *other != value
            {
                // The first one is told.
                self.0.get_or_init(|| differ([&key, &key], [other, &value]));
            }
            object.insert(key, value);
        }
        Ok(object.into())
    }
}
