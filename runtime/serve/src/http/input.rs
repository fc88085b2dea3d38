//! Bodies of requests, as the APIs take them: JSON, a form, or a form with files.

mod crowded;
mod sound;

pub(super) use self::{
    crowded::{check_json, size},
    sound::{base64, sound, sounds, store},
};

use std::borrow::Cow;

use acestep_engine::Error;
use axum::{
    body::Bytes,
    extract::{DefaultBodyLimit, FromRequest, Request},
    http::{StatusCode, header},
};
use serde_json::{Map, Value, json};

use super::{ApiError, Asker, error::wrong, files, form::Form};
use crate::store::File;

/// The largest size of all texts and names of a form.
const MOST_TEXT: usize = super::JSON_BYTES;

/// Bytes that each part of a form counts beside its text and name: many empty parts fill the memory too.
const OF_PART: usize = 16;

/// The most unknown keys of a request that are passed over. Each becomes a notice of the job.
pub(super) const MOST_UNKNOWN: usize = 64;

/// Error of a request with more unknown keys than that; `one` is one of them.
pub(super) fn too_many_unknown(one: &str) -> ApiError {
    let message = format!("the request has more than {MOST_UNKNOWN} unknown keys");
    ApiError::bad("unknown_key", message).param(one)
}

/// Adds a notice for each key of a request that is left.
pub(super) fn unread(left: &Map<String, Value>, notices: &mut Vec<String>) -> Result<(), ApiError> {
    let left: Vec<_> = left.iter().filter(|(_, value)| !value.is_null()).collect();
    if left.len() > MOST_UNKNOWN {
        return Err(too_many_unknown(left[0].0));
    }
    notices.extend(left.iter().map(|(key, _)| format!("`{key}` is not read")));
    Ok(())
}

/// Returns a value of a request that is not null.
pub(super) fn given<'a>(object: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    object.get(key).filter(|value| !value.is_null())
}

/// Adds a value to a request, if there is one.
pub(super) fn put(request: &mut Map<String, Value>, key: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        request.insert(key.to_owned(), value.into());
    }
}

/// Reads a text of a request; an empty one is none.
pub(super) fn text(object: &Map<String, Value>, key: &str) -> Result<Option<String>, ApiError> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone()).filter(|text| !text.trim().is_empty())),
        Some(_) => Err(wrong(key, "it must be a text")),
    }
}

/// Gives fields of another program our names.
/// Errors: a field with two values under two names.
pub(super) fn rename(
    object: &mut Map<String, Value>,
    names: &[(&str, &str)],
) -> Result<(), ApiError> {
    names.iter().try_for_each(|&(theirs, ours)| {
        let renamed = acestep_music::request::rename(object, theirs, ours);
        renamed.map_err(|error| ApiError::from(crate::error::of(&error)).param(theirs))
    })
}

/// Removes an end of a region at 0, which is the end of the source in upstream's servers. A region before the
/// source may end there.
pub(super) fn open_end(request: &mut Map<String, Value>) {
    let number = |key: &str| -> Option<f64> {
        match request.get(key)? {
            Value::String(text) => text.trim().parse().ok(),
            value => value.as_f64(),
        }
    };
    let is_before = number("repainting_start").is_some_and(|start| start < 0.0);
    if number("repainting_end") == Some(0.0) && !is_before {
        request.remove("repainting_end");
    }
}

#[derive(Debug)]
pub(super) enum Input {
    Json(Value),
    /// Fields, and files that were stored.
    Form(Vec<(String, String)>, Vec<(String, File)>),
}

impl Input {
    /// Reads a body without sound within it: JSON and texts of at most 1 MiB. A body without a type is JSON if
    /// it looks like it, else a form. Parts named in `texts` are text even if they come as files.
    /// Errors: a body of another type, that is cut, or too large.
    pub(super) async fn read(
        asker: &Asker,
        mut request: Request,
        texts: &[&str],
    ) -> Result<Self, ApiError> {
        if !files::is_form(request.headers()) {
            DefaultBodyLimit::max(super::JSON_BYTES).apply(&mut request);
        }
        Self::read_with_sound(asker, request, texts).await
    }

