//! A server with a worker of real networks: the tiny models of every family.

use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use acestep_engine::{Audio, Device, Encoding, Engine, Existing, Format, Unobserved, save_audio};
use acestep_import::Layout;
use acestep_serve::{
    http::{Security, Server},
    installed::Installed,
    runner::{self, WorkerStart},
};
use acestep_session::speech::{self, Fields, Sink, SpeechInput};
use acestep_speech::{Options, Spoken, Voices};
use burn::tensor::DType;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::runtime::Handle;

use crate::{
    support::{Draining, Queue, Running, quick},
    web::{Api, body, bytes},
};

pub(crate) const ENGINE: Engine = Engine { device: Device::Cpu, dtype: DType::F32 };
/// The tiny models under the names of released ones.
const MODELS: [(&str, &str); 4] = [
    ("checkpoints_dia2/Dia2-tiny-alt", "Dia2-1B"),
    ("checkpoints_dia2/mimi", "mimi"),
    ("checkpoints_magpie/magpie_tts_multilingual_357m", "magpie_tts_multilingual_357m"),
    (
        "checkpoints_magpie/nemo-nano-codec-22khz-1.89kbps-21.5fps",
        "nemo-nano-codec-22khz-1.89kbps-21.5fps",
    ),
];
pub(crate) const SCRIPT: &str =
    "[S1] hello there, [S2] my friend. <break time=\"0.2s\"/> how are you [S1] fine";

/// A server with a worker of real networks.
pub(crate) struct Real {
    pub(crate) running: Running,
    pub(crate) layout: Layout,
    pub(crate) voices: Voices,
    _worker: Draining,
    pub(crate) folder: TempDir,
}

fn layout(models: &Path) -> Layout {
    let goldens = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/goldens");
    for (from, to) in MODELS {
        let to = models.join(to);
        fs::create_dir_all(&to).expect("a folder");
        for entry in fs::read_dir(goldens.join(from)).expect("the goldens are here") {
            let path = entry.expect("an entry").path();
            fs::copy(&path, to.join(path.file_name().expect("a name"))).expect("a copy");
        }
    }
    Layout::new([models.to_owned()])
}

/// Starts a worker on a thread; it ends when `is_draining` is true.
pub(crate) fn work(
    queue: Queue,
    installed: Installed,
    is_draining: &'static AtomicBool,
    warm: Option<&'static str>,
    ready: impl Fn(Option<&str>) + Send + 'static,
) {
    let runtime = Handle::current();
    thread::spawn(move || {
        let worker = queue.worker("real", quick(), is_draining);
        let run =
            runner::run(&worker, &runtime, &installed, ENGINE, WorkerStart { warm, ready: &ready });
        run.expect("a device").expect("a queue");
    });
}

impl Real {
    pub(crate) async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let queue = Queue::open(&folder.path().join("data"), None).await;
        Self::over(folder, queue.clone(), queue).await
    }

    /// Starts a server over a queue, with a worker that opened the queue as `elsewhere`.
    pub(crate) async fn over(folder: TempDir, queue: Queue, elsewhere: Queue) -> Self {
        let layout = layout(&folder.path().join("models"));
        let voices = Voices::new(folder.path().join("voices"));
        let installed = || {
            let (model, speech) = (Some("tiny".to_owned()), Some("dia2-1b".to_owned()));
            Installed::new(layout.clone(), Some(voices.clone()), model, speech)
        };
        let catalog = Arc::new(installed());
        let change = |server: &mut Server| {
            server.catalog = catalog;
            server.is_ready.store(true, Ordering::Relaxed);
        };
        let running = Running::over(&queue, Security::default(), 0, 0, change).await;
        let is_draining: &'static AtomicBool = Box::leak(Box::default());
        work(elsewhere, installed(), is_draining, None, |_| ());
        Self { running, layout, voices, _worker: Draining(is_draining), folder }
    }

    pub(crate) fn api(&self) -> Api {
        Api::of(&self.running)
    }

    pub(crate) fn job(&self, request: Value) -> Value {
        body(self.api().post("/v1/jobs?wait=60", &json!({ "kind": "speak", "request": request })))
    }

    pub(crate) fn output(&self, job: &Value, name: &str) -> Vec<u8> {
        let id = job["id"].as_str().unwrap_or_else(|| panic!("{job:#}"));
        bytes(self.api().get(&format!("/v1/jobs/{id}/outputs/{name}")))
    }

    pub(crate) fn send(&self, file: Vec<u8>) -> Value {
        body(self.api().form("/v1/files", &[], &[("file", &file)]))["id"].clone()
    }

    /// Speaks as the command line does, and returns the samples of the file.
    pub(crate) fn own(&self, model: &str, text: &str, fields: Value) -> Vec<u8> {
        let path = self.folder.path().join("own.wav");
        let encoding = Encoding::new(Format::Wav16);
        let audio = self.spoken(model, text, fields).audio;
        save_audio(&path, &audio, &encoding, None, Existing::Replace).expect("a file");
        fs::read(path).expect("a file")[44..].to_vec()
    }

    /// Speaks as the command line does.
    pub(crate) fn spoken(&self, model: &str, text: &str, fields: Value) -> Spoken {
        let Value::Object(mut fields) = fields else { panic!("fields") };
        let seed = fields.remove("seed").and_then(|seed| seed.as_u64()).expect("a seed");
        let model = speech::open(Some(model), &mut Fields::new(), None, &self.layout);
        let model = model.expect("a model");
        let texts = vec![text.to_owned()];
        let voices = Some(&self.voices);
        let input = SpeechInput { texts, fields, seed, voices, lines: false };
        let ready = model.prepare(input, ENGINE, &Unobserved, &mut Vec::new());
        let ready = ready.expect("a good request");
        let mut sink = Kept(None);
        ready.speak(Options::default(), None, &Unobserved, &mut sink).expect("speech");
        sink.0.expect("a result")
    }
}

struct Kept(Option<Spoken>);

impl Sink for Kept {
    fn samples(&mut self, _: usize, _: &[f32]) -> Result<(), acestep_engine::Error> {
        Ok(())
    }

    fn done(&mut self, _: usize, spoken: Spoken) -> Result<(), acestep_engine::Error> {
        self.0 = Some(spoken);
        Ok(())
    }
}

/// A recording of 0.8 s, and its words.
pub(crate) fn recording(pitch: f32) -> (Vec<u8>, Value) {
    let sample = |i: usize| {
        let t = i as f32 / 24_000.0;
        0.4 * (t * pitch).sin() * (1.0 + (t * 31.0).sin()) / 2.0
    };
    let audio = Audio { channels: vec![(0..19_200).map(sample).collect()], sample_rate: 24_000 };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.wav");
    save_audio(&path, &audio, &Encoding::new(Format::Wav16), None, Existing::Keep).expect("a file");
    let words = json!([
        { "text": "hello", "start": 0.05, "end": 0.2 },
        { "text": "there", "start": 0.31, "end": 0.6 },
    ]);
    (fs::read(path).expect("a file"), words)
}

pub(crate) fn base64(bytes: &[u8]) -> String {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    STANDARD.encode(bytes)
}
