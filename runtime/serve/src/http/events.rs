//! Events of a job as a stream (SSE).
//!
//! Numbers count up within a job, so `Last-Event-ID` continues a stream. A comment every 15 seconds
//! keeps proxies from closing it.

use std::{collections::VecDeque, convert::Infallible, sync::Arc, time::Duration};

use axum::{
    Router,
    http::{HeaderMap, StatusCode},
    response::{
        IntoResponse, Response,
        sse::{Event as Sent, KeepAlive, Sse},
    },
    routing::get,
};
use futures_util::stream;
use uuid::Uuid;

use super::{Answer, Asker, Server, extract::Path, hub::Listener};
use crate::job::JobEvent;

/// Time between two comments, which keep proxies from closing a stream.
pub(in crate::http) const HEARTBEAT: Duration = Duration::from_secs(15);

pub(super) fn routes() -> Router<Arc<Server>> {
    Router::new().route("/v1/jobs/{id}/events", get(events))
}

struct Following {
    asker: Asker,
    id: Uuid,
    changes: Listener,
    after: u64,
    waiting: VecDeque<JobEvent>,
    is_over: bool,
}

/// Follows a job until its end.
#[utoipa::path(get, path = "/v1/jobs/{id}/events", tag = "jobs",
    responses((status = 200, description = "a stream of events: state, progress, notice, track, end",
        content_type = "text/event-stream", body = String),
        (status = 204, description = "the job ended, and all its events were sent")))]
pub(super) async fn events(
    asker: Asker,
    Path(id): Path<Uuid>,
    headers: HeaderMap,
) -> Answer<Response> {
    // Listen first, so that no change is missed.
    let changes = asker.hub.listen(&asker.store, id);
    let job = asker.job(id).await?;
    let last = headers.get("last-event-id").and_then(|value| value.to_str().ok());
    let after = last.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    if job.state.is_ended() && asker.store.events(id, after).await?.is_empty() {
        // A browser connects again after each end of a stream, until it gets this.
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let following =
        Following { asker, id, changes, after, waiting: VecDeque::new(), is_over: false };
    let stream = stream::unfold(following, |mut following| async {
        let event = following.next().await?;
        Some((Ok::<_, Infallible>(event), following))
    });
    Ok(Sse::new(stream).keep_alive(KeepAlive::new().interval(HEARTBEAT)).into_response())
}

impl Following {
    /// Returns the next event; none after the end of the job or of the server.
    async fn next(&mut self) -> Option<Sent> {
        let mut ending = self.asker.ending.clone();
        loop {
            if let Some(event) = self.waiting.pop_front() {
                self.after = event.n;
                return Some(
                    Sent::default()
                        .id(event.n.to_string())
                        .event(event.name)
                        .data(event.data.to_string()),
                );
            }
            if self.is_over || *ending.borrow() {
                return None;
            }
            // The state is read before the events: an end between the two is in both.
            let job = self.asker.job(self.id).await.ok()?;
            self.is_over = job.state.is_ended();
            self.waiting = self.asker.store.events(self.id, self.after).await.ok()?.into();
            if self.waiting.is_empty() && !self.is_over {
                tokio::select! {
                    () = self.changes.changed() => {}
                    _ = ending.changed() => {}
                }
            }
        }
    }
}
