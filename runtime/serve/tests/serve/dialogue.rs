//! A dialogue over the realtime server, with the tiny model: rows of the table in the book.

use std::{
    fs,
    path::Path,
    sync::{atomic::AtomicBool, mpsc},
};

use acestep_engine::{Unobserved, on_engine};
use acestep_import::Layout;
use acestep_serve::{
    http::{Security, Server},
    installed::Installed,
};
use acestep_session::speech::{self, Fields, SpeechInput, open_on};
use acestep_speech::pcm16;
use serde_json::{Value, json};

use crate::{
    real::{ENGINE, Real, base64, recording, work},
    realtime::Socket,
    support::{Queue, Running},
    web::{Api, body, code, text, with},
};

/// A message with a recording and its words.
fn voice(pitch: f32) -> Value {
    let (sound, words) = recording(pitch);
    json!({ "type": "set_voice", "speaker_1": base64(&sound), "words_1": words })
}

fn little_endian(samples: &[i16]) -> Vec<u8> {
    samples.iter().flat_map(|sample| sample.to_le_bytes()).collect()
}

/// Text and its end come before the server knows that the job of the text before is cancelled.
#[tokio::test(flavor = "multi_thread")]
async fn text_after_a_cancel_is_a_new_text() {
    let real = Real::start().await;
    let own = real.own("dia2-1b", "no really", json!({ "seed": 4, "max_steps": 40 }));
    let mut socket = Socket::ready(&real.running, "/v1/realtime").await;
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
    let job = real.api().job(&text(&second["id"]));
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
            "temperature": 0.8,
        }),
    );
    let own = (own.frames.len(), own.audio.channels[0].clone());
    let mut all = Vec::new();
    for address in ["/ws/stream_tts", "/"] {
        let mut socket = Socket::at(&real.running, address).await;
        let ready = socket.messages().await.0;
        assert_eq!((&ready["event"], &ready["sample_rate"]), (&json!("ready"), &json!(24_000)));
        let both = with(voice(900.0), &json!({ "format_1": ".wav", "both": true }));
        let ready = socket.voiced(both).await;
        assert_eq!(ready["notices"], json!(["`both` has no effect here"]));
        let text = json!({ "type": "tts", "text": text, "seed": 4, "max_steps": 40, "speed": 2 });
        let (done, messages) = socket.spoken(text).await;
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
    let page = self::text(&body(real.api().get("/")));
    assert!(page.contains("<html"), "{page:.80}");
}

/// Rows 21 and 24: without a voice the first word comes at step 0, and text has the temperature of codes, as in
/// the reference's servers; texts elsewhere wait for the two frames of its program.
#[tokio::test(flavor = "multi_thread")]
async fn row_24_a_client_of_stream_dia2_has_no_padding_without_a_voice() {
    let real = Real::start().await;
    let of = |padding: u32| {
        let fields = json!({
            "seed": 4, "max_steps": 40, "initial_padding": padding, "temperature": 0.8,
        });
        let own = real.spoken("dia2-1b", "[S1] hello there", fields);
        little_endian(&pcm16(&own.audio.channels[0]))
    };
    let (none, two) = (of(0), of(2));
    assert!(none != two, "the padding is heard");
    let mut socket = Socket::ready(&real.running, "/ws/stream_tts").await;
    let text = json!({ "type": "tts", "text": "[S1] hello there", "seed": 4, "max_steps": 40 });
    let (_, messages) = socket.spoken(text).await;
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
            let input = SpeechInput { texts, fields, seed: 4, voices: None, lines: false };
            let ready = speech.clone().prepare(input, &Unobserved, &mut Vec::new());
            let ready = ready.expect("a good request");
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
        let fields = json!({ "speaker_1": path, "words_1": words, "snapshot": true });
        with(fields, &more).as_object().expect("an object").clone()
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
    let id = real.send(sound);
    let request = json!({
        "model": "dia2-1b", "text": "[S1] no", "seed": 4, "max_steps": 20, "speaker_1": id,
        "words_1": words, "snapshot": true,
    });
    let whole = real.job(request.clone());
    assert_eq!(whole["state"], "done", "{whole:#}");
    assert!(!whole["notices"].to_string().contains("recordings"), "{whole:#}");
    for snapshot in [true, false] {
        let mut request = request.clone();
        request["snapshot"] = snapshot.into();
        request["max_prefix_duration"] = 0.4.into();
        let job = real.job(request);
        assert_eq!(job["state"], "done", "{job:#}");
        let notices = job["notices"].to_string();
        assert!(notices.contains("5 frames of the recordings are used"), "{job:#}");
    }
}

