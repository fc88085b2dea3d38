//! Files that clients send: refused requests leave none, and their room is limited.

use std::{fs, sync::Arc, time::Duration};

use acestep_serve::{
    http::{self, Security, Server},
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
    place::SharedQueue,
    support::{Queue, Running, Two},
    web::{Answer, Api, FORM, body, code, keys, parts, served, served_with, text},
};

of_each_store!(
    the_files_of_a_client_are_listed_in_parts_and_have_a_number,
    a_file_is_never_gone_while_a_job_waits_for_it,
);

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_request_of_any_face_leaves_no_file() {
    let api = served().await;
    let sound: &[(&str, &[u8])] = &[("src_audio", b"sound")];
    let data = "data:audio/wav;base64,AAAA";
    let chat = json!({
        "messages": [{ "content": [{ "type": "input_audio", "input_audio": { "data": "AAAA" } }] }],
        "audio_config": { "bpm": "fast" },
    });
    let song = json!({ "prompt": "x", "src_audio": data, "bpm": "fast" });
    let speech = json!({ "input": "la", "ref_audio": data, "response_format": "tape" });
    let both: [(&str, &[u8]); 2] = [("audio", b"x"), ("src_latents", &[0; 256])];
    for answer in [
        api.form("/v1/jobs", &[("request", r#"{"captoin":"x"}"#)], sound),
        api.form("/v1/jobs", &[("request", r#"{"src_audio":"x"}"#)], sound),
        api.form("/v1/jobs", &[], sound),
        api.form("/v1/files", &[("a", "b")], sound),
        api.form("/release_task", &[("prompt", "x"), ("bpm", "fast")], sound),
        api.form("/synth", &[("request", r#"{"caption":""}"#)], &[("audio", b"x")]),
        api.form("/synth", &[("request", r#"[{"caption":"x"},{"captoin":"x"}]"#)], &both),
        api.form("/understand", &[("request", "[1]")], &[("audio", b"x")]),
        api.form("/vae", &[], &both),
        api.form("/v1/audio/generations", &[("prompt", "x"), ("bpm", "fast")], sound),
        api.post("/v1/audio/generations", &song),
        api.post("/v1/audio/speech", &speech),
        api.post("/v1/chat/completions", &chat),
    ] {
        let status = answer.status().as_u16();
        let answer = body(answer);
        assert_eq!((status, api.files()), (400, 0), "{answer}");
    }
    assert_eq!(body(api.get("/v1/files")), json!({ "files": [] }));
    // Latents win over a sound, which nobody needs then.
    let taken = api.form("/synth", &[("request", r#"{"caption":"x"}"#)], &both);
    assert_eq!((taken.status().as_u16(), api.files()), (200, 1));
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
    let files = || fs::read_dir(folder.path().join("files")).expect("a folder").count();
    for polls in 0.. {
        let form = Request::post("/v1/jobs").header("host", "localhost");
        let form = form.header("content-type", FORM);
        let is_over = cut(&server, form.body(refused.clone().into()).expect("good"), polls).await;
        let what = format!("a file stays after {polls} polls");
        soon(&what, async || files() == 0).await;
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
    let limit = |server: &mut Server| server.limits.upload = 1000;
    let api = served_with(1, Security::default(), limit).await;
    let large: &[u8] = &[7; 1001];
    let data = format!("data:audio/wav;base64,{}", "/w".repeat(700));
    for answer in [
        api.form("/v1/files", &[], &[("a", large)]),
        api.form("/v1/jobs", &[("request", r#"{"caption":"x"}"#)], &[("src_audio", large)]),
        api.form("/release_task", &[("prompt", "x")], &[("src_audio", large)]),
        api.form("/synth", &[("request", r#"{"caption":"x"}"#)], &[("audio", large)]),
        api.form("/understand", &[], &[("audio", large)]),
        api.form("/v1/audio/generations", &[("prompt", "x")], &[("src_audio", large)]),
        api.post("/v1/audio/generations", &json!({ "prompt": "x", "src_audio": data })),
    ] {
        let status = answer.status().as_u16();
        let answer = body(answer);
        assert_eq!((status, api.files()), (413, 0), "{answer}");
    }
    let fits = api.form("/v1/files", &[], &[("a", &large[..1000])]);
    assert_eq!((fits.status().as_u16(), api.files()), (200, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn speech_that_is_sent_again_needs_no_room_for_its_sound() {
    let limit = |server: &mut Server| server.limits.files_of_one = 5;
    let api = served_with(1, Security::default(), limit).await;
    let send = |key: &str| {
        let speech = r#"{"input": "la", "ref_audio": "data:audio/wav;base64,UklGRg=="}"#;
        let answer = api.post_once("/v1/audio/speech", key, speech);
        (answer.status().as_u16(), answer.headers().get("x-job-id").cloned())
    };
    let first = send("one");
    assert!(first.0 == 200 && first.1.is_some(), "{first:?}");
    assert_eq!(send("one"), first);
    assert_eq!(send("two"), (413, None), "else nothing is tested");
}

fn upload(api: &Api, bytes: usize) -> Answer {
    api.form("/v1/files", &[], &[("a", &vec![7; bytes])])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_another_client_is_as_unknown_as_none() {
    let api = served_with(1, keys(&[("ann", "of-ann"), ("bob", "of-bob")]), |_| ()).await;
    let (ann, bob) = (api.with_key("of-ann"), api.with_key("of-bob"));
    let of_ann = id(upload(&ann, 5));
    let submit = |api: &Api, file: &str| {
        let song = json!({ "request": { "caption": "x", "src_audio": file } });
        code(api.post("/v1/jobs", &song))
    };
    let unknown = submit(&bob, &Uuid::now_v7().to_string());
    assert_eq!(submit(&bob, &of_ann), unknown);
    assert!(unknown.0 >= 400 && unknown.1.is_string(), "{unknown:?}");
    assert_eq!(submit(&ann, &of_ann).0, 202);
}

fn id(answer: Answer) -> String {
    text(&body(answer)["id"])
}

#[tokio::test(flavor = "multi_thread")]
async fn the_files_of_a_client_and_of_all_have_a_limit_and_can_be_removed() {
    let limits = |server: &mut Server| {
        server.limits.files = 1500;
        server.limits.files_of_one = 1000;
    };
    let api = served_with(0, keys(&[("ann", "of-ann"), ("bob", "of-bob")]), limits).await;
    let (ann, bob) = (api.with_key("of-ann"), api.with_key("of-bob"));
    let refused = |answer: Answer, words: &str| {
        let status = answer.status().as_u16();
        let answer = body(answer);
        assert_eq!((status, &answer["error"]["code"]), (413, &json!("no_room")), "{answer}");
        assert!(answer["error"]["message"].to_string().contains(words), "{answer}");
    };
    let first = id(upload(&ann, 600));
    refused(upload(&ann, 401), "this client");
    let second = id(upload(&ann, 400));
    refused(upload(&bob, 501), "all clients");
    let own = id(upload(&bob, 500));
    assert_eq!(api.files(), 3);
    let list = body(ann.get("/v1/files"));
    let ids: Vec<&Value> =
        list["files"].as_array().expect("files").iter().map(|file| &file["id"]).collect();
    assert_eq!(ids, [&json!(first), &json!(second)]);
    // A job that waits needs its file; the file of another client is unknown.
    let job = json!({ "kind": "encode", "request": { "audio": second } });
    let job = id(ann.post("/v1/jobs", &job));
    let removed = |file: &str| ann.delete(&format!("/v1/files/{file}")).status();
    assert_eq!((removed(&second).as_u16(), removed(&own).as_u16()), (409, 404));
    assert_eq!(removed("x"), 400);
    assert_eq!(ann.delete(&format!("/v1/jobs/{job}")).status(), 200);
    for id in [&first, &second] {
        assert_eq!(removed(id), 204);
    }
    assert_eq!(api.files(), 1);
    assert_eq!(upload(&ann, 1000).status(), 200);
}

async fn the_files_of_a_client_are_listed_in_parts_and_have_a_number(place: SharedQueue) {
    let queue = place.open().await;
    let few = |server: &mut Server| server.limits.files_number_of_one = 5;
    let running = Running::over(&queue, Security::default(), 0, 0, few).await;
    let api = Api::of(&running);
    let sent: Vec<String> = (0..5).map(|_| id(upload(&api, 7))).collect();
    let refused = upload(&api, 7);
    assert_eq!(refused.status(), 413);
    let refused = body(refused)["error"].clone();
    assert_eq!(refused["code"], "no_room");
    assert!(refused["message"].to_string().contains("as many files"), "{refused}");
    let list = |query: &str| -> Vec<String> {
        let list = body(api.get(&format!("/v1/files{query}")))["files"].clone();
        list.as_array().expect("files").iter().map(|file| text(&file["id"])).collect()
    };
    assert_eq!(list(""), sent);
    assert_eq!(list("?limit=2"), sent[..2]);
    assert_eq!(list(&format!("?limit=2&after={}", sent[1])), sent[2..4]);
    assert_eq!(list(&format!("?after={}", sent[3])), sent[4..]);
    assert_eq!(api.delete(&format!("/v1/files/{}", sent[0])).status(), 204);
    assert_eq!(list(""), sent[1..]);
    assert_eq!(upload(&api, 7).status(), 200, "there is room again");
}

async fn a_file_is_never_gone_while_a_job_waits_for_it(place: SharedQueue) {
    let queue = place.open().await;
    let running = Running::over(&queue, Security::default(), 0, 0, |_| ()).await;
    let api = Api::of(&running);
    let (mut taken, mut removed) = (0, 0);
    for _ in 0..30 {
        let file = id(upload(&api, 7));
        let submission = json!({ "kind": "encode", "request": { "audio": file } });
        let client = api.clone();
        let submitted =
            std::thread::spawn(move || client.post("/v1/jobs", &submission).status().as_u16());
        let deleted = api.delete(&format!("/v1/files/{file}")).status().as_u16();
        match (submitted.join().expect("no panic"), deleted) {
            (202, 409) => taken += 1,
            (404, 204) => removed += 1,
            // Each saw the other: neither is done.
            (404, 409) => {}
            other => panic!("{other:?}"),
        }
    }
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
