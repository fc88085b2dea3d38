//! Values of request files, in every spelling that other programs use.

use acestep_engine::{Error, error::shortened, texts::unix_lines};
use serde_json::Value;

use crate::codes;

/// acestep.cpp's names for the modes of its language model.
const MODES: [&str; 3] = ["generate", "inspire", "format"];

/// Converts an f32 to its shortest decimal: 0.1, not 0.10000000149011612.
pub(crate) fn shortest(x: f32) -> f64 {
    x.to_string().parse().unwrap_or(f64::from(x))
}

/// Reads one name or several; the text `vocals | drums` is several.
pub(super) fn names(key: &str, value: &Value) -> Result<Option<Vec<String>>, Error> {
    let one = |value: &Value| match value {
        Value::String(text) => Ok(text.trim().to_owned()),
        other => Err(wrong(key, other, "it must be a text or a list of texts")),
    };
    let names = match value {
        Value::Array(names) => names.iter().map(one).collect::<Result<Vec<_>, _>>()?,
        Value::String(text) if key.contains("track") => {
            text.split(['|', ',']).map(|name| name.trim().to_owned()).collect()
        }
        other => vec![one(other)?],
    };
    let names: Vec<String> = names.into_iter().filter(|name| is_set(name)).collect();
    Ok((!names.is_empty()).then_some(names))
}

/// Reads a number, also from a text.
pub(super) fn as_f64(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

pub(super) fn text(key: &str, value: &Value) -> Result<Option<String>, Error> {
    match value {
        Value::String(text) => Ok(Some(unix_lines(text)).filter(|text| !text.is_empty())),
        other => Err(wrong(key, other, "it must be a text")),
    }
}

pub(super) fn word(key: &str, value: &Value) -> Result<Option<String>, Error> {
    let word = match value {
        Value::String(text) => text.trim().to_owned(),
        // Some programs write whole numbers as floats.
        Value::Number(number) => match number.as_f64() {
            Some(x) if x.fract() == 0.0 && x.abs() < 1e15 => format!("{x:.0}"),
            _ => number.to_string(),
        },
        other => return Err(wrong(key, other, "it must be a text")),
    };
    Ok(is_set(&word).then_some(word))
}

/// False for the words that other programs write for "not set".
fn is_set(word: &str) -> bool {
    !word.is_empty() && !word.eq_ignore_ascii_case("n/a")
}

pub(super) fn number(key: &str, value: &Value) -> Result<Option<f64>, Error> {
    if let Value::String(word) = value
        && !is_set(word.trim())
    {
        return Ok(None);
    }
    match as_f64(value) {
        Some(x) if x.is_finite() => Ok(Some(x)),
        _ => Err(wrong(key, value, "it must be a number")),
    }
}

/// Reads one number or a list; unset values are left out.
pub(super) fn numbers(key: &str, value: &Value) -> Result<Option<Vec<f64>>, Error> {
    let items = match value {
        Value::Array(items) => items.as_slice(),
        one => std::slice::from_ref(one),
    };
    let numbers = items.iter().filter_map(|item| number(key, item).transpose());
    let numbers = numbers.collect::<Result<Vec<_>, _>>()?;
    Ok((!numbers.is_empty()).then_some(numbers))
}

/// Reads a number; 0 and -1 mean "automatic" in other programs. The plan checks the range.
pub(super) fn positive(key: &str, value: &Value) -> Result<Option<f64>, Error> {
    Ok(number(key, value)?.filter(|&x| x != 0.0 && x != -1.0))
}

/// Reads a whole number, truncated as in upstream's `int(float(x))`; `as` saturates.
pub(super) fn count(key: &str, value: &Value) -> Result<Option<i64>, Error> {
    match positive(key, value)? {
        // Truncation would give 0, which means "automatic".
        Some(x) if x.trunc() == 0.0 => Err(wrong(key, value, "it must be a whole number")),
        x => Ok(x.map(|x| x as i64)),
    }
}

/// Reads a whole number; 0 and -1 have no special meaning.
pub(super) fn whole(key: &str, value: &Value) -> Result<Option<i64>, Error> {
    Ok(number(key, value)?.map(|x| x as i64))
}

/// Reads kilobits per second: a number, or upstream's `128k`.
pub(super) fn kilobits(key: &str, value: &Value) -> Result<Option<i64>, Error> {
    match value.as_str().and_then(|text| text.trim().strip_suffix(['k', 'K'])) {
        Some(number) => count(key, &Value::from(number)),
        None => count(key, value),
    }
}

/// Reads a model name without quantisation: `acestep-v15-sft-Q8_0` -> `acestep-v15-sft`. A `.gguf`
/// file or a path stays as it is.
pub(super) fn model(key: &str, value: &Value) -> Result<Option<String>, Error> {
    let Some(name) = word(key, value)? else { return Ok(None) };
    let is_plain = !name.ends_with(".gguf") && !name.contains(['/', '\\']);
    Ok(Some(match name.rsplit_once('-') {
        Some((model, kind))
            if is_plain && name.starts_with("acestep-") && is_quantisation(kind) =>
        {
            model.to_owned()
        }
        _ => name,
    }))
}

/// True for `BF16`, `F32`, `Q8_0`, `Q4_K_M` and similar endings of acestep.cpp's file names. The
/// `4B` of a language model begins with a digit.
fn is_quantisation(text: &str) -> bool {
    let digits = text.trim_start_matches(['B', 'F', 'I', 'Q']);
    digits.len() < text.len() && digits.starts_with(|c: char| c.is_ascii_digit())
}

pub(super) fn flag(key: &str, value: &Value) -> Result<Option<bool>, Error> {
    match value {
        Value::Bool(flag) => Ok(Some(*flag)),
        Value::String(word) => match word.trim().to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" => Ok(Some(true)),
            "false" | "0" | "no" => Ok(Some(false)),
            "" | "n/a" => Ok(None),
            _ => Err(wrong(key, value, "it must be true or false")),
        },
        Value::Number(number) if number.as_f64() == Some(1.0) => Ok(Some(true)),
        Value::Number(number) if number.as_f64() == Some(0.0) => Ok(Some(false)),
        other => Err(wrong(key, other, "it must be true or false")),
    }
}

