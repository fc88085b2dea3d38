//! Sound and text of a job while it runs on another machine: a worker with a folder of its own.

use std::{
    fs,
    io::Read as _,
    path::PathBuf,
    sync::{Arc, atomic::Ordering, mpsc},
    time::{Duration, Instant},
};

use acestep_serve::{
    http::{Security, Server},
    job::State,
    preview,
    store::Store,
};
use serde_json::json;
use tempfile::TempDir;
use uuid::Uuid;

use crate::{
    killed::{LATE, Started, is_ended, job, start, until},
    place::SharedQueue,
    real::{Real, SCRIPT},
    realtime::Socket,
    support::{Draining, Queue, Running, open_gate, quick},
    web::{Answer, Api, body, bytes, code, job_of, text},
};

/// Bytes of the first piece that the runner of the tests makes audible, before its gate.
const FIRST: usize = 48_000;

/// A server, and the folder of a worker elsewhere.
struct Apart {
    running: Running,
    store: Arc<dyn Store>,
    elsewhere: TempDir,
    place: SharedQueue,
}

impl Apart {
    /// A server without workers; none if NATS is not installed.
    async fn start() -> Option<Self> {
        Some(Self::over(SharedQueue::nats()?, false).await)
    }

    async fn over(place: SharedQueue, is_full: bool) -> Self {
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
        // A name that could be no subject of NATS.
        queue.work("far > away.*", quick())
    }

    /// Submits a song of three seconds whose sound comes in pieces, with a gate after the first.
    fn song(&self) -> Uuid {
        let song = json!({ "request": { "caption": "heard gate", "duration": 3 } });
        text(&body(self.api().post("/v1/jobs", &song))["id"]).parse().expect("an id")
    }

    /// Begins to listen to a job, and takes the first bytes.
    fn listen(&self, id: Uuid, first: usize) -> (Answer, Vec<u8>) {
        let mut answer = self.api().get(&format!("/v1/jobs/{id}/audio?format=pcm"));
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["x-sample-rate"], "48000");
        assert_eq!(answer.headers()["x-channels"], "2");
        let mut sound = vec![0; first];
        answer.body_mut().as_reader().read_exact(&mut sound).expect("sound");
        (answer, sound)
    }

    fn api(&self) -> Api {
        Api::of(&self.running)
    }

    /// The folder of the worker's attempt.
    fn attempt(&self, id: Uuid, attempt: u32) -> PathBuf {
        self.elsewhere.path().join(format!("results/{id}/{attempt}"))
    }

    fn made(&self, id: Uuid, attempt: u32) -> Vec<u8> {
        fs::read(preview::path(&self.attempt(id, attempt))).expect("a preview")
    }
}

fn rest(mut sound: Vec<u8>, answer: Answer) -> Vec<u8> {
    sound.extend(bytes(answer));
    sound
}

