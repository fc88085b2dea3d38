//! A client of HTTP for the tests.

use std::{path::PathBuf, time::Duration};

use acestep_serve::http::Security;
use serde_json::Value;
use tempfile::TempDir;
use ureq::http::Response;

use crate::support::Running;

pub(crate) type Answer = Response<ureq::Body>;

/// A client without patience for errors: every status is an answer.
pub(crate) fn agent() -> ureq::Agent {
    ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(Duration::from_secs(600)))
        .build()
        .into()
}

pub(crate) fn body(mut answer: Answer) -> Value {
    let text = answer.body_mut().read_to_string().expect("a body");
    serde_json::from_str(&text).unwrap_or(Value::String(text))
}

/// Runs a blocking client beside the server.
pub(crate) async fn client<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("no panic")
}

pub(crate) async fn start() -> (Running, TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    (Running::start(folder.path(), Security::default(), 0).await, folder)
}

/// Runs a blocking client beside a server of its own, whose address it gets.
pub(crate) async fn served<T: Send + 'static>(
    work: impl FnOnce(String) -> T + Send + 'static,
) -> T {
    served_in(|url, _| work(url)).await
}

/// As [`served`], with the folder of the server.
pub(crate) async fn served_in<T: Send + 'static>(
    work: impl FnOnce(String, PathBuf) -> T + Send + 'static,
) -> T {
    let (running, folder) = start().await;
    let (url, path) = (running.url(""), folder.path().to_owned());
    client(move || work(url, path)).await
}

pub(crate) fn post(url: &str, value: &Value) -> Answer {
    agent()
        .post(url)
        .content_type("application/json")
        .send(value.to_string().as_bytes())
        .expect("an answer")
}

pub(crate) fn get(url: &str) -> Answer {
    agent().get(url).call().expect("an answer")
}

/// Returns the bytes of an answer.
pub(crate) fn bytes(mut answer: Answer) -> Vec<u8> {
    answer.body_mut().read_to_vec().expect("a body")
}

/// The type of a form.
pub(crate) const FORM: &str = "multipart/form-data; boundary=b";

/// Returns a form: files with their bytes, then texts.
pub(crate) fn parts(texts: &[(&str, &str)], files: &[(&str, &[u8])]) -> Vec<u8> {
    let files = files.iter().map(|(name, bytes)| (*name, format!("; filename=\"{name}\""), *bytes));
    let texts = texts.iter().map(|(name, text)| (*name, String::new(), text.as_bytes()));
    let mut form = Vec::new();
    for (name, file, bytes) in files.chain(texts) {
        let head = format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"{file}\r\n\r\n");
        form.extend(head.as_bytes());
        form.extend(bytes);
        form.extend(b"\r\n");
    }
    form.extend(b"--b--\r\n");
    form
}

/// Sends a form.
pub(crate) fn form(url: &str, texts: &[(&str, &str)], files: &[(&str, &[u8])]) -> Answer {
    agent().post(url).content_type(FORM).send(&parts(texts, files)[..]).expect("an answer")
}
