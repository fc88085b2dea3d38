//! A client of HTTP for the tests. It blocks: a test has a thread of its own, and its server has others.

use std::{
    ops::Deref,
    thread,
    time::{Duration, Instant},
};

use acestep_serve::http::{ApiKey, Security, Server};
use serde_json::Value;
use tempfile::TempDir;
use ureq::{
    RequestBuilder,
    http::Response,
    typestate::{WithBody, WithoutBody},
};

use crate::support::{Queue, Running, open_gate};

pub(crate) type Answer = Response<ureq::Body>;

/// Time after which a test gives up: much longer than a busy machine needs.
pub(crate) const LATE: Duration = Duration::from_secs(600);

/// A client without patience for errors: every status is an answer.
pub(crate) fn agent() -> ureq::Agent {
    ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_global(Some(LATE))
        .build()
        .into()
}

pub(crate) fn body(mut answer: Answer) -> Value {
    let text = answer.body_mut().read_to_string().expect("a body");
    serde_json::from_str(&text).unwrap_or(Value::String(text))
}

pub(crate) fn bytes(mut answer: Answer) -> Vec<u8> {
    answer.body_mut().read_to_vec().expect("a body")
}

pub(crate) fn code(answer: Answer) -> (u16, Value) {
    (answer.status().as_u16(), body(answer)["error"]["code"].clone())
}

pub(crate) fn param(answer: Answer) -> (u16, Value) {
    (answer.status().as_u16(), body(answer)["error"]["param"].clone())
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}

pub(crate) fn with(mut object: Value, more: &Value) -> Value {
    for (key, value) in more.as_object().expect("an object") {
        object[key] = value.clone();
    }
    object
}

pub(crate) fn job_of(answer: &Answer) -> String {
    answer.headers()["x-job-id"].to_str().expect("text").to_owned()
}

/// Asks again and again until there is an answer.
#[track_caller]
pub(crate) fn until_some<T>(mut ask: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(start.elapsed() < LATE, "too late");
        thread::sleep(Duration::from_millis(20));
    }
}

/// The rules of a server with clients and their keys.
pub(crate) fn keys(clients: &[(&str, &str)]) -> Security {
    let keys = clients.iter().map(|(name, key)| ApiKey::new(name, key)).collect();
    Security { keys, ..Security::default() }
}

/// A server with a folder of its own, and its client.
pub(crate) struct Served {
    api: Api,
    pub(crate) running: Running,
    pub(crate) queue: Queue,
    pub(crate) folder: TempDir,
}

impl Deref for Served {
    type Target = Api;

    fn deref(&self) -> &Api {
        &self.api
    }
}

/// Starts a server with a worker.
pub(crate) async fn served() -> Served {
    served_with(1, Security::default(), |_| ()).await
}

/// Starts a server with a number of workers, whose state is changed first.
pub(crate) async fn served_with(
    workers: usize,
    security: Security,
    change: impl FnOnce(&mut Server),
) -> Served {
    let folder = tempfile::tempdir().expect("a folder");
    let queue = Queue::open(folder.path(), None).await;
    let running = Running::over(&queue, security, 0, workers, change).await;
    Served { api: Api::of(&running), running, queue, folder }
}

impl Served {
    pub(crate) fn open_gate(&self) {
        open_gate(self.folder.path());
    }

    /// The number of files of clients.
    pub(crate) fn files(&self) -> usize {
        std::fs::read_dir(self.folder.path().join("files")).expect("a folder").count()
    }
}

/// A client of a server, perhaps with a key.
#[derive(Clone)]
pub(crate) struct Api {
    url: String,
    key: String,
}

impl Api {
    pub(crate) fn of(running: &Running) -> Self {
        Self { url: running.url(""), key: String::new() }
    }

    pub(crate) fn with_key(&self, key: &str) -> Self {
        Self { key: key.to_owned(), ..self.clone() }
    }

    pub(crate) fn below(&self, prefix: &str) -> Self {
        Self { url: self.url(prefix), ..self.clone() }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    fn keyed<T>(&self, request: RequestBuilder<T>) -> RequestBuilder<T> {
        if self.key.is_empty() { request } else { request.header("x-api-key", &self.key) }
    }

    /// Asks until a job is as it should be.
    #[track_caller]
    pub(crate) fn until(&self, id: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let start = Instant::now();
        loop {
            let job = self.job(id);
            if is_it(&job) {
                return job;
            }
            assert!(start.elapsed() < LATE, "too late: {job}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// A question to which headers are added.
    pub(crate) fn ask(&self, path: &str) -> RequestBuilder<WithoutBody> {
        self.keyed(agent().get(self.url(path)))
    }

    /// A request with a body to which headers are added.
    pub(crate) fn sending(&self, path: &str) -> RequestBuilder<WithBody> {
        self.keyed(agent().post(self.url(path)))
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.ask(path).call().expect("an answer")
    }

    pub(crate) fn get_with(&self, path: &str, name: &str, value: &str) -> Answer {
        self.ask(path).header(name, value).call().expect("an answer")
    }

    pub(crate) fn job(&self, id: &str) -> Value {
        body(self.get(&format!("/v1/jobs/{id}")))
    }

    /// Cancels a job, or lets it run again.
    pub(crate) fn change_job(&self, id: &str, how: &str) -> Answer {
        self.sending(&format!("/v1/jobs/{id}/{how}")).send_empty().expect("an answer")
    }

    pub(crate) fn delete(&self, path: &str) -> Answer {
        self.keyed(agent().delete(self.url(path))).call().expect("an answer")
    }

    pub(crate) fn post(&self, path: &str, value: &Value) -> Answer {
        let request = self.sending(path).content_type("application/json");
        request.send(value.to_string().as_bytes()).expect("an answer")
    }

    /// Posts a text whose type no header tells.
    pub(crate) fn post_text(&self, path: &str, text: &str) -> Answer {
        self.sending(path).send(text).expect("an answer")
    }

    pub(crate) fn post_once(&self, path: &str, key: &str, text: &str) -> Answer {
        self.sending(path).header("idempotency-key", key).send(text).expect("an answer")
    }

    /// Sends a change whose type no header tells.
    pub(crate) fn patch_text(&self, path: &str, text: &str) -> Answer {
        self.keyed(agent().patch(self.url(path))).send(text).expect("an answer")
    }

    pub(crate) fn patch(&self, path: &str, change: &Value) -> Answer {
        let request = self.keyed(agent().patch(self.url(path))).content_type("application/json");
        request.send(change.to_string().as_bytes()).expect("an answer")
    }

    /// Posts a form: files with their bytes, then texts.
    pub(crate) fn form(
        &self,
        path: &str,
        texts: &[(&str, &str)],
        files: &[(&str, &[u8])],
    ) -> Answer {
        let request = self.sending(path).content_type(FORM);
        request.send(&parts(texts, files)[..]).expect("an answer")
    }
}

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
