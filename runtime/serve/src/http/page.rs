//! The page: files that are part of the program, so it works without a network. Each script says what it is for;
//! `vendor/` has foreign code, with licences and checksums.

use std::sync::{Arc, LazyLock};

use axum::{
    Router,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use sha2::{Digest, Sha256};
use tower_http::compression::CompressionLayer;

use super::{
    Answer, ApiError, Asker, Server,
    extract::{Path, Query},
    outputs::is_known,
    realtime::{self, Choice, Upgrade},
};
use crate::objects::hex;

/// Scripts, styles and sounds of this server alone; no frame around the page, no form that leaves it.
const POLICY: &str = "default-src 'self'; img-src 'self' data: blob:; media-src 'self' blob:; \
    style-src 'self'; script-src 'self'; connect-src 'self'; frame-ancestors 'none'; \
    base-uri 'none'; form-action 'self'";

struct File {
    name: &'static str,
    bytes: &'static [u8],
    /// Weak, as a compressed answer has the same.
    tag: String,
}

macro_rules! files {
    ($($name:literal)+) => {
        [$(File::new($name, include_bytes!(concat!("../../page/", $name)))),+]
    };
}

/// The licence of htm: as this program's, with another owner.
const HTM: &str =
    concat!("Copyright 2018 Google Inc.\n\n", include_str!("../../../../LICENSE-APACHE"));

static FILES: LazyLock<Vec<File>> = LazyLock::new(|| {
    let mut files = Vec::from(files! {
        "index.html" "style.css" "icon.svg" "api.js" "app.js" "card.js" "compare.js" "details.js"
        "format.js" "hear.js" "icons.js" "keys.js" "live.js" "lyrics.js" "more.js" "player.js"
        "queue.js" "region.js" "said.js" "song.js" "source.js" "speech.js" "state.js" "status.js"
        "voices.js" "wave.js" "vendor/htm-preact.js" "vendor/preact-LICENSE.txt"
        "vendor/wavesurfer.js" "vendor/regions.js" "vendor/wavesurfer-LICENSE.txt" "vendor/README.md"
    });
    files.push(File::new("vendor/htm-LICENSE.txt", HTM.as_bytes()));
    files
});

impl File {
    fn new(name: &'static str, bytes: &'static [u8]) -> Self {
        let sum = hex(&Sha256::digest(bytes));
        Self { name, bytes, tag: format!("W/\"{}\"", &sum[..32]) }
    }

    fn media_type(&self) -> &'static str {
        match self.name.rsplit('.').next() {
            Some("html") => "text/html; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("js") => "text/javascript; charset=utf-8",
            Some("svg") => "image/svg+xml",
            _ => "text/plain; charset=utf-8",
        }
    }

    fn answer(&self, headers: &HeaderMap) -> Response {
        let response = if is_known(headers, &self.tag) {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            ([(header::CONTENT_TYPE, self.media_type())], self.bytes).into_response()
        };
        let more = [
            // A new program has new files at the same addresses.
            (header::CACHE_CONTROL, "no-cache"),
            (header::CONTENT_SECURITY_POLICY, POLICY),
            (header::ETAG, self.tag.as_str()),
        ];
        (more, response).into_response()
    }
}

pub(super) fn routes() -> Router<Arc<Server>> {
    Router::new()
        .route("/", get(index))
        .route("/page/{*name}", get(file))
        .layer(CompressionLayer::new())
}

/// Answers with the page. Clients of stream-dia2 open their WebSocket at the same address.
async fn index(
    asker: Result<Asker, ApiError>,
    choice: Result<Query<Choice>, ApiError>,
    upgrade: Upgrade,
    headers: HeaderMap,
) -> Answer<Response> {
    if upgrade.is_err() {
        return Ok(named("index.html", &headers));
    }
    // The page needs no key, and so the layer lets everyone pass here.
    realtime::upgraded(asker?, choice?, upgrade, true).await
}

async fn file(Path(name): Path<String>, headers: HeaderMap) -> Response {
    named(&name, &headers)
}

/// Answers with the file of that name. The folder on disk is not asked.
fn named(name: &str, headers: &HeaderMap) -> Response {
    match FILES.iter().find(|file| file.name == name) {
        Some(file) => file.answer(headers),
        None => ApiError::not_found().into_response(),
    }
}
