//! Requests with too many values, keys or words.

use std::{io::Write as _, net::TcpStream, time::Duration};

use acestep_serve::http::Server;
use serde_json::{Value, json};

use crate::web::{body, code, job_of, keys, param, served, served_with, text, until_some};

#[tokio::test(flavor = "multi_thread")]
async fn a_body_with_very_many_values_is_refused_by_every_call_that_takes_sound() {
    let api = served().await;
    let many = json!({ "input": "la", "prompt": "la", "x": vec![0; 70_000] });
    for call in ["audio/speech", "audio/generations", "chat/completions", "audio/voices", "jobs"] {
        let refused = code(api.post(&format!("/v1/{call}"), &many));
        assert_eq!(refused, (413, json!("too_large")), "{call}");
    }
    // Each part counts 17 bytes; together they are one byte more than a MiB.
    let parts = vec![("x", ""); 61_681];
    let refused = code(api.form("/v1/audio/generations", &parts, &[]));
    assert_eq!(refused, (413, json!("too_large")));
    let refused = code(api.form("/v1/jobs", &[], &[("x", b"a"), ("x", b"a")]));
    assert_eq!(refused, (400, json!("unknown_key")));
    // A text that is no sound is stored with the job, so it is as small as in JSON without sound.
    for (call, key) in [("audio/speech", "instructions"), ("audio/generations", "prompt")] {
        let large = json!({ "input": "la", key: "x".repeat(1 << 21) });
        let refused = api.post(&format!("/v1/{call}"), &large);
        assert_eq!((refused.status().as_u16(), key), (413, key));
    }
    // Sound as base64 is one value, and a larger one than a body without sound may have.
    let sound = format!("data:audio/wav;base64,{}", "AAAA".repeat(1 << 19));
    let song = json!({ "prompt": "la", "ref_audio": sound, "response_format": "wav" });
    assert_eq!(api.post("/v1/audio/generations", &song).status(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn large_bodies_at_once_have_a_limit_for_each_client_and_together_and_small_ones_pass() {
    let small = |server: &mut Server| {
        server.limits.upload = 1000;
        server.limits.body = Duration::from_secs(300);
    };
    let keys = keys(&["ann", "bob", "cat"].map(|name| (name, name)));
    let api = served_with(1, keys, small).await;
    // A MiB and 1000 bytes is the largest body. A MiB of one is small, and so never refused itself.
    let head = "POST /v1/audio/speech HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1049500";
    let (head, part) = (&format!("{head}\r\nX-Api-Key"), &"A".repeat(1 << 20));
    let two = |name: &str| {
        [(); 2].map(|()| {
            let mut socket = TcpStream::connect(api.running.address).expect("a connection");
            write!(socket, "{head}: {name}\r\n\r\n{part}").expect("written");
            socket
        })
    };
    let ask = |name: &str, path: &str, value: &Value| api.with_key(name).post(path, value);
    let large = json!({ "input": "x", "ref_audio": "A".repeat(1_049_000) });
    let until = |name: &str, status: u16| {
        let answer = || ask(name, "/v1/audio/speech", &large);
        until_some(|| Some(answer()).filter(|answer| answer.status() == status))
    };
    let of_ann = two("ann");
    let busy = until("ann", 503);
    assert_eq!(busy.headers()["retry-after"], "10");
    assert_eq!(body(busy)["error"]["code"], "busy");
    assert_eq!(body(ask("cat", "/v1/audio/speech", &large))["error"]["param"], "ref_audio");
    let _of_bob = two("bob");
    until("cat", 503);
    assert_eq!(ask("ann", "/v1/jobs", &json!({})).status(), 202);
    drop(of_ann);
    until("cat", 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_to_speak_has_at_most_64_unknown_keys() {
    let api = served().await;
    let with = |keys: usize| {
        let mut request = json!({ "input": "la", "response_format": "wav" });
        (0..keys).for_each(|key| request[format!("x{key}")] = 1.into());
        api.post("/v1/audio/speech", &request)
    };
    assert_eq!(with(64).status(), 200);
    let long = json!({ "input": "la", "response_format": "wav", "x".repeat(900): 1 });
    let long = api.post("/v1/audio/speech", &long);
    let notice = api.job(&job_of(&long))["notices"][0].clone();
    assert_eq!(notice.as_str().map(|text| text.chars().count()), Some(501));
    let refused = with(65);
    assert_eq!(refused.status(), 400);
    let error = body(refused)["error"].clone();
    assert_eq!(error["code"], "unknown_key");
    assert!(error["param"].as_str().is_some_and(|key| key.starts_with('x')), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn words_about_a_job_are_limited() {
    let api = served().await;
    let titled = |length: usize| {
        let title = "é".repeat(length);
        api.post("/v1/jobs", &json!({ "request": { "caption": "x" }, "title": title }))
    };
    let job = titled(500);
    assert_eq!(job.status(), 202);
    let job = format!("/v1/jobs/{}", text(&body(job)["id"]));
    assert_eq!(param(titled(501)), (400, json!("title")));
    let patch = |marks: Value| param(api.patch(&job, &marks));
    assert_eq!(patch(json!({ "tags": vec!["é".repeat(100); 64] })), (200, Value::Null));
    assert_eq!(patch(json!({ "tags": vec!["t"; 65] })), (400, json!("tags")));
    assert_eq!(patch(json!({ "tags": ["é".repeat(101)] })), (400, json!("tags")));
    assert_eq!(patch(json!({ "title": "t".repeat(501) })), (400, json!("title")));
}
