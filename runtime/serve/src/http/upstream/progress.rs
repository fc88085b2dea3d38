//! The state of a job, as `/query_result` tells it: a number, and a list as JSON text.

use serde_json::{Value, json};

use super::tasks::ADDRESS;
use crate::{
    http::{ApiError, Server, results},
    job::{Content, Job, JobError, Output, State},
};

/// Queued or running.
const GOES_ON: u8 = 0;
const SUCCEEDED: u8 = 1;
/// Failed, cancelled or unknown.
const FAILED: u8 = 2;

/// Tells that no job has this id. Upstream says "queued", for ever.
pub(super) fn unknown(id: &str) -> Value {
    let error = "no job has this id, or its results were removed";
    entry(id, FAILED, vec![waiting(0.0, FAILED, "unknown", Some(error), 0)], "unknown")
}

/// Tells the state of a job.
pub(super) async fn of(server: &Server, job: &Job) -> Result<Value, ApiError> {
    let id = job.id.to_string();
    let created = job.created / 1000;
    let progress = &job.progress;
    let share = match progress.total {
        0 => 0.0,
        total => progress.done as f64 / total as f64,
    };
    let stage = match progress.stage.as_str() {
        "" => "running",
        stage => stage,
    };
    let error = job.error.as_ref().map(JobError::line);
    let one = |share, status, stage: &str| {
        let list = vec![waiting(share, status, stage, error.as_deref(), created)];
        entry(&id, status, list, stage)
    };
    Ok(match job.state {
        State::Queued => one(0.0, GOES_ON, "queued"),
        State::Running | State::Cancelling => {
            let mut told = one(share, GOES_ON, stage);
            if progress.total > 0 {
                let text =
                    format!("{stage} {}/{} {}", progress.done, progress.total, progress.unit);
                told["progress_text"] = text.into();
            }
            told
        }
        State::Failed => one(0.0, FAILED, "failed"),
        State::Cancelled => one(0.0, FAILED, "cancelled"),
        State::Done => entry(&id, SUCCEEDED, songs(server, job).await?, "succeeded"),
    })
}

fn entry(id: &str, status: u8, list: Vec<Value>, progress: &str) -> Value {
    json!({
        "task_id": id,
        "status": status,
        "result": Value::Array(list).to_string(),
        "progress_text": progress,
    })
}

fn waiting(share: f64, status: u8, stage: &str, error: Option<&str>, created: i64) -> Value {
    json!({
        "file": "", "wave": "", "status": status, "create_time": created, "env": "production",
        "prompt": "", "lyrics": "", "metas": {}, "progress": share, "stage": stage, "error": error,
    })
}

/// Tells the songs of a job. A job without sound tells its words.
async fn songs(server: &Server, job: &Job) -> Result<Vec<Value>, ApiError> {
    let mut read = None;
    if let Some(output) = results::of(job, Content::Request).next() {
        match results::json(server, output).await {
            Ok(words) => read = Some(words),
            // One file that cannot be read must not hide the other jobs of the question.
            Err(ApiError { error, .. }) => {
                tracing::warn!(job = %job.id, reason = error.message, "no request of a job");
            }
        }
    }
    let words = read.or_else(|| job.resolved.clone()).unwrap_or_default();
    let seeds: Vec<String> = results::of(job, Content::Audio)
        .filter_map(|output| output.seed)
        .map(|seed| seed.to_string())
        .collect();
    let seconds = match (job.started, job.ended) {
        (Some(started), Some(ended)) => (ended - started) as f64 / 1000.0,
        _ => 0.0,
    };
    let song = json!({
        "file": "", "wave": "", "status": SUCCEEDED, "create_time": job.created / 1000,
        "env": "production", "prompt": words["caption"].as_str().unwrap_or_default(),
        "lyrics": words["lyrics"].as_str().unwrap_or_default(),
        "metas": metas(&words, &job.request), "audio_codes": words["audio_codes"],
        "generation_info": format!("{seconds:.1} s"), "seed_value": seeds.join(","),
        "lm_model": words["lm_model"], "dit_model": words["model"].as_str().or(job.model.as_deref()),
        "progress": 1.0, "stage": "succeeded", "notices": job.notices,
    });
    let mut songs = Vec::new();
    for output in results::of(job, Content::Audio) {
        let mut song = song.clone();
        song["file"] = address(job, output).into();
        let is_its = |lines: &&Output| lines.track == output.track;
        if let Some(lines) = results::of(job, Content::Lrc).find(is_its) {
            song["lrc"] = address(job, lines).into();
        }
        songs.push(song);
    }
    if songs.is_empty() {
        songs.push(song);
    }
    Ok(songs)
}

/// The address of a result: its name is looked up in the job, never in the file system.
fn address(job: &Job, output: &Output) -> String {
    let name = format!("{}/{}", job.id, output.name);
    let name: String = form_urlencoded::byte_serialize(name.as_bytes()).collect();
    format!("{ADDRESS}{name}")
}

/// The metadata that was used, and the words that were sent.
fn metas(words: &Value, sent: &Value) -> Value {
    let sent = |keys: &[&str]| {
        let found = keys.iter().find_map(|key| sent[*key].as_str());
        found.unwrap_or_default().to_owned()
    };
    json!({
        "bpm": words["bpm"],
        "duration": words["duration"],
        "genres": words["genres"].as_str().unwrap_or_default(),
        "keyscale": words["keyscale"].as_str().unwrap_or_default(),
        "timesignature": words["timesignature"].as_str().unwrap_or_default(),
        "prompt": sent(&["caption", "prompt"]),
        "lyrics": sent(&["lyrics"]),
    })
}
