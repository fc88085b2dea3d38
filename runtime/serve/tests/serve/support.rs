//! A server with a runner that needs no network: its songs are a sine.

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use acestep_engine::{Audio, Encoding, Event, Format, Stage, Unit, save_audio};
use acestep_serve::{
    catalog::{Catalog, Checked, Family, Model, Voice},
    http::{self, Security, Server},
    job::{Content, JobError, Kind},
    objects::Objects,
    sqlite::Sqlite,
    store::Store,
    worker::{Made, Runner, Stopped, Task, Times, Worker},
};
use serde_json::{Map, Value, json};
use tokio::{net::TcpListener, runtime::Handle, sync::watch};

const DIFFUSION: Stage = Stage { name: "diffusion", unit: Unit::Step };

/// A runner that obeys words of the caption or the text: `slow` takes two seconds, `fail` fails,
/// `panic` panics, `kill` ends the process.
pub(crate) struct Sine;

impl Runner for Sine {
    fn kinds(&self) -> Vec<Kind> {
        Kind::ALL.to_vec()
    }

    fn resident(&self) -> Option<String> {
        Some("tiny".to_owned())
    }

    fn run(&mut self, task: Task<'_>) -> Result<(), Stopped> {
        let request = &task.job.request;
        let text = |key: &str| request[key].as_str().unwrap_or_default().to_owned();
        let words = format!("{} {}", text("caption"), text("text"));
        if words.contains("fail") {
            return Err(Stopped::Failed(JobError::new("failed", "the caption says so")));
        }
        assert!(!words.contains("panic"), "the caption says so");
        let pause = if words.contains("slow") { 250 } else { 1 };
        for done in 0..=8 {
            task.observe.event(Event::Advanced { stage: DIFFUSION, done, total: 8 });
            thread::sleep(Duration::from_millis(pause));
            if task.observe.cancelled() {
                return Err(Stopped::Cancelled);
            }
        }
        let mut resolved = request.clone();
        resolved["seed"] = 7.into();
        resolved["inference_steps"] = 8.into();
        (task.resolved)(resolved);
        let songs = request["batch_size"].as_u64().unwrap_or(1) as u32;
        for track in 1..=songs {
            self.song(&task, track)?;
            let made = |content, ending: &str| Made {
                track,
                content,
                name: format!("{track}.{ending}"),
                seed: Some(7),
                seconds: Some(seconds(request)),
            };
            let write = |ending: &str, text: String| {
                fs::write(task.folder.join(format!("{track}.{ending}")), text)
                    .map_err(|error| Stopped::Failed(acestep_serve::worker::of_files(&error)))
            };
            task.made.push(made(Content::Audio, "wav"));
            write("lrc", lrc(request))?;
            task.made.push(made(Content::Lrc, "lrc"));
            if words.contains("picture") {
                write("peaks.json", peaks().to_string())?;
                task.made.push(made(Content::Peaks, "peaks.json"));
            }
        }
        Ok(())
    }
}

impl Sine {
    fn song(&self, task: &Task<'_>, track: u32) -> Result<(), Stopped> {
        let rate = 48_000;
        let tone =
            |i: u32| (f64::from(i) * 440.0 * f64::from(track) / f64::from(rate) * 6.283).sin();
        // Songs differ in pitch and in loudness.
        let gain = 0.3 / f64::from(track);
        let length = (seconds(&task.job.request) * f64::from(rate)) as u32;
        let samples: Vec<f32> = (0..length).map(|i| (gain * tone(i)) as f32).collect();
        let audio = Audio { sample_rate: rate, channels: vec![samples.clone(), samples] };
        let path = task.folder.join(format!("{track}.wav"));
        save_audio(
            &path,
            &audio,
            &Encoding::new(Format::Wav16),
            None,
            acestep_engine::Existing::Replace,
        )
        .map_err(|error| Stopped::Failed(acestep_serve::error::of(&error)))
    }
}

/// The length of a song: one second, or that of the request up to a minute.
fn seconds(request: &Value) -> f64 {
    request["duration"].as_f64().unwrap_or(1.0).min(60.0)
}

/// The lines of the lyrics, one a second.
fn lrc(request: &Value) -> String {
    let lyrics = request["lyrics"].as_str().unwrap_or("la");
    let line = |(at, line): (usize, &str)| format!("[00:{at:02}.00]{line}\n");
    lyrics.lines().filter(|line| !line.is_empty()).take(60).enumerate().map(line).collect()
}

