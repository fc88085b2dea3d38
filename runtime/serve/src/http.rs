//! HTTP: one router, several faces over the same jobs.
//!
//! | module | content |
//! |---|---|
//! | `jobs`, `outputs`, `events`, `files`, `stream` | the native API |
//! | `realtime` | speech over a WebSocket |
//! | `openai`, `upstream`, `cpp` | the faces of other programs' clients |
//! | `input`, `extract`, `formats`, `results` | what the faces share |
//! | `page` | the page |
//! | `info` | models, properties, health, metrics |
//! | `described` | OpenAPI |
//! | `security` | keys, Host and Origin |
//! | `hub` | listeners for changes of jobs |
//! | `quota` | room for files that clients send |
//! | `sent` | files of a request on its way |
//! | `unread` | the rest of a body that nobody reads |
//! | `error` | errors as JSON |

mod cpp;
mod described;
mod error;
mod events;
mod extract;
mod files;
mod formats;
mod hub;
mod info;
mod input;
mod jobs;
mod openai;
mod outputs;
mod page;
mod quota;
mod realtime;
mod results;
mod security;
mod sent;
mod stream;
mod unread;
mod upstream;

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{
    Router,
    extract::{DefaultBodyLimit, MatchedPath, Request},
    http::{HeaderValue, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::get,
};
use serde_json::{Map, Value};
use tokio::{net::TcpListener, sync::watch, time};
use tower_http::{catch_panic::CatchPanicLayer, set_header::SetResponseHeaderLayer};
use uuid::Uuid;

pub use self::{
    error::ApiError,
    security::{Caller, Key, Security},
};
use crate::{
    catalog::Catalog,
    job::{Job, Kind, NewJob},
    objects::Objects,
    store::{Found, Put, Store},
};

/// The largest JSON body, in bytes.
const JSON_BYTES: usize = 1 << 20;
/// Time that answers on their way have when the server ends.
const LAST: Duration = Duration::from_secs(5);

/// Headers of answers that pages of other sites may read, if their origin may ask.
const SHOWN: &str =
    "X-Job-Id, Location, Retry-After, Content-Range, ETag, X-Sample-Rate, X-Channels";

/// Limits of a server.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The most jobs that wait.
    pub queue: u64,
    /// The most jobs of one client that wait.
    pub queue_of_one: u64,
    /// The largest upload, in bytes.
    pub upload: usize,
    /// The most bytes of all files that clients sent.
    pub files: u64,
    /// The most bytes of the files of one client.
    pub files_of_one: u64,
    /// The longest part of a sound that is read, in seconds.
    pub seconds: f64,
    /// The longest time that a request waits for its job.
    pub wait: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            queue: 200,
            queue_of_one: 200,
            upload: 256 << 20,
            files: 20_000_000_000,
            files_of_one: 20_000_000_000,
            seconds: f64::from(acestep_engine::audio::read::MOST_SECONDS),
            wait: Duration::from_secs(600),
        }
    }
}

