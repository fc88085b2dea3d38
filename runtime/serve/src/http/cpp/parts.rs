//! Results of acestep.cpp: JSON, one file, or several parts with a fixed boundary.

use axum::{
    http::header,
    response::{IntoResponse, Response},
};
use serde_json::Value;

use crate::{
    http::{ApiError, Server, results},
    job::{Content, Job, Kind},
};

/// The boundary, which its clients may know by heart.
const BOUNDARY: &str = "ace-batch-boundary";
/// Keys of a request that a language model changes; the others stay as they were sent.
const WORDS: [&str; 9] = [
    "caption",
    "lyrics",
    "bpm",
    "duration",
    "keyscale",
    "timesignature",
    "vocal_language",
    "audio_codes",
    "lm_seed",
];

/// An answer with several parts.
#[derive(Debug, Default)]
struct Parts(Vec<u8>);

impl Parts {
    fn add(&mut self, kind: &str, name: Option<&str>, content: &[u8]) {
        let named = name.map(|name| format!("\r\nContent-Disposition: form-data; name=\"{name}\""));
        let named = named.unwrap_or_default();
        let head = format!("--{BOUNDARY}\r\nContent-Type: {kind}{named}\r\n\r\n");
        self.0.extend_from_slice(head.as_bytes());
        self.0.extend_from_slice(content);
        self.0.extend_from_slice(b"\r\n");
    }

    fn close(mut self) -> Response {
        self.0.extend_from_slice(format!("--{BOUNDARY}--\r\n").as_bytes());
        let kind = format!("multipart/mixed; boundary={BOUNDARY}");
        ([(header::CONTENT_TYPE, kind)], self.0).into_response()
    }
}

pub(super) async fn result(server: &Server, jobs: &[Job]) -> Result<Response, ApiError> {
    let kind = jobs.first().map_or(Kind::Generate, |job| job.kind);
    match kind {
        Kind::Compose | Kind::Understand => {
            let mut list = Vec::new();
            for job in jobs {
                list.push(request(server, job).await?);
            }
            if kind == Kind::Compose {
                return Ok(axum::Json(list).into_response());
            }
            let mut parts = Parts::default();
            let text = Value::Array(list).to_string();
            parts.add("application/json", None, text.as_bytes());
            for job in jobs {
                add_latents(server, job, None, &mut parts).await?;
            }
            Ok(parts.close())
        }
        Kind::Voice => one(server, jobs, Content::Description).await,
        Kind::Encode => one(server, jobs, Content::Latents).await,
        Kind::Decode | Kind::Speak => one(server, jobs, Content::Audio).await,
        Kind::Generate => {
            let mut parts = Parts::default();
            for job in jobs {
                for output in results::of(job, Content::Audio) {
                    let bytes = results::bytes(server, output).await?;
                    parts.add(&output.media_type, None, &bytes);
                    add_latents(server, job, Some(output.track), &mut parts).await?;
                }
            }
            Ok(parts.close())
        }
    }
}

async fn add_latents(
    server: &Server,
    job: &Job,
    track: Option<u32>,
    parts: &mut Parts,
) -> Result<(), ApiError> {
    let is_it = |output: &&crate::job::Output| track.is_none_or(|track| output.track == track);
    if let Some(output) = results::of(job, Content::Latents).find(is_it) {
        let bytes = results::bytes(server, output).await?;
        parts.add("application/octet-stream", Some("latent"), &bytes);
    }
    Ok(())
}

async fn one(server: &Server, jobs: &[Job], content: Content) -> Result<Response, ApiError> {
    let output = jobs.iter().find_map(|job| results::of(job, content).next());
    let output = output.ok_or_else(|| ApiError::internal("the job has no result"))?;
    let bytes = results::bytes(server, output).await?;
    Ok(([(header::CONTENT_TYPE, output.media_type.clone())], bytes).into_response())
}

/// Returns a request as it was sent, with the words of the language model.
async fn request(server: &Server, job: &Job) -> Result<Value, ApiError> {
    let words = results::first(job, Content::Request, "words")?;
    let words = results::json(server, words).await?;
    let mut request = match job.kind {
        Kind::Compose => job.request.as_object().cloned().unwrap_or_default(),
        _ => serde_json::Map::new(),
    };
    request.remove("mode");
    for key in WORDS {
        match &words[key] {
            Value::Null => {}
            value => drop(request.insert(key.to_owned(), value.clone())),
        }
    }
    Ok(Value::Object(request))
}
