//! Kept voices: `/v1/audio/voices`, with the fields of OpenAI and of vllm-omni.

use axum::{
    Json,
    extract::Request,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{asked, model};
use crate::{
    http::{
        Answer, ApiError, Asker, Caller, Server, Submission, delayed, extract::Path,
        idempotency::Keyed, input, jobs::MOST_OF_PAGE, results,
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
pub(super) async fn make(Asker(server, caller): Asker, request: Request) -> Answer<Response> {
    let keyed = Keyed::of(&request)?;
    let (object, first, submission) = asked(&server, &caller, keyed, request).await?;
    let id = match first {
        Some(job) => job.id,
        None => submit(&server, &caller, object, submission).await?,
    };
    let answer = async move { kept(&server, &caller, id).await.into_response() };
    Ok(delayed::answer(id, StatusCode::OK, answer).await)
}

/// Puts the job of a voice into the queue; returns its id.
async fn submit(
    server: &Server,
    caller: &Caller,
    mut object: Map<String, Value>,
    submission: Submission,
) -> Result<Uuid, ApiError> {
    let mut notices = Vec::new();
    for field in UNREAD {
        if object.remove(field).is_some_and(|value| !value.is_null()) {
            notices.push(format!("`{field}` is not read"));
        }
    }
    if let Some(name) = model(&mut object)? {
        object.insert("model".to_owned(), name.into());
    }
    input::rename(&mut object, &NAMES)?;
    input::sounds(server, caller, &mut object, &["reference", "speaker_1", "speaker_2"]).await?;
    let submission = Submission { notices, ..submission };
    Ok(server.submit(caller, Kind::Voice, object, submission).await?.job.id)
}

/// Returns the voice that a job kept, when it has ended.
async fn kept(server: &Server, caller: &Caller, id: Uuid) -> Answer {
    let job = results::ended(server, caller, id).await?;
    let output = results::of(&job, Content::Description).next();
    let output = output.ok_or_else(|| ApiError::internal("the job has no voice"))?;
    let mut voice = results::json(server, output).await?;
    voice["id"] = voice["name"].clone();
    voice["object"] = "audio.voice".into();
    voice["created_at"] = (job.ended.unwrap_or(job.created) / 1000).into();
    voice["job_id"] = job.id.to_string().into();
    voice["notices"] = json!(job.notices);
    Ok(Json(voice))
}

/// Removes a kept voice. With several keys a client removes only what it made itself.
pub(super) async fn remove(Asker(server, caller): Asker, Path(name): Path<String>) -> Answer {
    if server.security.keys.len() > 1 && !has_made(&server, &caller, &name).await? {
        // As for a voice that is not there: names of other clients are not told.
        return Err(ApiError::from(crate::catalog::no_voice(&name)));
    }
    let voice = name.clone();
    server.ask(move |catalog| catalog.remove_voice(&voice)).await??;
    Ok(Json(json!({ "id": name, "object": "audio.voice", "deleted": true })))
}

/// True if a job of the client made the voice.
async fn has_made(server: &Server, caller: &Caller, name: &str) -> Result<bool, ApiError> {
    let (mut before, mut deleted) = (None, false);
    loop {
        let selection = Selection {
            owner: Some(caller.0.clone()),
            states: vec![JobState::Done],
            kinds: vec![Kind::Voice],
            before,
            deleted,
            limit: MOST_OF_PAGE,
        };
        let jobs = server.store.list(selection).await?;
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
