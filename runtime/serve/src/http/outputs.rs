//! Results of a job. Names are looked up in the job, never in the file system.

use std::sync::Arc;

use axum::{
    Router,
    extract::Request,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use tower_http::services::ServeFile;
use uuid::Uuid;

use super::{
    ApiError, Asker, Server,
    extract::Path,
    read,
    results::{no_result, place},
};
use crate::job::{Content, Output};

pub(super) fn routes() -> Router<Arc<Server>> {
    Router::new()
        .route("/v1/jobs/{id}/outputs/{name}", read(output))
        .route("/v1/jobs/{id}/tracks/{track}", read(track))
        .route("/v1/jobs/{id}/tracks/{track}/{content}", read(content))
}

/// Returns a result by its name, with ranges.
#[utoipa::path(get, path = "/v1/jobs/{id}/outputs/{name}", tag = "results",
    responses((status = 200, description = "the file"), (status = 404, description = "no such result")))]
pub(super) async fn output(
    Asker(server, caller): Asker,
    Path((id, name)): Path<(Uuid, String)>,
    request: Request,
) -> Result<Response, ApiError> {
    let job = server.job(&caller, id).await?;
    let output = job.outputs.iter().find(|output| output.name == name).ok_or_else(no_result)?;
    file(&server, output, request, ApiError::into_response).await
}

/// Returns the sound of a song, from 1, with or without its ending.
#[utoipa::path(get, path = "/v1/jobs/{id}/tracks/{track}", tag = "results",
    responses((status = 200, description = "the sound file")))]
pub(super) async fn track(
    Asker(server, caller): Asker,
    Path((id, track)): Path<(Uuid, String)>,
    request: Request,
) -> Result<Response, ApiError> {
    let (number, ending) =
        track.split_once('.').map_or((track.as_str(), None), |(n, e)| (n, Some(e)));
    let number: u32 = number.parse().map_err(|_| no_result())?;
    let job = server.job(&caller, id).await?;
    let is_it = |output: &&Output| {
        output.track == number
            && output.content == Content::Audio
            && ending.is_none_or(|ending| output.name.ends_with(&format!(".{ending}")))
    };
    let output = job.outputs.iter().find(is_it).ok_or_else(no_result)?;
    file(&server, output, request, ApiError::into_response).await
}

/// Returns another result of a song: `latents`, `codes`, `lrc`, `words`, `score`, `request`, `peaks`.
#[utoipa::path(get, path = "/v1/jobs/{id}/tracks/{track}/{content}", tag = "results",
    responses((status = 200, description = "the file")))]
pub(super) async fn content(
    Asker(server, caller): Asker,
    Path((id, track, content)): Path<(Uuid, u32, String)>,
    request: Request,
) -> Result<Response, ApiError> {
    let wanted: Content = serde_json::from_value(content.into()).map_err(|_| no_result())?;
    let job = server.job(&caller, id).await?;
    let is_it = |output: &&Output| output.track == track && output.content == wanted;
    let output = job.outputs.iter().find(is_it).ok_or_else(no_result)?;
    file(&server, output, request, ApiError::into_response).await
}

/// True if a client has the content with this tag already.
pub(super) fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let known = headers.get(header::IF_NONE_MATCH).and_then(|tags| tags.to_str().ok());
    let strong = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    let is_it = |other: &str| other.trim() == "*" || strong(other) == strong(tag);
    known.is_some_and(|tags| tags.split(',').any(is_it))
}

/// Answers with a file, whole or a range of it. `refused` gives an error the form of its API.
pub(super) async fn file(
    server: &Server,
    output: &Output,
    mut request: Request,
    refused: impl FnOnce(ApiError) -> Response,
) -> Result<Response, ApiError> {
    let place = place(server, output).await?;
    let tag = format!("\"{}\"", output.sha256);
    // `ServeFile` refuses several ranges. RFC 9110 allows the whole instead.
    if request.headers().get(header::RANGE).is_some_and(|range| range.as_bytes().contains(&b',')) {
        request.headers_mut().remove(header::RANGE);
    }
    let mut response = if is_known(request.headers(), &tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let sent = ServeFile::new(place).try_call(request).await;
        sent.map_err(|error| ApiError::from(crate::worker::of_files(&error)))?.into_response()
    };
    if response.status() == StatusCode::NOT_FOUND {
        return Err(no_result());
    }
    if response.status() == StatusCode::RANGE_NOT_SATISFIABLE {
        let message = "the result has no such range of bytes";
        let error = ApiError::new(StatusCode::RANGE_NOT_SATISFIABLE, "bad_range", message);
        // It names the size.
        let size = response.headers_mut().remove(header::CONTENT_RANGE);
        let size = size.map(|size| [(header::CONTENT_RANGE, size)]);
        return Ok((size, refused(error)).into_response());
    }
    let headers = response.headers_mut();
    if let Ok(kind) = HeaderValue::from_str(&output.media_type) {
        headers.insert(header::CONTENT_TYPE, kind);
    }
    // A result never changes.
    headers.insert(
        header::CACHE_CONTROL,
        HeaderValue::from_static("private, max-age=31536000, immutable"),
    );
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    Ok(response)
}