/// A waveform that becomes louder and softer.
fn peaks() -> Value {
    let height = |i: u32| (f64::from(i) / 80.0).sin().abs() * 0.9;
    let pairs: Vec<_> = (0..1000).flat_map(|i| [-height(i), height(i)]).collect();
    json!({ "peaks": pairs })
}

/// A catalog of one model of songs and one of speech.
pub(crate) struct Two;

impl Catalog for Two {
    fn models(&self) -> Vec<Model> {
        let model = |id: &str, family, supports: &[&str], defaults| Model {
            id: id.to_owned(),
            family,
            is_default: true,
            about: "for tests".to_owned(),
            supports: supports.iter().map(|&name| name.to_owned()).collect(),
            defaults,
        };
        let tasks = ["text2music", "cover", "repaint", "lego", "extract", "complete"];
        let defaults = json!({ "inference_steps": 8, "guidance_scale": 1.0, "duration": 30.0 });
        vec![
            model("tiny", Family::Music, &tasks, defaults),
            model("tiny-speech", Family::Speech, &["auto", "english"], json!({})),
        ]
    }

    fn voices(&self) -> Vec<Voice> {
        let voice = |id: &str, is_kept| Voice {
            id: id.to_owned(),
            model: "tiny-speech".to_owned(),
            is_kept,
        };
        vec![voice("vivian", false), voice("me", true)]
    }

    fn check(&self, kind: Kind, request: &Map<String, Value>) -> Result<Checked, JobError> {
        if kind != Kind::Generate {
            return Ok(Checked::default());
        }
        let (read, notices) = acestep_music::Request::from_object(request.clone())
            .map_err(|error| acestep_serve::error::of(&error))?;
        match read.compute.model.as_deref() {
            None | Some("tiny") => {}
            Some(other) => {
                let message = format!("the model `{other}` is not here");
                return Err(JobError::new("model_not_found", message).param("model"));
            }
        }
        let notices = notices.into_iter().map(|notice| notice.0).collect();
        Ok(Checked { model: Some("tiny".to_owned()), notices })
    }
}

/// A server that runs, with a worker of its own.
pub(crate) struct Running {
    /// Its address.
    pub(crate) address: SocketAddr,
    /// Its state.
    pub(crate) server: Arc<Server>,
    /// Ends it.
    ending: watch::Sender<bool>,
    is_draining: &'static AtomicBool,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.is_draining.store(true, Ordering::Relaxed);
        let _ = self.ending.send(true);
    }
}

impl Running {
    /// Starts a server in `folder`, on `port` (0 for any free one).
    pub(crate) async fn start(folder: &Path, security: Security, port: u16) -> Self {
        Self::with(folder, security, port, |_| ()).await
    }

    /// Starts a server whose state is changed first.
    pub(crate) async fn with(
        folder: &Path,
        security: Security,
        port: u16,
        change: impl FnOnce(&mut Server),
    ) -> Self {
        let store = Arc::new(Sqlite::open(&folder.join("jobs.sqlite")).expect("a new store"));
        let objects = Objects::open(folder).expect("a folder");
        let (ending, receiver) = watch::channel(false);
        let mut server =
            Server::new(store.clone(), objects.clone(), Arc::new(Two), security, receiver);
        change(&mut server);
        let server = Arc::new(server);
        let listener = TcpListener::bind(("127.0.0.1", port)).await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(http::serve(listener, server.clone()));
        let swept = store.clone();
        let mut end = ending.subscribe();
        tokio::spawn(async move {
            while tokio::time::timeout(Duration::from_millis(500), end.changed()).await.is_err() {
                swept.sweep().await.expect("a store");
            }
        });
        let is_draining: &'static AtomicBool = Box::leak(Box::default());
        server.is_ready.store(true, Ordering::Relaxed);
        let (runtime, times) = (Handle::current(), quick());
        thread::spawn(move || {
            let worker = Worker {
                name: "test".to_owned(),
                store: store as Arc<dyn Store>,
                objects,
                times,
                is_draining,
                is_ending: Arc::default(),
            };
            worker.run(&runtime, &mut Sine)
        });
        Self { address, server, ending, is_draining }
    }

    /// Returns the address of a path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }
}

/// Times that make tests short.
pub(crate) fn quick() -> Times {
    Times {
        lease: Duration::from_secs(2),
        extend: Duration::from_millis(200),
        report: Duration::from_millis(50),
        look: Duration::from_millis(50),
        patience: Duration::from_secs(1),
    }
}
