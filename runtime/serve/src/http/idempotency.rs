//! Requests with an `Idempotency-Key`: one that is sent again gets its first job.
//!
//! Requests are compared as clients sent them. Defaults of the server, which come later, may change in between.

use std::collections::HashMap;

use axum::{extract::Request, http::StatusCode};
use serde_json::Value;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::{ApiError, Asker, Submission, request_files};
use crate::{
    job::Job,
    objects::{hex, list_ids},
};

/// The most files of a request whose contents are compared: more than any task takes. Each is a question to the
/// queue.
const MOST_FILES: usize = 64;

/// The key of a request, if it has one, and its address.
#[derive(Debug)]
pub(super) struct Keyed {
    key: Option<String>,
    path: String,
}

impl Keyed {
    /// Reads the key of a request.
    /// Errors: 400 for a key of another form.
    pub(super) fn of(request: &Request) -> Result<Self, ApiError> {
        let mut keys = request.headers().get_all("idempotency-key").iter();
        let key = match (keys.next().map(|value| value.to_str()), keys.next()) {
            (None, _) => None,
            (Some(Ok(text)), None) if !text.is_empty() && text.len() <= 255 => {
                Some(text.to_owned())
            }
            _ => {
                let message = "`Idempotency-Key` is 1 to 255 letters of ASCII, once";
                return Err(ApiError::bad("bad_value", message));
            }
        };
        Ok(Self { key, path: request.uri().path().to_owned() })
    }

    pub(super) fn is_none(&self) -> bool {
        self.key.is_none()
    }

    /// Returns the first job of this key, if there is one, and the key as a part of a submission. `asked` is the
    /// body.
    /// Errors: 422 if the key came with another request before.
    pub(super) async fn first(
        self,
        asker: &Asker,
        asked: &Value,
    ) -> Result<(Option<Job>, Submission), ApiError> {
        let Self { key: Some(key), path } = self else { return Ok(Default::default()) };
        let (mut ids, mut contents) = (Vec::new(), HashMap::new());
        list_ids(asked, &mut ids);
        for id in ids.into_iter().take(MOST_FILES) {
            let file = asker.store.file(id).await?.filter(|file| file.owner == asker.owner);
            contents.extend(file.map(|file| (id, file.sha256)));
        }
        let mut fingerprints = vec![fingerprint(&path, asked, &HashMap::new())];
        // A file that is sent again has another id; one that was removed since has no content.
        if !contents.is_empty() {
            fingerprints.push(fingerprint(&path, asked, &contents));
        }
        let first = asker.store.keyed(asker.owner.clone(), key.clone()).await?;
        if let Some(job) = &first {
            request_files::refuse();
            check(job, &fingerprints)?;
        }
        let idempotency_key = Some(key);
        Ok((first, Submission { idempotency_key, fingerprints, ..Submission::default() }))
    }
}

/// Refuses a key whose first job was of another request. A job of an earlier version of the program has no
/// fingerprints, and cannot be compared.
pub(super) fn check(first: &Job, fingerprints: &[String]) -> Result<(), ApiError> {
    let known = &first.fingerprints;
    if known.is_empty() || known.iter().any(|known| fingerprints.contains(known)) {
        return Ok(());
    }
    let message = "the `Idempotency-Key` was sent before, with another request";
    Err(ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "idempotency_key_used", message)
        .hint("send each new request with a key of its own"))
}

/// Returns the hash of a request, with the hashes of `contents` in place of the ids of files.
fn fingerprint(path: &str, asked: &Value, contents: &HashMap<Uuid, String>) -> String {
    let mut sum = Sha256::new();
    text(&mut sum, path);
    add(&mut sum, asked, contents);
    hex(&sum.finalize())
}

/// Adds a text with its length, so that `a` and `bc` differ from `ab` and `c`.
fn text(sum: &mut Sha256, text: &str) {
    sum.update((text.len() as u64).to_le_bytes());
    sum.update(text);
}

/// Adds a value, whatever the order of its keys is.
fn add(sum: &mut Sha256, value: &Value, contents: &HashMap<Uuid, String>) {
    match value {
        Value::String(string) => {
            let content = Uuid::parse_str(string).ok().and_then(|id| contents.get(&id));
            sum.update("\"");
            text(sum, content.unwrap_or(string));
        }
        Value::Array(values) => {
            text(sum, &format!("[{}", values.len()));
            values.iter().for_each(|value| add(sum, value, contents));
        }
        Value::Object(object) => {
            text(sum, &format!("{{{}", object.len()));
            let mut pairs: Vec<_> = object.iter().collect();
            pairs.sort_by_key(|(key, _)| *key);
            for (key, value) in pairs {
                text(sum, key);
                add(sum, value, contents);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => text(sum, &value.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_fingerprint_is_of_what_was_sent_whatever_its_order_and_the_ids_of_its_files() {
        let [one, two, other] = [(); 3].map(|()| Uuid::now_v7());
        let contents = HashMap::from([(one, "sound".to_owned()), (two, "sound".to_owned())]);
        let of = |path: &str, text: String| {
            let asked = serde_json::from_str(&text).expect("JSON");
            fingerprint(path, &asked, &contents)
        };
        let first = of("/a", format!(r#"{{"x":{{"b":1,"a":["{one}"]}},"y":null}}"#));
        assert_eq!(first, of("/a", format!(r#"{{"y":null,"x":{{"a":["{two}"],"b":1}}}}"#)));
        for (path, text) in [
            ("/b", format!(r#"{{"x":{{"b":1,"a":["{one}"]}},"y":null}}"#)),
            ("/a", format!(r#"{{"x":{{"b":1,"a":["{other}"]}},"y":null}}"#)),
            ("/a", format!(r#"{{"x":{{"b":1,"a":["{one}"]}},"y":"null"}}"#)),
            ("/a", format!(r#"{{"x":{{"b":1,"a":["{one}"]}}}}"#)),
            ("/a", format!(r#"{{"x":{{"b":1,"a":["{one}"],"y":null}}}}"#)),
        ] {
            assert_ne!(first, of(path, text.clone()), "{text}");
        }
        let nothing = HashMap::new();
        let lists = [json!([["a"], "b"]), json!([["a", "b"]]), json!([["a"], ["b"]])];
        let sums: HashSet<_> =
            lists.iter().map(|asked| fingerprint("/", asked, &nothing)).collect();
        assert_eq!(sums.len(), 3);
    }
}
