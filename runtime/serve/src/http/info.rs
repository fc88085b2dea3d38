//! The server itself: models, health, numbers, the session of the page.

use std::{
    fmt::Write as _,
    sync::{Arc, atomic::Ordering},
};

use axum::{
    Json, Router,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde::Deserialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::{Answer, ApiError, Asker, Server, extract};
use crate::{
    catalog::{Catalog, Model},
    stages::{self, BOUNDS},
    store::Counts,
};

pub(super) fn routes() -> Router<Arc<Server>> {
    Router::new()
        .route("/healthz", get(alive))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .route("/v1/server", get(server))
        .route("/v1/session", post(session))
}

impl Server {
    /// Asks the catalog, which may look at the disk.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&dyn Catalog) -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let catalog = self.catalog.clone();
        let answer = tokio::task::spawn_blocking(move || question(&*catalog)).await;
        answer.map_err(|_| ApiError::internal("the models cannot be listed"))
    }

    /// Lists the models.
    pub(super) async fn models(&self) -> Result<Vec<Model>, ApiError> {
        self.ask(|catalog| catalog.models()).await
    }
}

/// True for every server that answers.
#[utoipa::path(get, path = "/healthz", tag = "server",
    responses((status = 200, description = "the server answers")))]
pub(super) async fn alive() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

/// 200 if the queue can be used and a worker is there, 503 otherwise.
#[utoipa::path(get, path = "/readyz", tag = "server",
    responses(
        (status = 200, description = "a worker is ready"),
        (status = 503, description = "no worker is ready, its model is not warm, its disk is full, or the queue cannot be used"),
    ))]
pub(super) async fn ready(State(server): State<Arc<Server>>) -> Answer {
    let unavailable =
        |error: ApiError| ApiError { status: StatusCode::SERVICE_UNAVAILABLE, ..error };
    server.has_room().await.map_err(unavailable)?;
    server.store.counts(None).await?;
    if server.is_ready() {
        return Ok(Json(json!({ "status": "ready" })));
    }
    if let Some(why) = server.not_warm() {
        let error = ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "not_warm", why);
        return Err(error.hint("jobs are taken all the same; see the server's log"));
    }
    let message = "no worker is ready yet";
    Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "not_ready", message))
}

/// Returns models, voices, limits and the numbers of the caller's jobs.
#[utoipa::path(get, path = "/v1/server", tag = "server",
    responses((status = 200, description = "properties of the server")))]
pub(super) async fn server(asker: Asker) -> Answer {
    let listed = asker.ask(|of| (of.models(), of.voices(), of.adapters(), of.missing()));
    let (models, voices, adapters, missing) = listed.await?;
    let jobs = asker.store.counts(Some(asker.owner.clone())).await?;
    Ok(Json(json!({
        "version": asker.version,
        "ready": asker.is_ready(),
        "not_warm": asker.not_warm(),
        "models": models,
        "voices": voices,
        "adapters": adapters,
        "missing": missing,
        "device": asker.device,
        "jobs": jobs,
        "limits": {
            "queue": asker.limits.queue,
            "upload_bytes": asker.limits.upload,
            "files_bytes": asker.limits.files_of_one,
            "files": asker.limits.files_number_of_one,
            "audio_seconds": asker.limits.seconds,
        },
    })))
}

/// A key.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Session {
    /// The key.
    key: String,
}

/// Gives the page a cookie for a key.
#[utoipa::path(post, path = "/v1/session", tag = "server", request_body = Session,
    responses(
        (status = 204, description = "the cookie is set"),
        (status = 401, description = "the key is not known"),
    ))]
pub(super) async fn session(
    State(server): State<Arc<Server>>,
    extract::Json(session): extract::Json<Session>,
) -> Answer<Response> {
    let cookie = server.cookie(&session.key)?;
    Ok((StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response())
}

/// Returns numbers in the format of Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "server",
    responses((status = 200, description = "numbers for Prometheus", content_type = "text/plain")))]
pub(super) async fn metrics(State(server): State<Arc<Server>>) -> Answer<Response> {
    let counts = server.store.counts(None).await?;
    let folder = server.objects.folder().to_owned();
    let times = tokio::task::spawn_blocking(move || stages::Times::read(&folder)).await;
    let mut text = metrics_text(&server, &counts);
    stage_text(&times.unwrap_or_default(), &mut text);
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response())
}

fn stage_text(times: &stages::Times, text: &mut String) {
    let name = "acestep_stage_seconds";
    let help = "Seconds of the stages of jobs that were done on this machine.";
    // A string takes everything.
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} histogram");
    for (family, stage, histogram) in times.histograms() {
        let labels = format!("stage=\"{}\",family=\"{family}\"", stage.escape_default());
        let mut below = 0;
        for (bound, number) in BOUNDS.iter().zip(histogram.buckets) {
            below += number;
            let _ = writeln!(text, "{name}_bucket{{{labels},le=\"{bound}\"}} {below}");
        }
        let stages::Histogram { count, sum, .. } = histogram;
        let _ = writeln!(text, "{name}_bucket{{{labels},le=\"+Inf\"}} {count}");
        let _ = writeln!(text, "{name}_sum{{{labels}}} {sum}");
        let _ = writeln!(text, "{name}_count{{{labels}}} {count}");
    }
}

fn metrics_text(server: &Server, counts: &Counts) -> String {
    let mut text = String::new();
    let Counts { queued, running, done, failed, cancelled, mean_seconds, bytes } = counts;
    let mut family = |name: &str, kind: &str, help: &str, rows: &[(String, f64)]| {
        // A string takes everything.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in rows {
            let _ = writeln!(text, "{name}{labels} {value}");
        }
    };
    let states = [
        ("queued", queued),
        ("running", running),
        ("done", done),
        ("failed", failed),
        ("cancelled", cancelled),
    ];
    let states = states.map(|(state, n)| (format!("{{state=\"{state}\"}}"), *n as f64));
    family("acestep_jobs", "gauge", "Jobs by state.", &states);
    let classes: Vec<_> = server
        .requests
        .iter()
        .enumerate()
        .map(|(class, n)| {
            (format!("{{status=\"{}xx\"}}", class + 1), n.load(Ordering::Relaxed) as f64)
        })
        .collect();
    family("acestep_http_requests_total", "counter", "Requests by status.", &classes);
    // The server itself is a holder too.
    let waiting = (Arc::strong_count(&server.waiting) - 1) as f64;
    let ready = f64::from(u8::from(server.is_ready()));
    let seconds = server.start.elapsed().as_secs_f64();
    let peak = acestep_engine::process::peak().map(|peak| peak as f64);
    for (name, help, value) in [
        ("acestep_results_bytes", "Size of all results.", Some(*bytes as f64)),
        ("acestep_job_seconds_mean", "Mean time of recent jobs.", *mean_seconds),
        ("acestep_http_requests_waiting", "Requests whose answer has not begun.", Some(waiting)),
        ("acestep_ready", "1 while a worker is ready.", Some(ready)),
        ("acestep_uptime_seconds", "Time since the start.", Some(seconds)),
        ("acestep_memory_peak_bytes", "Peak memory of the server.", peak),
    ] {
        if let Some(value) = value {
            family(name, "gauge", help, &[(String::new(), value)]);
        }
    }
    text
}
