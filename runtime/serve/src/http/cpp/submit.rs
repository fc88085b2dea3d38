//! Submission: requests to jobs.

use std::collections::HashMap;

use acestep_engine::Format;
use axum::{Json, extract::Request};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{Failure, MOST_SONGS, id};
use crate::{
    http::{
        ApiError, Asker, Submission, formats,
        input::{Input, given, json_of, put, rename, text},
        request_files,
    },
    job::Kind,
    store::File,
};

/// Bytes of one frame of latents: 64 numbers of 4 bytes.
const FRAME: u64 = 256;
/// The most frames of latents: ten minutes.
const MOST_FRAMES: u64 = 15_000;
/// Parts of forms that are files.
const FILES: [&str; 4] = ["audio", "src_latents", "ref_audio", "ref_latents"];
/// The most songs of one job.
const AT_ONCE: usize = 8;
/// Tasks that need no caption.
const WITHOUT_CAPTION: [&str; 3] = ["lego", "extract", "complete"];

type Answer = Result<Json<Value>, Failure>;

/// Requests, and the files of their form.
struct Sent {
    requests: Vec<Map<String, Value>>,
    files: HashMap<String, File>,
    is_form: bool,
}

impl Sent {
    /// Reads requests: an object or an array, as the body or as the part `request` of a form.
    async fn read(asker: &Asker, request: Request) -> Result<Self, ApiError> {
        match Input::read(asker, request, &["request"]).await? {
            Input::Json(value) => {
                let requests = objects(value)?;
                Ok(Self { requests, files: HashMap::new(), is_form: false })
            }
            Input::Form(fields, sent) => {
                let mut requests = None;
                for (name, request) in fields {
                    if name != "request" || requests.is_some() {
                        return Err(too_much(&name));
                    }
                    let why = "Multipart: invalid JSON in 'request' part";
                    let value = json_of(&request, |_| ApiError::bad("bad_json", why))?;
                    requests = Some(objects(value)?);
                }
                let mut files = HashMap::new();
                for (name, file) in sent {
                    if name.ends_with("latents") {
                        check_latents(&name, &file)?;
                    }
                    if !FILES.contains(&&*name) || files.contains_key(&name) {
                        return Err(too_much(&name));
                    }
                    files.insert(name, file);
                }
                Ok(Self { requests: requests.unwrap_or_default(), files, is_form: true })
            }
        }
    }

    fn file(&self, name: &str) -> Option<Value> {
        self.files.get(name).map(|file| json!(file.id))
    }

    /// Returns the one request of a form, or an empty one.
    fn single(&mut self) -> Result<Map<String, Value>, ApiError> {
        if !self.is_form {
            return Err(ApiError::bad("bad_form", "this address requires multipart/form-data"));
        }
        match self.requests.len() {
            0 | 1 => Ok(self.requests.pop().unwrap_or_default()),
            _ => Err(ApiError::bad("bad_json", "this address takes one request")),
        }
    }
}

fn too_much(name: &str) -> ApiError {
    let message = format!("the form has a part `{name}` too much");
    let hint = format!("parts are request, {}", FILES.join(", "));
    ApiError::bad("bad_form", message).param(name).hint(hint)
}

fn objects(value: Value) -> Result<Vec<Map<String, Value>>, ApiError> {
    let list = match value {
        Value::Array(list) => list,
        other => vec![other],
    };
    if list.is_empty() {
        return Err(ApiError::bad("bad_json", "Empty request"));
    }
    let object = |value| match value {
        Value::Object(object) => Ok(object),
        _ => Err(ApiError::bad("bad_json", "Invalid JSON: a request is an object")),
    };
    list.into_iter().map(object).collect()
}

fn check_latents(name: &str, file: &File) -> Result<(), ApiError> {
    if !file.bytes.is_multiple_of(FRAME) {
        let message = format!("{name} size not a multiple of 64*4 bytes");
        return Err(ApiError::bad("bad_latents", message).param(name));
    }
    if file.bytes / FRAME > MOST_FRAMES {
        return Err(ApiError::too_large(format!("{name} exceeds max frames")));
    }
    Ok(())
}

