//! Sound and text of a job while it runs on another machine: a worker with a folder of its own.

use std::{
    fs,
    io::Read as _,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use acestep_serve::{
    http::{Security, Server},
    job::State,
    preview,
    store::Store,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use uuid::Uuid;

use crate::{
    killed::{LATE, Started, is_ended, job, start, until},
    place::{NatsServer, Place, port},
    real::{Real, SCRIPT},
    realtime::Socket,
    support::{Queue, Running, open_gate, quick},
    web::{Answer, body, bytes, client, get, post},
};

/// Bytes of the first piece that the runner of the tests makes audible, before its gate.
const FIRST: usize = 48_000;

/// A server, and the folder of a worker elsewhere.
struct Apart {
    running: Running,
    store: Arc<dyn Store>,
    elsewhere: TempDir,
    place: Place,
}

impl Apart {
    /// A server without workers; none if NATS is not installed.
    async fn start() -> Option<Self> {
        Some(Self::over(Place::nats()?, false).await)
    }

    async fn over(place: Place, is_full: bool) -> Self {
        let queue = place.open().await;
        let ready = |server: &mut Server| {
            server.is_ready.store(true, Ordering::Relaxed);
            server.is_full.store(is_full, Ordering::Relaxed);
        };
        let running = Running::over(&queue, Security::default(), 0, 0, ready).await;
        let elsewhere = tempfile::tempdir().expect("a folder");
        Self { running, store: queue.store, elsewhere, place }
    }

    /// Starts a worker elsewhere, within this process.
    async fn work(&self) -> Draining {
        let queue = Queue::open(self.elsewhere.path(), self.place.address().as_deref()).await;
        let is_draining: &'static AtomicBool = Box::leak(Box::default());
        // A name that could be no subject of NATS.
        queue.work("far > away.*", quick(), is_draining);
        Draining(is_draining)
    }

    /// Submits a song of three seconds whose sound comes in pieces, with a gate after the first.
    async fn song(&self) -> Uuid {
        let url = self.running.url("/v1/jobs");
        let request = json!({ "caption": "heard gate", "duration": 3 });
        let job = client(move || body(post(&url, &json!({ "request": request })))).await;
        job["id"].as_str().and_then(|id| id.parse().ok()).unwrap_or_else(|| panic!("{job}"))
    }

    /// Begins to listen to a job, and takes the first bytes.
    async fn listen(&self, id: Uuid, first: usize) -> (Answer, Vec<u8>) {
        let url = self.running.url(&format!("/v1/jobs/{id}/audio?format=pcm"));
        client(move || {
            let mut answer = get(&url);
            assert_eq!(answer.status(), 200);
            assert_eq!(answer.headers()["x-sample-rate"], "48000");
            assert_eq!(answer.headers()["x-channels"], "2");
            let mut sound = vec![0; first];
            answer.body_mut().as_reader().read_exact(&mut sound).expect("sound");
            (answer, sound)
        })
        .await
    }

    /// The folder of the worker's attempt.
    fn attempt(&self, id: Uuid, attempt: u32) -> PathBuf {
        self.elsewhere.path().join(format!("results/{id}/{attempt}"))
    }

    /// The sound on the worker's disk.
    fn made(&self, id: Uuid, attempt: u32) -> Vec<u8> {
        fs::read(preview::path(&self.attempt(id, attempt))).expect("a preview")
    }
}

/// Drains a worker when a test ends.
struct Draining(&'static AtomicBool);

impl Drop for Draining {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Takes the rest of a sound.
async fn rest(mut sound: Vec<u8>, answer: Answer) -> Vec<u8> {
    client(move || {
        sound.extend(bytes(answer));
        sound
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn sound_of_a_worker_elsewhere_is_heard_while_it_is_made_by_early_and_late_listeners() {
    let Some(apart) = Apart::start().await else { return };
    let _worker = apart.work().await;
    let id = apart.song().await;
    let (early, first) = apart.listen(id, FIRST).await;
    assert_eq!(job(&apart.store, id).await.state, State::Running);
    assert!(!apart.place.folder.path().join(format!("results/{id}")).exists(), "it is not here");
    // Another one that begins before the end, and reads nothing for a while.
    let (late, begin) = apart.listen(id, FIRST).await;
    open_gate(apart.elsewhere.path());
    let heard = rest(first, early).await;
    let ended = until(&apart.store, id, is_ended).await;
    assert_eq!((ended.state, ended.attempts), (State::Done, 1), "{ended:?}");
    let made = apart.made(id, 1);
    assert_eq!(made.len(), 3 * 192_000);
    assert!(heard == made, "{} of {} bytes", heard.len(), made.len());
    // After the end, while the worker still has it.
    let (after, first) = apart.listen(id, 1).await;
    assert!(rest(first, after).await == made, "another sound after the end");
    // What came over outlives the worker's file, as an open file does on one disk.
    preview::remove(&apart.attempt(id, 1)).expect("removed");
    let heard = rest(begin, late).await;
    assert!(heard == made, "{} of {} bytes", heard.len(), made.len());
    let url = apart.running.url(&format!("/v1/jobs/{id}/audio"));
    let gone = client(move || body(get(&url))).await;
    assert_eq!(gone["error"]["code"], "no_sound", "{gone}");
    // No copy stays without a listener.
    let parts = || fs::read_dir(apart.place.folder.path().join("files")).expect("a folder").count();
    let begin = Instant::now();
    while parts() > 0 {
        assert!(begin.elapsed() < LATE, "{} copies stay", parts());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn speech_of_a_worker_elsewhere_comes_while_it_is_spoken() {
    let Some(apart) = Apart::start().await else { return };
    let _worker = apart.work().await;
    let url = apart.running.url("");
    let gate = apart.elsewhere.path().to_owned();
    client(move || {
        let request = json!({ "input": "gate", "response_format": "wav" });
        let mut answer = post(&format!("{url}/v1/audio/speech"), &request);
        let id = answer.headers()["x-job-id"].to_str().expect("text").to_owned();
        let mut sound = vec![0; 44 + 4800];
        answer.body_mut().as_reader().read_exact(&mut sound).expect("sound");
        assert_eq!((&sound[..4], &sound[24..28]), (&b"RIFF"[..], &24_000_u32.to_le_bytes()[..]));
        assert_eq!(body(get(&format!("{url}/v1/jobs/{id}")))["state"], "running");
        open_gate(&gate);
        sound.extend(bytes(answer));
        let whole = bytes(get(&format!("{url}/v1/jobs/{id}/outputs/1.wav")));
        assert!(sound[44..] == whole[44..], "{} and {} bytes", sound.len(), whole.len());
        assert_eq!(sound.len(), 48_044);
        // Asked again after the end.
        let again = bytes(get(&format!("{url}/v1/jobs/{id}/audio?format=pcm")));
        assert!(again == whole[44..], "{} and {} bytes", again.len(), whole.len());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_own_worker_waits_for_room_refuses_nothing_that_others_do() {
    let Some(place) = Place::nats() else { return };
    let apart = Apart::over(place, true).await;
    let _worker = apart.work().await;
    let url = apart.running.url("");
    client(move || {
        assert_eq!(get(&format!("{url}/readyz")).status(), 200);
        let speech = json!({ "input": "Rain.", "response_format": "wav" });
        let spoken = post(&format!("{url}/v1/audio/speech"), &speech);
        assert_eq!((spoken.status().as_u16(), bytes(spoken).len()), (200, 48_044));
        let song = json!({ "request": { "caption": "rain" } });
        let job = body(post(&format!("{url}/v1/jobs?wait=300"), &song));
        assert_eq!((&job["state"], &job["notices"]), (&json!("done"), &json!([])), "{job}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn text_that_arrives_is_one_text_of_a_worker_elsewhere() {
    let Some(place) = Place::nats() else { return };
    let elsewhere = tempfile::tempdir().expect("a folder");
    let worker = Queue::open(elsewhere.path(), place.address().as_deref()).await;
    let folder = tempfile::tempdir().expect("a folder");
    let real = Real::over(folder, place.open().await, worker).await;
    let request = json!({ "model": "dia2-1b", "text": SCRIPT, "seed": 4, "max_steps": 60 });
    let job = real.job(request).await;
    let whole = real.output(&job, "1.wav").await[44..].to_vec();
    let mut socket = Socket::at(&real.running, "/v1/realtime").await;
    assert_eq!(socket.heard().await.0["event"], "ready");
    let append = |text: &str| json!({ "type": "append", "text": text, "seed": 4, "max_steps": 60 });
    // The run begins with the first words, and waits for the others.
    let (begin, end) = SCRIPT.split_at(SCRIPT.find("friend").expect("a word"));
    socket.send(append(begin)).await;
    let (begun, _) = socket.heard().await;
    assert_eq!(begun["event"], "job", "{begun}");
    let id = begun["id"].as_str().expect("an id").to_owned();
    let attempt = elsewhere.path().join(format!("results/{id}/1"));
    let start = Instant::now();
    while !attempt.join("preview.json").exists() {
        assert!(start.elapsed() < LATE, "no sound begins");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for letter in end.chars() {
        socket.send(append(&letter.to_string())).await;
    }
    socket.send(json!({ "type": "end" })).await;
    let (done, heard) = socket.heard().await;
    assert_eq!((&done["event"], &done["id"]), (&json!("done"), &json!(id)), "{done}");
    assert!(heard == whole, "{} and {} bytes", heard.len(), whole.len());
    let url = real.running.url(&format!("/v1/jobs/{id}"));
    let job = client(move || body(get(&url))).await;
    let lines = fs::read_to_string(attempt.join("text.jsonl")).expect("the text that came");
    assert!(lines.ends_with("\nnull\n"), "{lines}");
    let pieces = lines.lines().count() as u64 - 1;
    assert!(pieces > 1, "{lines}");
    assert_eq!(job["resolved"]["appended"], pieces, "{lines}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_elsewhere_that_is_killed_is_an_error_for_its_listeners() {
    let Some(apart) = Apart::start().await else { return };
    let (folder, nats) = (apart.elsewhere.path(), apart.place.address());
    let worker = |name, lease| {
        start(Started { folder, port: 0, name, lease, nats: nats.as_deref(), before: &[] })
    };
    // The server takes no job from it before it is killed: its lease is as long as all others.
    let mut first = worker("first", quick().lease);
    let id = apart.song().await;
    let (mut cut, sound) = apart.listen(id, FIRST).await;
    let mut socket = Socket::at(&apart.running, "/v1/realtime").await;
    assert_eq!(socket.heard().await.0["event"], "ready");
    first.kill();
    let lost = apart.store.abandon("first".to_owned(), true).await.expect("answered");
    assert_eq!(lost, [id]);
    let left = client(move || {
        let mut left = Vec::new();
        let read = cut.body_mut().as_reader().read_to_end(&mut left);
        (left.len(), read.is_err())
    });
    assert_eq!(left.await, (0, true), "the end is no end of the sound");
    // Speech over a socket says why.
    let mut second = worker("second", quick().lease);
    let again = until(&apart.store, id, |job| job.attempts == 2 && job.worker.is_some()).await;
    assert_eq!(again.worker.as_deref(), Some("second"));
    open_gate(apart.elsewhere.path());
    let (whole, begin) = apart.listen(id, FIRST).await;
    assert!(begin == sound, "the same song");
    assert!(rest(begin, whole).await == apart.made(id, 2), "another sound");
    fs::remove_file(apart.elsewhere.path().join("gate")).expect("closed");
    socket.send(json!({ "type": "tts", "text": "gate" })).await;
    let (spoken, _) = socket.heard().await;
    assert_eq!(spoken["event"], "job", "{spoken}");
    let id: Uuid = spoken["id"].as_str().and_then(|id| id.parse().ok()).expect("an id");
    until(&apart.store, id, |job| job.state == State::Running).await;
    assert_eq!(socket.sound().await.len(), 4800);
    second.kill();
    apart.store.abandon("second".to_owned(), true).await.expect("answered");
    let (error, more) = socket.heard().await;
    assert_eq!((&error["event"], more.len()), (&json!("error"), 0), "{error}");
    let message = error["error"]["message"].as_str().expect("a message");
    assert!(message.contains("the worker was lost"), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_goes_on_after_the_only_server_of_the_queue_was_away() {
    let Some(mut place) = Place::nats() else { return };
    let data = tempfile::tempdir().expect("a folder");
    let port = port();
    let own = || tempfile::tempdir().expect("a folder");
    let nats = || NatsServer::start_at(port, data.path(), "", own()).expect("it is there");
    place.servers = vec![nats()];
    let mut apart = Apart::over(place, false).await;
    let _worker = apart.work().await;
    let id = apart.song().await;
    let (answer, first) = apart.listen(id, FIRST).await;
    apart.place.servers[0].process.kill();
    let (sender, told) = mpsc::channel();
    let listening = tokio::spawn(async move {
        let heard = rest(first, answer).await;
        sender.send(()).expect("it is heard");
        heard
    });
    tokio::time::sleep(Duration::from_millis(1500)).await;
    open_gate(apart.elsewhere.path());
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(told.try_recv().is_err(), "nothing comes while the queue is away");
    apart.place.servers = vec![nats()];
    let heard = listening.await.expect("no panic");
    let made = apart.made(id, 1);
    assert_eq!(made.len(), 3 * 192_000);
    assert!(heard == made, "{} of {} bytes", heard.len(), made.len());
    assert_eq!(until(&apart.store, id, is_ended).await.state, State::Done);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_without_sound_of_a_worker_that_is_gone_is_answered_at_once() {
    let Some(apart) = Apart::start().await else { return };
    let worker = apart.work().await;
    let url = apart.running.url("/v1/jobs?wait=300");
    let rain = client(move || body(post(&url, &json!({ "request": { "caption": "rain" } })))).await;
    assert_eq!(rain["state"], "done", "{rain}");
    let audio = format!("/v1/jobs/{}/audio", rain["id"].as_str().expect("an id"));
    for worker in [Some(worker), None] {
        let url = apart.running.url(&audio);
        let begin = Instant::now();
        let answer = client(move || {
            let answer = get(&url);
            (answer.status().as_u16(), body(answer)["error"]["code"].clone())
        })
        .await;
        assert_eq!(answer, (409, Value::from("no_sound")));
        assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
        drop(worker);
    }
}
