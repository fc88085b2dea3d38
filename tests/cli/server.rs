//! A server of the real program, and its client.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, ChildStderr, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::Dir;

/// Time after which a test gives up: much longer than a busy machine needs.
pub(crate) const LATE: Duration = Duration::from_secs(600);

/// A server that runs.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) url: String,
    pub(crate) stderr: BufReader<ChildStderr>,
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    /// Starts a server of the tiny models in the folder `data`, on a free port.
    pub(crate) fn start(dir: &Dir, more: &[&str]) -> Self {
        let args = ["serve", "--port", "0", "--data-dir", "data", "--model", "tiny"];
        Self::run(dir.command(&[&args, more].concat()))
    }

    pub(crate) fn run(mut command: Command) -> Self {
        let mut child =
            command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        let url = loop {
            let mut line = String::new();
            assert_ne!(stderr.read_line(&mut line).expect("UTF-8"), 0, "it ended");
            if let Some((_, rest)) = line.split_once("serving on ") {
                break rest.split(';').next().unwrap_or_default().to_owned();
            }
        };
        Self { child, url, stderr }
    }

    pub(crate) fn get(&self, path: &str) -> Vec<u8> {
        let mut answer = agent().get(format!("{}{path}", self.url)).call().expect("an answer");
        answer.body_mut().read_to_vec().expect("a body")
    }

    pub(crate) fn json(&self, path: &str) -> Value {
        serde_json::from_slice(&self.get(path)).expect("JSON")
    }

    pub(crate) fn submit(&self, query: &str, job: &Value) -> Value {
        let url = format!("{}/v1/jobs{query}", self.url);
        let mut answer = agent().post(url).send(job.to_string()).expect("an answer");
        let text = answer.body_mut().read_to_string().expect("a body");
        serde_json::from_str(&text).expect("JSON")
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
        let kind = "multipart/form-data; boundary=b";
        let mut answer = post.content_type(kind).send(&form[..]).expect("an answer");
        let text = answer.body_mut().read_to_string().expect("a body");
        serde_json::from_str(&text).expect("JSON")
    }

    pub(crate) fn delete(&self, path: &str) -> Value {
        let mut answer = agent().delete(format!("{}{path}", self.url)).call().expect("an answer");
        let text = answer.body_mut().read_to_string().expect("a body");
        serde_json::from_str(&text).expect("JSON")
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
        let mut log = String::new();
        loop {
            let mut line = String::new();
            assert_ne!(self.stderr.read_line(&mut line).expect("UTF-8"), 0, "it ended: {log}");
            log.push_str(&line);
            if words.iter().all(|word| line.contains(word)) {
                return log;
            }
        }
    }

    /// Ends the server, and returns the rest of its log.
    pub(crate) fn log(mut self) -> String {
        self.signal("-INT");
        let mut log = String::new();
        self.stderr.read_to_string(&mut log).expect("UTF-8");
        log
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(name, self.child.id());
    }
}

fn agent() -> ureq::Agent {
    let config = ureq::Agent::config_builder().http_status_as_error(false);
    config.timeout_global(Some(LATE)).build().into()
}

pub(crate) fn signal(name: &str, process: u32) {
    let status = Command::new("kill").args([name, &process.to_string()]).status();
    assert!(status.expect("kill runs").success());
}

pub(crate) fn id(job: &Value) -> String {
    job["id"].as_str().expect("an id").to_owned()
}
