//! Whole dialogues of the reference: every code, time and sample.

use std::{
    fs,
    path::{Path, PathBuf},
};

use acestep_engine::{Unobserved, read_audio, sampling::Draws};
use acestep_import::{Dia2, Dia2Choice};
use acestep_model::Place;
use acestep_speech::{
    Chunks, Word,
    dia2::{
        Drawing, Made, Networks, Plan, Recording, Request, Resampling, Snapshot, Speakers,
        Speaking, Uniforms,
    },
    pcm16,
};
use burn_flex::{Flex, FlexDevice};
use safetensors::SafeTensors;
use serde_json::Value;

/// Goldens and the checkpoints that made them.
struct Goldens {
    goldens: PathBuf,
    checkpoints: PathBuf,
}

impl Goldens {
    fn of_repository() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/goldens");
        Self { goldens: root.join("dia2"), checkpoints: root.join("checkpoints_dia2") }
    }

    fn json(&self, file: &str) -> Value {
        let text = fs::read_to_string(self.goldens.join("logic").join(file)).expect(file);
        serde_json::from_str(&text).expect("JSON")
    }

    /// Values of a tensor with 4 bytes each, if it is stored.
    fn tensor<T>(&self, file: &str, name: &str, value: fn([u8; 4]) -> T) -> Option<Vec<T>> {
        let bytes = fs::read(self.goldens.join(file)).ok()?;
        let tensors = SafeTensors::deserialize(&bytes).expect("a safetensors file");
        let view = tensors.tensor(name).ok()?;
        let of = |b: &[u8]| value(b.try_into().expect("four bytes"));
        Some(view.data().chunks_exact(4).map(of).collect())
    }

    fn floats(&self, file: &str, name: &str) -> Option<Vec<f32>> {
        self.tensor(file, name, f32::from_le_bytes)
    }

    fn ints(&self, file: &str, name: &str) -> Option<Vec<i32>> {
        self.tensor(file, name, i32::from_le_bytes)
    }

    fn open(&self, name: &str) -> Dia2 {
        Dia2::open(&self.checkpoints.join(name), &Dia2Choice::default()).expect("a checkpoint")
    }

    fn recordings(&self, files: &Value, networks: &Networks<'_, Flex>) -> Vec<Recording> {
        let words = self.json("words_to_entries.json");
        let of = |file: &Value| {
            let file = file.as_str().expect("a name");
            let (sound, _) = read_audio(&self.goldens.join(file)).expect("a recording");
            let words: Vec<Word> =
                serde_json::from_value(words["plan"]["words"][file].clone()).expect("words");
            let filtered = Resampling::Filtered;
            Recording::new(&sound, words, filtered, networks, &Unobserved).expect("codes")
        };
        files.as_array().map_or(Vec::new(), |files| files.iter().map(of).collect())
    }
}

fn request(run: &Value) -> Request {
    let number = |value: &Value| value.as_f64().map(|number| number as f32);
    let whole = |value: &Value| value.as_u64().map(|number| number as u32);
    Request {
        script: run["script"].as_str().expect("a script").to_owned(),
        cfg_scale: number(&run["cfg_scale"]),
        cfg_filter_k: whole(&run["cfg_filter_k"]),
        text_temperature: number(&run["text"][0]),
        text_top_k: whole(&run["text"][1]),
        audio_temperature: number(&run["audio"][0]),
        audio_top_k: whole(&run["audio"][1]),
        initial_padding: whole(&run["initial_padding"]),
        include_prefix: run["include_prefix"].as_bool(),
        seed: run["torch_manual_seed"].as_u64(),
        ..Request::default()
    }
}

/// Codes of frames, codebook by codebook.
fn turned(frames: &[Vec<u32>]) -> Vec<i32> {
    let groups = frames.first().map_or(0, Vec::len);
    (0..groups).flat_map(|group| frames.iter().map(move |frame| frame[group] as i32)).collect()
}