    /// Like [`Input::read`], where JSON may hold sound as base64: as large as an upload.
    pub(super) async fn read_with_sound(
        asker: &Asker,
        request: Request,
        texts: &[&str],
    ) -> Result<Self, ApiError> {
        if files::is_form(request.headers()) {
            return parts(asker, request, texts).await;
        }
        let kind = request.headers().get(header::CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let bytes =
            Bytes::from_request(request, &()).await.map_err(|error| files::of_body(&error))?;
        let text = std::str::from_utf8(&bytes)
            .map_err(|_| ApiError::bad("bad_body", "the body is not UTF-8"))?;
        let looks_like_json = text.trim_start().starts_with(['{', '[']);
        match &*kind {
            "application/json" => parsed(text),
            kind if kind.ends_with("+json") => parsed(text),
            "application/x-www-form-urlencoded" | "" | "text/plain" if looks_like_json => {
                parsed(text)
            }
            "application/x-www-form-urlencoded" => Ok(Self::Form(pairs(text)?, Vec::new())),
            "" | "text/plain" if text.contains('=') => Ok(Self::Form(pairs(text)?, Vec::new())),
            "" | "text/plain" => parsed(text),
            other => {
                let message = format!("the body has the type `{other}`");
                let error = ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "bad_body", message);
                Err(error.hint("send JSON or a form"))
            }
        }
    }

    /// Returns the body as it was sent, with ids for files.
    pub(super) fn asked(&self) -> Cow<'_, Value> {
        match self {
            Self::Json(value) => Cow::Borrowed(value),
            Self::Form(texts, files) => {
                let files: Vec<_> = files.iter().map(|(name, file)| (name, file.id)).collect();
                Cow::Owned(json!([texts, files]))
            }
        }
    }

    /// Returns the fields as one object: values of a form are texts, its files are ids.
    /// Errors: JSON that is not an object; a field with two values.
    pub(super) fn into_object(self) -> Result<Map<String, Value>, ApiError> {
        match self {
            Self::Json(Value::Object(object)) => Ok(object),
            Self::Json(_) => Err(ApiError::bad("bad_json", "the body is not a JSON object")),
            Self::Form(texts, files) => {
                let files = files.into_iter().map(|(name, file)| (name, file.id.to_string()));
                let mut object = Map::new();
                for (name, value) in texts.into_iter().chain(files) {
                    if object.insert(name.clone(), value.into()).is_some() {
                        let message = format!("the form has `{name}` twice");
                        return Err(ApiError::bad("bad_form", message).param(name));
                    }
                }
                Ok(object)
            }
        }
    }
}

fn parsed(text: &str) -> Result<Input, ApiError> {
    let read = json_of(text, |why| match text.trim_start().starts_with('{') {
        true => ApiError::from(crate::error::of(&Error::RequestSyntax(why))),
        false => ApiError::bad("bad_json", format!("the JSON cannot be read: {why}")),
    });
    read.map(Input::Json)
}

/// Reads JSON; too many values, or a key with two different ones, are refused. `unread` is the error of a text
/// that is no JSON.
pub(super) fn json_of(
    text: &str,
    unread: impl FnOnce(String) -> ApiError,
) -> Result<Value, ApiError> {
    check_json(text)?;
    acestep_music::request::json(text).map_err(|error| match error {
        Error::RequestSyntax(why) => unread(why),
        error => ApiError::from(crate::error::of(&error)),
    })
}

async fn parts(asker: &Asker, request: Request, texts: &[&str]) -> Result<Input, ApiError> {
    let mut form = Form::of(request).await?;
    let (mut fields, mut stored) = (Vec::new(), Vec::new());
    let mut rest = MOST_TEXT;
    while let Some(mut field) = form.next_field().await? {
        let name = field.name().unwrap_or_default().to_owned();
        rest = rest.checked_sub(OF_PART + name.len()).ok_or_else(files::large_texts)?;
        if field.file_name().is_some() && !texts.contains(&name.as_str()) {
            stored.push((name, files::receive(asker, field).await?));
            continue;
        }
        let text = files::text(&mut field, rest).await?;
        rest -= text.len();
        fields.push((name, text));
    }
    Ok(Input::Form(fields, stored))
}

/// Reads `a=1&b=2`.
fn pairs(text: &str) -> Result<Vec<(String, String)>, ApiError> {
    crowded::check_form(text)?;
    Ok(form_urlencoded::parse(text.as_bytes()).into_owned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_read_with_its_escapes() {
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        let expected = [pair("a", "1 2"), pair("b", "é&="), pair("c", "%zz% free"), pair("d", "")];
        assert_eq!(pairs("a=1+2&b=%C3%A9%26%3D&c=%zz%+free&d").expect("a form"), expected);
        assert_eq!(pairs("%").expect("a form"), [pair("%", "")]);
    }
}