/// Row 14: the state is in memory when the texts come.
#[tokio::test(flavor = "multi_thread")]
async fn row_14_a_voice_and_each_of_its_texts_tell_that_its_recordings_are_cut() {
    let real = Real::start().await;
    let is_told = |event: &Value| {
        event["notices"].to_string().contains("5 frames of the recordings are used")
    };
    let mut socket = Socket::ready(&real.running, "/v1/realtime").await;
    let cut = with(voice(900.0), &json!({ "max_prefix_duration": 0.4 }));
    let ready = socket.voiced(cut).await;
    assert!(is_told(&ready), "{ready}");
    for _ in 0..2 {
        let text = json!({ "type": "tts", "text": "[S1] no", "seed": 4, "max_steps": 20 });
        let (done, _) = socket.spoken(text).await;
        assert!(is_told(&done), "{done}");
    }
}

/// No voice is ready that the model does not have.
#[tokio::test(flavor = "multi_thread")]
async fn a_voice_that_the_model_does_not_take_is_an_error_for_a_client_of_stream_dia2_too() {
    let real = Real::start().await;
    let mut socket = Socket::ready(&real.running, "/ws/stream_tts").await;
    socket.send(with(voice(900.0), &json!({ "model": "magpie-357m" }))).await;
    let error = socket.heard().await.0;
    assert_eq!(error["event"], "error", "{error}");
    let error = error.to_string();
    assert!(error.contains("speaker_1") || error.contains("words_1"), "{error}");
}

/// Rows 19 and 22: each connection has the state of its own voice. Nobody waits for a client that does not read:
/// the worker's samples are in files.
#[tokio::test(flavor = "multi_thread")]
async fn clients_have_their_own_voices_and_one_that_does_not_read_delays_nobody() {
    let real = Real::start().await;
    let text = json!({ "type": "tts", "text": "[S1] hello there", "seed": 4, "max_steps": 40 });
    let (mut sockets, mut alone) = (Vec::new(), Vec::new());
    for pitch in [900.0, 1700.0] {
        let mut socket = Socket::ready(&real.running, "/v1/realtime").await;
        socket.voiced(voice(pitch)).await;
        alone.push(socket.spoken(text.clone()).await.1.concat());
        sockets.push(socket);
    }
    assert!(alone[0] != alone[1], "two voices");
    let [slow, other] = &mut sockets[..] else { panic!("two clients") };
    slow.send(text.clone()).await;
    assert!(other.spoken(text).await.1.concat() == alone[1], "its own voice");
    assert_eq!(slow.heard().await.0["event"], "job");
    let (done, heard) = slow.heard().await;
    assert_eq!(done["event"], "done", "{done}");
    assert!(heard == alone[0], "{} and {} bytes", heard.len(), alone[0].len());
}

/// Row 4: one thread has the device.
#[tokio::test(flavor = "multi_thread")]
async fn row_04_texts_are_spoken_one_after_the_other_in_their_order() {
    let real = Real::start().await;
    let api = real.api();
    let request = json!({ "model": "dia2-1b", "text": "[S1] no", "seed": 4, "max_steps": 20 });
    let job = json!({ "kind": "speak", "request": request });
    let ids: Vec<_> = (0..3).map(|_| text(&body(api.post("/v1/jobs", &job))["id"])).collect();
    let ended = |id: &String| api.job(&format!("{id}?wait=300"));
    let jobs: Vec<Value> = ids.iter().map(ended).collect();
    assert!(jobs.iter().all(|job| job["state"] == "done"), "{jobs:#?}");
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
    let warmups = model.expect("a model").warmups(None);
    let fields: Vec<Value> = warmups.into_iter().map(|(_, fields)| Value::Object(fields)).collect();
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
    static IS_DRAINING: AtomicBool = AtomicBool::new(true);
    let folder = tempfile::tempdir().expect("a folder");
    let queue = Queue::open(&folder.path().join("data"), None).await;
    let (sender, said) = mpsc::channel();
    let layout = Layout::new([folder.path().join("models")]);
    let installed =
        Installed::new(layout, None, Some("tiny".to_owned()), Some("tiny-speech".to_owned()));
    work(queue.clone(), installed, &IS_DRAINING, Some("dia2-9b"), move |why| {
        let _ = sender.send(why.map(str::to_owned));
    });
    let said = tokio::task::spawn_blocking(move || said.recv().expect("it starts"));
    let why = said.await.expect("no panic").expect("it is not warm");
    assert!(why.starts_with("the warm-up of `dia2-9b` failed: "), "{why}");
    let change = |server: &mut Server| {
        *server.not_warm.lock().expect("no panic") = Some(why.clone());
    };
    let running = Running::over(&queue, Security::default(), 0, 0, change).await;
    let api = Api::of(&running);
    assert_eq!(code(api.get("/readyz")), (503, json!("not_warm")));
    assert_eq!(body(api.get("/readyz"))["error"]["message"], *why);
    let server = body(api.get("/v1/server"));
    assert_eq!((&server["ready"], &server["not_warm"]), (&json!(false), &json!(why)));
    let ready = Socket::at(&running, "/v1/realtime").await.heard().await.0;
    assert_eq!((&ready["event"], &ready["notices"][0]), (&json!("ready"), &json!(why)), "{ready}");
}
