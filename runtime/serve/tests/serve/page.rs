//! The page: what is served, and that foreign code is what its list says.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::PathBuf,
};

use sha2::{Digest, Sha256};

use crate::web::{bytes, keys, served_with};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("page")
}

fn names() -> Vec<String> {
    let mut names = Vec::new();
    for inner in ["", "vendor/"] {
        for entry in fs::read_dir(folder().join(inner)).expect("a folder") {
            let entry = entry.expect("an entry");
            if entry.path().is_file() {
                names.push(format!("{inner}{}", entry.file_name().to_string_lossy()));
            }
        }
    }
    names.retain(|name| !name.ends_with(".d.ts"));
    names
}

#[test]
fn foreign_code_has_the_checksums_of_its_list() {
    let list = fs::read_to_string(folder().join("vendor/README.md")).expect("a list");
    let mut checked = 0;
    for name in names().iter().filter(|name| name.starts_with("vendor/") && name.ends_with(".js")) {
        let bytes = fs::read(folder().join(name)).expect("a file");
        let sum: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        let row = list.lines().find(|line| line.contains(&format!("`{}`", &name[7..])));
        assert!(row.is_some_and(|row| row.contains(&sum)), "{name}: {sum}");
        checked += 1;
    }
    assert_eq!(checked, 3);
}

#[test]
fn own_code_is_checked_by_types_and_makes_no_markup() {
    for name in names().iter().filter(|name| name.ends_with(".js") && !name.contains('/')) {
        let text = fs::read_to_string(folder().join(name)).expect("a file");
        assert!(text.starts_with("// @ts-check\n"), "{name}");
        for danger in ["innerHTML", "insertAdjacent", "dangerouslySet", "eval(", "http:", "https:"]
        {
            assert!(!text.contains(danger), "{name}: {danger}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_file_of_the_page_is_served_without_a_key() {
    let api = served_with(1, keys(&[("ann", "secret")]), |_| ()).await;
    let all = names();
    assert!(all.len() > 20, "{all:?}");
    for name in all {
        let answer = api.get_with(&format!("/page/{name}"), "accept-encoding", "identity");
        assert_eq!(answer.status(), 200, "{name}");
        if name.ends_with(".js") {
            assert_eq!(answer.headers()["content-type"], "text/javascript; charset=utf-8");
        }
        assert_eq!(bytes(answer), fs::read(folder().join(&name)).expect("a file"), "{name}");
    }
    assert!(raw(&api.url(""), "accept-encoding: gzip").contains("\r\ncontent-encoding: gzip\r\n"));
    let index = api.get_with("/", "accept-encoding", "identity");
    let headers = index.headers();
    let policy = headers["content-security-policy"].to_str().expect("text");
    for rule in ["default-src 'self'", "script-src 'self'", "frame-ancestors 'none'"] {
        assert!(policy.contains(rule), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    let tag = headers["etag"].to_str().expect("text");
    assert_eq!(api.get_with("/", "if-none-match", tag).status(), 304);
    for other in ["page/none.js", "page/../Cargo.toml", "page/%2e%2e/Cargo.toml", "page/"] {
        let status = api.get(&format!("/{other}")).status();
        // A client may take the folder out of the address, which then needs the key.
        let wanted: &[u16] = if other.contains("..") { &[401, 404] } else { &[404] };
        assert!(wanted.contains(&status.as_u16()), "{other}: {status}");
    }
    assert_eq!(api.get("/v1/jobs").status(), 401, "the API needs the key");
}

/// Returns the head of the answer to a request for `/`, which no client has changed.
fn raw(url: &str, header: &str) -> String {
    let host = url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(host).expect("a server");
    let request =
        format!("GET / HTTP/1.1\r\nhost: {host}\r\n{header}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    let text = String::from_utf8_lossy(&answer);
    text.split("\r\n\r\n").next().map(|head| head.to_lowercase() + "\r\n").unwrap_or_default()
}
