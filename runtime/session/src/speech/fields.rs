//! Fields of a request, taken out by name.

use std::path::Path;

use acestep_engine::{Error, files::check_source, texts::unix_lines};
use acestep_speech::SpeechError;
use serde::Serialize;
use serde_json::{Map, Value};

/// Fields of a request by name, as in JSON: those of the model's family, `voice`, and files by their
/// paths.
pub type Fields = Map<String, Value>;

/// Fields of all families whose values are paths of files.
pub const FILES: [&str; 7] =
    ["reference", "speaker_1", "words_1", "speaker_2", "words_2", "pinyin", "open_jtalk"];

/// Fields of all families that are free text.
pub const TEXTS: [&str; 5] = ["voice", "language", "instruct", "transcript", "phonemes"];

/// Refuses fields of files that are not there, before a model is looked for.
///
/// # Errors
/// [`Error::File`].
pub fn check_files(fields: &Fields) -> Result<(), Error> {
    let mut paths = FILES.iter().filter_map(|field| fields.get(*field)?.as_str());
    paths.try_for_each(|path| check_source(Path::new(path)))
}

/// True for the value of a field of [`FILES`] that is the content of the file itself.
pub fn is_content(value: &Value) -> bool {
    matches!(value, Value::Array(_) | Value::Object(_))
}

/// Returns the fields of a request, which is a structure, that have a value.
pub(crate) fn given(request: &impl Serialize) -> Fields {
    let Ok(Value::Object(mut fields)) = serde_json::to_value(request) else { return Fields::new() };
    fields.retain(|_, value| !value.is_null());
    fields
}

/// Makes the lines of all texts end as in [`unix_lines`]; paths stay.
pub(crate) fn unix_texts(fields: &mut Fields) {
    for (name, value) in fields {
        if let Value::String(text) = value
            && !FILES.contains(&name.as_str())
        {
            *text = unix_lines(text);
        }
    }
}

/// Takes a text out of the fields, as [`unix_texts`] makes it.
///
/// # Errors
/// A value of another type.
pub(crate) fn text(fields: &mut Fields, field: &'static str) -> Result<Option<String>, Error> {
    unix_texts(fields);
    match fields.remove(field) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(not_a(field, &other, "a text")),
    }
}

/// Takes true or false out of the fields.
///
/// # Errors
/// A value of another type.
pub(crate) fn flag(fields: &mut Fields, field: &'static str) -> Result<bool, Error> {
    match fields.remove(field) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(flag),
        Some(other) => Err(not_a(field, &other, "true or false")),
    }
}

fn not_a(field: &'static str, value: &Value, what: &str) -> Error {
    let (value, why) = (value.to_string(), format!("use {what}"));
    Error::BadValue { field, value, why, near: None }
}

/// Refuses a field that is not of the family's `known`; the hint names the fields that the model `takes`.
///
/// # Errors
/// [`SpeechError::UnknownField`].
pub(crate) fn check_fields(
    fields: &Fields,
    known: &[&str],
    takes: Vec<&'static str>,
    model: &str,
) -> Result<(), Error> {
    match fields.keys().find(|field| !known.contains(&field.as_str())) {
        None => Ok(()),
        Some(field) => {
            let (model, field) = (model.to_owned(), field.clone());
            let known = takes.into_iter().map(str::to_owned).collect();
            Err(SpeechError::UnknownField { model, field, known }.into())
        }
    }
}

/// Returns the fields of a family that users give: all but the text and the fields in `hidden`, and then
/// the fields in `files`.
pub(crate) fn taken(
    known: &[&'static str],
    hidden: &[&str],
    files: &[&'static str],
) -> Vec<&'static str> {
    let is_shown = |field: &&str| !["text", "script"].contains(field) && !hidden.contains(field);
    known.iter().copied().filter(is_shown).chain(files.iter().copied()).collect()
}

#[cfg(test)]
mod tests {
    use acestep_speech::{dia2, magpie, qwen3_tts};
    use serde::de::DeserializeOwned;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_digit_is_a_text_in_the_fields_of_texts_alone() {
        fn check<Request: DeserializeOwned>(known: &[&'static str]) {
            for field in taken(known, &[], &[]) {
                let is_text = serde_json::from_value::<Request>(json!({ field: "5" })).is_ok();
                assert_eq!(is_text, TEXTS.contains(&field), "{field}");
            }
        }
        check::<dia2::Request>(dia2::FIELDS);
        check::<magpie::Request>(magpie::FIELDS);
        check::<qwen3_tts::Request>(qwen3_tts::FIELDS);
    }

    #[test]
    fn lines_of_texts_end_in_one_way_and_paths_stay() {
        let fields = json!({ "transcript": "a\r\nb\r", "reference": "a\r\nb", "top_k": 5 });
        let Value::Object(mut fields) = fields else { panic!("an object") };
        assert_eq!(text(&mut fields, "transcript").expect("a text").as_deref(), Some("a\nb\n"));
        assert_eq!(Value::Object(fields), json!({ "reference": "a\r\nb", "top_k": 5 }));
    }
}
