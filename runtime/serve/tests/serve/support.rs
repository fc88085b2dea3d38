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
    time::{Duration, Instant},
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

/// A runner that obeys words of the caption or the text: `slow` takes two seconds, `long` a minute,
/// `brief` no time and makes no song, `fail` fails, `panic` panics, `kill` ends the process.
pub(crate) struct Sine;

impl Runner for Sine {
    fn kinds(&self) -> Vec<Kind> {
        Kind::ALL.to_vec()
    }

    fn resident(&self) -> Option<String> {
        Some("tiny".to_owned())
    }

    fn run(&mut self, mut task: Task<'_>) -> Result<(), Stopped> {
        let request = &task.job.request;
        let text = |key: &str| request[key].as_str().unwrap_or_default().to_owned();
        let words = format!("{} {}", text("caption"), text("text"));
        if words.contains("fail") {
            return Err(Stopped::Failed(JobError::new("failed", "the caption says so")));
        }
        assert!(!words.contains("panic"), "the caption says so");
        if words.contains("kill") {
            std::process::abort();
        }
        if words.contains("brief") {
            return lines(&mut task, 1);
        }
        let pause = match () {
            () if words.contains("slow") => 250,
            () if words.contains("long") => 7500,
            () => 1,
        };
        for done in 0..=8 {
            task.observe.event(Event::Advanced { stage: DIFFUSION, done, total: 8 });
            let end = Instant::now() + Duration::from_millis(pause);
            while Instant::now() < end {
                thread::sleep(Duration::from_millis(pause.min(50)));
                if task.observe.cancelled() {
                    return Err(Stopped::Cancelled);
                }
            }
        }
        (task.resolved)(json!({ "caption": text("caption"), "seed": 7 }));
        let songs = request["batch_size"].as_u64().unwrap_or(1) as u32;
        for track in 1..=songs {
            self.song(&task, track)?;
            task.made.push(made(track, Content::Audio, "wav"));
            lines(&mut task, track)?;
        }
        Ok(())
    }
}

fn made(track: u32, content: Content, ending: &str) -> Made {
    let name = format!("{track}.{ending}");
    Made { track, content, name, seed: Some(7), seconds: Some(1.0) }
}

/// Writes the times of the lines.
fn lines(task: &mut Task<'_>, track: u32) -> Result<(), Stopped> {
    fs::write(task.folder.join(format!("{track}.lrc")), "[00:00.00]la\n")
        .map_err(|error| Stopped::Failed(acestep_serve::worker::of_files(&error)))?;
    task.made.push(made(track, Content::Lrc, "lrc"));
    Ok(())
}

impl Sine {
    fn song(&self, task: &Task<'_>, track: u32) -> Result<(), Stopped> {
        let rate = 48_000;
        let tone = |i: u32| {
            (f64::from(i) * 440.0 * f64::from(track) / f64::from(rate) * std::f64::consts::TAU)
                .sin()
        };
        let samples: Vec<f32> = (0..rate).map(|i| (0.3 * tone(i)) as f32).collect();
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

/// A queue and its files.
#[derive(Clone)]
pub(crate) struct Queue {
    /// The queue.
    pub(crate) store: Arc<dyn Store>,
    /// The files.
    pub(crate) objects: Objects,
}

impl Queue {
    /// Opens the queue of `folder`, or the one at the address `nats`.
    pub(crate) async fn open(folder: &Path, nats: Option<&str>) -> Self {
        fs::create_dir_all(folder).expect("a folder");
        let Some(nats) = nats else {
            let store = Sqlite::open(&folder.join("jobs.sqlite")).expect("a store");
            return Self {
                store: Arc::new(store),
                objects: Objects::open(folder).expect("a folder"),
            };
        };
        #[cfg(feature = "nats")]
        {
            let store = acestep_serve::nats::Nats::open(nats).await.expect("a store");
            let objects = store.objects(folder).expect("a folder");
            Self { store: Arc::new(store), objects }
        }
        #[cfg(not(feature = "nats"))]
        panic!("{nats}: this build has no NATS (--features nats)");
    }

    /// Starts a worker on a thread; it ends when `is_draining` is true.
    pub(crate) fn work(&self, name: &str, times: Times, is_draining: &'static AtomicBool) {
        let (runtime, Self { store, objects }) = (Handle::current(), self.clone());
        let name = name.to_owned();
        thread::spawn(move || {
            let is_ending = Arc::default();
            let worker = Worker { name, store, objects, times, is_draining, is_ending };
            while !is_draining.load(Ordering::Relaxed) {
                if let Err(error) = worker.run(&runtime, &mut Sine) {
                    tracing::error!(%error, "the worker begins again");
                    thread::sleep(Duration::from_millis(200));
                }
            }
        });
    }

    /// Returns jobs of lost workers to the queue, again and again.
    pub(crate) fn sweep(&self, every: Duration) -> tokio::task::JoinHandle<()> {
        let store = self.store.clone();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(every).await;
                if let Err(error) = store.sweep().await {
                    tracing::error!(%error, "nothing was swept");
                }
            }
        })
    }
}

/// A server that runs, with workers of its own.
pub(crate) struct Running {
    /// Its address.
    pub(crate) address: SocketAddr,
    /// Ends it.
    ending: watch::Sender<bool>,
    is_draining: &'static AtomicBool,
    sweeper: tokio::task::JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.is_draining.store(true, Ordering::Relaxed);
        self.sweeper.abort();
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
        Self::over(&Queue::open(folder, None).await, security, port, 1, change).await
    }

    /// Starts a server over a queue, with a number of workers.
    pub(crate) async fn over(
        queue: &Queue,
        security: Security,
        port: u16,
        workers: usize,
        change: impl FnOnce(&mut Server),
    ) -> Self {
        let (ending, receiver) = watch::channel(false);
        let Queue { store, objects } = queue.clone();
        let mut server = Server::new(store, objects, Arc::new(Two), security, receiver);
        change(&mut server);
        let server = Arc::new(server);
        let listener = TcpListener::bind(("127.0.0.1", port)).await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        server.is_ready.store(workers > 0, Ordering::Relaxed);
        tokio::spawn(http::serve(listener, server));
        let is_draining: &'static AtomicBool = Box::leak(Box::default());
        for n in 0..workers {
            queue.work(&format!("server-{n}-{}", uuid::Uuid::now_v7()), quick(), is_draining);
        }
        let sweeper = queue.sweep(quick().extend);
        Self { address, ending, is_draining, sweeper }
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
