//! Room for the files that clients send, for each client and in all.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use axum::http::StatusCode;

use super::{ApiError, Caller, Server};

/// Bytes of uploads on their way, by client: several at once cannot pass the limit together.
#[derive(Debug, Default)]
pub(super) struct Coming(Mutex<HashMap<String, u64>>);

impl Coming {
    /// Adds bytes of a client, and returns the bytes on their way of all clients and of this one.
    fn add(&self, owner: &str, bytes: u64) -> (u64, u64) {
        let mut coming = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = coming.entry(owner.to_owned()).or_default();
        *own += bytes;
        let own = *own;
        (coming.values().sum(), own)
    }

    fn remove(&self, owner: &str, bytes: u64) {
        let mut coming = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(own) = coming.get_mut(owner) else { return };
        *own = own.saturating_sub(bytes);
        if *own == 0 {
            coming.remove(owner);
        }
    }
}

/// The room of one upload. Its bytes count until it is dropped: then the store knows the file.
pub(super) struct Room<'a> {
    server: &'a Server,
    owner: &'a str,
    stored: u64,
    stored_own: u64,
    bytes: u64,
}

impl<'a> Room<'a> {
    /// Reads again what is stored, when a file is whole: others may have been stored since it began.
    ///
    /// # Errors
    /// 413 if there is no room any more; if the queue cannot be used.
    pub(super) async fn settle(&mut self) -> Result<(), ApiError> {
        let files = self.server.store.files(None).await?;
        let own = files.iter().filter(|file| file.owner == self.owner);
        self.stored_own = own.map(|file| file.bytes).sum();
        self.stored = files.iter().map(|file| file.bytes).sum();
        self.take(0)
    }

    /// The room that is left for files of `caller`.
    ///
    /// # Errors
    /// If the queue cannot be used.
    pub(super) async fn of(server: &'a Server, caller: &'a Caller) -> Result<Self, ApiError> {
        let files = server.store.files(None).await?;
        let own = files.iter().filter(|file| file.owner == caller.0);
        Ok(Self {
            server,
            owner: &caller.0,
            stored: files.iter().map(|file| file.bytes).sum(),
            stored_own: own.map(|file| file.bytes).sum(),
            bytes: 0,
        })
    }

    /// Takes room for more bytes.
    ///
    /// # Errors
    /// 413 if there is none.
    pub(super) fn take(&mut self, bytes: u64) -> Result<(), ApiError> {
        self.bytes += bytes;
        let (coming, own) = self.server.coming.add(self.owner, bytes);
        let limits = &self.server.limits;
        let message = if self.stored_own + own > limits.files_of_one {
            "the files of this client have no more room"
        } else if self.stored + coming > limits.files {
            "the files of all clients have no more room"
        } else {
            return Ok(());
        };
        let status = StatusCode::PAYLOAD_TOO_LARGE;
        let hint = "GET /v1/files lists your files, and DELETE /v1/files/ID removes one";
        Err(ApiError::new(status, "no_room", message).hint(hint))
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.server.coming.remove(self.owner, self.bytes);
    }
}
