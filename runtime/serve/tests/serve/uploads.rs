//! Files that clients send: refused requests leave none, and their room is limited.

use std::{fs, path::Path, sync::Arc, time::Duration};

use acestep_serve::{
    http::{self, Key, Security, Server},
    job::State,
    store::{File, Selection},
};
use axum::{body::Body, extract::Request};
use serde_json::{Value, json};
use tokio::{sync::watch, time};
use tower::ServiceExt;
use uuid::Uuid;

use crate::{
    contract::of_each_store,
    place::Place,
    support::{Queue, Running, Two},
    web::{Answer, FORM, agent, body, client, form, get, parts, post, served_in},
};

of_each_store!(
    the_files_of_a_client_are_listed_in_parts_and_have_a_number,
    a_file_is_never_gone_while_a_job_waits_for_it,
);

fn files(folder: &Path) -> usize {
    fs::read_dir(folder.join("files")).expect("a folder").count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_request_of_any_face_leaves_no_file() {
    served_in(move |url, folder| {
        let sound: &[(&str, &[u8])] = &[("src_audio", b"sound")];
        let at = |path: &str| format!("{url}{path}");
        let data = "data:audio/wav;base64,AAAA";
        let chat = json!({
            "messages": [{ "content": [{ "type": "input_audio", "input_audio": { "data": "AAAA" } }] }],
            "audio_config": { "bpm": "fast" },
        });
        let song = json!({ "prompt": "x", "src_audio": data, "bpm": "fast" });
        let speech = json!({ "input": "la", "ref_audio": data, "response_format": "tape" });
        let both: [(&str, &[u8]); 2] = [("audio", b"x"), ("src_latents", &[0; 256])];
        for answer in [
            form(&at("/v1/jobs"), &[("request", r#"{"captoin":"x"}"#)], sound),
            form(&at("/v1/jobs"), &[], sound),
            form(&at("/v1/files"), &[("a", "b")], sound),
            form(&at("/release_task"), &[("prompt", "x"), ("bpm", "fast")], sound),
            form(&at("/synth"), &[("request", r#"{"caption":""}"#)], &[("audio", b"x")]),
            form(&at("/synth"), &[("request", r#"[{"caption":"x"},{"captoin":"x"}]"#)], &both),
            form(&at("/understand"), &[("request", "[1]")], &[("audio", b"x")]),
            form(&at("/vae"), &[], &both),
            form(&at("/v1/audio/generations"), &[("prompt", "x"), ("bpm", "fast")], sound),
            post(&at("/v1/audio/generations"), &song),
            post(&at("/v1/audio/speech"), &speech),
            post(&at("/v1/chat/completions"), &chat),
        ] {
            let status = answer.status().as_u16();
            let answer = body(answer);
            assert!(status == 400, "{status} {answer}");
            assert_eq!(files(&folder), 0, "{answer}");
        }
        assert_eq!(body(get(&at("/v1/files"))), json!({ "files": [] }));
        // Latents win over a sound, which nobody needs then.
        let taken = form(&at("/synth"), &[("request", r#"{"caption":"x"}"#)], &both);
        assert_eq!((taken.status().as_u16(), files(&folder)), (200, 1));
    })
    .await;
}

/// Sends a request, and goes away after its future was polled `polls` times; true if it was answered.
async fn cut(server: &Arc<Server>, request: Request<Body>, polls: usize) -> bool {
    let mut answer = std::pin::pin!(http::router(server.clone()).oneshot(request));
    for _ in 0..polls {
        if time::timeout(Duration::ZERO, &mut answer).await.is_ok() {
            return true;
        }
        time::sleep(Duration::from_millis(1)).await;
    }
    false
}

/// Keeps a file of a client; returns its id.
pub(crate) async fn kept(queue: &Queue) -> Uuid {
    let id = Uuid::now_v7();
    fs::write(queue.objects.file(id), "sound").expect("written");
    let (owner, sha256) = ("local".to_owned(), String::new());
    let file = File { id, owner, name: "a".into(), bytes: 5, sha256, created: 0 };
    queue.store.put_file(file).await.expect("stored");
    id
}

pub(crate) fn delete(path: &str) -> Request<Body> {
    let delete = Request::delete(path).header("host", "localhost");
    delete.body(Body::empty()).expect("good")
}

/// Waits for what goes on after a client went away.
pub(crate) async fn soon(what: &str, mut is_it: impl AsyncFnMut() -> bool) {
    for _ in 0..3000 {
        if is_it().await {
            return;
        }
        time::sleep(Duration::from_millis(2)).await;
    }
    panic!("{what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_away_at_many_moments_leaves_no_file_and_no_half() {
    let folder = tempfile::tempdir().expect("a folder");
    let queue = Queue::open(folder.path(), None).await;
    let Queue { store, objects } = queue.clone();
    let (_ending, receiver) = watch::channel(false);
    let security = Security::default();
    let server = Server::new(store.clone(), objects.clone(), Arc::new(Two), security, receiver);
    let server = Arc::new(server);
    let refused = parts(&[("request", r#"{"captoin":"x"}"#)], &[("src_audio", b"sound")]);
    for polls in 0.. {
        let form = Request::post("/v1/jobs").header("host", "localhost");
        let form = form.header("content-type", FORM);
        let is_over = cut(&server, form.body(refused.clone().into()).expect("good"), polls).await;
        let what = format!("a file stays after {polls} polls");
        soon(&what, async || files(folder.path()) == 0).await;
        if is_over {
            break;
        }
    }
    for polls in 0.. {
        let id = kept(&queue).await;
        let is_over = cut(&server, delete(&format!("/v1/files/{id}")), polls).await;
        // Within the time of its task both are there, or both are gone.
        soon(&format!("half of a file stays after {polls} polls"), async || {
            time::sleep(Duration::from_millis(20)).await;
            store.file(id).await.expect("answered").is_some() == objects.file(id).exists()
        })
        .await;
        if is_over {
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_has_a_limit_in_every_face() {
    let folder = tempfile::tempdir().expect("a folder");
    let limit = |server: &mut Server| server.limits.upload = 1000;
    let running = Running::with(folder.path(), Security::default(), 0, limit).await;
    let (url, folder) = (running.url(""), folder.path().to_owned());
    client(move || {
        let large: &[u8] = &[7; 1001];
        let at = |path: &str| format!("{url}{path}");
        let text = "/w".repeat(700);
        let data = format!("data:audio/wav;base64,{text}");
        for answer in [
            form(&at("/v1/files"), &[], &[("a", large)]),
            form(&at("/v1/jobs"), &[("request", r#"{"caption":"x"}"#)], &[("src_audio", large)]),
            form(&at("/release_task"), &[("prompt", "x")], &[("src_audio", large)]),
            form(&at("/synth"), &[("request", r#"{"caption":"x"}"#)], &[("audio", large)]),
            form(&at("/understand"), &[], &[("audio", large)]),
            form(&at("/v1/audio/generations"), &[("prompt", "x")], &[("src_audio", large)]),
            post(&at("/v1/audio/generations"), &json!({ "prompt": "x", "src_audio": data })),
        ] {
            let status = answer.status().as_u16();
            let answer = body(answer);
            assert_eq!(status, 413, "{answer}");
            assert_eq!(files(&folder), 0, "{answer}");
        }
        let fits = form(&at("/v1/files"), &[], &[("a", &large[..1000])]);
        assert_eq!((fits.status().as_u16(), files(&folder)), (200, 1));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn speech_that_is_sent_again_needs_no_room_for_its_sound() {
    let folder = tempfile::tempdir().expect("a folder");
    let limit = |server: &mut Server| server.limits.files_of_one = 5;
    let running = Running::with(folder.path(), Security::default(), 0, limit).await;
    let url = running.url("/v1/audio/speech");
    client(move || {
        let send = |key: &str| {
            let speech = r#"{"input": "la", "ref_audio": "data:audio/wav;base64,UklGRg=="}"#;
            let sent = agent().post(&url).header("idempotency-key", key).send(speech);
            let answer = sent.expect("an answer");
            (answer.status().as_u16(), answer.headers().get("x-job-id").cloned())
        };
        let first = send("one");
        assert!(first.0 == 200 && first.1.is_some(), "{first:?}");
        assert_eq!(send("one"), first);
        assert_eq!(send("two"), (413, None), "else nothing is tested");
    })
    .await;
}

fn upload(url: &str, key: &str, bytes: usize) -> Answer {
    let form = parts(&[], &[("a", &vec![7; bytes][..])]);
    let post = agent().post(format!("{url}/v1/files")).header("x-api-key", key);
    post.content_type(FORM).send(&form[..]).expect("an answer")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_another_client_is_as_unknown_as_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let keys = vec![Key::new("ann", "the-key-of-ann"), Key::new("bob", "the-key-of-bob")];
    let security = Security { keys, ..Security::default() };
    let running = Running::start(folder.path(), security, 0).await;
    let url = running.url("");
    client(move || {
        let of_ann = id(upload(&url, "the-key-of-ann", 5));
        let submit = |key: &str, file: &str| {
            let job = json!({ "request": { "caption": "x", "src_audio": file } }).to_string();
            let sent = agent().post(format!("{url}/v1/jobs")).content_type("application/json");
            let answer = sent.header("x-api-key", key).send(job.as_bytes()).expect("an answer");
            (answer.status().as_u16(), body(answer)["error"]["code"].clone())
        };
        let unknown = submit("the-key-of-bob", &Uuid::now_v7().to_string());
        assert_eq!(submit("the-key-of-bob", &of_ann), unknown);
        assert!(unknown.0 >= 400 && unknown.1.is_string(), "{unknown:?}");
        assert_eq!(submit("the-key-of-ann", &of_ann).0, 202);
    })
    .await;
}

fn id(answer: Answer) -> String {
    body(answer)["id"].as_str().expect("an id").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_files_of_a_client_and_of_all_have_a_limit_and_can_be_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let keys = ["ann", "bob"].map(|name| Key::new(name, &name.repeat(4))).to_vec();
    let security = Security { keys, ..Security::default() };
    let queue = Queue::open(folder.path(), None).await;
    let running = Running::over(&queue, security, 0, 0, |server| {
        server.limits.files = 1500;
        server.limits.files_of_one = 1000;
    })
    .await;
    let url = running.url("");
    let folder = folder.path().to_owned();
    client(move || {
        let (ann, bob) = ("annannannann", "bobbobbobbob");
        let ask = |method: &str, path: &str, key: &str| -> Answer {
            let url = format!("{url}{path}");
            let asked = match method {
                "DELETE" => agent().delete(url).header("x-api-key", key).call(),
                _ => agent().get(url).header("x-api-key", key).call(),
            };
            asked.expect("an answer")
        };
        let refused = |answer: Answer, words: &str| {
            let status = answer.status().as_u16();
            let answer = body(answer);
            assert_eq!((status, &answer["error"]["code"]), (413, &json!("no_room")), "{answer}");
            assert!(answer["error"]["message"].to_string().contains(words), "{answer}");
        };
        let first = id(upload(&url, ann, 600));
        refused(upload(&url, ann, 401), "this client");
        let second = id(upload(&url, ann, 400));
        refused(upload(&url, bob, 501), "all clients");
        let own = id(upload(&url, bob, 500));
        assert_eq!(files(&folder), 3);
        let list = body(ask("GET", "/v1/files", ann));
        let ids: Vec<&Value> =
            list["files"].as_array().expect("files").iter().map(|file| &file["id"]).collect();
        assert_eq!(ids, [&json!(first), &json!(second)]);
        // A job that waits needs its file; the file of another client is unknown.
        let job = json!({ "kind": "encode", "request": { "audio": second } }).to_string();
        let post = agent().post(format!("{url}/v1/jobs")).header("x-api-key", ann);
        let job = body(post.content_type("application/json").send(job.as_bytes()).expect("taken"));
        let path = |id: &str| format!("/v1/files/{id}");
        assert_eq!(ask("DELETE", &path(&second), ann).status(), 409);
        assert_eq!(ask("DELETE", &path(&own), ann).status(), 404);
        assert_eq!(ask("DELETE", "/v1/files/x", ann).status(), 400);
        let job = job["id"].as_str().expect("an id");
        assert_eq!(ask("DELETE", &format!("/v1/jobs/{job}"), ann).status(), 200);
        for id in [&first, &second] {
            assert_eq!(ask("DELETE", &path(id), ann).status(), 204);
        }
        assert_eq!(files(&folder), 1);
        assert_eq!(upload(&url, ann, 1000).status(), 200);
    })
    .await;
}

async fn the_files_of_a_client_are_listed_in_parts_and_have_a_number(place: Place) {
    let queue = place.open().await;
    let few = |server: &mut acestep_serve::http::Server| server.limits.files_number_of_one = 5;
    let running = Running::over(&queue, Security::default(), 0, 0, few).await;
    let url = running.url("");
    client(move || {
        let sent: Vec<String> = (0..5).map(|_| id(upload(&url, "", 7))).collect();
        let refused = upload(&url, "", 7);
        assert_eq!(refused.status(), 413);
        let refused = body(refused)["error"].clone();
        assert_eq!(refused["code"], "no_room");
        assert!(refused["message"].to_string().contains("as many files"), "{refused}");
        let list = |query: &str| -> Vec<String> {
            let list = body(get(&format!("{url}/v1/files{query}")))["files"].clone();
            let id = |file: &Value| file["id"].as_str().expect("an id").to_owned();
            list.as_array().expect("files").iter().map(id).collect()
        };
        assert_eq!(list(""), sent);
        assert_eq!(list("?limit=2"), sent[..2]);
        assert_eq!(list(&format!("?limit=2&after={}", sent[1])), sent[2..4]);
        assert_eq!(list(&format!("?after={}", sent[3])), sent[4..]);
        let first = agent().delete(format!("{url}/v1/files/{}", sent[0])).call();
        assert_eq!(first.expect("an answer").status(), 204);
        assert_eq!(list(""), sent[1..]);
        assert_eq!(upload(&url, "", 7).status(), 200, "there is room again");
    })
    .await;
}

async fn a_file_is_never_gone_while_a_job_waits_for_it(place: Place) {
    let queue = place.open().await;
    let running = Running::over(&queue, Security::default(), 0, 0, |_| ()).await;
    let url = running.url("");
    let (taken, removed) = client(move || {
        let (mut taken, mut removed) = (0, 0);
        for _ in 0..30 {
            let file = id(upload(&url, "", 7));
            let submission = json!({ "kind": "encode", "request": { "audio": file } });
            let (at, path) = (format!("{url}/v1/jobs"), format!("{url}/v1/files/{file}"));
            let submitted = std::thread::spawn(move || post(&at, &submission).status().as_u16());
            let deleted = agent().delete(path).call().expect("an answer").status().as_u16();
            match (submitted.join().expect("no panic"), deleted) {
                (202, 409) => taken += 1,
                (404, 204) => removed += 1,
                // Each saw the other: neither is done.
                (404, 409) => {}
                other => panic!("{other:?}"),
            }
        }
        (taken, removed)
    })
    .await;
    let waiting = Selection { states: vec![State::Queued], limit: 100, ..Selection::default() };
    let waiting = queue.store.list(waiting).await.expect("a list");
    assert_eq!(waiting.len(), taken);
    for job in waiting {
        let file = job.request["audio"].as_str().and_then(|id| id.parse().ok()).expect("an id");
        assert!(queue.store.file(file).await.expect("answered").is_some());
        assert!(queue.objects.file(file).exists());
    }
    let files = queue.store.files("local".to_owned(), None, 100).await.expect("a list");
    assert_eq!(files.len(), 30 - removed);
}