/// The state of a server.
pub struct Server {
    /// The queue.
    pub store: Arc<dyn Store>,
    /// The files.
    pub objects: Objects,
    /// The models.
    pub catalog: Arc<dyn Catalog>,
    /// The limits.
    pub limits: Limits,
    /// The keys and the addresses.
    pub security: Security,
    /// The version of the program.
    pub version: &'static str,
    /// True while a worker is ready.
    pub is_ready: Arc<AtomicBool>,
    /// Becomes true when the server ends: long answers end then.
    pub ending: watch::Receiver<bool>,
    /// Listeners for changes of jobs.
    hub: hub::Hub,
    /// Uploads on their way.
    coming: quota::Coming,
    /// Models that the health tells.
    recent_models: upstream::Recent,
    /// Requests by status class, from 1xx to 5xx.
    requests: [AtomicU64; 5],
    start: Instant,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// Settings of a submission that are no part of the request.
#[derive(Debug, Clone, Default)]
pub struct Submission {
    /// A second submission with the same key is the first one.
    pub idempotency_key: Option<String>,
    /// Higher runs earlier.
    pub priority: i64,
    /// A title for people.
    pub title: Option<String>,
    /// Notices of the face that took the request.
    pub notices: Vec<String>,
}

impl Server {
    /// A server over a queue, with default limits.
    pub fn new(
        store: Arc<dyn Store>,
        objects: Objects,
        catalog: Arc<dyn Catalog>,
        security: Security,
        ending: watch::Receiver<bool>,
    ) -> Self {
        Self {
            store,
            objects,
            catalog,
            limits: Limits::default(),
            security,
            version: env!("CARGO_PKG_VERSION"),
            is_ready: Arc::default(),
            ending,
            hub: hub::Hub::default(),
            coming: quota::Coming::default(),
            recent_models: upstream::Recent::default(),
            requests: Default::default(),
            start: Instant::now(),
        }
    }

    /// Checks a request and puts it into the queue. Every face submits through this function.
    ///
    /// # Errors
    /// A request that cannot be run; 429 if the queue is full.
    pub async fn submit(
        &self,
        caller: &Caller,
        kind: Kind,
        request: Map<String, Value>,
        submission: Submission,
    ) -> Result<Put, ApiError> {
        // A client that sends its job again gets it, even while the queue is full.
        if let Some(key) = &submission.idempotency_key
            && let Some(job) = self.store.keyed(caller.0.clone(), key.clone()).await?
        {
            sent::refuse();
            return Ok(Put { job, existed: true });
        }
        let own = Some(caller.0.clone());
        let (counts, own) = tokio::try_join!(self.store.counts(None), self.store.counts(own))?;
        if counts.queued >= self.limits.queue || own.queued >= self.limits.queue_of_one {
            let seconds = counts.mean_seconds.unwrap_or(30.0).ceil().clamp(1.0, 3600.0);
            return Err(ApiError::busy(counts.queued, seconds as u64));
        }
        files::check(self, caller, kind, &request).await?;
        let catalog = self.catalog.clone();
        let copy = request.clone();
        // Headers of a model are read from disk.
        let checked = tokio::task::spawn_blocking(move || catalog.check(kind, &copy))
            .await
            .map_err(|_| ApiError::internal("the check of the request failed"))??;
        let Submission { idempotency_key, priority, title, mut notices } = submission;
        notices.extend(checked.notices);
        let job = NewJob {
            idempotency_key,
            priority,
            title,
            notices,
            ..NewJob::new(kind, checked.model, Value::Object(request), &caller.0)
        };
        // Before the job is stored: a client that goes away meanwhile must not take its files along.
        sent::take(&job.request);
        let put = self.store.put(job).await?;
        // The job of this key has files of its own.
        if put.existed {
            sent::refuse();
        }
        Ok(put)
    }

    /// Waits until the server ends.
    fn over(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut ending = self.ending.clone();
        // A closed channel ends the server too.
        async move { drop(ending.wait_for(|&ending| ending).await) }
    }

    /// Returns a job of `caller`.
    ///
    /// # Errors
    /// 404 for an unknown id and for another client's job; 410 for a job that was removed.
    pub async fn job(&self, caller: &Caller, id: Uuid) -> Result<Job, ApiError> {
        match self.store.get(id).await? {
            Found::Job(job) if job.owner == caller.0 => Ok(job),
            Found::Forgotten => Err(ApiError::new(
                StatusCode::GONE,
                "job_forgotten",
                "the job was removed, with its results",
            )),
            Found::Job(_) | Found::Unknown => Err(ApiError::no_job()),
        }
    }

