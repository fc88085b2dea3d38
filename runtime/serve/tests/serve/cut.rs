//! The sound of a job that is cancelled while a client hears it.

use std::io::Read as _;

use serde_json::{Value, json};

use crate::web::{Answer, Api, job_of, served, with};

/// Reads the first sound, cancels the job, and reads the rest.
fn cancelled(api: &Api, id: &str, mut answer: Answer) -> std::io::Result<String> {
    let mut first = [0; 1000];
    let mut rest = Vec::new();
    let mut sound = answer.body_mut().as_reader();
    sound.read_exact(&mut first).expect("sound");
    assert_eq!(api.change_job(id, "cancel").status(), 200);
    sound.read_to_end(&mut rest)?;
    Ok(String::from_utf8_lossy(&rest).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sound_of_a_cancelled_job_ends_with_an_error() {
    let api = served().await;
    let speech = |more: Value| {
        let request = json!({ "input": "a gate that stays closed" });
        api.post("/v1/audio/speech", &with(request, &more))
    };
    for format in ["wav", "pcm"] {
        let answer = speech(json!({ "response_format": format }));
        cancelled(&api, &job_of(&answer), answer).expect_err(format);
    }
    let made = speech(json!({ "response_format": "pcm" }));
    let job = job_of(&made);
    cancelled(&api, &job, api.get(&format!("/v1/jobs/{job}/audio"))).expect_err("a cut");
    let events = speech(json!({ "response_format": "pcm", "stream_format": "sse" }));
    let events = cancelled(&api, &job_of(&events), events).expect("a stream that ends");
    assert!(events.contains("event: speech.audio.error"), "{events}");
    assert!(events.contains("the job was cancelled"), "{events}");
    assert!(!events.contains("speech.audio.done"), "{events}");
}
