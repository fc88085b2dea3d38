//! HTTP: one router, several APIs over the same jobs.
//!
//! `jobs`, `outputs`, `events`, `files`, `stream` and `realtime` are the native API; `openai`, `upstream` and `cpp` are
//! the APIs of other programs' clients. The first line of each module says what it is for.

mod body_timeout;
mod connections;
mod cpp;
mod delayed;
mod error;
mod events;
mod extract;
mod files;
mod form;
mod formats;
mod http2_timeout;
mod hub;
mod idempotency;
mod info;
mod input;
mod jobs;
mod keys;
mod limits;
mod openai;
mod openapi;
mod outputs;
mod page;
mod quota;
mod realtime;
mod relay;
mod request_files;
mod results;
mod security;
mod stream;
mod submit;
mod unread;
mod upstream;
mod wav;
mod write_timeout;

use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use axum::{
    Router,
    extract::{DefaultBodyLimit, MatchedPath, Request},
    http::{HeaderValue, Method, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use tokio::{net::TcpListener, sync::watch, time};
use tower_http::{catch_panic::CatchPanicLayer, set_header::SetResponseHeaderLayer};
use uuid::Uuid;

use self::extract::Asker;
pub use self::{
    error::ApiError,
    keys::KeyError,
    limits::Limits,
    security::{ApiKey, Security},
    submit::Submission,
};
use crate::{
    catalog::Catalog,
    file_watch::FolderWatch,
    job::Job,
    objects::Objects,
    store::{Lookup, Store},
    worker::DISK_FULL,
};

/// The largest JSON body, in bytes.
const JSON_BYTES: usize = 1 << 20;
/// Room on disk that an answer from another machine needs here, in bytes.
const COPY: usize = 1 << 20;
/// Time that answers on their way have when the server ends.
const LAST: Duration = Duration::from_secs(5);

/// Headers of answers that pages of other sites may read, if their origin is allowed.
const SHOWN: &str =
    "X-Job-Id, Location, Retry-After, Content-Range, ETag, X-Sample-Rate, X-Channels";

/// The answer to a request.
type Answer<T = axum::Json<serde_json::Value>> = Result<T, ApiError>;

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
    /// The device that the worker was told to use; none if workers are started elsewhere.
    pub device: Option<String>,
    /// True while a worker is ready: it takes jobs, and its model is warm if that was asked for.
    pub is_ready: Arc<AtomicBool>,
    /// The reason why the model of a worker is not warm. The worker takes jobs all the same.
    pub not_warm: Arc<Mutex<Option<String>>>,
    /// True while a worker waits because the disk is full.
    pub is_full: Arc<AtomicBool>,
    /// Becomes true when the server ends: long answers end then.
    pub ending: watch::Receiver<bool>,
    /// Listeners for changes of jobs.
    hub: hub::Hub,
    /// Listeners for changes of files.
    folders: FolderWatch,
    /// Sound of attempts on other machines.
    relays: relay::Relays,
    /// Bytes of uploads on their way.
    coming: quota::Coming,
    /// Uploads on their way.
    coming_files: quota::Coming,
    /// Submissions on their way.
    coming_jobs: quota::Coming,
    /// Bytes of bodies in memory.
    bodies: quota::Coming,
    /// Models that the health tells.
    recent_models: upstream::Recent,
    /// Counts requests whose answer has not begun: each holds a clone.
    waiting: Arc<()>,
    /// Requests by status class, from 1xx to 5xx.
    requests: [AtomicU64; 5],
    start: Instant,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("limits", &self.limits).finish_non_exhaustive()
    }
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
            device: None,
            is_ready: Arc::default(),
            not_warm: Arc::default(),
            is_full: Arc::default(),
            ending,
            hub: hub::Hub::default(),
            folders: FolderWatch::default(),
            relays: relay::Relays::default(),
            coming: quota::Coming::default(),
            coming_files: quota::Coming::default(),
            coming_jobs: quota::Coming::default(),
            bodies: quota::Coming::default(),
            waiting: Arc::default(),
            recent_models: upstream::Recent::default(),
            requests: Default::default(),
            start: Instant::now(),
        }
    }

    /// Returns the reason why the model of a worker is not warm, if that was asked for.
    fn not_warm(&self) -> Option<String> {
        self.not_warm.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// True while a worker takes jobs.
    fn takes_jobs(&self) -> bool {
        let is_there = self.is_ready.load(Ordering::Relaxed) || self.not_warm().is_some();
        is_there && !self.waits_for_room()
    }

    /// True while a worker is ready and no job waits for a full disk.
    fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Relaxed) && !self.waits_for_room()
    }

    /// True while jobs wait for a full disk. Workers of other machines take them, if there may be some.
    fn waits_for_room(&self) -> bool {
        self.is_full.load(Ordering::Relaxed) && self.objects.live().is_none()
    }

    /// Refuses what could not be answered while a worker waits for a full disk. The sound of another machine
    /// needs the room of its copy here.
    /// Errors: 507 with `disk_full`.
    async fn has_room(&self) -> Result<(), ApiError> {
        if !self.is_full.load(Ordering::Relaxed) {
            return Ok(());
        }
        let (why, hint) = if self.waits_for_room() {
            let hint = "jobs wait until files are removed there; it looks once a minute";
            ("its worker waits for room", hint)
        } else {
            let objects = self.objects.clone();
            let tried = tokio::task::spawn_blocking(move || objects.has_room(COPY)).await;
            if matches!(tried, Ok(Ok(()))) {
                return Ok(());
            }
            let hint = "remove files there; workers of other machines run what POST /v1/jobs takes";
            ("it has no room for the answer", hint)
        };
        let message = format!("the disk of the server is full: {why}");
        Err(ApiError::new(StatusCode::INSUFFICIENT_STORAGE, DISK_FULL, message).hint(hint))
    }

    /// Waits until the server ends.
    fn over(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut ending = self.ending.clone();
        // A closed channel ends the server too.
        async move { drop(ending.wait_for(|&ending| ending).await) }
    }
}

