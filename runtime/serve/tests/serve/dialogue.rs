//! A dialogue over the realtime server, with the tiny model: rows of the table in the book.

use std::{
    fs,
    path::Path,
    sync::{Arc, atomic::AtomicBool, mpsc},
    thread,
    time::Duration,
};

use acestep_engine::{Unobserved, on_engine};
use acestep_import::Layout;
use acestep_serve::{
    http::{Security, Server},
    installed::Installed,
    runner::{self, Start},
    worker::Worker,
};
use acestep_session::speech::{self, Fields, Wanted, open_on};
use acestep_speech::pcm16;
use serde_json::{Value, json};
use tokio::runtime::Handle;

use crate::{
    real::{ENGINE, Real, base64, recording},
    realtime::Socket,
    support::{Queue, Running, quick},
    web::{body, client, get, post},
};

fn little_endian(samples: &[i16]) -> Vec<u8> {
    samples.iter().flat_map(|sample| sample.to_le_bytes()).collect()
}

/// Text and its end come before the server knows that the job of the text before is cancelled.
#[tokio::test(flavor = "multi_thread")]
async fn text_after_a_cancel_is_a_new_text() {
    let real = Real::start().await;
    let own = real.own("dia2-1b", "no really", json!({ "seed": 4, "max_steps": 40 }));
    let mut socket = Socket::at(&real.running, "/v1/realtime").await;
    assert_eq!(socket.heard().await.0["event"], "ready");
    let piece = |text: &str| json!({ "type": "append", "text": text, "seed": 4, "max_steps": 40 });
    socket.send(piece("[S1] hello there ")).await;
    let first = socket.heard().await.0;
    assert_eq!(first["event"], "job");
    for message in
        [json!({ "type": "cancel" }), piece("no "), piece("really "), json!({ "type": "end" })]
    {
        socket.send(message).await;
    }
    let cancelled = socket.heard().await.0;
    assert_eq!((&cancelled["event"], &cancelled["id"]), (&json!("cancelled"), &first["id"]));
    let second = socket.heard().await.0;
    assert_eq!(second["event"], "job", "{second}");
    let (done, heard) = socket.heard().await;
    assert_eq!((&done["event"], &done["id"]), (&json!("done"), &second["id"]), "{done}");
    assert!(heard == own, "{} and {} bytes", heard.len(), own.len());
    // Each frame is sent when it is there.
    let url = real.running.url(&format!("/v1/jobs/{}", second["id"].as_str().expect("an id")));
    let job = client(move || body(get(&url))).await;
    assert_eq!(job["request"]["chunk_frames"], 1, "{job:#}");
}

/// Rows 21, 24, 27, 29, 31 and 32: with a voice, the samples of the frames after its recordings and rest, cut
/// toward zero; messages of one frame with a mark; fields of other servers are left out.
#[tokio::test(flavor = "multi_thread")]
async fn row_32_a_client_of_stream_dia2_hears_a_text_with_its_marks() {
    let real = Real::start().await;
    let (sound, words) = recording(900.0);
    let path = real.folder.path().join("me.wav");
    fs::write(&path, &sound).expect("written");
    let text = "[S1] hello there";
    let own = real.spoken(
        "dia2-1b",
        text,
        json!({
            "speaker_1": path, "words_1": words, "snapshot": true, "seed": 4, "max_steps": 40,
        }),
    );
    let own = (own.frames.len(), own.audio.channels[0].clone());
    let mut all = Vec::new();
    for address in ["/ws/stream_tts", "/"] {
        let mut socket = Socket::at(&real.running, address).await;
        let ready = socket.messages().await.0;
        assert_eq!((&ready["event"], &ready["sample_rate"]), (&json!("ready"), &json!(24_000)));
        let voice = json!({
            "type": "set_voice", "speaker_1": base64(&sound), "format_1": ".wav", "words_1": words,
            "both": true,
        });
        socket.send(voice).await;
        assert_eq!(socket.messages().await.0["event"], "warming");
        let ready = socket.messages().await.0;
        assert_eq!(ready["event"], "voice_ready", "{ready}");
        assert_eq!(ready["notices"], json!(["`both` has no effect here"]));
        let text = json!({ "type": "tts", "text": text, "seed": 4, "max_steps": 40, "speed": 2 });
        socket.send(text).await;
        assert_eq!(socket.messages().await.0["event"], "job");
        let (done, messages) = socket.messages().await;
        assert_eq!(done["event"], "done", "{done}");
        assert_eq!(done["notices"][0], "`speed` has no effect here", "{done}");
        assert_eq!((&done["frames"], &done["chunks"]), (&json!(own.0), &json!(messages.len())));
        assert_eq!(messages.len(), own.0, "a frame of this codec is 80 ms");
        let (last, others) = messages.split_last().expect("a message");
        assert!(others.iter().all(|message| (message[0], message.len()) == (0, 1 + 2 * 1920)));
        assert_eq!((last[0], last.len()), (1, 1 + 2 * 1920));
        all.push(messages.iter().flat_map(|message| &message[1..]).copied().collect::<Vec<u8>>());
    }
    let cut = little_endian(&pcm16(&own.1));
    assert!(all[0] == cut, "{} and {} bytes", all[0].len(), cut.len());
    assert!(all[1] == cut, "the other address");
    let rounded: Vec<i16> = own.1.iter().map(|sample| (sample * 32768.0).round() as i16).collect();
    assert!(cut != little_endian(&rounded), "the samples tell both apart");
    // A browser that asks for the same address gets the page.
    let url = real.running.url("/");
    let page = client(move || body(get(&url))).await;
    assert!(page.as_str().is_some_and(|page| page.contains("<html")), "{page:.80}");
}

