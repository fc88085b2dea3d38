//! A small hub on 127.0.0.1 that serves files like Hugging Face, with faults on demand.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

use serde_json::{Value, json};
use sha1::{Digest, Sha1};
use sha2::Sha256;

/// A fault of the server.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Fault {
    /// The connection closes after this many bytes of the body.
    Cut(usize),
    /// One byte of the body is wrong.
    Flip,
    /// The response has this status.
    Status(u16),
    /// The file list gives this size in bytes.
    Claims(u64),
    /// The server stops sending after this many bytes, but the connection stays open.
    Stall(usize),
    /// The file list is an HTML page.
    Page,
    /// The server ignores ranges and sends the whole file.
    Whole,
    /// The body is longer than the requested range.
    More,
    /// The content needs a token.
    Gated,
}

#[derive(Debug, Default)]
struct State {
    /// File content by repository and path.
    files: BTreeMap<(String, String), Vec<u8>>,
    commit: String,
    /// Part of a path, the fault of matching paths, and how many times it occurs.
    faults: Vec<(String, Fault, usize)>,
    /// Requested paths, each with the first byte of the range.
    asked: Vec<(String, u64)>,
    /// The only token that is accepted.
    token: Option<String>,
    /// Tokens that were sent to another host or to a public repository.
    strays: Vec<String>,
}

/// The server. It runs until the test ends.
pub(crate) struct Hub {
    pub(crate) address: String,
    state: Arc<Mutex<State>>,
}

pub(crate) const MAIN: &str = "ACE-Step/Ace-Step1.5";

impl Hub {
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let state = Arc::new(Mutex::new(State { commit: "a".repeat(40), ..State::default() }));
        let (shared, own) = (state.clone(), address.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (state, address) = (shared.clone(), own.clone());
                // A client may close the connection early.
                thread::spawn(move || drop(answer(stream, &state, &address)));
            }
        });
        Self { address, state }
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().expect("no panic"))
    }

    /// Publishes a tiny checkpoint at `prefix` of `repo`, and files that are never downloaded.
    pub(crate) fn publish(&self, repo: &str, prefix: &str, checkpoint: &str) {
        let directory = super::goldens("checkpoints_a").join(checkpoint);
        for name in super::names(&directory) {
            let content = std::fs::read(directory.join(&name)).expect("a file");
            self.file(repo, &format!("{prefix}{name}"), content);
        }
        self.file(repo, &format!("{prefix}modeling.py"), "import torch");
        self.file(repo, "README.md", "# A model");
    }

    pub(crate) fn file(&self, repo: &str, path: &str, content: impl Into<Vec<u8>>) {
        self.with(|state| state.files.insert((repo.into(), path.into()), content.into()));
    }

    /// Creates a hub whose main repository has the files of `turbo`.
    pub(crate) fn with_turbo() -> Self {
        let hub = Self::new();
        for directory in ["acestep-v15-turbo", "vae", "Qwen3-Embedding-0.6B"] {
            hub.publish(MAIN, &format!("{directory}/"), directory);
        }
        hub
    }

    pub(crate) fn commit(&self, digit: &str) -> String {
        let commit = digit.repeat(40);
        self.with(|state| state.commit.clone_from(&commit));
        commit
    }

    pub(crate) fn fails(&self, path: &str, fault: Fault, times: usize) {
        self.with(|state| state.faults.push((path.into(), fault, times)));
    }

    pub(crate) fn wants(&self, token: &str) {
        self.with(|state| state.token = Some(token.into()));
    }

    /// Returns the tokens that were sent without need.
    pub(crate) fn strays(&self) -> Vec<String> {
        self.with(|state| state.strays.clone())
    }

    /// Returns the files requested since the last call, each with the first byte of the range.
    pub(crate) fn asked(&self) -> Vec<(String, u64)> {
        self.with(|state| std::mem::take(&mut state.asked))
    }
}

impl State {
    fn fault(&mut self, path: &str, is_it: impl Fn(&Fault) -> bool) -> Option<Fault> {
        let fault = self
            .faults
            .iter_mut()
            .find(|(part, fault, times)| path.contains(&**part) && *times > 0 && is_it(fault))?;
        fault.2 -= 1;
        Some(fault.1.clone())
    }

    fn list(&mut self, repo: &str) -> Value {
        let files: Vec<_> = self
            .files
            .iter()
            .filter(|((own, _), _)| own == repo)
            .map(|((_, path), content)| (path.clone(), content.clone()))
            .collect();
        let siblings: Vec<_> = files
            .into_iter()
            .map(|(path, content)| {
                let claim = self.fault(&path, |fault| matches!(fault, Fault::Claims(_)));
                let size = match claim {
                    Some(Fault::Claims(size)) => size,
                    _ => content.len() as u64,
                };
                let mut file = json!({ "rfilename": path, "size": size, "blobId": git(&content) });
                if is_large(&path) {
                    file["lfs"] =
                        json!({ "sha256": sha256(&content), "size": size, "pointerSize": 134 });
                }
                file
            })
            .collect();
        json!({ "id": repo, "sha": self.commit, "siblings": siblings })
    }
}

