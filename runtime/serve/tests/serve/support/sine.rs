//! A runner that needs no network: its songs are a sine.

use std::{
    f64::consts::TAU,
    fs, thread,
    time::{Duration, Instant},
};

use acestep_engine::{Action, Audio, Encoding, Event, Format, Stage, Unit, save_audio};
use acestep_serve::{
    job::{Content, JobError, Kind, RunOutput},
    preview::{Preview, PreviewFormat},
    worker::{JobTask, Runner, Stopped},
};
use serde_json::{Value, json};

use super::GATE;

/// The most songs of a job, as of the real runner.
const MOST_SONGS: u64 = 8;
const DIFFUSION: Stage = Stage { name: "diffusion", unit: Unit::Step };

/// A runner that obeys words of the caption or the text: `slow` takes two seconds, `long` a minute,
/// `gate` waits in its middle until the gate is open, `heard` is a song whose sound comes in pieces before
/// its end, `brief` no time and makes no song, `full once` and `full always` meet a full disk, `fail` fails,
/// `collapse` fails after some sound of a speech, `panic` panics, `kill` ends the process, `hang` says nothing
/// more in its first attempt, `large` does not fit into the memory of a worker whose name has `small`.
pub(crate) struct Sine;

impl Runner for Sine {
    fn kinds(&self) -> Vec<Kind> {
        Kind::ALL.to_vec()
    }

    fn resident(&self) -> Option<String> {
        Some("tiny".to_owned())
    }

    fn run(&mut self, mut task: JobTask<'_>) -> Result<(), Stopped> {
        let request = &task.job.request;
        let text = |key: &str| request[key].as_str().unwrap_or_default().to_owned();
        let words = format!("{} {} {}", text("caption"), text("prompt"), text("text"));
        if words.contains("fail") {
            return Err(Stopped::Failed(JobError::new("failed", "the caption says so")));
        }
        if words.contains("full always") || words.contains("full once") && task.job.attempts == 1 {
            // As the engine says it when it writes a song.
            let source = std::io::ErrorKind::StorageFull.into();
            let path = task.folder.join("1.wav");
            let error = acestep_engine::Error::File { action: Action::Write, path, source };
            return Err(Stopped::Failed(acestep_serve::error::of(&error)));
        }
        let is_small = task.job.worker.as_ref().is_some_and(|name| name.contains("small"));
        if words.contains("large") && is_small {
            let error = JobError::new("out_of_memory", "the caption says so");
            return Err(Stopped::TooLarge(error.hint("make it shorter")));
        }
        assert!(!words.contains("panic"), "the caption says so");
        if words.contains("hang") && task.job.attempts == 1 {
            loop {
                thread::sleep(Duration::from_secs(1));
            }
        }
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
            if done == 4 && task.job.kind != Kind::Speak && !words.contains("heard") {
                gate(&task, &words)?;
            }
        }
        match task.job.kind {
            Kind::Generate => generate(&mut task),
            Kind::Speak => speak(&mut task, &words, pause),
            Kind::Understand => understand(&mut task),
            Kind::Compose => compose(&mut task),
            Kind::Encode => write(&mut task, 1, Content::Latents, "latents", [0_u8; 4 * 64 * 25]),
            Kind::Decode => song(&mut task, 1, 48_000, 2),
            Kind::Voice => {
                let voice =
                    json!({ "name": request["name"], "model": "tiny-speech", "seconds": 3 });
                write(&mut task, 1, Content::Description, "description.json", voice.to_string())
            }
        }
    }
}