/// Row 24: without a voice the first word comes at step 0, as in the reference's servers; texts elsewhere wait
/// for the two frames of its program.
#[tokio::test(flavor = "multi_thread")]
async fn row_24_a_client_of_stream_dia2_has_no_padding_without_a_voice() {
    let real = Real::start().await;
    let of = |padding: u32| {
        let fields = json!({ "seed": 4, "max_steps": 40, "initial_padding": padding });
        let own = real.spoken("dia2-1b", "[S1] hello there", fields);
        little_endian(&pcm16(&own.audio.channels[0]))
    };
    let (none, two) = (of(0), of(2));
    assert!(none != two, "the padding is heard");
    let mut socket = Socket::at(&real.running, "/ws/stream_tts").await;
    assert_eq!(socket.messages().await.0["event"], "ready");
    let text = json!({ "type": "tts", "text": "[S1] hello there", "seed": 4, "max_steps": 40 });
    socket.send(text).await;
    assert_eq!(socket.messages().await.0["event"], "job");
    let (done, messages) = socket.messages().await;
    assert_eq!(done["event"], "done", "{done}");
    let heard: Vec<u8> = messages.iter().flat_map(|message| &message[1..]).copied().collect();
    assert!(heard == none, "{} and {} bytes", heard.len(), none.len());
}

/// For each request, true if the state of its voice was in memory before.
fn known(layout: &Layout, requests: &[Fields]) -> Vec<bool> {
    let known = on_engine!(ENGINE,
    for<'a>(layout: &'a Layout, requests: &'a [Fields]) -> Vec<bool>,
    |place: B| {
        let speech = open_on::<B>("dia2-1b", layout, place).expect("a model");
        let of = |fields: &Fields| {
            let (texts, fields) = (vec!["no".to_owned()], fields.clone());
            let wanted = Wanted { texts, fields, seed: 4, voices: None, lines: false };
            let ready = speech.prepare(wanted, &mut Vec::new()).expect("a good request");
            let was_known = ready.has_voice();
            ready.load_voice(&Unobserved).expect("a voice");
            was_known
        };
        requests.iter().map(of).collect()
    });
    known.expect("a device")
}

