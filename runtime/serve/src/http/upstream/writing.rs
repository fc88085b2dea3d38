//! Words by the language model, and examples.

use acestep_music::request::language::NO_USER_INPUT;
use axum::{Json, extract::Request, http::StatusCode, response::Response};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{Answer, Failure, is_set, text, wrapped, wrong};
use crate::{
    http::{
        ApiError, Asker, Submission, delayed,
        input::{Input, given, put},
        results,
    },
    job::{Content, Kind, now},
};

/// Examples of songs, our own.
const EXAMPLES: &str = include_str!("examples.json");

/// Lets the language model improve caption and lyrics.
pub(super) async fn format(asker: Asker, request: Request) -> Result<Response, Failure> {
    let body = Input::read(&asker, request, &[]).await?.into_object()?;
    let mut request = common(&body)?;
    for (theirs, ours) in [("prompt", "caption"), ("lyrics", "lyrics")] {
        put(&mut request, ours, text(&body, theirs)?);
    }
    if !request.contains_key("caption") && !request.contains_key("lyrics") {
        request.insert("caption".to_owned(), NO_USER_INPUT.into());
    }
    put(&mut request, "param_obj", given(&body, "param_obj").cloned());
    compose(asker, request, "format").await
}

/// Lets the language model write a song of a wish.
pub(super) async fn sample(asker: Asker, request: Request) -> Result<Response, Failure> {
    let body = Input::read(&asker, request, &[]).await?.into_object()?;
    let mut request = common(&body)?;
    // Without a wish it writes any song.
    let query = text(&body, "query")?.unwrap_or_else(|| NO_USER_INPUT.to_owned());
    request.insert("caption".to_owned(), query.into());
    if is_set(&body, "instrumental")? {
        request.insert("instrumental".to_owned(), true.into());
    }
    put(&mut request, "vocal_language", text(&body, "vocal_language")?);
    compose(asker, request, "inspire").await
}

/// Fields that both calls have.
fn common(body: &Map<String, Value>) -> Result<Map<String, Value>, ApiError> {
    let mut request = Map::new();
    put(&mut request, "lm_temperature", given(body, "temperature").cloned());
    for (theirs, ours) in [("lm_model_path", "lm_model"), ("model", "model")] {
        put(&mut request, ours, text(body, theirs)?);
    }
    Ok(request)
}

/// Runs a job of the language model, and answers with its words. A job that fails is an envelope with a code
/// and an error, as upstream has it.
async fn compose(
    asker: Asker,
    mut request: Map<String, Value>,
    mode: &str,
) -> Result<Response, Failure> {
    request.insert("mode".to_owned(), mode.into());
    let id = asker.submit(Kind::Compose, request, Submission::default()).await?.job.id;
    let answer = async move {
        match words(&asker, id).await {
            Ok(words) => wrapped(words),
            Err(ApiError { status, error, .. }) => Json(json!({
                "data": { "job_id": id }, "code": status.as_u16(), "error": error.message,
                "timestamp": now(), "extra": null,
            })),
        }
    };
    Ok(delayed::answer(id, StatusCode::OK, answer).await)
}

/// Returns the words of a job when it has ended, with upstream's names.
async fn words(asker: &Asker, id: Uuid) -> Result<Value, ApiError> {
    let job = results::ended(asker, id).await?;
    let words = results::first(&job, Content::Request, "words")?;
    let words = results::json(asker, words).await?;
    Ok(json!({
        "caption": words["caption"],
        "lyrics": words["lyrics"],
        "bpm": words["bpm"],
        "key_scale": words["keyscale"],
        "time_signature": words["timesignature"],
        "duration": words["duration"],
        "vocal_language": words["vocal_language"],
        "instrumental": words["instrumental"].as_bool().unwrap_or(false),
        "job_id": job.id,
        "notices": job.notices,
    }))
}

pub(super) async fn example(asker: Asker, request: Request) -> Answer {
    let body = Input::read(&asker, request, &[]).await?.into_object()?;
    let kind = text(&body, "sample_type")?.unwrap_or_else(|| "simple_mode".to_owned());
    let all: Map<String, Value> = serde_json::from_str(EXAMPLES)
        .map_err(|_| ApiError::internal("the examples cannot be read"))?;
    let list = all.get(&kind).and_then(Value::as_array);
    let list = list.ok_or_else(|| wrong("sample_type", "simple_mode or custom_mode"))?;
    // The random part of an id chooses.
    let index = Uuid::now_v7().as_u128() as usize % list.len().max(1);
    Ok(wrapped(list.get(index).cloned().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_is_a_request_that_can_be_read() {
        let all: Map<String, Value> = serde_json::from_str(EXAMPLES).expect("JSON");
        for (kind, list) in &all {
            for example in list.as_array().expect("a list") {
                let Value::Object(example) = example.clone() else { panic!("{kind}") };
                acestep_music::Request::from_object(example).expect(kind);
            }
        }
        assert_eq!(all.keys().collect::<Vec<_>>(), ["custom_mode", "simple_mode"]);
    }
}