fn farthest(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// Speaks all runs that are stored, and returns their number.
fn compare(goldens: &Goldens) -> usize {
    let runs = goldens.json("runs.json");
    let mut compared = 0;
    for (name, run) in runs.as_object().expect("runs") {
        let of = |part: &str| goldens.ints("generate.safetensors", &format!("{name}.{part}"));
        let Some(aligned) = of("aligned") else { continue };
        let model = goldens.open(run["checkpoint"].as_str().expect("a checkpoint"));
        let networks = Networks::<Flex>::new(&model, Place::f32(FlexDevice));
        let recordings = goldens.recordings(&run["prefix"], &networks);
        let speakers = Speakers::Recorded(&recordings);
        let plan = Plan::new(&request(run), speakers, 0, &model).expect("a plan");
        let drawing: Box<dyn Drawing> =
            match goldens.floats("generate.safetensors", &format!("{name}.us")) {
                Some(uniforms) => Box::new(Uniforms(uniforms.into_iter())),
                None => Box::new(Draws::new(plan.seed, 1)),
            };
        let chunks = Chunks { first: 1, others: 5 };
        let mut speaking =
            Speaking::begin_with(drawing, plan, None, &networks, chunks, &Unobserved)
                .expect("begun");
        let mut dialogue = None;
        for made in speaking.by_ref() {
            if let Made::Done(done) = made.expect("no error") {
                dialogue = Some(done);
            }
        }
        let dialogue = dialogue.expect("an end");
        let state = speaking.run().state();
        let grid = turned(&state.grid.columns()[..=state.step]);
        assert_eq!(Some(grid), of("grid"), "{name}");
        assert_eq!(turned(&dialogue.spoken.frames), aligned, "{name}");
        let time = |word: &Word| {
            let start = (word.start * 1e6).round() / 1e6;
            serde_json::json!([word.text, start])
        };
        let words: Vec<Value> = dialogue.spoken.words.iter().map(time).collect();
        assert_eq!(Value::from(words), run["timestamps"], "{name}");
        assert_eq!(dialogue.left as u64, run["entries_left"], "{name}");
        assert_eq!(dialogue.spoken.audio.samples() as u64, run["samples"], "{name}");
        let samples = &dialogue.spoken.audio.channels[0];
        if let Some(wave) = goldens.floats("generate.safetensors", &format!("{name}.wave")) {
            let difference = farthest(samples, &wave);
            assert!(difference < 1e-5, "{name}: {difference}");
        }
        compared += 1;
    }
    compared
}

/// Speaks the requests of the server, if they are stored, and returns their number.
fn compare_server(goldens: &Goldens) -> usize {
    let server = &goldens.json("runs.json")["server"];
    if !goldens.goldens.join("server.safetensors").exists() {
        return 0;
    }
    let model = goldens.open("Dia2-tiny");
    let networks = Networks::<Flex>::new(&model, Place::f32(FlexDevice));
    let recordings = goldens.recordings(&serde_json::json!(["pre1.wav"]), &networks);
    let snapshot = Snapshot::new(&recordings, 1, &networks, &Unobserved).expect("a snapshot");
    assert_eq!(snapshot.start() as u64, server["snapshot_start_step"]);
    let requests = server["requests"].as_array().expect("requests");
    for (index, stored) in requests.iter().enumerate() {
        let request = Request {
            script: stored["text"].as_str().expect("a script").to_owned(),
            cfg_scale: Some(1.0),
            temperature: Some(0.0),
            ..Request::default()
        };
        let plan = Plan::new(&request, Speakers::Kept, 0, &model).expect("a plan");
        let chunks = Chunks { first: 1, others: 1 };
        let speaking = Speaking::begin(plan, Some(&snapshot), &networks, chunks, &Unobserved);
        let (mut samples, mut sent) = (Vec::new(), 0);
        for made in speaking.expect("begun") {
            if let Made::Samples(next) = made.expect("no error") {
                samples.extend(next);
                sent += 1;
            }
        }
        assert_eq!(sent, stored["chunks"].as_array().expect("chunks").len());
        let wave = goldens.floats("server.safetensors", &format!("req{index}.wave"));
        let difference = farthest(&samples, &wave.expect("a sound"));
        assert!(difference < 1e-5, "{index}: {difference}");
        let stored = fs::read(goldens.goldens.join("server.safetensors")).expect("a file");
        let stored = SafeTensors::deserialize(&stored).expect("a safetensors file");
        let stored = stored.tensor(&format!("req{index}.pcm16")).expect("a sound");
        let stored = stored.data().chunks_exact(2).map(|b| i16::from_le_bytes([b[0], b[1]]));
        let farthest = pcm16(&samples).into_iter().zip(stored).map(|(a, b)| a.abs_diff(b)).max();
        assert!(farthest <= Some(1), "{index}: {farthest:?}");
    }
    requests.len()
}

/// Golden: generate.safetensors, the runs of the checkpoint that is in the repository.
#[test]
fn dialogues_are_those_of_the_reference() {
    let goldens = Goldens::of_repository();
    assert_eq!((compare(&goldens), compare_server(&goldens)), (3, 0));
}
