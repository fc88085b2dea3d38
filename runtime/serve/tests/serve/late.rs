//! Calls that answer when their job has ended: the id of the job comes before that.

use std::{fs, io::Read};

use serde_json::{Value, json};

use crate::web::{Answer, Api, body, job_of, served};

/// A call whose job waits at its gate, and the place of a word of the job in the answer.
fn calls() -> [(&'static str, Value, &'static str, &'static str); 4] {
    let chat = json!({ "messages": [{ "role": "user", "content": "a gate" }] });
    [
        ("/v1/jobs?wait=300", json!({ "request": { "caption": "a gate" } }), "/state", "done"),
        ("/v1/chat/completions", chat, "/choices/0/finish_reason", "stop"),
        ("/format_input", json!({ "prompt": "a gate" }), "/data/key_scale", "C major"),
        ("/v1/create_sample", json!({ "query": "a gate" }), "/data/key_scale", "C major"),
    ]
}

/// Returns the state of the job that the header of an answer names.
fn state(api: &Api, answer: &Answer) -> (String, Value) {
    let id = job_of(answer);
    let state = api.job(&id)["state"].clone();
    (id, state)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_header_names_the_job_while_it_runs_and_the_body_comes_at_its_end() {
    let api = served().await;
    for (path, request, place, word) in calls() {
        let answer = api.post(path, &request);
        let status = answer.status().as_u16();
        assert_eq!(status, if path.starts_with("/v1/jobs") { 202 } else { 200 }, "{path}");
        assert_eq!(answer.headers()["content-type"], "application/json", "{path}");
        let (id, state) = state(&api, &answer);
        assert_eq!(state, "running", "{path}");
        api.open_gate();
        let answer = body(answer);
        assert_eq!(answer.pointer(place), Some(&json!(word)), "{path}: {answer}");
        assert_eq!(api.job(&id)["state"], "done", "{path}");
        fs::remove_file(api.folder.path().join("gate")).expect("a gate");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_failure_is_in_the_body_in_the_form_of_its_face() {
    let api = served().await;
    let mut told = Vec::new();
    for (path, request, ..) in calls() {
        let answer = api.post(path, &request);
        let (id, _) = state(&api, &answer);
        assert_eq!(api.change_job(&id, "cancel").status(), 200);
        told.push(body(answer));
    }
    assert_eq!(told[0]["state"], "cancelled");
    assert_eq!(told[1]["error"]["code"], "cancelled");
    for envelope in &told[2..] {
        let told = json!([envelope["code"], envelope["error"], envelope["data"]["caption"]]);
        assert_eq!(told, json!([409, "the job was cancelled", null]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_loses_a_long_answer_finds_its_job_by_the_header() {
    let api = served().await;
    let chat = json!({ "messages": [{ "role": "user", "content": "a gate" }] });
    let mut answer = api.post("/v1/chat/completions", &chat);
    let (id, _) = state(&api, &answer);
    let mut nothing = [0; 0];
    answer.body_mut().as_reader().read_exact(&mut nothing).expect("nothing");
    drop(answer);
    api.open_gate();
    assert_eq!(api.job(&format!("{id}?wait=300"))["state"], "done");
}