/// Row 13: the key is the content of the recordings, their words and the number of frames.
#[tokio::test(flavor = "multi_thread")]
async fn row_13_a_recording_that_is_sent_again_is_found_in_memory() {
    let real = Real::start().await;
    let ((sound, words), (other, _)) = (recording(900.0), recording(1700.0));
    let file = |name: &str, bytes: &[u8]| {
        let path = real.folder.path().join(name);
        fs::write(&path, bytes).expect("written");
        path
    };
    let of = |path: &Path, words: &Value, more: Value| {
        let mut fields = json!({ "speaker_1": path, "words_1": words, "snapshot": true });
        for (field, value) in more.as_object().expect("an object") {
            fields[field] = value.clone();
        }
        fields.as_object().expect("an object").clone()
    };
    let (first, again) = (file("a.wav", &sound), file("b.wav", &sound));
    let other = file("c.wav", &other);
    let two = json!([words[0]]);
    let known = known(
        &real.layout,
        &[
            of(&first, &words, json!({})),
            of(&again, &words, json!({})),
            of(&other, &words, json!({})),
            of(&first, &two, json!({})),
            of(&first, &words, json!({ "cfg_scale": 1.0 })),
            of(&first, &words, json!({ "max_prefix_duration": 0.4 })),
            of(&again, &words, json!({ "max_prefix_duration": 0.4 })),
        ],
    );
    assert_eq!(known, [false, true, false, false, false, false, true]);
}

/// Row 14: five frames of ten, 0.4 s.
#[tokio::test(flavor = "multi_thread")]
async fn row_14_recordings_are_cut_where_the_request_says_and_a_notice_tells() {
    let real = Real::start().await;
    let (sound, words) = recording(900.0);
    let id = real.send(sound).await;
    let request = json!({
        "model": "dia2-1b", "text": "[S1] no", "seed": 4, "max_steps": 20, "speaker_1": id,
        "words_1": words, "snapshot": true,
    });
    let whole = real.job(request.clone()).await;
    assert_eq!(whole["state"], "done", "{whole:#}");
    assert!(!whole["notices"].to_string().contains("recordings"), "{whole:#}");
    for snapshot in [true, false] {
        let mut request = request.clone();
        request["snapshot"] = snapshot.into();
        request["max_prefix_duration"] = 0.4.into();
        let job = real.job(request).await;
        assert_eq!(job["state"], "done", "{job:#}");
        let notices = job["notices"].to_string();
        assert!(notices.contains("5 frames of the recordings are used"), "{job:#}");
    }
}

/// Row 14: the state is in memory when the texts come.
#[tokio::test(flavor = "multi_thread")]
async fn row_14_a_voice_and_each_of_its_texts_tell_that_its_recordings_are_cut() {
    let real = Real::start().await;
    let (sound, words) = recording(900.0);
    let is_told = |event: &Value| {
        event["notices"].to_string().contains("5 frames of the recordings are used")
    };
    let mut socket = Socket::at(&real.running, "/v1/realtime").await;
    assert_eq!(socket.heard().await.0["event"], "ready");
    let voice = json!({
        "type": "set_voice", "speaker_1": base64(&sound), "words_1": words,
        "max_prefix_duration": 0.4,
    });
    socket.send(voice).await;
    assert_eq!(socket.heard().await.0["event"], "warming");
    let ready = socket.heard().await.0;
    assert_eq!(ready["event"], "voice_ready", "{ready}");
    assert!(is_told(&ready), "{ready}");
    for _ in 0..2 {
        let text = json!({ "type": "tts", "text": "[S1] no", "seed": 4, "max_steps": 20 });
        socket.send(text).await;
        assert_eq!(socket.heard().await.0["event"], "job");
        let done = socket.heard().await.0;
        assert_eq!(done["event"], "done", "{done}");
        assert!(is_told(&done), "{done}");
    }
}

/// No voice is ready that the model does not have.
#[tokio::test(flavor = "multi_thread")]
async fn a_voice_that_the_model_does_not_take_is_an_error_for_a_client_of_stream_dia2_too() {
    let real = Real::start().await;
    let (sound, words) = recording(900.0);
    let mut socket = Socket::at(&real.running, "/ws/stream_tts").await;
    assert_eq!(socket.heard().await.0["event"], "ready");
    let voice = json!({
        "type": "set_voice", "model": "magpie-357m", "speaker_1": base64(&sound), "words_1": words,
    });
    socket.send(voice).await;
    let error = socket.heard().await.0;
    assert_eq!(error["event"], "error", "{error}");
    let error = error.to_string();
    assert!(error.contains("speaker_1") || error.contains("words_1"), "{error}");
}

