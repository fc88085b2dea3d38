//! The warm-up of a worker: its model is loaded and tried by small jobs that nobody asked for.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::Ordering,
    time::Instant,
};

use acestep_engine::CancelIf;
use acestep_model::Backend;
use acestep_session::speech::{Fields, read_kept};
use acestep_speech::Voices;
use serde_json::{Value, json};

use super::{Failed, Networked};
use crate::{
    catalog::Family,
    job::{JobError, Kind, NewJob, now},
    worker::{JobTask, Runner as _, Stopped, Worker, of_files},
};

impl<B: Backend> Networked<'_, B> {
    /// Loads and tries a model. Errors: the reason why it is not warm, in words, which the log has too.
    pub(super) fn warm_up(&mut self, model: &str, worker: &Worker<'_>) -> Result<(), String> {
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
                Ok(())
            }
            Err(Stopped::Cancelled) => Ok(()),
            Err(
                Stopped::Failed(JobError { code, message, .. })
                | Stopped::TooLarge(JobError { code, message, .. }),
            ) => {
                tracing::error!(model, code, reason = message, "the warm-up failed");
                Err(format!("the warm-up of `{model}` failed: {message}"))
            }
        }
    }

    /// Runs a job whose results are thrown away.
    fn try_job(&mut self, kind: Kind, request: Value, worker: &Worker<'_>) -> Result<(), Stopped> {
        let failed = |error| Stopped::Failed(of_files(&error));
        let folder = tempfile::tempdir().map_err(failed)?;
        let job = NewJob::new(kind, None, request, "").stored(uuid::Uuid::nil(), now());
        let run = || {
            self.run(JobTask {
                job: &job,
                folder: folder.path(),
                objects: &worker.objects,
                observe: &CancelIf(|| worker.is_draining.load(Ordering::Relaxed)),
                resolved: &|_| (),
                made: &mut Vec::new(),
            })
        };
        // A worker that ends in its warm-up would be started again for ever.
        catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
            Err(Stopped::Failed(JobError::new("internal", "the warm-up panicked")))
        })
    }

    /// Returns warm-up texts for a model of speech. One that needs a recording is loaded alone: recordings come
    /// with the jobs.
    fn speech_jobs(&mut self, model: &str) -> Result<Vec<(Kind, Value)>, Stopped> {
        let speech = self.speech_of(model).map_err(Failed::into_stopped)?;
        if let Some(constants) = speech.model().constants() {
            tracing::info!(model, constants, "the model's constants");
        }
        warn_of_damaged(self.installed.kept_voices());
        let warmups = speech.model().warmups(self.installed.kept_voices());
        if warmups.is_empty() {
            self.hold_speech(model, &speech);
            speech.load().map_err(|error| Failed::from(error).into_stopped())?;
        }
        let job = |(text, fields): (String, Fields)| {
            let mut request = Value::Object(fields);
            for (key, value) in [("text", json!(text)), ("model", json!(model)), ("seed", json!(0))]
            {
                request[key] = value;
            }
            (Kind::Speak, request)
        };
        Ok(warmups.into_iter().map(job).collect())
    }
}

/// Names the kept voices that cannot be read: no warm-up has them, and their texts will be refused.
fn warn_of_damaged(voices: Option<&Voices>) {
    let Some(voices) = voices else { return };
    for voice in voices.names().unwrap_or_default() {
        if let Err(error) = read_kept(voices, &voice) {
            tracing::warn!(voice, %error, "a kept voice cannot be read");
        }
    }
}

/// A request for a second of music in one step.
fn song(model: &str) -> Value {
    json!({
        "caption": "-", "model": model, "duration": 1, "inference_steps": 1, "seed": 0,
        "thinking": false, "lrc": false,
    })
}