impl Asker {
    /// Returns a job of the client.
    ///
    /// # Errors
    /// 404 for an unknown id and for another client's job; 410 for a job that was removed.
    async fn job(&self, id: Uuid) -> Result<Job, ApiError> {
        match self.store.get(id).await? {
            Lookup::Job(job) if job.owner == self.owner => Ok(job),
            Lookup::Forgotten => Err(ApiError::new(
                StatusCode::GONE,
                "job_forgotten",
                "the job was removed, with its results",
            )),
            Lookup::Job(_) | Lookup::Unknown => Err(ApiError::no_job()),
        }
    }

    /// Waits until a job ended, at most for `most`; returns it in its present state.
    ///
    /// # Errors
    /// As [`Asker::job`].
    async fn wait(&self, id: Uuid, most: Duration) -> Result<Job, ApiError> {
        let mut changes = self.hub.listen(&self.store, id);
        let end = time::Instant::now() + most.min(self.limits.wait);
        let mut ending = self.ending.clone();
        loop {
            let job = self.job(id).await?;
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

/// Returns the router of all APIs.
pub fn router(server: Arc<Server>) -> Router {
    let json = DefaultBodyLimit::max(JSON_BYTES);
    // A form has words beside its file.
    let upload = DefaultBodyLimit::max(server.limits.upload.saturating_add(JSON_BYTES));
    let header =
        |name, value| SetResponseHeaderLayer::if_not_present(name, HeaderValue::from_static(value));
    let described = Router::new()
        .merge(jobs::routes().layer(json))
        .merge(outputs::routes())
        .merge(events::routes())
        .merge(stream::routes())
        .merge(jobs::upload_routes().layer(upload))
        .merge(files::routes().layer(upload))
        .merge(info::routes())
        .merge(openapi::routes())
        .layer(middleware::from_fn(openapi::query_layer));
    described
        .merge(realtime::routes())
        .merge(other_apis(upload))
        .merge(page::routes())
        .fallback(|| async { ApiError::not_found() })
        .method_not_allowed_fallback(|| async { ApiError::method_not_allowed() })
        .layer(middleware::from_fn(to_the_end))
        .layer(middleware::from_fn_with_state(server.clone(), request_files::layer))
        .layer(middleware::from_fn_with_state(server.clone(), quota::layer))
        .layer(middleware::from_fn_with_state(server.clone(), security::layer))
        .layer(middleware::from_fn_with_state(server.clone(), unread::layer))
        .layer(middleware::from_fn_with_state(server.clone(), count))
        .layer(header(header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .layer(header(header::REFERRER_POLICY, "no-referrer"))
        .layer(header(header::ACCESS_CONTROL_EXPOSE_HEADERS, SHOWN))
        .layer(CatchPanicLayer::custom(|_| {
            ApiError::internal("a mistake in this program; see the server's log").into_response()
        }))
        .with_state(server)
}

/// Returns the APIs of other programs' clients. Those of upstream, and of OpenAI beside them, may have the
/// prefix `/api`.
fn other_apis(limit: DefaultBodyLimit) -> Router<Arc<Server>> {
    let with_prefix = || openai::routes().merge(upstream::routes());
    with_prefix().merge(cpp::routes()).nest("/api", with_prefix()).layer(limit)
}

/// Completes a removal even if the client goes away: the rest would stay.
async fn to_the_end(request: Request, next: Next) -> Response {
    if request.method() != Method::DELETE {
        return next.run(request).await;
    }
    match tokio::spawn(next.run(request)).await {
        Ok(response) => response,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// Counts requests by the class of their status.
async fn count(
    axum::extract::State(server): axum::extract::State<Arc<Server>>,
    request: Request,
    next: Next,
) -> Response {
    let path = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let method = request.method().clone();
    // Dropped too if the client goes away before.
    let waiting = server.waiting.clone();
    let response = next.run(request).await;
    drop(waiting);
    let class = usize::from(response.status().as_u16() / 100).clamp(1, 5) - 1;
    server.requests[class].fetch_add(1, Ordering::Relaxed);
    // The path of the route, never the query or the body.
    tracing::debug!(%method, path, status = response.status().as_u16(), "request");
    response
}

/// Answers requests until `ending` is true; then it waits a few seconds for answers on their way. A
/// client that does not take its answer holds nothing up.
///
/// # Errors
/// If the listener fails.
pub async fn serve(listener: TcpListener, server: Arc<Server>) -> io::Result<()> {
    let (stopped, over) = (server.over(), server.over());
    let limits = server.limits;
    tokio::select! {
        () = connections::answer(listener, router(server), limits, stopped) => Ok(()),
        () = async { over.await; time::sleep(LAST).await } => {
            tracing::warn!("answers on their way are cut");
            Ok(())
        }
    }
}
