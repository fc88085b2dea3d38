//! The warm-up of a worker: its model is loaded and tried by small jobs that nobody asked for.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicBool, Ordering},
    time::Instant,
};

use acestep_engine::{Event, Observe};
use acestep_model::{
    Backend,
    speech::qwen3_tts::{Files as _, ModelType},
};
use serde_json::{Value, json};

use super::{Failed, Networked};
use crate::{
    catalog::Family,
    job::{JobError, Kind, NewJob, now},
    worker::{Runner as _, Stopped, Task, Worker, of_files},
};

/// Ends a warm-up if the worker ends.
struct Until<'a>(&'a AtomicBool);

impl Observe for Until<'_> {
    fn event(&self, _event: Event) {}

    fn cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl<B: Backend> Networked<'_, B> {
    /// Loads and tries a model. If that fails, the log says why, and jobs are taken all the same.
    pub(super) fn warm_up(&mut self, model: &str, worker: &Worker<'_>) {
        let begin = Instant::now();
        let warmed = self.installed.family(model).map_err(Stopped::Failed).and_then(|family| {
            let jobs = match family {
                Family::Speech => self.speech_jobs(model)?,
                Family::Music | Family::Language => vec![(Kind::Generate, song(model))],
            };
            jobs.into_iter().try_for_each(|(kind, request)| self.try_job(kind, request, worker))
        });
        match warmed {
            Ok(()) => {
                let seconds = begin.elapsed().as_secs_f32();
                tracing::info!(model, seconds, "the model is warm");
            }
            Err(Stopped::Cancelled) => {}
            Err(Stopped::Failed(JobError { code, message, .. })) => {
                tracing::warn!(model, code, message, "the warm-up failed");
            }
        }
    }

    /// Runs a job whose results are thrown away.
    fn try_job(&mut self, kind: Kind, request: Value, worker: &Worker<'_>) -> Result<(), Stopped> {
        let failed = |error| Stopped::Failed(of_files(&error));
        let folder = tempfile::tempdir().map_err(failed)?;
        let job = NewJob::new(kind, None, request, "").stored(uuid::Uuid::nil(), now());
        let run = || {
            self.run(Task {
                job: &job,
                folder: folder.path(),
                objects: &worker.objects,
                observe: &Until(worker.is_draining),
                resolved: &|_| (),
                made: &mut Vec::new(),
            })
        };
        // A worker that ends in its warm-up would be started again for ever.
        catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
            Err(Stopped::Failed(JobError::new("internal", "the warm-up panicked")))
        })
    }

    /// Returns texts for the first speaker of a model, or for each of its kept voices.
    fn speech_jobs(&mut self, model: &str) -> Result<Vec<(Kind, Value)>, Stopped> {
        let folder = self.speech_folder(model).map_err(Failed::into_stopped)?;
        let text = json!({ "text": "Yes.", "model": model, "seed": 0, "max_new_tokens": 3 });
        let with = |key: &str, value: &str| {
            let mut request = text.clone();
            request[key] = value.into();
            (Kind::Speak, request)
        };
        let config = folder.config();
        Ok(match config.tts_model_type {
            ModelType::Base => {
                let kept = self.installed.voices_of(folder.name());
                if kept.is_empty() {
                    // It speaks with recordings only, which come with the jobs.
                    let networks =
                        &self.hold_speech(model, &folder).map_err(Failed::into_stopped)?.networks;
                    let loaded = networks.talker().and(networks.codec_decoder().map(drop));
                    loaded.map_err(|error| Failed::from(error).into_stopped())?;
                }
                kept.iter().map(|name| with("voice", name)).collect()
            }
            ModelType::CustomVoice => {
                config.talker_config.spk_id.keys().take(1).map(|name| with("voice", name)).collect()
            }
            ModelType::VoiceDesign => vec![with("instruct", "a calm voice")],
        })
    }
}

/// A request for a second of music in one step.
fn song(model: &str) -> Value {
    json!({
        "caption": "-", "model": model, "duration": 1, "inference_steps": 1, "seed": 0,
        "thinking": false, "lrc": false,
    })
}
