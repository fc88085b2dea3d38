//! The API of OpenAI's clients: models, speech, music by one call, and music by chat.
//!
//! Each call is a job of the queue. Its id is in the header `X-Job-Id`, and the job goes on if the client
//! goes away.

mod chat;
mod generations;
mod models;
mod speech;
mod voices;
mod words;

use std::sync::Arc;

use acestep_engine::Format;
use axum::{
    Router,
    body::Body,
    extract::Request,
    http::header,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{
    ApiError, Asker, Server, Submission,
    error::wrong,
    formats,
    idempotency::Keyed,
    input::{self, Input},
    results::{self, Pieces},
};
use crate::job::Job;

pub(super) fn routes() -> Router<Arc<Server>> {
    Router::new()
        .route("/v1/models", get(models::list))
        .route("/v1/models/{*id}", get(models::one))
        .route("/v1/audio/models", get(models::speech))
        .route("/v1/audio/voices", get(models::voices).post(voices::make))
        .route("/v1/audio/voices/{id}", axum::routing::delete(voices::remove))
        .route("/v1/audio/speech", post(speech::create))
        .route("/v1/audio/generations", post(generations::create))
        .route("/v1/audio/music", post(generations::create))
        .route("/v1/audio/music/generations", post(generations::create))
        .route("/v1/chat/completions", post(chat::create))
}

/// The fields of a request, the first job of its key if there is one, and its submission.
type KeyedRequest = (Map<String, Value>, Option<Job>, Submission);

/// Reads a request.
async fn asked(asker: &Asker, request: Request) -> Result<KeyedRequest, ApiError> {
    let keyed = Keyed::of(&request)?;
    let body = Input::read_with_sound(asker, request, &[]).await?;
    let (first, submission) = keyed.first(asker, &body.asked()).await?;
    Ok((body.into_object()?, first, submission))
}

/// Reads a request whose answer is sound.
async fn asked_for_sound(asker: &Asker, request: Request) -> Result<KeyedRequest, ApiError> {
    // The job of a request that is sent again may have ended.
    if Keyed::of(&request)?.is_none() {
        asker.has_room().await?;
    }
    asked(asker, request).await
}

/// Returns the sound of a job in pieces: while it is made if it `is_streamed` and its format can be, else whole.
async fn pieces(
    asker: Asker,
    id: Uuid,
    format: Format,
    is_raw: bool,
    is_streamed: bool,
) -> Result<Pieces, ApiError> {
    // Samples on their way have 16 bits.
    let is_wav = format == Format::Wav16 && !is_raw;
    match is_streamed && (is_raw || is_wav) {
        true => results::samples(asker, id, is_wav).await,
        false => results::whole(asker, id, is_raw).await,
    }
}

/// Answers with sound. For samples without a header `raw` has their rate, if it is known, and their channels.
fn sound(pieces: Pieces, format: Format, raw: Option<(Option<u32>, u16)>) -> Response {
    let kind = if raw.is_some() { "audio/pcm" } else { formats::media_type(format) };
    let of_samples = raw.map(|(rate, channels)| {
        (rate.map(|rate| [("x-sample-rate", rate)]), [("x-channels", channels)])
    });
    ([(header::CONTENT_TYPE, kind)], of_samples, Body::from_stream(pieces)).into_response()
}

/// The name before ours in lists of several servers.
const PREFIX: &str = "acestep/";

/// Returns the name of a model without the name of the server; `None` for the default one.
fn model(object: &mut Map<String, Value>) -> Result<Option<String>, ApiError> {
    let name = text(object, "model")?;
    Ok(name.map(|name| name.strip_prefix(PREFIX).map(str::to_owned).unwrap_or(name)))
}

/// Takes a text out of a request; an empty one is none.
fn text(object: &mut Map<String, Value>, key: &str) -> Result<Option<String>, ApiError> {
    let read = input::text(object, key);
    object.remove(key);
    read
}

/// Takes the format of the sound out of a request, which may give it one of the `names`. True stands for samples
/// without a header.
fn sound_format(
    object: &mut Map<String, Value>,
    names: &[(&str, &str)],
) -> Result<(Format, bool), ApiError> {
    input::rename(object, names)?;
    let named = text(object, "response_format")?;
    if named.as_deref() == Some("pcm") {
        return Ok((Format::Wav16, true));
    }
    Ok((formats::choose("response_format", named.as_deref())?, false))
}

/// Takes a flag out of a request. Forms have texts.
fn flag(object: &mut Map<String, Value>, key: &str) -> Result<bool, ApiError> {
    match object.remove(key) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(flag),
        Some(Value::String(text)) if matches!(&*text, "true" | "1") => Ok(true),
        Some(Value::String(text)) if matches!(&*text, "false" | "0" | "") => Ok(false),
        Some(_) => Err(wrong(key, "it must be true or false")),
    }
}

/// Takes a number out of a request. Forms have texts.
fn number(object: &mut Map<String, Value>, key: &str) -> Result<Option<f64>, ApiError> {
    let read = match object.remove(key) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Number(number)) => number.as_f64(),
        Some(Value::String(text)) => text.trim().parse().ok().filter(|x: &f64| x.is_finite()),
        Some(_) => None,
    };
    read.map(Some).ok_or_else(|| wrong(key, "it must be a number"))
}
