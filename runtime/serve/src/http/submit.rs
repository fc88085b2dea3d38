//! The way of a request into the queue. Every API submits through here.

use axum::http::StatusCode;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{
    ApiError, Asker, JSON_BYTES, Server, files, idempotency, input, quota::QueueSlot, request_files,
};
use crate::{
    catalog::Checked,
    job::{Kind, NewJob, State},
    store::Put,
    worker::WAITS_FOR_ROOM,
};

/// The most characters of a notice: some have a key of the request.
const NOTICE: usize = 500;

/// Settings of a submission that are no part of the request.
#[derive(Debug, Clone, Default)]
pub struct Submission {
    /// A second submission with the same key is the first one.
    pub idempotency_key: Option<String>,
    /// Hashes of the request as it was sent with that key.
    pub fingerprints: Vec<String>,
    /// Higher runs earlier.
    pub priority: i64,
    /// A title for people.
    pub title: Option<String>,
    /// Notices of the API that took the request.
    pub notices: Vec<String>,
}

impl Asker {
    /// Checks a request and puts it into the queue. Every API submits through this function.
    /// Errors: a request that cannot be run; 429 if the queue is full.
    pub(super) async fn submit(
        &self,
        kind: Kind,
        mut request: Map<String, Value>,
        submission: Submission,
    ) -> Result<Put, ApiError> {
        if input::size(&request) > JSON_BYTES {
            return Err(ApiError::too_large("the request without its sound is larger than 1 MiB"));
        }
        let _slot = QueueSlot::take(self).await?;
        if kind == Kind::Speak
            && let Some(model) = self.model_of_speech(&request).await?
        {
            request.insert("model".to_owned(), model);
        }
        let named = files::check(self, kind, &request).await?;
        let checked = self.checked(kind, &request).await?;
        let Submission { idempotency_key, fingerprints, priority, title, mut notices } = submission;
        notices.extend(checked.notices);
        if self.waits_for_room() {
            notices.push(WAITS_FOR_ROOM.to_owned());
        }
        for notice in &mut notices {
            if let Some((end, _)) = notice.char_indices().nth(NOTICE) {
                notice.truncate(end);
                notice.push('…');
            }
        }
        let job = NewJob {
            idempotency_key,
            fingerprints: fingerprints.clone(),
            priority,
            title,
            notices,
            ..NewJob::new(kind, checked.model, Value::Object(request), &self.owner)
        };
        // Before the job is stored: a client that goes away meanwhile must not take its files along.
        request_files::take(&job.request);
        let put = self.store.put(job).await?;
        if put.existed {
            // The job of this key has files of its own.
            request_files::refuse();
            idempotency::check(&put.job, &fingerprints)?;
        } else if let Err(error) = files::are_there(self, &named).await {
            // Removed in between: see `maintenance::remove_files`.
            self.store.cancel(put.job.id).await?;
            request_files::refuse();
            return Err(error);
        }
        Ok(put)
    }

    /// Puts a job that failed or was cancelled back into the queue. It takes a place there, and its files
    /// and models may be gone since, so it passes the checks of a new job.
    /// Errors: as [`Asker::job`] and [`Asker::submit`]; 409 for a job in another state.
    pub(super) async fn retry(&self, id: Uuid) -> Result<(), ApiError> {
        let wrong_state = || {
            let message =
                "only a job that failed or was cancelled, and has no results, can run again";
            ApiError::new(StatusCode::CONFLICT, "wrong_state", message)
                .hint("submit its request again")
        };
        let job = self.job(id).await?;
        if !matches!(job.state, State::Failed | State::Cancelled) || !job.outputs.is_empty() {
            return Err(wrong_state());
        }
        let _slot = QueueSlot::take(self).await?;
        let request = match job.request {
            Value::Object(request) => request,
            _ => return Err(wrong_state()),
        };
        let named = files::check(self, job.kind, &request).await?;
        self.checked(job.kind, &request).await?;
        if !self.store.retry(id).await? {
            return Err(wrong_state());
        }
        if let Err(error) = files::are_there(self, &named).await {
            // Removed in between: see `maintenance::remove_files`.
            self.store.cancel(id).await?;
            return Err(error);
        }
        Ok(())
    }
}

impl Server {
    /// Returns the model of a request for speech: its own, else the one of its kept voice.
    pub(super) async fn model_of_speech(
        &self,
        request: &Map<String, Value>,
    ) -> Result<Option<Value>, ApiError> {
        let given = |field| input::given(request, field);
        match (given("model"), given("voice").and_then(Value::as_str)) {
            // A recording speaks in place of the voice.
            (None, Some(voice)) if given("reference").is_none() => {
                Ok(self.model_of_voice(voice).await?.map(Value::from))
            }
            (model, _) => Ok(model.cloned()),
        }
    }

    /// Returns the model of the kept voice called `name`.
    pub(super) async fn model_of_voice(&self, name: &str) -> Result<Option<String>, ApiError> {
        let name = name.to_owned();
        self.ask(move |catalog| catalog.model_of_voice(&name)).await
    }

    /// Asks the catalog, which reads headers of models from disk.
    async fn checked(&self, kind: Kind, request: &Map<String, Value>) -> Result<Checked, ApiError> {
        let copy = request.clone();
        Ok(self.ask(move |catalog| catalog.check(kind, &copy)).await??)
    }
}
