//! The native API.

use std::{io::Read as _, time::Duration};

use acestep_serve::{
    http::{Key, Security},
    job::State,
};
use serde_json::{Value, json};

use crate::{
    killed::{is_ended, job, until},
    support::{Queue, Running, open_gate},
    web::{Answer, FORM, agent, body, client, form, get, parts, post, served, served_in},
};

fn code(answer: Answer) -> Value {
    body(answer)["error"]["code"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_song_is_made_and_fetched_whole_and_in_part() {
    served(move |url| {
        let answer = post(
            &format!("{url}/v1/jobs?wait=300"),
            &json!({
                "request": { "caption": "rain", "batch_size": 2 }, "title": "Rain",
            }),
        );
        assert_eq!(answer.status(), 200);
        let job = body(answer);
        assert_eq!((&job["state"], &job["title"]), (&json!("done"), &json!("Rain")));
        assert_eq!(job["resolved"]["seed"], 7);
        let outputs = job["outputs"].as_array().expect("outputs");
        assert_eq!(outputs.len(), 4);
        assert_eq!(outputs[0]["sha256"].as_str().map(str::len), Some(64));
        assert!(outputs[0].get("key").is_none(), "no place on disk is told");
        let sound = format!("{url}{}", outputs[0]["url"].as_str().expect("a url"));
        let mut answer = get(&sound);
        assert_eq!(answer.headers()["content-type"], "audio/wav");
        let tag = answer.headers()["etag"].clone();
        let whole = answer.body_mut().read_to_vec().expect("bytes");
        assert_eq!(&whole[..4], b"RIFF");
        assert_eq!(whole.len() as u64, outputs[0]["bytes"]);
        let answer = agent().get(&sound).header("range", "bytes=8-11").call().expect("an answer");
        assert_eq!(answer.status(), 206);
        assert_eq!(body(answer), "WAVE");
        let tag = tag.to_str().expect("text");
        for (name, value, status) in [
            ("if-none-match", tag, 304),
            ("if-none-match", "*", 304),
            ("if-none-match", "\"other\"", 200),
            ("range", "bytes=0-1,8-11", 200),
        ] {
            let answer = agent().get(&sound).header(name, value).call().expect("an answer");
            assert_eq!(answer.status(), status, "{name}: {value}");
        }
        let id = job["id"].as_str().expect("an id");
        assert_eq!(get(&format!("{url}/v1/jobs/{id}/tracks/2.wav")).status(), 200);
        assert_eq!(get(&format!("{url}/v1/jobs/{id}/tracks/2.mp3")).status(), 404);
        assert_eq!(body(get(&format!("{url}/v1/jobs/{id}/tracks/1/lrc"))), "[00:00.00]la\n");
        assert_eq!(get(&format!("{url}/v1/jobs/{id}/outputs/..%2Fjobs.sqlite")).status(), 404);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_request_is_answered_with_its_field_and_stores_nothing() {
    served(move |url| {
        let refused = |value: Value| {
            let answer = post(&format!("{url}/v1/jobs"), &value);
            let status = answer.status().as_u16();
            let error = body(answer)["error"].clone();
            (status, error["code"].clone(), error["param"].clone())
        };
        let unknown = json!({ "request": { "captoin": "x" } });
        assert_eq!(refused(unknown), (400, json!("unknown_key"), json!("captoin")));
        let foreign = json!({ "request": { "caption": "x", "model": "turbo" } });
        assert_eq!(refused(foreign), (404, json!("model_not_found"), json!("model")));
        let path = json!({ "request": { "caption": "x", "src_audio": "/etc/passwd" } });
        assert_eq!(refused(path), (404, json!("file_not_found"), json!("src_audio")));
        let address = json!({ "request": { "src_audio": "http://127.0.0.1/x.wav" } });
        assert_eq!(refused(address), (404, json!("file_not_found"), json!("src_audio")));
        let kind = json!({ "kind": "dance" });
        assert_eq!(refused(kind), (400, json!("bad_json"), json!(null)));
        let twice = r#"{"request": {"caption": "x", "caption": "y"}}"#;
        let answer = agent().post(format!("{url}/v1/jobs")).send(twice).expect("an answer");
        assert_eq!(code(answer), "repeated_key");
        let (id, song) = (uuid::Uuid::nil(), json!({ "request": { "caption": "x" } }));
        for answer in [
            post(&format!("{url}/v1/jobs?x=5"), &song),
            get(&format!("{url}/v1/jobs/{id}?x=5")),
            get(&format!("{url}/v1/jobs/{id}/audio?x=pcm")),
            get(&format!("{url}/v1/realtime?x=tiny-talk")),
            agent().delete(format!("{url}/v1/jobs/{id}?x=true")).call().expect("an answer"),
        ] {
            assert_eq!(answer.status(), 400);
            let error = body(answer)["error"].clone();
            assert_eq!(error["param"], "x");
            assert!(error["hint"].to_string().contains("unknown field `x`, expected"), "{error}");
        }
        let answer = agent().post(format!("{url}/v1/jobs")).send("{").expect("an answer");
        assert_eq!(answer.status(), 400);
        let large = format!("\"{}\"", "x".repeat(2 << 20));
        let answer = agent().post(format!("{url}/v1/jobs")).send(large).expect("an answer");
        assert_eq!(answer.status(), 413);
        assert_eq!(body(get(&format!("{url}/v1/jobs")))["jobs"], json!([]));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_job_is_cancelled_and_says_so_when_it_stopped() {
    served(move |url| {
        let job =
            body(post(&format!("{url}/v1/jobs"), &json!({ "request": { "caption": "long" } })));
        let id = job["id"].as_str().expect("an id").to_owned();
        let state = || body(get(&format!("{url}/v1/jobs/{id}")))["state"].clone();
        while state() == "queued" {
            std::thread::sleep(Duration::from_millis(20));
        }
        let answer = agent().delete(format!("{url}/v1/jobs/{id}")).call().expect("an answer");
        assert_eq!(body(answer)["state"], "cancelling");
        let job = body(get(&format!("{url}/v1/jobs/{id}?wait=300")));
        assert_eq!(job["state"], "cancelled");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_fails_one_job_and_the_worker_goes_on() {
    served(move |url| {
        let made = |caption: &str| {
            let job = json!({ "request": { "caption": caption } });
            body(post(&format!("{url}/v1/jobs?wait=300"), &job))
        };
        let failed = made("panic");
        assert_eq!(
            (&failed["state"], &failed["error"]["code"]),
            (&json!("failed"), &json!("internal"))
        );
        assert_eq!(made("fail")["error"]["message"], "the caption says so");
        assert_eq!(made("rain")["state"], "done");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_fails_only_the_job_that_fills_it_each_time() {
    served(move |url| {
        let made = |caption: &str| {
            let job = json!({ "request": { "caption": caption } });
            body(post(&format!("{url}/v1/jobs?wait=300"), &job))
        };
        let done = made("full once");
        assert_eq!((&done["state"], &done["attempts"]), (&json!("done"), &json!(2)));
        assert!(done["notices"].to_string().contains("waits for room"), "{done}");
        let failed = made("full always");
        assert_eq!(
            (&failed["error"]["code"], &failed["attempts"]),
            (&json!("disk_full"), &json!(3))
        );
        assert_eq!(made("rain")["state"], "done");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_worker_waits_for_room_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let full = |server: &mut acestep_serve::http::Server| {
        server.is_full.store(true, std::sync::atomic::Ordering::Relaxed);
    };
    let running = Running::with(folder.path(), Security::default(), 0, full).await;
    let url = running.url("");
    client(move || {
        let ready = get(&format!("{url}/readyz"));
        assert_eq!((ready.status().as_u16(), code(ready)), (503, json!("disk_full")));
        let spoken = post(&format!("{url}/v1/audio/speech"), &json!({ "input": "Rain." }));
        assert_eq!((spoken.status().as_u16(), code(spoken)), (507, json!("disk_full")));
        let job = post(&format!("{url}/v1/jobs"), &json!({ "request": { "caption": "rain" } }));
        assert!(body(job)["notices"].to_string().contains("waits for room"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn events_tell_the_life_of_a_job_and_continue_after_a_number() {
    served(move |url| {
        let job =
            body(post(&format!("{url}/v1/jobs"), &json!({ "request": { "caption": "rain" } })));
        let events = format!("{url}/v1/jobs/{}/events", job["id"].as_str().expect("an id"));
        let mut answer = get(&events);
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        let text = answer.body_mut().read_to_string().expect("a stream that ends");
        assert!(text.starts_with("id: 1\nevent: state\ndata: {\"state\":\"queued\""), "{text}");
        assert!(text.contains("event: track\n"), "{text}");
        let last = text.trim_end().rsplit("\n\n").next().expect("an event");
        assert!(last.contains("event: end\ndata: {\"state\":\"done\""), "{last}");
        let number: u64 = last[4..].lines().next().and_then(|n| n.parse().ok()).expect("a number");
        let before = (number - 1).to_string();
        let answer =
            agent().get(&events).header("last-event-id", before).call().expect("an answer");
        assert_eq!(body(answer).as_str().map(str::trim_end), Some(last));
        // A browser would connect again for ever.
        let all = number.to_string();
        let answer = agent().get(&events).header("last-event-id", all).call().expect("an answer");
        assert_eq!(answer.status(), 204);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sound_of_a_lost_attempt_is_cut_and_not_followed_by_that_of_the_next_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let queue = Queue::open(folder.path(), None).await;
    let running = Running::over(&queue, Security::default(), 0, 1, |_| ()).await;
    let url = running.url("/v1/jobs");
    let (id, mut answer, mut heard) = client(move || {
        let song = json!({ "request": { "caption": "heard, with a gate", "duration": 2 } });
        let id = body(post(&url, &song))["id"].as_str().expect("an id").to_owned();
        let mut answer = get(&format!("{url}/{id}/audio?format=pcm"));
        // A quarter of a second; then the job waits.
        let mut first = vec![0; 4 * 12_000];
        answer.body_mut().as_reader().read_exact(&mut first).expect("sound");
        (id, answer, first)
    })
    .await;
    let id = id.parse().expect("an id");
    let worker = job(&queue.store, id).await.worker.expect("a worker");
    assert_eq!(queue.store.abandon(worker, true).await.expect("answered"), [id]);
    let next = until(&queue.store, id, |job| job.attempts == 2).await;
    assert_eq!(next.state, State::Running);
    let cut = client(move || {
        let read = answer.body_mut().as_reader().read_to_end(&mut heard);
        (read.is_err(), heard.len())
    });
    assert_eq!(cut.await, (true, 4 * 12_000));
    open_gate(folder.path());
    assert_eq!(until(&queue.store, id, is_ended).await.state, State::Done);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_sent_in_a_form_and_used_by_its_id() {
    served_in(move |url, folder| {
        let job = r#"{"request":{"caption":"rain","task_type":"cover"}}"#;
        let form = parts(&[("job", job)], &[("src_audio", b"sound")]);
        let form = String::from_utf8(form).expect("text");
        let send = |path: &str, form: &str| {
            agent().post(format!("{url}{path}")).content_type(FORM).send(form).expect("an answer")
        };
        let job = body(send("/v1/jobs", &form));
        let id = job["request"]["src_audio"].as_str().expect("an id").to_owned();
        let again = json!({ "request": { "caption": "rain", "src_audio": id } });
        assert_eq!(post(&format!("{url}/v1/jobs"), &again).status(), 202);
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
        assert_eq!(std::fs::read_dir(folder.join("files")).expect("a folder").count(), 2);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_submission_is_one_job() {
    served(move |url| {
        let keyed = |key: &str, job: &str| {
            let sent = agent().post(format!("{url}/v1/jobs")).header("idempotency-key", key);
            sent.send(job).expect("an answer")
        };
        let send = |job: &str| keyed("once", job);
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
            let refused = send(job);
            assert_eq!(refused.status(), 422, "{job}");
            assert_eq!(code(refused), "idempotency_key_used");
        }
        // A file that is sent again has another id.
        for (sound, status) in [("wind", 202), ("wind", 200), ("rain", 422)] {
            let file = body(form(&format!("{url}/v1/files"), &[], &[("a", sound.as_bytes())]));
            let cover = json!({ "request": { "caption": "x", "src_audio": file["id"] } });
            assert_eq!(keyed("sound", &cover.to_string()).status(), status, "{sound}");
        }
        // As for a submission, the header of a change need not say that it is JSON.
        let change =
            agent().patch(format!("{url}/v1/jobs/{}", first["id"].as_str().expect("an id")));
        let changed = change.send(r#"{"title": "x"}"#).expect("an answer");
        assert_eq!(body(changed)["title"], "x");
        for (path, word) in
            [("jobs?limit=0", "`limit`"), ("jobs?limit=x", "query"), ("jobs/xyz", "`xyz` is no id")]
        {
            let refused = get(&format!("{url}/v1/{path}"));
            assert_eq!(refused.status(), 400, "{path}");
            let message = body(refused)["error"]["message"].to_string();
            assert!(message.contains(word) && !message.contains("UUID"), "{message}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_may_stand_back_and_never_overtake() {
    served(move |url| {
        let url = url + "/v1/jobs";
        for (asked, given) in [(7, 0), (0, 0), (-3, -3), (-99, -10)] {
            let job = json!({ "request": { "caption": "x" }, "priority": asked });
            assert_eq!(body(post(&url, &job))["priority"], given, "{asked}");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_says_when_to_come_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let full = |server: &mut acestep_serve::http::Server| server.limits.queue = 2;
    // Without a worker all jobs wait.
    let queue = Queue::open(folder.path(), None).await;
    let running = Running::over(&queue, Security::default(), 0, 0, full).await;
    let url = running.url("/v1/jobs");
    client(move || {
        let song = json!({ "request": { "caption": "rain" } });
        let keyed = || {
            let sent = agent().post(&url).content_type("application/json");
            let answer = sent.header("idempotency-key", "k").send(song.to_string().as_bytes());
            body(answer.expect("an answer"))["id"].clone()
        };
        let first = keyed();
        let crowd: Vec<_> = (0..8)
            .map(|_| {
                let (url, song) = (url.clone(), song.clone());
                std::thread::spawn(move || post(&url, &song).status().as_u16())
            })
            .collect();
        let statuses: Vec<u16> =
            crowd.into_iter().map(|one| one.join().expect("no panic")).collect();
        let taken = statuses.iter().filter(|status| **status == 202).count();
        // Those that come at once may refuse one another, but never fill the queue beyond its limit.
        assert!(taken <= 1 && statuses.contains(&429), "{statuses:?}");
        while post(&url, &song).status() == 202 {}
        assert_eq!(body(get(&url))["jobs"].as_array().map(Vec::len), Some(2));
        let answer = post(&url, &song);
        assert_eq!(answer.status(), 429);
        assert!(answer.headers()["retry-after"].to_str().is_ok_and(|s| s.parse::<u64>().is_ok()));
        assert_eq!(body(answer)["error"]["code"], "queue_full");
        assert!(first.is_string());
        assert_eq!(keyed(), first, "a job that was taken is sent again");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_client_does_not_fill_the_queue_of_all() {
    let folder = tempfile::tempdir().expect("a folder");
    let few = |server: &mut acestep_serve::http::Server| server.limits.queue_of_one = 2;
    let queue = Queue::open(folder.path(), None).await;
    let keys = vec![Key::new("ann", "the-key-of-ann"), Key::new("bob", "the-key-of-bob")];
    let security = Security { keys, ..Security::default() };
    // Without a worker all jobs wait.
    let running = Running::over(&queue, security, 0, 0, few).await;
    let url = running.url("/v1/jobs");
    client(move || {
        let of = |key: &str| {
            let job = json!({ "request": { "caption": "rain" } }).to_string();
            let sent = agent().post(&url).content_type("application/json").header("x-api-key", key);
            let answer = sent.send(job.as_bytes()).expect("an answer");
            answer.status().as_u16()
        };
        assert_eq!([(); 3].map(|()| of("the-key-of-ann")), [202, 202, 429]);
        assert_eq!([(); 3].map(|()| of("the-key-of-bob")), [202, 202, 429]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_description_names_every_address_of_the_native_api() {
    let api = served(|url| body(get(&(url + "/openapi.json")))).await;
    let paths: Vec<&String> = api["paths"].as_object().expect("paths").keys().collect();
    for path in ["/v1/jobs", "/v1/jobs/{id}", "/v1/jobs/{id}/events", "/v1/files", "/metrics"] {
        assert!(paths.iter().any(|known| *known == path), "{path} of {paths:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_refusal_is_json_with_a_word_for_programs() {
    served(move |url| {
        let id = body(post(&format!("{url}/v1/jobs"), &json!({})))["id"].clone();
        let job = format!("{url}/v1/jobs/{}", id.as_str().expect("an id"));
        let words = |text: &str| agent().patch(&job).send(text.as_bytes()).expect("an answer");
        let patch = |text: &str| {
            let request = agent().patch(&job).content_type("application/json");
            request.send(text.as_bytes()).expect("an answer")
        };
        for (answer, status, code) in [
            (get(&format!("{url}/v1/jobs/7")), 400, "bad_value"),
            (get(&format!("{url}/v1/jobs?limit=all")), 400, "bad_value"),
            (get(&format!("{url}/v1/jobs/7/tracks/1")), 400, "bad_value"),
            (get(&format!("{job}/audio?format=wav&format=pcm")), 400, "bad_value"),
            (get(&format!("{url}/v1/realtime")), 400, "bad_websocket"),
            (get(&format!("{url}/v1/files?limit=0")), 400, "bad_value"),
            (words("[]"), 400, "bad_json"),
            (patch("{"), 400, "bad_json"),
            (patch(r#"{"title": 7}"#), 400, "bad_json"),
        ] {
            assert_eq!(answer.status(), status, "{code}");
            assert_eq!(body(answer)["error"]["code"], code);
        }
        let message = body(patch(r#"{"titel": "x"}"#))["error"]["message"].to_string();
        assert!(message.contains("the change cannot be read: unknown field"), "{message}");
    })
    .await;
}
