//! Properties of the server, and the log of the caller's jobs.

use std::{collections::VecDeque, convert::Infallible, sync::Arc};

use axum::{
    Json,
    extract::State,
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::sync::broadcast::{self, error::RecvError};
use uuid::Uuid;

use super::{Failure, MOST_SONGS};
use crate::{
    catalog::{Family, Model},
    http::{Asker, Server, events::HEARTBEAT},
    job::{Job, State as JobState},
    store::Selection,
};

/// Jobs at the begin of a log.
const BEFORE: u32 = 32;
/// Fields of a request whose default is an empty text.
const EMPTY: [&str; 13] = [
    "caption",
    "lyrics",
    "audio_codes",
    "keyscale",
    "timesignature",
    "vocal_language",
    "lm_negative_prompt",
    "track",
    "custom_timesteps",
    "synth_model",
    "lm_model",
    "adapter",
    "vae",
];

pub(super) async fn props(State(server): State<Arc<Server>>) -> Result<Json<Value>, Failure> {
    let (models, adapters) = server.ask(|catalog| (catalog.models(), catalog.adapters())).await?;
    let names = |family| -> Vec<&str> {
        let of = models.iter().filter(|model| model.family == family);
        of.map(|model| model.id.as_str()).collect()
    };
    let is_default = |model: &&Model| model.is_default && model.family == Family::Music;
    let default = models.iter().find(is_default).map(|model| model.id.as_str());
    // Text encoder and VAE are parts of a model here.
    let within: Vec<&str> = default.into_iter().collect();
    let mut request = json!({
        "bpm": 0, "duration": 0, "seed": -1, "lm_batch_size": 1, "synth_batch_size": 1,
        "lm_temperature": 0.85, "lm_cfg_scale": 2.0, "lm_top_p": 0.9, "lm_top_k": 0, "lm_seed": -1,
        "use_cot_caption": true, "inference_steps": 0, "guidance_scale": 0, "shift": 0,
        "audio_cover_strength": 1.0, "cover_noise_strength": 0.0, "repainting_start": 0,
        "repainting_end": -1, "task_type": "text2music", "solver": "euler", "stork_substeps": 10,
        "dcw_mode": "low", "dcw_scaler": 0.0, "dcw_high_scaler": 0.0, "latent_shift": 0.0,
        "latent_rescale": 1.0, "lm_mode": "generate", "output_format": "mp3", "adapter_scale": 1.0,
        "mp3_bitrate": 128,
    });
    for text in EMPTY {
        request[text] = "".into();
    }
    Ok(Json(json!({
        "version": server.version,
        "models": {
            "lm": names(Family::Language),
            "embedding": within,
            "dit": names(Family::Music),
            "vae": within,
        },
        "adapters": adapters,
        "cli": { "max_batch": MOST_SONGS },
        "default": request,
        "presets": {
            "turbo": { "inference_steps": 8, "guidance_scale": 1.0, "shift": 3.0 },
            "sft": { "inference_steps": 50, "guidance_scale": 7.0, "shift": 1.0 },
        },
    })))
}

struct Log {
    asker: Asker,
    changes: broadcast::Receiver<Uuid>,
    waiting: VecDeque<String>,
}

/// Follows the caller's jobs as lines of text. Captions and lyrics are in no line.
pub(super) async fn logs(asker: Asker) -> Result<Response, Failure> {
    // Listen first, so that no change is missed.
    let changes = asker.store.changes();
    let owner = Some(asker.owner.clone());
    let selection = Selection { owner, limit: BEFORE, ..Selection::default() };
    let jobs = asker.store.list(selection).await?;
    let waiting = jobs.iter().rev().map(line).collect();
    let log = Log { asker, changes, waiting };
    let lines = stream::unfold(log, |mut log| async {
        let line = log.next().await?;
        Some((Ok::<_, Infallible>(Event::default().data(line)), log))
    });
    Ok(Sse::new(lines).keep_alive(KeepAlive::new().interval(HEARTBEAT)).into_response())
}

impl Log {
    async fn next(&mut self) -> Option<String> {
        let mut ending = self.asker.ending.clone();
        loop {
            if let Some(line) = self.waiting.pop_front() {
                return Some(line);
            }
            if *ending.borrow() {
                return None;
            }
            let changed = tokio::select! {
                changed = self.changes.recv() => changed,
                _ = ending.changed() => continue,
            };
            match changed {
                Ok(id) => match self.asker.job(id).await {
                    Ok(job) => self.waiting.push_back(line(&job)),
                    // Another client's job.
                    Err(error) if error.status.is_client_error() => {}
                    Err(_) => return None,
                },
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return None,
            }
        }
    }
}

fn line(job: &Job) -> String {
    let (id, kind, state) = (job.id, job.kind.name(), job.state.name());
    let progress = &job.progress;
    match (job.state, &job.error) {
        (JobState::Running | JobState::Cancelling, _) if progress.total > 0 => format!(
            "[Server] Job {id} ({kind}) {state}: {} {}/{}",
            progress.stage, progress.done, progress.total
        ),
        (_, Some(error)) => format!("[Server] Job {id} ({kind}) {state}: {}", error.line()),
        _ => format!("[Server] Job {id} ({kind}) {state}"),
    }
}
