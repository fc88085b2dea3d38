//! Kept voices: `/v1/audio/voices`, with the fields of OpenAI and of vllm-omni.

use axum::{Json, extract::Request, http::StatusCode, response::Response};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{asked, model};
use crate::{
    http::{
        Answer, ApiError, Asker, Submission, delayed, extract::Path, input, jobs::MOST_OF_PAGE,
        results,
    },
    job::{Content, Kind, State as JobState},
    store::Selection,
};

/// Other programs' names of our keys.
const NAMES: [(&str, &str); 3] =
    [("audio_sample", "reference"), ("ref_audio", "reference"), ("ref_text", "transcript")];
/// Fields of other programs that no model of ours reads.
const UNREAD: [&str; 2] = ["consent", "speaker_description"];

/// Keeps the voice of a recording. The answer comes when the worker has read it.
pub(super) async fn make(asker: Asker, request: Request) -> Answer<Response> {
    let (object, first, submission) = asked(&asker, request).await?;
    let id = match first {
        Some(job) => job.id,
        None => submit(&asker, object, submission).await?,
    };
    Ok(delayed::answer(id, StatusCode::OK, async move { kept(&asker, id).await }).await)
}

/// Puts the job of a voice into the queue; returns its id.
async fn submit(
    asker: &Asker,
    mut object: Map<String, Value>,
    submission: Submission,
) -> Result<Uuid, ApiError> {
    let mut notices = Vec::new();
    for field in UNREAD {
        if object.remove(field).is_some_and(|value| !value.is_null()) {
            notices.push(format!("`{field}` is not read"));
        }
    }
    let name = model(&mut object)?;
    input::put(&mut object, "model", name);
    input::rename(&mut object, &NAMES)?;
    input::sounds(asker, &mut object, &["reference", "speaker_1", "speaker_2"]).await?;
    let submission = Submission { notices, ..submission };
    Ok(asker.submit(Kind::Voice, object, submission).await?.job.id)
}

/// Returns the voice that a job kept, when it has ended.
async fn kept(asker: &Asker, id: Uuid) -> Answer {
    let job = results::ended(asker, id).await?;
    let voice = results::first(&job, Content::Description, "voice")?;
    let mut voice = results::json(asker, voice).await?;
    voice["id"] = voice["name"].clone();
    voice["object"] = "audio.voice".into();
    voice["created_at"] = (job.ended.unwrap_or(job.created) / 1000).into();
    voice["job_id"] = job.id.to_string().into();
    voice["notices"] = json!(job.notices);
    Ok(Json(voice))
}

/// Removes a kept voice. With several keys a client removes only what it made itself.
pub(super) async fn remove(asker: Asker, Path(name): Path<String>) -> Answer {
    if asker.security.keys.len() > 1 && !has_made(&asker, &name).await? {
        // As for a voice that is not there: names of other clients are not told.
        return Err(ApiError::from(crate::catalog::no_voice(&name)));
    }
    let voice = name.clone();
    asker.ask(move |catalog| catalog.remove_voice(&voice)).await??;
    Ok(Json(json!({ "id": name, "object": "audio.voice", "deleted": true })))
}

/// True if a job of the client made the voice.
async fn has_made(asker: &Asker, name: &str) -> Result<bool, ApiError> {
    let (mut before, mut deleted) = (None, false);
    loop {
        let selection = Selection {
            owner: Some(asker.owner.clone()),
            states: vec![JobState::Done],
            kinds: vec![Kind::Voice],
            before,
            deleted,
            limit: MOST_OF_PAGE,
        };
        let jobs = asker.store.list(selection).await?;
        if jobs.iter().any(|job| job.request["name"] == name) {
            return Ok(true);
        }
        before = jobs.last().map(|job| job.id);
        match (before, deleted) {
            (Some(_), _) => {}
            // A card that was put away takes no right along.
            (None, false) => deleted = true,
            (None, true) => return Ok(false),
        }
    }
}