/// Row 4: one thread has the device.
#[tokio::test(flavor = "multi_thread")]
async fn row_04_texts_are_spoken_one_after_the_other_in_their_order() {
    let real = Real::start().await;
    let url = real.running.url("/v1/jobs");
    let jobs = client(move || {
        let request = json!({ "model": "dia2-1b", "text": "[S1] no", "seed": 4, "max_steps": 20 });
        let job = json!({ "kind": "speak", "request": request });
        let ids: Vec<Value> = (0..3).map(|_| body(post(&url, &job))["id"].clone()).collect();
        let ended = |id: &Value| {
            let url = format!("{url}/{}", id.as_str().expect("an id"));
            loop {
                let job = body(get(&url));
                if job["state"] == "done" {
                    return job;
                }
                assert_ne!(job["state"], "failed", "{job:#}");
                thread::sleep(Duration::from_millis(20));
            }
        };
        ids.iter().map(ended).collect::<Vec<_>>()
    })
    .await;
    for pair in jobs.windows(2) {
        let time = |job: &Value, key: &str| job[key].as_u64().expect("a time");
        assert!(time(&pair[0], "ended") <= time(&pair[1], "started"), "{pair:#?}");
        assert_eq!(pair[0]["worker"], pair[1]["worker"]);
    }
}

/// Row 11: with guidance and without, the first chunk of one frame and a usual one of eight; the largest delay
/// of the model is 5 steps.
#[tokio::test(flavor = "multi_thread")]
async fn row_11_the_trials_of_a_warm_up_are_those_of_usual_texts() {
    let real = Real::start().await;
    let model = speech::open(Some("dia2-1b"), &mut Fields::new(), None, &real.layout);
    let trials = model.expect("a model").trials(None);
    let fields: Vec<Value> = trials.into_iter().map(|(_, fields)| Value::Object(fields)).collect();
    assert_eq!(
        fields,
        [
            json!({ "max_steps": 14, "cfg_scale": 2.0 }),
            json!({ "max_steps": 14, "cfg_scale": 1.0 }),
        ]
    );
}

/// Row 11: the worker says so, the server is not ready, and its clients learn why; all others are served.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_warm_up_failed_is_not_ready_and_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let queue = Queue::open(&folder.path().join("data"), None).await;
    let (sender, said) = mpsc::channel();
    let (runtime, Queue { store, objects }) = (Handle::current(), queue.clone());
    let layout = Layout::new([folder.path().join("models")]);
    thread::spawn(move || {
        let installed =
            Installed::new(layout, None, Some("tiny".to_owned()), Some("tiny-speech".to_owned()));
        let is_draining: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(true)));
        let (name, is_ending) = ("cold".to_owned(), Arc::default());
        let (times, hangs, waits): (_, fn(), fn(bool)) = (quick(), || (), |_| ());
        let worker = Worker { name, store, objects, times, is_draining, is_ending, hangs, waits };
        let ready = |why: Option<&str>| {
            let _ = sender.send(why.map(str::to_owned));
        };
        let start = Start { warm: Some("dia2-9b"), ready: &ready };
        let run = runner::run(&worker, &runtime, &installed, ENGINE, start);
        run.expect("a device").expect("a queue");
    });
    let said = tokio::task::spawn_blocking(move || said.recv().expect("it starts"));
    let why = said.await.expect("no panic").expect("it is not warm");
    assert!(why.starts_with("the warm-up of `dia2-9b` failed: "), "{why}");
    let change = |server: &mut Server| {
        *server.not_warm.lock().expect("no panic") = Some(why.clone());
    };
    let running = Running::over(&queue, Security::default(), 0, 0, change).await;
    let urls = ["/readyz", "/v1/server"].map(|path| running.url(path));
    let (status, [error, server]) = client(move || {
        let status = get(&urls[0]).status().as_u16();
        (status, urls.map(|url| body(get(&url))))
    })
    .await;
    assert_eq!((status, &error["error"]["code"]), (503, &json!("not_warm")), "{error}");
    assert_eq!(error["error"]["message"], *why);
    assert_eq!((&server["ready"], &server["not_warm"]), (&json!(false), &json!(why)));
    let ready = Socket::at(&running, "/v1/realtime").await.heard().await.0;
    assert_eq!((&ready["event"], &ready["notices"][0]), (&json!("ready"), &json!(why)), "{ready}");
}
