//! Sound within a request: an id, a `data:` address, base64.

use std::io::{self, Cursor, Read, Seek as _};

use base64::{engine::general_purpose::STANDARD, read::DecoderReader};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::{
    http::{ApiError, Asker, files, quota::Room},
    worker::of_upload,
};

/// The end of the head of a `data:` address.
const DATA: &str = ";base64,";

/// Returns the id of a sound within a request: an id of a file that was sent, or a `data:` address
/// whose bytes are stored.
/// Errors: any other address; bytes that are not base64.
pub(in crate::http) async fn sound(
    asker: &Asker,
    field: &str,
    value: String,
) -> Result<String, ApiError> {
    if value.starts_with("data:") {
        if !value.contains(DATA) {
            let message = format!("`{field}` is a data: address without base64");
            return Err(ApiError::bad("bad_value", message).param(field));
        }
        return base64(asker, field, value).await;
    }
    if Uuid::parse_str(&value).is_err() {
        let message = format!("`{field}` is neither a data: address nor the id of a file");
        let hint = "the server reads no addresses and no paths: send the file with POST /v1/files";
        return Err(ApiError::bad("bad_value", message).param(field).hint(hint));
    }
    Ok(value)
}

/// Puts ids in the place of sounds, in those `fields` of a request that are texts.
pub(in crate::http) async fn sounds(
    asker: &Asker,
    request: &mut Map<String, Value>,
    fields: &[&str],
) -> Result<(), ApiError> {
    for field in fields {
        if let Some(Value::String(value)) = request.get_mut(*field) {
            let value = std::mem::take(value);
            let id = sound(asker, field, value).await?;
            request.insert((*field).to_owned(), id.into());
        }
    }
    Ok(())
}

/// Stores a sound that is base64 within a request, with or without the head of a `data:` address. It goes to disk
/// while it is decoded, so only the text is in memory.
pub(in crate::http) async fn base64(
    asker: &Asker,
    field: &str,
    mut text: String,
) -> Result<String, ApiError> {
    text.truncate(text.trim_end().len());
    let begin = text.find(DATA).map_or(0, |at| at + DATA.len());
    let data = text[begin..].trim_start();
    // Four letters are three bytes, less one for each `=` at the end; two are right.
    let padding = (data.len() - data.trim_end_matches('=').len()).min(2);
    let bytes = (data.len().div_ceil(4) * 3).saturating_sub(padding);
    let begin = text.len() - data.len();
    let mut text = Cursor::new(text.into_bytes());
    text.set_position(begin as u64);
    store(asker, field, bytes as u64, DecoderReader::new(text, &STANDARD)).await
}

/// Stores the `bytes` bytes of a source as a file of the caller; returns its id.
pub(in crate::http) async fn store(
    asker: &Asker,
    field: &str,
    bytes: u64,
    mut source: impl Read + Send + 'static,
) -> Result<String, ApiError> {
    if bytes == 0 {
        return Err(ApiError::bad("empty_file", "the file is empty").param(field));
    }
    if bytes > asker.limits.upload as u64 {
        return Err(files::too_large().param(field));
    }
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::InvalidData => {
            ApiError::bad("bad_value", format!("`{field}` is not base64")).param(field)
        }
        _ => ApiError::from(of_upload(&error)),
    };
    let mut room = Room::of(asker).await?;
    room.take(bytes)?;
    let folder = asker.objects.incoming();
    let written = tokio::task::spawn_blocking(move || {
        let (mut file, mut sum) = (tempfile::NamedTempFile::new_in(folder)?, Sha256::new());
        let bytes = io::copy(&mut source, &mut file)?;
        file.rewind()?;
        io::copy(&mut file, &mut sum)?;
        file.as_file().sync_all()?;
        Ok((file.into_temp_path(), bytes, sum))
    });
    let written = written.await.map_err(|_| ApiError::internal("the file cannot be stored"))?;
    let (path, bytes, sum) = written.map_err(failed)?;
    Ok(room.keep(path, field.to_owned(), bytes, sum).await?.id.to_string())
}
