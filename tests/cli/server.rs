//! A server of the real program, and its client.

use std::{
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    Dir,
    running::{LATE, Running},
};

/// A server that runs.
pub(crate) struct Server {
    pub(crate) program: Running,
    pub(crate) url: String,
}

impl Server {
    /// Starts a server of the tiny models in the folder `data`, on a free port.
    pub(crate) fn start(dir: &Dir, more: &[&str]) -> Self {
        let args = ["serve", "--port", "0", "--data-dir", "data", "--model", "tiny"];
        Self::run(dir.command(&[&args, more].concat()))
    }

    pub(crate) fn run(mut command: Command) -> Self {
        let mut program = Running::start(&mut command, Stdio::null());
        let said = program.read_until(|line| line.contains("serving on "));
        let (_, rest) = said.rsplit_once("serving on ").expect("an address");
        Self { program, url: rest.split(';').next().unwrap_or_default().to_owned() }
    }

    pub(crate) fn get(&self, path: &str) -> Vec<u8> {
        body(agent().get(format!("{}{path}", self.url)).call())
    }

    pub(crate) fn json(&self, path: &str) -> Value {
        parsed(&self.get(path))
    }

    pub(crate) fn submit(&self, query: &str, job: &Value) -> Value {
        let post = agent().post(format!("{}/v1/jobs{query}", self.url));
        parsed(&body(post.send(job.to_string())))
    }

    /// Sends a form with texts and a file.
    pub(crate) fn form(&self, path: &str, texts: &[(&str, &str)], file: (&str, &[u8])) -> Value {
        let part = |name: &str, more: &str| {
            format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"{more}\r\n\r\n")
        };
        let mut form = Vec::new();
        for (name, text) in texts {
            form.extend(format!("{}{text}\r\n", part(name, "")).as_bytes());
        }
        form.extend(part(file.0, "; filename=\"a\"").as_bytes());
        form.extend(file.1);
        form.extend(b"\r\n--b--\r\n");
        let post = agent().post(format!("{}{path}", self.url));
        let post = post.content_type("multipart/form-data; boundary=b");
        parsed(&body(post.send(&form[..])))
    }

    pub(crate) fn delete(&self, path: &str) -> Value {
        parsed(&body(agent().delete(format!("{}{path}", self.url)).call()))
    }

    /// Waits until a job has a state.
    pub(crate) fn until(&self, id: &str, state: &str) -> Value {
        let begin = Instant::now();
        loop {
            let job = self.json(&format!("/v1/jobs/{id}"));
            if job["state"] == state {
                return job;
            }
            assert!(begin.elapsed() < LATE, "{job:#}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Returns the lines of the log until one has all `words`.
    pub(crate) fn log_until(&mut self, words: &[&str]) -> String {
        self.program.read_until(|line| words.iter().all(|word| line.contains(word)))
    }

    /// Ends the server, and returns the rest of its log.
    pub(crate) fn log(self) -> String {
        self.program.interrupt();
        self.program.end().1
    }
}

fn agent() -> ureq::Agent {
    let config = ureq::Agent::config_builder().http_status_as_error(false);
    config.timeout_global(Some(LATE)).build().into()
}

fn body(answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Vec<u8> {
    answer.expect("an answer").body_mut().read_to_vec().expect("a body")
}

pub(crate) fn parsed(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).expect("JSON")
}

pub(crate) fn id(job: &Value) -> String {
    job["id"].as_str().expect("an id").to_owned()
}
