//! Kept voices over HTTP.

use serde_json::json;

use crate::web::{Api, body, job_of, keys, served, served_with};

fn remove(api: &Api, name: &str) -> u16 {
    api.delete(&format!("/v1/audio/voices/{name}")).status().as_u16()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_voice_is_made_of_a_recording_in_a_form_or_in_json() {
    let api = served().await;
    let texts = [("name", "ann"), ("ref_text", "my words"), ("consent", "yes")];
    let made = api.form("/v1/audio/voices", &texts, &[("audio_sample", b"sound")]);
    assert_eq!(made.status(), 200);
    let id = job_of(&made);
    let voice = body(made);
    assert_eq!((&voice["id"], &voice["object"]), (&json!("ann"), &json!("audio.voice")));
    assert_eq!(voice["notices"], json!(["`consent` is not read"]));
    let job = api.job(&id);
    assert_eq!((&job["kind"], &job["state"]), (&json!("voice"), &json!("done")));
    assert_eq!(job["request"]["transcript"], "my words");
    assert_eq!(job["request"]["reference"].as_str().map(str::len), Some(36));
    let data = "data:audio/wav;base64,UklGRg==";
    let model = "acestep/tiny-speech";
    let made = json!({ "name": "bob", "ref_audio": data, "model": model, "transcript": null });
    let voice = body(api.post("/v1/audio/voices", &made));
    assert_eq!(voice["name"], "bob");
    for (request, code, param) in [
        (json!({ "audio_sample": data }), "missing", "name"),
        (json!({ "name": 5, "audio_sample": data }), "bad_value", "name"),
        (json!({ "name": "eve", "transcript": "x" }), "missing", "reference"),
        (json!({ "name": "eve", "audio_sample": "https://a.org/x.wav" }), "bad_value", "reference"),
        (json!({ "name": "eve", "audio_sample": "/etc/passwd" }), "bad_value", "reference"),
        (
            json!({ "name": "eve", "audio_sample": data, "ref_audio": "data:audio/wav;base64,AAAA" }),
            "repeated_key",
            "ref_audio",
        ),
        (json!({ "name": "eve", "audio_sample": data, "text": "x" }), "unknown_key", "text"),
    ] {
        let refused = api.post("/v1/audio/voices", &request);
        assert_eq!(refused.status(), 400);
        let error = &body(refused)["error"];
        assert_eq!((&error["code"], &error["param"]), (&json!(code), &json!(param)), "{request}");
    }
    assert_eq!(api.files(), 2);
    assert_eq!((remove(&api, "me"), remove(&api, "eve")), (200, 404));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_several_clients_removes_only_voices_that_it_made() {
    let api = served_with(1, keys(&[("ann", "of-ann"), ("bob", "of-bob")]), |_| ()).await;
    let (ann, bob) = (api.with_key("of-ann"), api.with_key("of-bob"));
    let made = json!({ "name": "me", "ref_audio": "data:audio/wav;base64,UklGRg==" });
    let made = ann.post("/v1/audio/voices", &made);
    assert_eq!(made.status(), 200);
    assert_eq!(ann.delete(&format!("/v1/jobs/{}", job_of(&made))).status(), 200);
    assert_eq!((remove(&bob, "me"), remove(&ann, "me")), (404, 200));
}
