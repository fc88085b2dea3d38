//! Requests with too many values, keys or words.

use serde_json::{Value, json};

use crate::web::{agent, body, client, get, post, start};

#[tokio::test(flavor = "multi_thread")]
async fn a_body_with_very_many_values_is_refused_by_every_face_that_takes_sound() {
    let (running, _folder) = start().await;
    let url = running.url("");
    client(move || {
        let many = json!({ "input": "la", "prompt": "la", "x": vec![0; 70_000] });
        for face in ["audio/speech", "audio/generations", "chat/completions", "audio/voices"] {
            let answer = post(&format!("{url}/v1/{face}"), &many);
            assert_eq!((answer.status().as_u16(), face), (413, face));
            assert_eq!(body(answer)["error"]["code"], "too_large");
        }
        // A text that is no sound is stored with the job, so it is as small as in JSON without sound.
        for (face, key) in [("audio/speech", "instructions"), ("audio/generations", "prompt")] {
            let large = json!({ "input": "la", key: "x".repeat(1 << 21) });
            let refused = post(&format!("{url}/v1/{face}"), &large);
            assert_eq!((refused.status().as_u16(), key), (413, key));
        }
        // Sound as base64 is one value, and a larger one than a body without sound may have.
        let sound = format!("data:audio/wav;base64,{}", "AAAA".repeat(1 << 19));
        let song = json!({ "prompt": "la", "ref_audio": sound, "response_format": "wav" });
        assert_eq!(post(&format!("{url}/v1/audio/generations"), &song).status(), 200);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_to_speak_has_at_most_64_unknown_keys() {
    let (running, _folder) = start().await;
    let url = running.url("/v1/audio/speech");
    client(move || {
        let with = |keys: usize| {
            let mut request = json!({ "input": "la", "response_format": "wav" });
            (0..keys).for_each(|key| request[format!("x{key}")] = 1.into());
            post(&url, &request)
        };
        assert_eq!(with(64).status(), 200);
        let long =
            post(&url, &json!({ "input": "la", "response_format": "wav", "x".repeat(900): 1 }));
        let job = url.replace("audio/speech", "jobs/")
            + long.headers()["x-job-id"].to_str().expect("text");
        let notice = body(get(&job))["notices"][0].clone();
        assert_eq!(notice.as_str().map(|text| text.chars().count()), Some(501));
        let refused = with(65);
        assert_eq!(refused.status(), 400);
        let error = body(refused)["error"].clone();
        assert_eq!(error["code"], "unknown_key");
        assert!(error["param"].as_str().is_some_and(|key| key.starts_with('x')), "{error}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn words_about_a_job_are_limited() {
    let (running, _folder) = start().await;
    let url = running.url("/v1/jobs");
    client(move || {
        let titled = |length: usize| {
            post(&url, &json!({ "request": { "caption": "x" }, "title": "t".repeat(length) }))
        };
        let job = titled(500);
        assert_eq!(job.status(), 202);
        let job = format!("{url}/{}", body(job)["id"].as_str().expect("an id"));
        let refused = titled(501);
        assert_eq!(refused.status(), 400);
        assert_eq!(body(refused)["error"]["param"], "title");
        let patch = |marks: Value| {
            let request = agent().patch(&job).content_type("application/json");
            let answer = request.send(marks.to_string().as_bytes()).expect("an answer");
            (answer.status().as_u16(), body(answer)["error"]["param"].clone())
        };
        assert_eq!(patch(json!({ "tags": vec!["t".repeat(100); 64] })), (200, Value::Null));
        assert_eq!(patch(json!({ "tags": vec!["t"; 65] })), (400, json!("tags")));
        assert_eq!(patch(json!({ "tags": ["t".repeat(101)] })), (400, json!("tags")));
        assert_eq!(patch(json!({ "title": "t".repeat(501) })), (400, json!("title")));
    })
    .await;
}
