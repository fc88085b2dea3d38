//! Files that clients send: streamed to disk, limited in bytes, named by ids.

use std::sync::Arc;

use acestep_session::speech;
use axum::{
    Json, Router,
    extract::{
        Request,
        multipart::{Field, MultipartError},
    },
    http::{HeaderMap, StatusCode, header},
    routing::post,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use tokio::io::AsyncWriteExt;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::{
    Answer, ApiError, Asker, Server, body_timeout,
    extract::{Path, Query},
    form::Form,
    jobs::page,
    quota::Room,
};
use crate::{
    job::Kind,
    maintenance,
    request::{ComposeRequest, SongRequest},
    store::File,
    worker::of_upload,
};

/// Fields of requests about songs that take the id of a file.
const OF_SONGS: [&str; 8] = [
    "src_audio",
    "reference_audio",
    "src_latents",
    "ref_latents",
    "reference_latents",
    "audio",
    "noise",
    "conditioning",
];

/// Returns the fields of requests that take the id of a file.
pub(super) fn fields() -> impl Iterator<Item = &'static str> {
    OF_SONGS.into_iter().chain(speech::FILES)
}

pub(super) fn routes() -> Router<Arc<Server>> {
    Router::new()
        .route("/v1/files", post(upload).get(list))
        .route("/v1/files/{id}", axum::routing::delete(remove))
}

pub(super) fn is_form(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| {
        kind.trim_start().to_ascii_lowercase().starts_with("multipart/form-data")
    })
}

pub(super) fn of_form(error: &MultipartError) -> ApiError {
    match error.status() {
        StatusCode::PAYLOAD_TOO_LARGE => too_large(),
        _ => {
            body_timeout::of(error).unwrap_or_else(|| ApiError::bad("bad_form", error.body_text()))
        }
    }
}

pub(super) fn of_body(error: &axum::extract::rejection::BytesRejection) -> ApiError {
    match error.status() {
        StatusCode::PAYLOAD_TOO_LARGE => too_large(),
        _ => {
            body_timeout::of(error).unwrap_or_else(|| ApiError::bad("bad_body", error.body_text()))
        }
    }
}

/// Reads a part of a form that is text, at most `most` bytes.
pub(super) async fn text(field: &mut Field<'_>, most: usize) -> Result<String, ApiError> {
    let name = field.name().unwrap_or_default().to_owned();
    let mut bytes = Vec::new();
    while let Some(chunk) = field.chunk().await.map_err(|error| of_form(&error))? {
        if bytes.len() + chunk.len() > most {
            return Err(large_texts().param(name));
        }
        bytes.extend_from_slice(&chunk);
    }
    String::from_utf8(bytes).map_err(|_| {
        let message = format!("the part `{name}` is not UTF-8");
        ApiError::bad("bad_form", message).param(name).hint("a file needs a file name")
    })
}

pub(super) fn large_texts() -> ApiError {
    ApiError::too_large("the texts of the form are larger than 1 MiB")
        .hint("a file needs a file name")
}

pub(super) fn too_large() -> ApiError {
    ApiError::too_large("the upload is larger than this server takes")
}

/// Takes a file: a form with one part.
#[utoipa::path(post, path = "/v1/files", tag = "files",
    request_body(content = Vec<u8>, content_type = "multipart/form-data"),
    responses(
        (status = 200, description = "the file, with its id", body = File),
        (status = 413, description = "a file that is too large"),
        (status = 415, description = "a body that is no form"),
    ))]
pub(super) async fn upload(asker: Asker, request: Request) -> Result<Json<File>, ApiError> {
    if !is_form(request.headers()) {
        let message = "send the file as a form (multipart/form-data)";
        let error = ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "bad_form", message);
        return Err(error.hint("curl -F file=@song.wav URL"));
    }
    let mut form = Form::of(request).await?;
    let file = match form.next_field().await? {
        Some(field) => receive(&asker, field).await?,
        None => return Err(ApiError::bad("bad_form", "the form is empty")),
    };
    // The end of the form must be there too.
    match form.next_field().await? {
        None => Ok(Json(file)),
        Some(_) => Err(ApiError::bad("bad_form", "the form has more than one part")),
    }
}

/// A part of the list.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(super) struct List {
    /// Only files after this one.
    after: Option<Uuid>,
    /// The most files, 1 to 500; 50 without it.
    #[param(minimum = 1)]
    limit: Option<u32>,
}

/// A list of files.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes the answer")]
struct Files {
    /// The files, oldest first.
    files: Vec<File>,
}

/// Lists the files of the caller, oldest first.
#[utoipa::path(get, path = "/v1/files", tag = "files", params(List),
    responses((status = 200, description = "the files", body = Files)))]
pub(super) async fn list(asker: Asker, Query(List { after, limit }): Query<List>) -> Answer {
    let limit = page(limit)?;
    let files = asker.store.files(asker.owner.clone(), after, limit).await?;
    Ok(Json(json!({ "files": files })))
}