/// Reads the number of songs or texts; other programs write 0 and -1 for "not set".
fn count(request: &mut Map<String, Value>, key: &str) -> Result<usize, ApiError> {
    let count = match request.remove(key) {
        None | Some(Value::Null) => 1,
        Some(value) => value.as_i64().ok_or_else(|| {
            ApiError::bad("bad_value", format!("`{key}` is not a whole number")).param(key)
        })?,
    };
    let count = usize::try_from(count.max(1)).unwrap_or(usize::MAX);
    if count > MOST_SONGS {
        let message = format!("`{key}` is at most {MOST_SONGS}");
        return Err(ApiError::bad("out_of_range", message).param(key));
    }
    Ok(count)
}

fn format(request: &mut Map<String, Value>) -> Result<Format, ApiError> {
    rename(request, &[("audio_format", "output_format")])?;
    formats::choose("output_format", text(request, "output_format")?.as_deref())
}

fn has_caption(request: &Map<String, Value>) -> bool {
    let caption = request.get("caption").and_then(Value::as_str);
    caption.is_some_and(|caption| !caption.trim().is_empty())
}

/// Submits jobs of one id. If one is refused, those before it are cancelled.
async fn submit(asker: &Asker, jobs: Vec<(Kind, Map<String, Value>)>) -> Answer {
    let mut ids = Vec::new();
    for (kind, request) in jobs {
        match asker.submit(kind, request, Submission::default()).await {
            Ok(put) => ids.push(put.job.id),
            Err(error) => {
                request_files::refuse();
                for id in ids {
                    asker.store.cancel(id).await?;
                }
                return Err(error.into());
            }
        }
    }
    Ok(Json(json!({ "id": id::of(&ids) })))
}

/// Lets the language model complete a request, `lm_batch_size` times.
pub(super) async fn lm(asker: Asker, request: Request) -> Answer {
    let mut sent = Sent::read(&asker, request).await?;
    let Some(mut request) = sent.requests.pop().filter(|_| sent.requests.is_empty()) else {
        return Err(ApiError::bad("bad_json", "this address takes one request").into());
    };
    if !has_caption(&request) {
        return Err(ApiError::bad("bad_value", "Caption is required").param("caption").into());
    }
    let mode = match request.remove("lm_mode") {
        None | Some(Value::Null) => "plan",
        Some(Value::String(mode)) if mode == "generate" || mode.is_empty() => "plan",
        Some(Value::String(mode)) if mode == "inspire" => "inspire",
        Some(Value::String(mode)) if mode == "format" => "format",
        Some(_) => {
            let message = "Invalid lm_mode (use: generate, inspire, format)";
            return Err(ApiError::bad("bad_value", message).param("lm_mode").into());
        }
    };
    let texts = count(&mut request, "lm_batch_size")?;
    // How many songs are made of the text is decided by /synth.
    request.remove("synth_batch_size");
    request.remove("output_format");
    request.insert("mode".to_owned(), mode.into());
    let seed = match request.get("lm_seed").filter(|seed| !seed.is_null() && **seed != -1) {
        Some(seed) => seed.as_u64(),
        // `seed` belongs to the songs. The low bits of an id are random.
        None => Some(u64::from(Uuid::now_v7().as_u128() as u32)),
    };
    let jobs = (0..texts).map(|index| {
        let mut request = request.clone();
        if let Some(seed) = seed {
            request.insert("lm_seed".to_owned(), seed.wrapping_add(index as u64).into());
        }
        (Kind::Compose, request)
    });
    submit(&asker, jobs.collect()).await
}

