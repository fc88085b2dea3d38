//! Kept voices over HTTP.

use acestep_serve::http::{Key, Security};
use serde_json::{Value, json};

use crate::{
    support::Running,
    web::{agent, body, client, form, get, post, served_in},
};

fn remove(url: &str, name: &str, key: &str) -> u16 {
    let delete = agent().delete(format!("{url}/v1/audio/voices/{name}"));
    delete.header("x-api-key", key).call().expect("an answer").status().as_u16()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_voice_is_made_of_a_recording_in_a_form_or_in_json() {
    served_in(move |url, folder| {
        let texts = [("name", "ann"), ("ref_text", "my words"), ("consent", "yes")];
        let made = form(&format!("{url}/v1/audio/voices"), &texts, &[("audio_sample", b"sound")]);
        assert_eq!(made.status(), 200);
        let id = made.headers()["x-job-id"].to_str().expect("text").to_owned();
        let voice = body(made);
        assert_eq!((&voice["id"], &voice["object"]), (&json!("ann"), &json!("audio.voice")));
        assert_eq!(voice["notices"], json!(["`consent` is not read"]));
        let job = body(get(&format!("{url}/v1/jobs/{id}")));
        assert_eq!((&job["kind"], &job["state"]), (&json!("voice"), &json!("done")));
        assert_eq!(job["request"]["transcript"], "my words");
        assert_eq!(job["request"]["reference"].as_str().map(str::len), Some(36));
        let data = "data:audio/wav;base64,UklGRg==";
        let made = json!({ "name": "bob", "ref_audio": data, "model": "acestep/tiny-speech" });
        let voice = body(post(&format!("{url}/v1/audio/voices"), &made));
        assert_eq!(voice["name"], "bob");
        let refused = |request: Value| {
            let answer = post(&format!("{url}/v1/audio/voices"), &request);
            let status = answer.status().as_u16();
            (status, body(answer)["error"]["param"].as_str().unwrap_or_default().to_owned())
        };
        for (request, param) in [
            (json!({ "audio_sample": data }), "name"),
            (json!({ "name": "eve" }), "reference"),
            (json!({ "name": "eve", "audio_sample": "https://example.org/x.wav" }), "reference"),
            (json!({ "name": "eve", "audio_sample": "/etc/passwd" }), "reference"),
            (json!({ "name": "eve", "audio_sample": data, "ref_audio": data }), "ref_audio"),
            (json!({ "name": "eve", "audio_sample": data, "text": "x" }), "text"),
        ] {
            assert_eq!(refused(request.clone()), (400, param.to_owned()), "{request}");
        }
        assert_eq!(std::fs::read_dir(folder.join("files")).expect("a folder").count(), 2);
        assert_eq!((remove(&url, "me", ""), remove(&url, "eve", "")), (200, 404));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_several_clients_removes_only_voices_that_it_made() {
    let folder = tempfile::tempdir().expect("a folder");
    let keys = vec![Key::new("ann", "the-key-of-ann"), Key::new("bob", "the-key-of-bob")];
    let security = Security { keys, ..Security::default() };
    let running = Running::start(folder.path(), security, 0).await;
    let url = running.url("");
    client(move || {
        let made = json!({ "name": "me", "ref_audio": "data:audio/wav;base64,UklGRg==" });
        let made = agent()
            .post(format!("{url}/v1/audio/voices"))
            .header("x-api-key", "the-key-of-ann")
            .content_type("application/json")
            .send(made.to_string().as_bytes());
        let made = made.expect("an answer");
        assert_eq!(made.status(), 200);
        let job = made.headers()["x-job-id"].to_str().expect("text");
        let away = agent().delete(format!("{url}/v1/jobs/{job}"));
        let away = away.header("x-api-key", "the-key-of-ann").call().expect("an answer");
        assert_eq!(away.status(), 200);
        assert_eq!(remove(&url, "me", "the-key-of-bob"), 404);
        assert_eq!(remove(&url, "me", "the-key-of-ann"), 200);
    })
    .await;
}
