//! Files of a request on its way. Files that no job took are removed at once if the request is refused, its
//! client goes away, or an earlier job has its key.

use std::{
    collections::HashSet,
    mem,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use parking_lot::Mutex;
use serde_json::Value;
use tempfile::TempPath;
use tokio::{runtime::Handle, task};
use uuid::Uuid;

use super::{ApiError, Server};
use crate::{
    maintenance::{self, blocking},
    worker::of_upload,
};

tokio::task_local! {
    static SENT: Arc<Mutex<Sent>>;
}

#[derive(Debug, Default)]
struct Sent {
    files: Vec<Uuid>,
    /// True when the client went away.
    is_gone: Arc<AtomicBool>,
    /// Files that jobs took; none before a job was submitted.
    taken: Option<HashSet<Uuid>>,
}

fn change(change: impl FnOnce(&mut Sent)) {
    // Outside of a request, such as in a WebSocket, there are no files.
    let _ = SENT.try_with(|sent| change(&mut sent.lock()));
}

/// Keeps a complete upload as the file `id`, as long as its request lives.
pub(super) async fn keep(server: &Server, whole: TempPath, id: Uuid) -> Result<(), ApiError> {
    let mut is_gone = Arc::default();
    change(|sent| {
        sent.files.push(id);
        is_gone = sent.is_gone.clone();
    });
    let kept = blocking(&server.objects, move |objects| {
        objects.keep_file(whole, id)?;
        // The client went away meanwhile, and the file may have been removed before it was there.
        if is_gone.load(Ordering::SeqCst) { objects.remove_file(id) } else { Ok(()) }
    });
    kept.await.map_err(|error| ApiError::from(of_upload(&error)))
}

/// Keeps the files that the request of a stored job names.
pub(super) fn take(request: &Value) {
    change(|sent| maintenance::ids(request, sent.taken.get_or_insert_default()));
}

/// Keeps no file: the jobs were refused, or are there already.
pub(super) fn refuse() {
    change(|sent| sent.taken = Some(HashSet::new()));
}

/// Removes files that nobody took, also when it is dropped in the middle of a request.
struct Guard {
    server: Arc<Server>,
    sent: Arc<Mutex<Sent>>,
}

impl Guard {
    /// Returns the files that nobody took. Without a job all files of an accepted request stay.
    fn left(&self, is_accepted: bool) -> Vec<Uuid> {
        let Sent { files, taken, .. } = mem::take(&mut *self.sent.lock());
        match taken {
            None if is_accepted => Vec::new(),
            None => files,
            Some(taken) => files.into_iter().filter(|id| !taken.contains(id)).collect(),
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.sent.lock().is_gone.store(true, Ordering::SeqCst);
        let left = self.left(false);
        let (false, Ok(runtime)) = (left.is_empty(), Handle::try_current()) else { return };
        runtime.spawn(remove(self.server.clone(), left));
    }
}

pub(super) async fn layer(
    State(server): State<Arc<Server>>,
    request: Request,
    next: Next,
) -> Response {
    let guard = Guard { server, sent: Arc::default() };
    let response = SENT.scope(guard.sent.clone(), next.run(request)).await;
    let left = guard.left(response.status().is_success());
    if !left.is_empty() {
        // A task of its own: the client may go away before all files are removed.
        let removed = task::spawn(remove(guard.server.clone(), left)).await;
        debug_assert!(removed.is_ok(), "removing does not panic");
    }
    response
}

async fn remove(server: Arc<Server>, files: Vec<Uuid>) {
    for id in files {
        let removed = blocking(&server.objects, move |objects| objects.remove_file(id)).await;
        if removed.is_err() || server.store.forget_file(id).await.is_err() {
            tracing::warn!(%id, "a file of a refused request stays");
        }
    }
}
