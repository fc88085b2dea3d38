//! The sound of a job that is cancelled while a client hears it.

use std::io::Read as _;

use serde_json::{Value, json};

use crate::web::{Answer, agent, get, post, served};

/// Reads the first sound, cancels the job, and reads the rest.
fn cancelled(url: &str, id: &str, mut answer: Answer) -> std::io::Result<String> {
    let mut first = [0; 1000];
    let mut rest = Vec::new();
    let mut sound = answer.body_mut().as_reader();
    sound.read_exact(&mut first).expect("sound");
    let stop = agent().post(format!("{url}/v1/jobs/{id}/cancel")).send_empty();
    assert_eq!(stop.expect("an answer").status(), 200);
    sound.read_to_end(&mut rest)?;
    Ok(String::from_utf8_lossy(&rest).into_owned())
}

fn id(answer: &Answer) -> String {
    answer.headers()["x-job-id"].to_str().expect("text").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sound_of_a_cancelled_job_ends_with_an_error() {
    served(move |url| {
        let speech = |more: Value| {
            let mut request = json!({ "input": "a gate that stays closed" });
            for (key, value) in more.as_object().expect("an object") {
                request[key] = value.clone();
            }
            post(&format!("{url}/v1/audio/speech"), &request)
        };
        for format in ["wav", "pcm"] {
            let answer = speech(json!({ "response_format": format }));
            cancelled(&url, &id(&answer), answer).expect_err(format);
        }
        let made = speech(json!({ "response_format": "pcm" }));
        let job = id(&made);
        cancelled(&url, &job, get(&format!("{url}/v1/jobs/{job}/audio"))).expect_err("a cut");
        let events = speech(json!({ "response_format": "pcm", "stream_format": "sse" }));
        let events = cancelled(&url, &id(&events), events).expect("a stream that ends");
        assert!(events.contains("event: speech.audio.error"), "{events}");
        assert!(events.contains("the job was cancelled"), "{events}");
        assert!(!events.contains("speech.audio.done"), "{events}");
    })
    .await;
}