/// Returns the items of a list, or of a text such as `1, 2`.
fn items(value: &Value) -> Vec<Value> {
    match value {
        Value::Array(items) => items.clone(),
        Value::String(text) if !is_set(text.trim()) => Vec::new(),
        Value::String(text) => text.split(',').map(|item| item.trim().into()).collect(),
        other => vec![other.clone()],
    }
}

pub(super) fn seeds(key: &str, value: &Value) -> Result<Option<Vec<u64>>, Error> {
    let expected = "a seed is a whole number from 0 to 18446744073709551615, or -1 for any";
    let mut seeds = Vec::new();
    let items = items(value);
    if items.iter().all(|item| as_f64(item) == Some(-1.0)) {
        return Ok(None);
    }
    for item in &items {
        let exact = match item {
            Value::String(text) => text.parse().ok(),
            other => other.as_u64(),
        };
        // Other programs write 42.0 too; above 2^53 a float is not exact.
        let whole = |x: f64| x.fract() == 0.0 && (0.0..9_007_199_254_740_992.0).contains(&x);
        match (exact, as_f64(item)) {
            (Some(seed), _) => seeds.push(seed),
            (None, Some(x)) if whole(x) => seeds.push(x as u64),
            _ => return Err(wrong(key, item, expected)),
        }
    }
    Ok((!seeds.is_empty()).then_some(seeds))
}

pub(super) fn one_seed(key: &str, value: &Value) -> Result<Option<u64>, Error> {
    match seeds(key, value)?.as_deref() {
        None | Some([]) => Ok(None),
        Some(&[seed]) => Ok(Some(seed)),
        Some(_) => Err(wrong(key, value, "it must be one seed")),
    }
}

pub(super) fn times(key: &str, value: &Value) -> Result<Option<Vec<f64>>, Error> {
    let read = |item: &Value| match as_f64(item) {
        Some(x) if x.is_finite() => Ok(x),
        _ => Err(wrong(key, item, "timesteps are numbers")),
    };
    let times = items(value).iter().map(read).collect::<Result<Vec<_>, _>>()?;
    Ok((!times.is_empty()).then_some(times))
}

/// Converts codes of any spelling to ours: a text for one song, a list of texts for several.
pub(super) fn code_lists(written: &str, value: &Value) -> Result<Option<Value>, Error> {
    let expected = "it must be a text or a list of codes";
    let numbers = |items: &[Value]| {
        let list = items.iter().map(Value::to_string).collect::<Vec<_>>().join(",");
        codes::parse(&list)
    };
    let lists = match value {
        Value::String(text) => vec![codes::parse(text)?],
        Value::Array(items) if items.iter().all(Value::is_number) => vec![numbers(items)?],
        Value::Array(songs) => {
            let song = |song: &Value| match song {
                Value::String(text) => codes::parse(text),
                Value::Array(items) => numbers(items),
                other => Err(wrong(written, other, expected)),
            };
            songs.iter().map(song).collect::<Result<_, _>>()?
        }
        other => return Err(wrong(written, other, expected)),
    };
    let texts: Vec<_> = lists.iter().map(|list| codes::to_list(list)).collect();
    Ok(match &texts[..] {
        texts if texts.iter().all(String::is_empty) => None,
        [one] => Some(one.clone().into()),
        _ => Some(texts.into()),
    })
}

pub(super) fn mode(written: &str, value: &Value) -> Result<Option<String>, Error> {
    let mode = word(written, value)?;
    match mode.as_deref() {
        Some(name) if !MODES.contains(&name) => {
            Err(wrong(written, value, &format!("it must be one of {}", MODES.join(", "))))
        }
        _ => Ok(mode),
    }
}

pub(super) fn wrong(key: &str, value: &Value, expected: &str) -> Error {
    Error::RequestValue {
        key: key.to_owned(),
        value: shortened(&value.to_string()),
        expected: expected.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_f32_is_written_as_a_person_would() {
        assert_eq!(shortest(0.1), 0.1);
        assert_ne!(f64::from(0.1f32), 0.1);
        assert_eq!(shortest(-1.0), -1.0);
    }
}