pub(super) async fn synth(asker: Asker, request: Request) -> Answer {
    let mut sent = Sent::read(&asker, request).await?;
    let requests = std::mem::take(&mut sent.requests);
    if requests.is_empty() {
        return Err(ApiError::bad("bad_form", "Multipart: missing 'request' part").into());
    }
    let mut songs = 0;
    let mut jobs = Vec::new();
    for mut request in requests {
        let task = request.get("task_type").and_then(Value::as_str).unwrap_or_default();
        if !has_caption(&request) && !WITHOUT_CAPTION.contains(&task) {
            return Err(ApiError::bad("bad_value", "Caption is required").param("caption").into());
        }
        rename(&mut request, &[("batch_size", "synth_batch_size")])?;
        let batch = count(&mut request, "synth_batch_size")?;
        songs += batch;
        request.insert("batch_size".to_owned(), batch.min(AT_ONCE).into());
        let format = format(&mut request)?;
        request.remove("output_format");
        request.insert("audio_format".to_owned(), format.name().into());
        let number = |key: &str| request.get(key).and_then(Value::as_f64);
        let is_before = number("repainting_start").is_some_and(|start| start < 0.0);
        if is_before && number("repainting_end").is_none_or(|end| end < 0.0) {
            // As there, a region before the source ends where the source begins.
            request.insert("repainting_end".to_owned(), 0.into());
        }
        // The language model has its own address, with its own number of texts and its mode.
        for key in ["lm_batch_size", "lm_mode"] {
            request.remove(key);
        }
        request.insert("thinking".to_owned(), false.into());
        request.insert("latents".to_owned(), true.into());
        // Latents win over a sound: they are the same without a conversion.
        for (latents, sound, [of_latents, of_sound]) in [
            ("src_latents", "audio", ["src_latents", "src_audio"]),
            ("ref_latents", "ref_audio", ["ref_latents", "reference_audio"]),
        ] {
            if let Some(file) = sent.file(latents) {
                request.insert(of_latents.to_owned(), file);
            } else if let Some(file) = sent.file(sound) {
                request.insert(of_sound.to_owned(), file);
            }
        }
        let last = (batch > AT_ONCE).then(|| request.clone());
        jobs.push((Kind::Generate, request));
        if let Some(mut last) = last {
            last.insert("batch_size".to_owned(), (batch - AT_ONCE).into());
            if let Some(seed) = last.get("seed").and_then(Value::as_u64) {
                // The seeds of a batch count up.
                last.insert("seed".to_owned(), seed.wrapping_add(AT_ONCE as u64).into());
            }
            jobs.push((Kind::Generate, last));
        }
    }
    if songs > MOST_SONGS {
        let message = format!("{songs} songs are too many: {MOST_SONGS} at once");
        return Err(ApiError::bad("out_of_range", message).into());
    }
    submit(&asker, jobs).await
}

pub(super) async fn understand(asker: Asker, request: Request) -> Answer {
    let mut sent = Sent::read(&asker, request).await?;
    let asked = sent.single()?;
    let mut request = Map::new();
    let names = [
        ("lm_model", "lm_model"),
        ("synth_model", "model"),
        ("lm_temperature", "lm_temperature"),
        ("lm_top_p", "lm_top_p"),
        ("lm_top_k", "lm_top_k"),
        ("lm_seed", "seed"),
    ];
    for (theirs, ours) in names {
        let set = |value: &&Value| value.as_str() != Some("") && **value != -1;
        put(&mut request, ours, given(&asked, theirs).filter(set).cloned());
    }
    if let Some(file) = sent.file("src_latents") {
        request.insert("src_latents".to_owned(), file);
    } else if let Some(file) = sent.file("audio") {
        request.insert("audio".to_owned(), file);
    } else {
        let message = "Multipart: missing 'audio' or 'src_latents' part";
        return Err(ApiError::bad("bad_form", message).into());
    }
    submit(&asker, vec![(Kind::Understand, request)]).await
}

/// Converts a sound to latents, or latents to a sound.
pub(super) async fn vae(asker: Asker, request: Request) -> Answer {
    let mut sent = Sent::read(&asker, request).await?;
    let mut asked = sent.single()?;
    let mut request = Map::new();
    put(&mut request, "model", text(&asked, "synth_model")?);
    let kind = match (sent.file("audio"), sent.file("src_latents")) {
        (Some(audio), None) => {
            request.insert("audio".to_owned(), audio);
            Kind::Encode
        }
        (None, Some(latents)) => {
            request.insert("src_latents".to_owned(), latents);
            request.insert("audio_format".to_owned(), format(&mut asked)?.name().into());
            for key in ["peak_clip", "mp3_bitrate"] {
                put(&mut request, key, given(&asked, key).cloned());
            }
            Kind::Decode
        }
        _ => {
            let message = "Multipart: provide exactly one of 'audio' (encode) or 'src_latents' \
                           (decode)";
            return Err(ApiError::bad("bad_form", message).into());
        }
    };
    submit(&asker, vec![(kind, request)]).await
}
