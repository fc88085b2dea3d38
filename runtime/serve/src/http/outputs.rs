//! Results of a job. Names are looked up in the job, never in the file system.

use std::sync::Arc;

use axum::{
    Router,
    extract::Request,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use tower_http::services::ServeFile;
use uuid::Uuid;

use super::{
    Answer, ApiError, Asker, Server,
    extract::Path,
    results::{no_result, place},
};
use crate::job::{Content, Output};

pub(super) fn routes() -> Router<Arc<Server>> {
    Router::new()
        .route("/v1/jobs/{id}/outputs/{name}", get(output))
        .route("/v1/jobs/{id}/tracks/{track}", get(track))
        .route("/v1/jobs/{id}/tracks/{track}/{content}", get(content))
}

/// Returns a result by its name, with ranges.
#[utoipa::path(get, path = "/v1/jobs/{id}/outputs/{name}", tag = "results",
    responses((status = 200, description = "the file"), (status = 404, description = "no such result")))]
pub(super) async fn output(
    asker: Asker,
    Path((id, name)): Path<(Uuid, String)>,
    request: Request,
) -> Answer<Response> {
    let job = asker.job(id).await?;
    let output = job.outputs.iter().find(|output| output.name == name).ok_or_else(no_result)?;
    file(&asker, output, request, ApiError::into_response).await
}

/// Returns the sound of a song, from 1, with or without its ending.
#[utoipa::path(get, path = "/v1/jobs/{id}/tracks/{track}", tag = "results",
    responses((status = 200, description = "the sound file")))]
pub(super) async fn track(
    asker: Asker,
    Path((id, track)): Path<(Uuid, String)>,
    request: Request,
) -> Answer<Response> {
    let (number, ending) =
        track.split_once('.').map_or((track.as_str(), None), |(n, e)| (n, Some(e)));
    let number: u32 = number.parse().map_err(|_| no_result())?;
    let job = asker.job(id).await?;
    let is_it = |output: &&Output| {
        output.track == number
            && output.content == Content::Audio
            && ending.is_none_or(|ending| output.name.ends_with(&format!(".{ending}")))
    };
    let output = job.outputs.iter().find(is_it).ok_or_else(no_result)?;
    file(&asker, output, request, ApiError::into_response).await
}

/// Returns another result of a song: `latents`, `codes`, `lrc`, `words`, `score`, `request`, `peaks`.
#[utoipa::path(get, path = "/v1/jobs/{id}/tracks/{track}/{content}", tag = "results",
    responses((status = 200, description = "the file")))]
pub(super) async fn content(
    asker: Asker,
    Path((id, track, content)): Path<(Uuid, u32, String)>,
    request: Request,
) -> Answer<Response> {
    let wanted: Content = serde_json::from_value(content.into()).map_err(|_| no_result())?;
    let job = asker.job(id).await?;
    let is_it = |output: &&Output| output.track == track && output.content == wanted;
    let output = job.outputs.iter().find(is_it).ok_or_else(no_result)?;
    file(&asker, output, request, ApiError::into_response).await
}

/// True if a client has the content with this tag already.
pub(super) fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let known = headers.get(header::IF_NONE_MATCH).and_then(|tags| tags.to_str().ok());
    let strong = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    let is_it = |other: &str| other.trim() == "*" || strong(other) == strong(tag);
    known.is_some_and(|tags| tags.split(',').any(is_it))
}

/// Removes conditions that a server ignores by RFC 9110, but `ServeFile` does not: a range that is not one of
/// bytes, or of a file with another `tag`; a date beside a tag.
fn drop_ignored(headers: &mut HeaderMap, tag: &str, size: u64) {
    let is_this = headers.get(header::IF_RANGE).is_none_or(|known| known == tag);
    let range = headers.get(header::RANGE).and_then(|range| range.to_str().ok());
    if !is_this || range.is_none_or(|range| !is_range(range, size)) {
        headers.remove(header::RANGE);
    }
    if headers.contains_key(header::IF_NONE_MATCH) {
        headers.remove(header::IF_MODIFIED_SINCE);
    }
}

/// True for one range of bytes. A suffix longer than the file is the whole file, and a number beyond 64 bits is
/// beyond every file.
fn is_range(range: &str, size: u64) -> bool {
    let number = |text: &str| text.parse::<u64>().ok().filter(|_| !text.starts_with('+'));
    let ends = range.strip_prefix("bytes=").and_then(|range| range.split_once('-'));
    let Some((first, last)) = ends else { return false };
    match (number(first), number(last)) {
        (Some(from), Some(to)) => from <= to,
        (Some(_), None) => last.is_empty(),
        (None, Some(length)) => first.is_empty() && length <= size,
        (None, None) => false,
    }
}

/// Answers with a file, whole or a range of it. `refused` gives an error the form of its API.
pub(super) async fn file(
    server: &Server,
    output: &Output,
    mut request: Request,
    refused: impl FnOnce(ApiError) -> Response,
) -> Answer<Response> {
    let place = place(server, output).await?;
    let tag = format!("\"{}\"", output.sha256);
    drop_ignored(request.headers_mut(), &tag, output.bytes);
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
    // A result never changes.
    let caching = [(header::CACHE_CONTROL, "private, max-age=31536000, immutable")];
    let headers = [(header::CONTENT_TYPE, output.media_type.clone()), (header::ETAG, tag)];
    Ok((caching, headers, response).into_response())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    /// The file has 100 bytes.
    #[test]
    fn a_range_of_another_form_or_of_another_file_is_ignored() {
        let is_kept = |range: &'static str, file: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::RANGE, HeaderValue::from_static(range));
            headers.insert(header::IF_RANGE, HeaderValue::from_static(file));
            drop_ignored(&mut headers, "\"this\"", 100);
            headers.contains_key(header::RANGE)
        };
        for range in ["bytes=0-0", "bytes=9-", "bytes=-100", "bytes=200-", "bytes=0-200"] {
            assert!(is_kept(range, "\"this\""), "{range}");
            assert!(!is_kept(range, "\"other\""), "{range}");
        }
        for range in ["bytes=9-3", "bytes=-101", "bytes=0-99999999999999999999", "bytes=+0-1"] {
            assert!(!is_kept(range, "\"this\""), "{range}");
        }
        for range in ["items=0-1", "bytes=0-1,3-4", "bytes=-", "bytes=", ""] {
            assert!(!is_kept(range, "\"this\""), "{range}");
        }
    }
}