/// Removes a file that no waiting or running job needs.
#[utoipa::path(delete, path = "/v1/files/{id}", tag = "files",
    params(("id" = Uuid, Path, description = "the file")),
    responses(
        (status = 204, description = "the file is removed"),
        (status = 404, description = "no file has this id"),
        (status = 409, description = "a job needs the file"),
    ))]
pub(super) async fn remove(asker: Asker, Path(id): Path<Uuid>) -> Result<StatusCode, ApiError> {
    let Some(file) = asker.store.file(id).await?.filter(|file| file.owner == asker.owner) else {
        let message = "no file has this id";
        return Err(ApiError::new(StatusCode::NOT_FOUND, "file_not_found", message));
    };
    let needed = maintenance::remove_files(&*asker.store, &asker.objects, vec![file]).await?;
    if !needed.is_empty() {
        let error = ApiError::new(StatusCode::CONFLICT, "file_needed", "a job needs the file");
        return Err(error.hint("cancel the job, or wait for its end"));
    }
    Ok(StatusCode::NO_CONTENT)
}

/// Writes a part of a form to disk. A file that is cut or too large leaves nothing behind.
pub(super) async fn receive(asker: &Asker, mut field: Field<'_>) -> Result<File, ApiError> {
    let failed = |error: std::io::Error| ApiError::from(of_upload(&error));
    let name = field.file_name().unwrap_or_default().chars().take(255).collect();
    // Dropped on every error, and removed with that.
    let incoming = tempfile::NamedTempFile::new_in(asker.objects.incoming()).map_err(failed)?;
    let (file, path) = incoming.into_parts();
    let mut file = tokio::fs::File::from_std(file);
    let mut room = Room::of(asker).await?;
    let (mut sum, mut bytes) = (Sha256::new(), 0u64);
    while let Some(chunk) = field.chunk().await.map_err(|error| of_form(&error))? {
        bytes += chunk.len() as u64;
        if bytes > asker.limits.upload as u64 {
            return Err(too_large());
        }
        room.take(chunk.len() as u64)?;
        sum.update(&chunk);
        file.write_all(&chunk).await.map_err(failed)?;
    }
    if bytes == 0 {
        return Err(ApiError::bad("empty_file", "the file is empty"));
    }
    // An error of the last write is told here, and nowhere else.
    file.flush().await.map_err(failed)?;
    file.sync_all().await.map_err(failed)?;
    room.keep(path, name, bytes, sum).await
}

/// Checks the files that a request names, and returns their fields and ids: each is a file of the caller.
/// Paths and addresses are refused.
pub(super) async fn check(
    asker: &Asker,
    kind: Kind,
    request: &Map<String, Value>,
) -> Result<Vec<(&'static str, Uuid)>, ApiError> {
    let mut files = Vec::new();
    for (name, value) in named(kind, request)? {
        let file = match Uuid::parse_str(&value) {
            Ok(id) => asker.store.file(id).await?,
            Err(_) => None,
        };
        match file {
            Some(file) if file.owner == asker.owner => files.push((name, file.id)),
            _ => return Err(not_found(name)),
        }
    }
    Ok(files)
}

/// Checks that files are still there.
/// Errors: 404 for the first one that is not.
pub(super) async fn are_there(
    server: &Server,
    files: &[(&'static str, Uuid)],
) -> Result<(), ApiError> {
    for (name, id) in files {
        if server.store.file(*id).await?.is_none() {
            return Err(not_found(name));
        }
    }
    Ok(())
}

fn not_found(name: &str) -> ApiError {
    let message = format!("`{name}` is not the id of a file that was sent");
    let error = ApiError::new(StatusCode::NOT_FOUND, "file_not_found", message);
    let hint = "send the file in a form, or with POST /v1/files first; the server reads no paths and \
         no addresses";
    error.param(name).hint(hint)
}

fn named(
    kind: Kind,
    request: &Map<String, Value>,
) -> Result<Vec<(&'static str, String)>, ApiError> {
    if matches!(kind, Kind::Generate | Kind::Compose) {
        // Other programs have other names for these fields, so the request is read first.
        let read = match kind {
            Kind::Compose => ComposeRequest::read(request.clone())?.song,
            _ => SongRequest::read(request.clone())?,
        };
        let source = read.request.source;
        let lists =
            [("reference_audio", source.reference_audio), ("ref_latents", source.ref_latents)];
        let lists = lists
            .into_iter()
            .flat_map(|(name, list)| list.into_iter().flatten().map(move |value| (name, value)));
        let single = [
            ("src_audio", source.src_audio),
            ("src_latents", source.src_latents),
            ("noise", read.noise),
            ("conditioning", read.conditioning),
        ];
        let single = single.into_iter().filter_map(|(name, value)| Some((name, value?)));
        return Ok(single.chain(lists).collect());
    }
    let mut files = Vec::new();
    for name in fields() {
        match request.get(name) {
            None | Some(Value::Null) => {}
            // The family checks it.
            Some(value) if speech::is_content(value) && speech::FILES.contains(&name) => {}
            Some(Value::String(value)) => files.push((name, value.clone())),
            Some(_) => {
                let message = format!("`{name}` is not the id of a file");
                return Err(ApiError::bad("bad_value", message).param(name));
            }
        }
    }
    Ok(files)
}