#[tokio::test(flavor = "multi_thread")]
async fn sound_of_a_worker_elsewhere_is_heard_while_it_is_made_by_early_and_late_listeners() {
    let Some(apart) = Apart::start().await else { return };
    let _worker = apart.work().await;
    let id = apart.song();
    let (early, first) = apart.listen(id, FIRST);
    assert_eq!(job(&apart.store, id).await.state, State::Running);
    assert!(!apart.place.folder.path().join(format!("results/{id}")).exists(), "it is not here");
    // Another one that begins before the end, and reads nothing for a while.
    let (late, begin) = apart.listen(id, FIRST);
    open_gate(apart.elsewhere.path());
    let heard = rest(first, early);
    let ended = until(&apart.store, id, is_ended).await;
    assert_eq!((ended.state, ended.attempts), (State::Done, 1), "{ended:?}");
    let made = apart.made(id, 1);
    assert_eq!(made.len(), 3 * 192_000);
    assert!(heard == made, "{} of {} bytes", heard.len(), made.len());
    // After the end, while the worker still has it.
    let (after, first) = apart.listen(id, 1);
    assert!(rest(first, after) == made, "another sound after the end");
    // What came over outlives the worker's file, as an open file does on one disk.
    preview::remove(&apart.attempt(id, 1)).expect("removed");
    let heard = rest(begin, late);
    assert!(heard == made, "{} of {} bytes", heard.len(), made.len());
    let gone = code(apart.api().get(&format!("/v1/jobs/{id}/audio")));
    assert_eq!(gone.1, "no_sound");
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
    let api = apart.api();
    let request = json!({ "input": "gate", "response_format": "wav" });
    let mut answer = api.post("/v1/audio/speech", &request);
    let id = job_of(&answer);
    let mut sound = vec![0; 44 + 4800];
    answer.body_mut().as_reader().read_exact(&mut sound).expect("sound");
    assert_eq!((&sound[..4], &sound[24..28]), (&b"RIFF"[..], &24_000_u32.to_le_bytes()[..]));
    assert_eq!(api.job(&id)["state"], "running");
    open_gate(apart.elsewhere.path());
    let sound = rest(sound, answer);
    let whole = bytes(api.get(&format!("/v1/jobs/{id}/outputs/1.wav")));
    assert!(sound[44..] == whole[44..], "{} and {} bytes", sound.len(), whole.len());
    assert_eq!(sound.len(), 48_044);
    // Asked again after the end.
    let again = bytes(api.get(&format!("/v1/jobs/{id}/audio?format=pcm")));
    assert!(again == whole[44..], "{} and {} bytes", again.len(), whole.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_own_worker_waits_for_room_refuses_nothing_that_others_do() {
    let Some(place) = SharedQueue::nats() else { return };
    let apart = Apart::over(place, true).await;
    let _worker = apart.work().await;
    let api = apart.api();
    assert_eq!(api.get("/readyz").status(), 200);
    let speech = json!({ "input": "Rain.", "response_format": "wav" });
    let spoken = api.post("/v1/audio/speech", &speech);
    assert_eq!((spoken.status().as_u16(), bytes(spoken).len()), (200, 48_044));
    let job = body(api.post("/v1/jobs?wait=300", &json!({ "request": { "caption": "rain" } })));
    assert_eq!((&job["state"], &job["notices"]), (&json!("done"), &json!([])), "{job}");
}

#[tokio::test(flavor = "multi_thread")]
async fn text_that_arrives_is_one_text_of_a_worker_elsewhere() {
    let Some(place) = SharedQueue::nats() else { return };
    let elsewhere = tempfile::tempdir().expect("a folder");
    let worker = Queue::open(elsewhere.path(), place.address().as_deref()).await;
    let folder = tempfile::tempdir().expect("a folder");
    let real = Real::over(folder, place.open().await, worker).await;
    let request = json!({ "model": "dia2-1b", "text": SCRIPT, "seed": 4, "max_steps": 60 });
    let job = real.job(request);
    let whole = real.output(&job, "1.wav")[44..].to_vec();
    let mut socket = Socket::ready(&real.running, "/v1/realtime").await;
    let append = |text: &str| json!({ "type": "append", "text": text, "seed": 4, "max_steps": 60 });
    // The run begins with the first words, and waits for the others.
    let (begin, end) = SCRIPT.split_at(SCRIPT.find("friend").expect("a word"));
    socket.send(append(begin)).await;
    let (begun, _) = socket.heard().await;
    assert_eq!(begun["event"], "job", "{begun}");
    let id = text(&begun["id"]);
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
    let job = real.api().job(&id);
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
    let id = apart.song();
    let (mut cut, sound) = apart.listen(id, FIRST);
    let mut socket = Socket::ready(&apart.running, "/v1/realtime").await;
    first.kill();
    let lost = apart.store.abandon("first".to_owned(), true).await.expect("answered");
    assert_eq!(lost, [id]);
    let mut left = Vec::new();
    let read = cut.body_mut().as_reader().read_to_end(&mut left);
    assert_eq!((left.len(), read.is_err()), (0, true), "the end is no end of the sound");
    // Speech over a socket says why.
    let mut second = worker("second", quick().lease);
    let again = until(&apart.store, id, |job| job.attempts == 2 && job.worker.is_some()).await;
    assert_eq!(again.worker.as_deref(), Some("second"));
    open_gate(apart.elsewhere.path());
    let (whole, begin) = apart.listen(id, FIRST);
    assert!(begin == sound, "the same song");
    assert!(rest(begin, whole) == apart.made(id, 2), "another sound");
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
    let Some(mut apart) = Apart::start().await else { return };
    let _worker = apart.work().await;
    let id = apart.song();
    let (answer, first) = apart.listen(id, FIRST);
    apart.place.servers[0].process.kill();
    let (sender, told) = mpsc::channel();
    let listening = std::thread::spawn(move || {
        let heard = rest(first, answer);
        sender.send(()).expect("it is heard");
        heard
    });
    tokio::time::sleep(Duration::from_millis(1500)).await;
    open_gate(apart.elsewhere.path());
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(told.try_recv().is_err(), "nothing comes while the queue is away");
    apart.place.servers[0].again();
    let heard = listening.join().expect("no panic");
    let made = apart.made(id, 1);
    assert_eq!(made.len(), 3 * 192_000);
    assert!(heard == made, "{} of {} bytes", heard.len(), made.len());
    assert_eq!(until(&apart.store, id, is_ended).await.state, State::Done);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_without_sound_of_a_worker_that_is_gone_is_answered_at_once() {
    let Some(apart) = Apart::start().await else { return };
    let worker = apart.work().await;
    let rain = json!({ "request": { "caption": "rain" } });
    let rain = body(apart.api().post("/v1/jobs?wait=300", &rain));
    assert_eq!(rain["state"], "done", "{rain}");
    let audio = format!("/v1/jobs/{}/audio", text(&rain["id"]));
    for worker in [Some(worker), None] {
        let begin = Instant::now();
        assert_eq!(code(apart.api().get(&audio)), (409, json!("no_sound")));
        assert!(begin.elapsed() < Duration::from_secs(60), "{:?}", begin.elapsed());
        drop(worker);
    }
}