    /// Waits until a job ended, at most for `most`; returns it in its present state.
    ///
    /// # Errors
    /// As [`Server::job`].
    pub async fn wait(&self, caller: &Caller, id: Uuid, most: Duration) -> Result<Job, ApiError> {
        let mut changes = self.hub.listen(&self.store, id);
        let end = time::Instant::now() + most.min(self.limits.wait);
        let mut ending = self.ending.clone();
        loop {
            let job = self.job(caller, id).await?;
            if job.state.is_ended() || time::Instant::now() >= end || *ending.borrow() {
                return Ok(job);
            }
            tokio::select! {
                () = changes.changed() => {}
                () = time::sleep_until(end) => {}
                _ = ending.changed() => {}
            }
        }
    }
}

/// Returns the router of all faces.
pub fn router(server: Arc<Server>) -> Router {
    let json = DefaultBodyLimit::max(JSON_BYTES);
    let upload = DefaultBodyLimit::max(server.limits.upload);
    let header =
        |name, value| SetResponseHeaderLayer::if_not_present(name, HeaderValue::from_static(value));
    Router::new()
        .merge(jobs::routes().layer(json))
        .merge(outputs::routes())
        .merge(events::routes())
        .merge(stream::routes())
        .merge(realtime::routes())
        .merge(jobs::upload_routes().layer(upload))
        .merge(files::routes().layer(upload))
        .merge(info::routes())
        .merge(described::routes())
        .merge(faces(upload))
        .merge(page::routes())
        .fallback(|| async { ApiError::not_found() })
        .method_not_allowed_fallback(|| async { ApiError::method_not_allowed() })
        .layer(middleware::from_fn_with_state(server.clone(), sent::layer))
        .layer(middleware::from_fn_with_state(server.clone(), security::layer))
        .layer(middleware::from_fn(unread::layer))
        .layer(middleware::from_fn_with_state(server.clone(), count))
        .layer(header(header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .layer(header(header::REFERRER_POLICY, "no-referrer"))
        .layer(header(header::ACCESS_CONTROL_EXPOSE_HEADERS, SHOWN))
        .layer(CatchPanicLayer::custom(|_| {
            ApiError::internal("a mistake in this program; see the server's log").into_response()
        }))
        .with_state(server)
}

/// Returns the faces of other programs' clients. Those of upstream, and of OpenAI beside them, may have the
/// prefix `/api`.
fn faces(limit: DefaultBodyLimit) -> Router<Arc<Server>> {
    let with_prefix = || openai::routes().merge(upstream::routes());
    with_prefix().merge(cpp::routes()).nest("/api", with_prefix()).layer(limit)
}

/// Counts requests by the class of their status.
async fn count(
    axum::extract::State(server): axum::extract::State<Arc<Server>>,
    request: Request,
    next: Next,
) -> Response {
    let path = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let method = request.method().clone();
    let response = next.run(request).await;
    let class = usize::from(response.status().as_u16() / 100).clamp(1, 5) - 1;
    server.requests[class].fetch_add(1, Ordering::Relaxed);
    // The path of the route, never the query or the body.
    tracing::debug!(%method, path, status = response.status().as_u16(), "request");
    response
}

/// Answers requests until `ending` is true; then it waits a few seconds for answers on their way. A
/// client that does not read its answer holds nothing up.
///
/// # Errors
/// If the listener fails.
pub async fn serve(listener: TcpListener, server: Arc<Server>) -> io::Result<()> {
    let (stopped, over) = (server.over(), server.over());
    let serving = axum::serve(listener, router(server)).with_graceful_shutdown(stopped);
    tokio::select! {
        result = serving.into_future() => result,
        () = async { over.await; time::sleep(LAST).await } => {
            tracing::warn!("answers on their way are cut");
            Ok(())
        }
    }
}

/// A route that takes GET and HEAD.
type Get = axum::routing::MethodRouter<Arc<Server>>;

/// Shortens the definition of routes.
fn read<H, T>(handler: H) -> Get
where
    H: axum::handler::Handler<T, Arc<Server>>,
    T: 'static,
{
    get(handler)
}