/// Waits until the gate is open, if the words have one.
fn gate(task: &JobTask<'_>, words: &str) -> Result<(), Stopped> {
    while words.contains(GATE) && !task.objects.folder().join(GATE).exists() {
        if task.observe.cancelled() {
            return Err(Stopped::Cancelled);
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn lines(task: &mut JobTask<'_>, track: u32) -> Result<(), Stopped> {
    let text = lrc(&task.job.request);
    write(task, track, Content::Lrc, "lrc", text)
}

fn generate(task: &mut JobTask<'_>) -> Result<(), Stopped> {
    let request = task.job.request.clone();
    let mut resolved = json!({
        "caption": "", "seed": 7, "bpm": 90, "duration": 1.0, "model": "tiny", "inference_steps": 8,
    });
    for (key, value) in request.as_object().into_iter().flatten() {
        if !value.is_null() {
            resolved[key] = value.clone();
        }
    }
    if resolved["caption"] == "" && request["prompt"].is_string() {
        resolved["caption"] = request["prompt"].clone();
    }
    (task.resolved)(resolved.clone());
    if resolved["caption"].as_str().is_some_and(|words| words.contains("heard")) {
        hear(task)?;
    }
    let songs = &request["batch_size"];
    let songs = songs.as_u64().or(songs.as_str().and_then(|text| text.parse().ok()));
    for track in 1..=songs.unwrap_or(1).min(MOST_SONGS) as u32 {
        song(task, track, 48_000, 2)?;
        lines(task, track)?;
        if resolved["caption"].as_str().is_some_and(|words| words.contains("picture")) {
            write(task, track, Content::Peaks, "peaks.json", peaks().to_string())?;
        }
        if request["latents"] == true {
            write(task, track, Content::Latents, "latents", [0_u8; 4 * 64 * 25])?;
        }
    }
    Ok(())
}

/// Lets the first song be heard: a quarter of a second at a time, twice as fast as it sounds.
fn hear(task: &mut JobTask<'_>) -> Result<(), Stopped> {
    let failed = |error| Stopped::Failed(acestep_serve::worker::of_files(&error));
    let format = PreviewFormat { sample_rate: 48_000, channels: 2 };
    let mut preview = Preview::begin(task.folder, format).map_err(failed)?;
    let words = task.job.request["caption"].as_str().unwrap_or_default();
    for piece in sine(1, 48_000, seconds(&task.job.request)).chunks(12_000) {
        preview.samples(&[piece, piece]).map_err(failed)?;
        thread::sleep(Duration::from_millis(125));
        gate(task, words)?;
    }
    Ok(())
}

/// The length of a song: one second, or as the request says, up to a minute.
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

/// Speaks a sine: half a second of samples that can be followed, then the file.
fn speak(task: &mut JobTask<'_>, words: &str, pause: u64) -> Result<(), Stopped> {
    let format = PreviewFormat { sample_rate: 24_000, channels: 1 };
    let failed = |error| Stopped::Failed(acestep_serve::worker::of_files(&error));
    let mut preview = Preview::begin(task.folder, format).map_err(failed)?;
    for piece in sine(1, 24_000, 1.0).chunks(2400) {
        preview.samples(&[piece]).map_err(failed)?;
        thread::sleep(Duration::from_millis(pause));
        gate(task, words)?;
        if words.contains("collapse") {
            let error = JobError::new("bad_result", "the text says so");
            return Err(Stopped::Failed(error.hint("say something else")));
        }
    }
    song(task, 1, 24_000, 1)
}

fn understand(task: &mut JobTask<'_>) -> Result<(), Stopped> {
    let words = json!({
        "caption": "a sine", "bpm": 120, "keyscale": "A major", "timesignature": "4",
        "duration": 1, "language": "en", "lyrics": "[Verse]\nla", "audio_codes": "1,2,3",
    });
    write(task, 1, Content::Description, "description.json", words.to_string())?;
    let mut request = words;
    request["vocal_language"] = "en".into();
    write(task, 1, Content::Request, "request.json", request.to_string())
}

fn compose(task: &mut JobTask<'_>) -> Result<(), Stopped> {
    let mut request = task.job.request.clone();
    let caption = request["caption"].as_str().unwrap_or_default().to_owned();
    request["caption"] = format!("{caption}, in more words").into();
    for (key, value) in [
        ("lyrics", json!("[Verse]\nla la")),
        ("bpm", json!(100)),
        ("keyscale", json!("C major")),
        ("timesignature", json!("4")),
        ("duration", json!(30.0)),
        ("vocal_language", json!("en")),
    ] {
        if request[key].is_null() || request[key] == "" || request[key] == 0 {
            request[key] = value;
        }
    }
    if request["mode"] == "plan" {
        request["audio_codes"] = "17,4,42".into();
    }
    write(task, 1, Content::Request, "request.json", request.to_string())
}

/// Songs differ in pitch and in loudness.
fn sine(track: u32, rate: u32, seconds: f64) -> Vec<f32> {
    let tone = |i: u32| (f64::from(i) * 440.0 * f64::from(track) / f64::from(rate) * TAU).sin();
    let (gain, length) = (0.3 / f64::from(track), (seconds * f64::from(rate)) as u32);
    (0..length).map(|i| (gain * tone(i)) as f32).collect()
}

/// Writes a song of the request's length, in its format.
fn song(task: &mut JobTask<'_>, track: u32, rate: u32, channels: usize) -> Result<(), Stopped> {
    let failed = |error| Stopped::Failed(acestep_serve::error::of(&error));
    let length = seconds(&task.job.request);
    let format = task.job.request["audio_format"].as_str().unwrap_or("wav16");
    let format: Format = format.parse().map_err(failed)?;
    let audio = Audio { sample_rate: rate, channels: vec![sine(track, rate, length); channels] };
    let name = format!("{track}.{}", format.extension());
    let (encoding, existing) = (Encoding::new(format), acestep_engine::Existing::Replace);
    save_audio(&task.folder.join(&name), &audio, &encoding, None, existing).map_err(failed)?;
    let (content, seed, seconds) = (Content::Audio, Some(7), Some(length));
    task.made.push(RunOutput { track, content, name, seed, seconds });
    Ok(())
}

fn write(
    task: &mut JobTask<'_>,
    track: u32,
    content: Content,
    suffix: &str,
    bytes: impl AsRef<[u8]>,
) -> Result<(), Stopped> {
    let name = format!("{track}.{suffix}");
    fs::write(task.folder.join(&name), bytes)
        .map_err(|error| Stopped::Failed(acestep_serve::worker::of_files(&error)))?;
    task.made.push(RunOutput { track, content, name, seed: None, seconds: None });
    Ok(())
}
