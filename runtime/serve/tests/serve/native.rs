//! The native API.

use std::{io::Read as _, sync::atomic::Ordering};

use acestep_serve::{
    http::{Security, Server},
    job::State,
};
use serde_json::{Value, json};

use crate::{
    killed::{is_ended, job, until},
    web::{Api, FORM, body, bytes, code, keys, parts, served, served_with, text},
};

fn made(api: &Api, caption: &str) -> Value {
    body(api.post("/v1/jobs?wait=300", &json!({ "request": { "caption": caption } })))
}

fn submitted(api: &Api, caption: &str) -> String {
    text(&body(api.post("/v1/jobs", &json!({ "request": { "caption": caption } })))["id"])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_song_is_made_and_fetched_whole_and_in_part() {
    let api = served().await;
    let song = json!({ "request": { "caption": "rain", "batch_size": 2 }, "title": "Rain" });
    let answer = api.post("/v1/jobs?wait=300", &song);
    assert_eq!(answer.status(), 200);
    let job = body(answer);
    assert_eq!((&job["state"], &job["title"]), (&json!("done"), &json!("Rain")));
    assert_eq!(job["resolved"]["seed"], 7);
    let outputs = job["outputs"].as_array().expect("outputs");
    assert_eq!(outputs.len(), 4);
    assert_eq!(outputs[0]["sha256"].as_str().map(str::len), Some(64));
    assert!(outputs[0].get("key").is_none(), "no place on disk is told");
    let sound = outputs[0]["url"].as_str().expect("a url");
    let answer = api.get(sound);
    assert_eq!(answer.headers()["content-type"], "audio/wav");
    let tag = answer.headers()["etag"].clone();
    let whole = bytes(answer);
    assert_eq!(&whole[..4], b"RIFF");
    assert_eq!(whole.len() as u64, outputs[0]["bytes"]);
    let answer = api.get_with(sound, "range", "bytes=8-11");
    assert_eq!(answer.status(), 206);
    assert_eq!(body(answer), "WAVE");
    let tag = tag.to_str().expect("text");
    for (name, value, status) in [
        ("if-none-match", tag, 304),
        ("if-none-match", "*", 304),
        ("if-none-match", "\"other\"", 200),
        ("range", "bytes=0-1,8-11", 200),
        ("range", "bytes=9-3", 200),
    ] {
        assert_eq!(api.get_with(sound, name, value).status(), status, "{name}: {value}");
    }
    let id = job["id"].as_str().expect("an id");
    assert_eq!(api.get(&format!("/v1/jobs/{id}/tracks/2.wav")).status(), 200);
    assert_eq!(api.get(&format!("/v1/jobs/{id}/tracks/2.mp3")).status(), 404);
    assert_eq!(body(api.get(&format!("/v1/jobs/{id}/tracks/1/lrc"))), "[00:00.00]la\n");
    assert_eq!(api.get(&format!("/v1/jobs/{id}/outputs/..%2Fjobs.sqlite")).status(), 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_request_is_answered_with_its_field_and_stores_nothing() {
    let api = served().await;
    let place = json!({ "caption": "x", "src_audio": "/etc/passwd" });
    let address = json!({ "src_audio": "http://127.0.0.1/x.wav" });
    for (job, status, code, param) in [
        (json!({ "request": { "captoin": "x" } }), 400, "unknown_key", Some("captoin")),
        (json!({ "request": { "model": "turbo" } }), 404, "model_not_found", Some("model")),
        (json!({ "request": place }), 404, "file_not_found", Some("src_audio")),
        (json!({ "request": address }), 404, "file_not_found", Some("src_audio")),
        (json!({ "kind": "dance" }), 400, "bad_json", None),
    ] {
        let answer = api.post("/v1/jobs", &job);
        assert_eq!(answer.status(), status, "{job}");
        let error = body(answer)["error"].clone();
        assert_eq!(json!([error["code"], error["param"]]), json!([code, param]), "{job}");
    }
    let twice = r#"{"request": {"caption": "x", "caption": "y"}}"#;
    assert_eq!(code(api.post_text("/v1/jobs", twice)).1, "repeated_key");
    let (id, song) = (uuid::Uuid::nil(), json!({ "request": { "caption": "x" } }));
    for answer in [
        api.post("/v1/jobs?x=5", &song),
        api.get(&format!("/v1/jobs/{id}?x=5")),
        api.get(&format!("/v1/jobs/{id}/audio?x=pcm")),
        api.get("/v1/realtime?x=tiny-talk"),
        api.delete(&format!("/v1/jobs/{id}?x=true")),
        // These take no query.
        api.patch(&format!("/v1/jobs/{id}?x=1"), &json!({})),
        api.get(&format!("/v1/jobs/{id}/events?x=1")),
        api.get("/v1/server?x=1"),
    ] {
        assert_eq!(answer.status(), 400);
        let error = body(answer)["error"].clone();
        assert_eq!(error["param"], "x");
        assert!(error["hint"].to_string().contains("unknown field `x`, "), "{error}");
    }
    assert_eq!(api.post_text("/v1/jobs", "{").status(), 400);
    let large = format!("\"{}\"", "x".repeat(2 << 20));
    assert_eq!(api.post_text("/v1/jobs", &large).status(), 413);
    assert_eq!(body(api.get("/v1/jobs"))["jobs"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_job_is_cancelled_and_says_so_when_it_stopped() {
    let api = served().await;
    let id = submitted(&api, "long");
    api.until(&id, |job| job["state"] != "queued");
    assert_eq!(body(api.delete(&format!("/v1/jobs/{id}")))["state"], "cancelling");
    assert_eq!(api.job(&format!("{id}?wait=300"))["state"], "cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_fails_one_job_and_the_worker_goes_on() {
    let api = served().await;
    let failed = made(&api, "panic");
    assert_eq!(json!([failed["state"], failed["error"]["code"]]), json!(["failed", "internal"]));
    assert_eq!(made(&api, "fail")["error"]["message"], "the caption says so");
    assert_eq!(made(&api, "rain")["state"], "done");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_fails_only_the_job_that_fills_it_each_time() {
    let api = served().await;
    let done = made(&api, "full once");
    assert_eq!((&done["state"], &done["attempts"]), (&json!("done"), &json!(2)));
    assert!(done["notices"].to_string().contains("waits for room"), "{done}");
    let failed = made(&api, "full always");
    assert_eq!(json!([failed["error"]["code"], failed["attempts"]]), json!(["disk_full", 3]));
    assert_eq!(made(&api, "rain")["state"], "done");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_worker_waits_for_room_says_so() {
    let full = |server: &mut Server| server.is_full.store(true, Ordering::Relaxed);
    let api = served_with(1, Security::default(), full).await;
    assert_eq!(code(api.get("/readyz")), (503, json!("disk_full")));
    let spoken = api.post("/v1/audio/speech", &json!({ "input": "Rain." }));
    assert_eq!(code(spoken), (507, json!("disk_full")));
    let job = api.post("/v1/jobs", &json!({ "request": { "caption": "rain" } }));
    assert!(body(job)["notices"].to_string().contains("waits for room"));
}

#[tokio::test(flavor = "multi_thread")]
async fn events_tell_the_life_of_a_job_and_continue_after_a_number() {
    let api = served().await;
    let events = format!("/v1/jobs/{}/events", submitted(&api, "rain"));
    let mut answer = api.get(&events);
    assert_eq!(answer.headers()["content-type"], "text/event-stream");
    let text = answer.body_mut().read_to_string().expect("a stream that ends");
    assert!(text.starts_with("id: 1\nevent: state\ndata: {\"state\":\"queued\""), "{text}");
    assert!(text.contains("event: track\n"), "{text}");
    let last = text.trim_end().rsplit("\n\n").next().expect("an event");
    assert!(last.contains("event: end\ndata: {\"state\":\"done\""), "{last}");
    let number: u64 = last[4..].lines().next().and_then(|n| n.parse().ok()).expect("a number");
    let after = |number: u64| api.get_with(&events, "last-event-id", &number.to_string());
    assert_eq!(self::text(&body(after(number - 1))).trim_end(), last);
    // A browser would connect again for ever.
    assert_eq!(after(number).status(), 204);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sound_of_a_lost_attempt_is_cut_and_not_followed_by_that_of_the_next_one() {
    let api = served().await;
    let store = &api.queue.store;
    let song = json!({ "request": { "caption": "heard, with a gate", "duration": 2 } });
    let id = text(&body(api.post("/v1/jobs", &song))["id"]);
    let mut answer = api.get(&format!("/v1/jobs/{id}/audio?format=pcm"));
    // A quarter of a second; then the job waits.
    let mut heard = vec![0; 4 * 12_000];
    answer.body_mut().as_reader().read_exact(&mut heard).expect("sound");
    let id = id.parse().expect("an id");
    let worker = job(store, id).await.worker.expect("a worker");
    assert_eq!(store.abandon(worker, true).await.expect("answered"), [id]);
    let next = until(store, id, |job| job.attempts == 2).await;
    assert_eq!(next.state, State::Running);
    answer.body_mut().as_reader().read_to_end(&mut heard).expect_err("it is cut");
    assert_eq!(heard.len(), 4 * 12_000);
    api.open_gate();
    assert_eq!(until(store, id, is_ended).await.state, State::Done);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_sent_in_a_form_and_used_by_its_id() {
    let api = served().await;
    let job = r#"{"request":{"caption":"rain","task_type":"cover"}}"#;
    let form = parts(&[("job", job)], &[("src_audio", b"sound")]);
    let form = String::from_utf8(form).expect("text");
    let send = |path: &str, form: &str| {
        api.sending(path).content_type(FORM).send(form).expect("an answer")
    };
    let job = body(send("/v1/jobs", &form));
    let again = json!({ "caption": "rain", "src_audio": job["request"]["src_audio"] });
    let again = json!({ "request": again });
    assert_eq!(api.post("/v1/jobs", &again).status(), 202);
    // A form that is cut leaves nothing behind.
    let part = &form[form.rfind("--b\r\nContent").expect("a part")..];
    assert_eq!(send("/v1/files", part).status(), 200);
    for cut in [8, 20, 60] {
        let answer = send("/v1/files", &part[..part.len() - cut]);
        assert_eq!(answer.status(), 400, "{}", body(answer));
    }
    assert_eq!(send("/v1/files", &form).status(), 400, "two parts");
    let other = r#""model":"suno""#;
    for (right, wrong, status) in [
        ("src_audio", "sound", 400),
        (r#""task_type":"cover""#, other, 404),
        (r#"{"request"#, r#"{"x"#, 400),
    ] {
        let answer = send("/v1/jobs", &form.replace(right, wrong));
        assert_eq!(answer.status(), status, "{wrong}: {}", body(answer));
    }
    assert_eq!(api.files(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_submission_is_one_job() {
    let api = served().await;
    let send = |job: &str| api.post_once("/v1/jobs", "once", job);
    let rain = r#"{"request": {"caption": "rain", "guidance_scale": 7.3}}"#;
    let turned = r#"{"request": {"guidance_scale": 7.3, "caption": "rain"}}"#;
    let (first, second) = (send(rain), send(turned));
    assert_eq!((first.status().as_u16(), second.status().as_u16()), (202, 200));
    let first = body(first);
    assert_eq!(first["id"], body(second)["id"]);
    let another = [
        r#"{"request": {"caption": "snow", "guidance_scale": 7.3}}"#,
        r#"{"kind": "compose", "request": {"caption": "rain", "guidance_scale": 7.3}}"#,
    ];
    for job in another {
        assert_eq!(code(send(job)), (422, json!("idempotency_key_used")), "{job}");
    }
    let two = api.sending("/v1/jobs").header("idempotency-key", "a").header("idempotency-key", "b");
    assert_eq!(two.send(rain).expect("an answer").status(), 400);
    // A file that is sent again has another id.
    for (sound, status) in [("wind", 202), ("wind", 200), ("rain", 422)] {
        let file = body(api.form("/v1/files", &[], &[("a", sound.as_bytes())]));
        let cover = json!({ "request": { "caption": "x", "src_audio": file["id"] } }).to_string();
        assert_eq!(api.post_once("/v1/jobs", "sound", &cover).status(), status, "{sound}");
    }
    // As for a submission, the header of a change need not say that it is JSON.
    let path = format!("/v1/jobs/{}", text(&first["id"]));
    assert_eq!(body(api.patch_text(&path, r#"{"title": "x"}"#))["title"], "x");
    for (path, word) in
        [("jobs?limit=0", "`limit`"), ("jobs?limit=x", "query"), ("jobs/xyz", "`xyz` is no id")]
    {
        let refused = api.get(&format!("/v1/{path}"));
        assert_eq!(refused.status(), 400, "{path}");
        let message = body(refused)["error"]["message"].to_string();
        assert!(message.contains(word) && !message.contains("UUID"), "{message}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_may_stand_back_and_never_overtake() {
    let api = served().await;
    for (asked, given) in [(7, 0), (0, 0), (-3, -3), (-99, -10)] {
        let job = json!({ "request": { "caption": "x" }, "priority": asked });
        assert_eq!(body(api.post("/v1/jobs", &job))["priority"], given, "{asked}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_says_when_to_come_again() {
    // Without a worker all jobs wait.
    let api = served_with(0, Security::default(), |server| server.limits.queue = 2).await;
    let song = json!({ "request": { "caption": "rain" } });
    let keyed = || body(api.post_once("/v1/jobs", "k", &song.to_string()))["id"].clone();
    let first = keyed();
    let crowd: Vec<_> = (0..8)
        .map(|_| {
            let (api, song) = (api.clone(), song.clone());
            std::thread::spawn(move || api.post("/v1/jobs", &song).status().as_u16())
        })
        .collect();
    let statuses: Vec<u16> = crowd.into_iter().map(|one| one.join().expect("no panic")).collect();
    let taken = statuses.iter().filter(|status| **status == 202).count();
    // Those that come at once may refuse one another, but never fill the queue beyond its limit.
    assert!(taken <= 1 && statuses.contains(&429), "{statuses:?}");
    while api.post("/v1/jobs", &song).status() == 202 {}
    assert_eq!(body(api.get("/v1/jobs"))["jobs"].as_array().map(Vec::len), Some(2));
    let answer = api.post("/v1/jobs", &song);
    assert!(answer.headers()["retry-after"].to_str().is_ok_and(|s| s.parse::<u64>().is_ok()));
    assert_eq!(code(answer), (429, json!("queue_full")));
    assert!(first.is_string());
    assert_eq!(keyed(), first, "a job that was taken is sent again");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_client_does_not_fill_the_queue_of_all() {
    let few = |server: &mut Server| server.limits.queue_of_one = 2;
    // Without a worker all jobs wait.
    let api = served_with(0, keys(&[("ann", "of-ann"), ("bob", "of-bob")]), few).await;
    let rain = json!({ "request": { "caption": "rain" } });
    for key in ["of-ann", "of-bob"] {
        let submit = || api.with_key(key).post("/v1/jobs", &rain).status().as_u16();
        assert_eq!([(); 3].map(|()| submit()), [202, 202, 429], "{key}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_refusal_is_json_with_a_word_for_programs() {
    let api = served().await;
    let job = format!("/v1/jobs/{}", submitted(&api, "x"));
    for (answer, word) in [
        (api.get("/v1/jobs/7"), "bad_value"),
        (api.get("/v1/jobs?limit=all"), "bad_value"),
        (api.get("/v1/jobs/7/tracks/1"), "bad_value"),
        (api.get(&format!("{job}/audio?format=wav&format=pcm")), "bad_value"),
        (api.get("/v1/realtime"), "bad_websocket"),
        (api.get("/v1/files?limit=0"), "bad_value"),
        (api.get(&format!("{job}/outputs/%ff")), "bad_value"),
        (api.post("/v1/session", &json!({ "key": 7 })), "bad_json"),
        (api.post("/v1/session", &json!({ "key": "x", "x": 1 })), "bad_json"),
        (api.patch_text(&job, "[]"), "bad_json"),
        (api.patch_text(&job, "{"), "bad_json"),
        (api.patch(&job, &json!({ "title": 7 })), "bad_json"),
    ] {
        assert_eq!(code(answer), (400, json!(word)));
    }
    let message = body(api.patch(&job, &json!({ "titel": "x" })))["error"]["message"].to_string();
    assert!(message.contains("the change cannot be read: unknown field"), "{message}");
}
