//! Room for what clients send, for each client and in all: files, bodies in memory, and jobs that wait.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use axum::{
    body::Body,
    extract::{Request, State},
    http::{Method, StatusCode},
    middleware::Next,
    response::Response,
};
use futures_util::StreamExt as _;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tempfile::TempPath;
use uuid::Uuid;

use super::{
    ApiError, Asker, JSON_BYTES, Server, body_timeout::Cut, files, request_files, security::Caller,
};
use crate::{
    job::now,
    objects::hex,
    store::{File, FileCounts},
};

/// Bodies of the largest size that may be in memory at once.
const BODIES: u64 = 4;

/// An amount on its way, by client: several requests at once cannot pass a limit together.
#[derive(Debug, Default)]
pub(super) struct Coming(Mutex<HashMap<String, u64>>);

impl Coming {
    /// Adds an amount of a client. Returns the amounts on their way, of all clients and of this one.
    fn add(&self, owner: &str, amount: u64) -> (u64, u64) {
        let mut coming = self.0.lock();
        let own = coming.entry(owner.to_owned()).or_default();
        *own += amount;
        let own = *own;
        (coming.values().sum(), own)
    }

    fn remove(&self, owner: &str, amount: u64) {
        let mut coming = self.0.lock();
        let Some(own) = coming.get_mut(owner) else { return };
        *own = own.saturating_sub(amount);
        if *own == 0 {
            coming.remove(owner);
        }
    }
}

/// The place of one job in the queue. It counts until it is dropped: then the store knows the job.
pub(super) struct QueueSlot<'a>(&'a Asker);

impl<'a> QueueSlot<'a> {
    /// Takes a place for a job of the client.
    /// Errors: 429 if the queue is full; if it cannot be used.
    pub(super) async fn take(asker: &'a Asker) -> Result<Self, ApiError> {
        let slot = Self(asker);
        // Counted before the queue is asked: a job that is stored meanwhile is in one of both.
        let (coming, coming_own) = asker.coming_jobs.add(&asker.owner, 1);
        let [all, own] = asker.store.waiting(asker.owner.clone()).await?;
        let limits = &asker.limits;
        if all + coming > limits.queue || own + coming_own > limits.queue_of_one {
            let mean = asker.store.counts(None).await?.mean_seconds;
            let seconds = mean.unwrap_or(30.0).ceil().clamp(1.0, 3600.0);
            return Err(ApiError::busy(all, seconds as u64));
        }
        Ok(slot)
    }
}

impl Drop for QueueSlot<'_> {
    fn drop(&mut self) {
        self.0.coming_jobs.remove(&self.0.owner, 1);
    }
}

/// The memory of a body that is read as a whole. Its bytes count until it is dropped.
struct Memory {
    server: Arc<Server>,
    owner: String,
    bytes: AtomicU64,
}

impl Memory {
    /// Counts bytes that came; false if there is no memory for them. A small body always has it.
    fn holds(&self, bytes: usize) -> bool {
        let bytes = bytes as u64;
        let of_body = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let (all, own) = self.server.bodies.add(&self.owner, bytes);
        let largest = self.server.limits.upload.saturating_add(JSON_BYTES) as u64;
        let most = largest.saturating_mul(BODIES);
        // One of several clients leaves half to the others.
        let most_of_one = if self.server.security.keys.len() > 1 { most / 2 } else { most };
        of_body <= JSON_BYTES as u64 || all <= most && own <= most_of_one
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.server.bodies.remove(&self.owner, *self.bytes.get_mut());
    }
}

/// The layer: a body counts until its answer begins. A form goes to disk.
pub(super) async fn layer(
    State(server): State<Arc<Server>>,
    request: Request,
    next: Next,
) -> Response {
    if request.method() != Method::POST || files::is_form(request.headers()) {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    let owner = parts.extensions.get::<Caller>().map(|caller| caller.0.clone());
    let (owner, bytes) = (owner.unwrap_or_default(), AtomicU64::default());
    let memory = Arc::new(Memory { server, owner, bytes });
    let held = memory.clone();
    let pieces = body.into_data_stream().map(move |piece| match piece {
        Ok(bytes) if !held.holds(bytes.len()) => Err(axum::Error::new(Cut::Busy)),
        piece => piece,
    });
    let response = next.run(Request::from_parts(parts, Body::from_stream(pieces))).await;
    drop(memory);
    response
}

/// The room of one upload. Its bytes count until it is dropped: then the store knows the file.
pub(super) struct Room<'a> {
    asker: &'a Asker,
    stored: FileCounts,
    bytes: u64,
}

impl<'a> Room<'a> {
    /// The room that is left for a file of the client.
    /// Errors: 413 if the client has as many files as it may; if the queue cannot be used.
    pub(super) async fn of(asker: &'a Asker) -> Result<Self, ApiError> {
        let mut room = Self { asker, stored: FileCounts::default(), bytes: 0 };
        asker.coming_files.add(&asker.owner, 1);
        room.settle().await?;
        Ok(room)
    }

    /// Keeps a whole file, and gives it an id. What is stored is read again: others may have been stored since it
    /// began.
    /// Errors: 413 if there is no room any more; if it cannot be stored.
    pub(super) async fn keep(
        mut self,
        whole: TempPath,
        name: String,
        bytes: u64,
        sum: Sha256,
    ) -> Result<File, ApiError> {
        self.settle().await?;
        let (id, owner, sha256) = (Uuid::now_v7(), self.asker.owner.clone(), hex(&sum.finalize()));
        let file = File { id, owner, name, bytes, sha256, created: now() };
        request_files::keep(self.asker, whole, id).await?;
        self.asker.store.put_file(file.clone()).await?;
        Ok(file)
    }

    async fn settle(&mut self) -> Result<(), ApiError> {
        self.stored = self.asker.store.stored(self.asker.owner.clone()).await?;
        self.take(0)
    }

    /// Takes room for more bytes.
    /// Errors: 413 if there is none.
    pub(super) fn take(&mut self, bytes: u64) -> Result<(), ApiError> {
        self.bytes += bytes;
        let Self { asker, stored, .. } = &*self;
        let (coming, own) = asker.coming.add(&asker.owner, bytes);
        let (_, own_files) = asker.coming_files.add(&asker.owner, 0);
        let limits = &asker.limits;
        let message = if stored.own_files + own_files > limits.files_number_of_one {
            "this client has as many files as it may"
        } else if stored.own_bytes + own > limits.files_of_one {
            "the files of this client have no more room"
        } else if stored.bytes + coming > limits.files {
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
        let Self { asker, bytes, .. } = self;
        asker.coming.remove(&asker.owner, *bytes);
        asker.coming_files.remove(&asker.owner, 1);
    }
}