fn is_large(path: &str) -> bool {
    [".safetensors", ".pt", ".nemo"].iter().any(|ending| path.ends_with(ending))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sha256(content: &[u8]) -> String {
    hex(&Sha256::digest(content))
}

fn git(content: &[u8]) -> String {
    let start = Sha1::new().chain_update(format!("blob {}\0", content.len()));
    hex(&start.chain_update(content).finalize())
}

/// Reads one request and answers it.
fn answer(mut stream: TcpStream, state: &Mutex<State>, address: &str) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let target = line.split(' ').nth(1).unwrap_or("/").to_owned();
    let (mut from, mut to, mut token) = (None, None, None);
    loop {
        let mut header = String::new();
        if reader.read_line(&mut header)? == 0 || header.trim().is_empty() {
            break;
        }
        let (name, value) = header.split_once(':').unwrap_or((&header, ""));
        match name.to_lowercase().as_str() {
            "range" => {
                let range = value.trim().trim_start_matches("bytes=");
                let (first, last) = range.split_once('-').unwrap_or((range, ""));
                from = first.parse::<usize>().ok();
                to = last.parse::<usize>().ok();
            }
            "authorization" => token = Some(value.trim().trim_start_matches("Bearer ").to_owned()),
            _ => (),
        }
    }
    let path = target.split('?').next().unwrap_or("/");
    let mut status = |code: u16, headers: &str, body: &[u8]| {
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {code} X\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n"
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(body)
    };
    // The mutex is not locked while bytes are sent, so other connections can proceed.
    let lock = || state.lock().expect("no panic");
    let is_elsewhere = path.starts_with("/elsewhere");
    let wanted = lock().token.clone().filter(|_| !is_elsewhere);
    let is_listed = path.starts_with("/api/") && lock().fault("", |f| *f == Fault::Gated).is_some();
    match (wanted.filter(|_| !is_listed), token) {
        (None, Some(token)) => lock().strays.push(token),
        (Some(wanted), token) if token.as_ref() != Some(&wanted) => {
            return status(401, "", b"who are you?");
        }
        _ => (),
    }
    if let Some(repo) = path.strip_prefix("/api/models/") {
        let repo = repo.split("/revision/").next().unwrap_or(repo);
        if lock().fault(repo, |fault| *fault == Fault::Page).is_some() {
            return status(200, "Content-Type: text/html\r\n", b"<html>Log in to the wifi</html>");
        }
        if let Some(Fault::Status(code)) =
            lock().fault(repo, |fault| matches!(fault, Fault::Status(_)))
        {
            return status(code, "", b"");
        }
        if !lock().files.keys().any(|(own, _)| own == repo) {
            return status(404, "", b"{}");
        }
        let list = lock().list(repo).to_string();
        return status(200, "Content-Type: application/json\r\n", list.as_bytes());
    }
    // Large files are at another address, as on Hugging Face.
    let (is_there, path) = match path.strip_prefix("/elsewhere") {
        Some(path) => (true, path),
        None => (false, path),
    };
    let Some((repo, rest)) = path[1..].split_once("/resolve/") else {
        return status(404, "", b"");
    };
    let (commit, file) = rest.split_once('/').unwrap_or((rest, ""));
    let Some(content) = lock().files.get(&(repo.to_owned(), file.to_owned())).cloned() else {
        return status(404, "", b"");
    };
    let mut headers = format!("X-Repo-Commit: {commit}\r\n");
    if is_large(file) && !is_there {
        // Another name of the same machine acts as another host.
        let elsewhere = address.replace("127.0.0.1", "localhost");
        let _ = write!(
            headers,
            "X-Linked-Etag: \"{}\"\r\nX-Linked-Size: {}\r\nLocation: {elsewhere}/elsewhere{path}\r\n",
            sha256(&content),
            content.len()
        );
        return status(302, &headers, b"");
    }
    let _ = write!(headers, "ETag: \"{}\"\r\n", git(&content));
    // A request for one byte only asks for size and checksum.
    let is_look = to == Some(0);
    let mut fault = None;
    if !is_look {
        lock().asked.push((file.to_owned(), from.unwrap_or(0) as u64));
        fault = lock().fault(file, |fault| !matches!(fault, Fault::Claims(_) | Fault::Page));
    }
    if let Some(Fault::Status(code)) = fault {
        return status(code, "", b"");
    }
    let (first, last) = (from.unwrap_or(0), to.unwrap_or(content.len()).min(content.len() - 1));
    if first >= content.len() {
        return status(416, "", b"");
    }
    let mut body = content[first..=last].to_vec();
    let _ = write!(headers, "Content-Range: bytes {first}-{last}/{}\r\n", content.len());
    match fault {
        Some(Fault::Whole) => status(200, "", &content),
        Some(Fault::More) => {
            body.extend([0; 100]);
            status(206, &headers, &body)
        }
        Some(Fault::Flip) => {
            body[0] ^= 1;
            status(206, &headers, &body)
        }
        Some(Fault::Cut(after) | Fault::Stall(after)) => {
            let length = body.len();
            let head = format!("HTTP/1.1 206 X\r\nContent-Length: {length}\r\n{headers}\r\n");
            stream.write_all(head.as_bytes())?;
            stream.write_all(&body[..after.min(length)])?;
            if matches!(fault, Some(Fault::Stall(_))) {
                stream.flush()?;
                thread::sleep(Duration::from_secs(60));
            }
            Ok(())
        }
        _ => status(206, &headers, &body),
    }
}
