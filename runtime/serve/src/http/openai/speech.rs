//! Speech: `POST /v1/audio/speech`, with the fields of OpenAI and those of vllm-omni.

use std::{convert::Infallible, sync::Arc};

use acestep_engine::Format;
use acestep_session::speech::{FILES, TEXTS};
use axum::{
    extract::Request,
    response::{
        Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures_util::{Stream, StreamExt, stream};
use serde_json::{Map, Value, json};

use super::{asked_for_sound, flag, model, models, number, sound, sound_format, text, wrong};
use crate::{
    http::{
        Answer, ApiError, Asker, Caller, Server, Submission, input,
        results::{self, Piece},
    },
    job::Kind,
};

/// The longest text, in characters.
const LONGEST: usize = 4096;
/// Names of a family's fields, and their names here.
const NAMES: [(&str, &str); 3] =
    [("instruct", "instructions"), ("transcript", "ref_text"), ("reference", "ref_audio")];
/// The names of vllm-omni for the kinds of models.
const TASKS: [&str; 3] = ["customvoice", "voicedesign", "base"];

/// The form of an answer.
struct Form {
    format: Format,
    /// True for samples without a header.
    is_raw: bool,
    /// True for events, false for bytes.
    is_events: bool,
}

/// Speaks a text. The sound comes in pieces while it is made: WAV of 16 bits and PCM as they are spoken,
/// other formats when they are complete.
pub(super) async fn create(Asker(server, caller): Asker, request: Request) -> Answer<Response> {
    let (mut object, first, submission) = asked_for_sound(&server, &caller, request).await?;
    let Form { format, is_raw, is_events } = form(&mut object)?;
    let (id, sample_rate) = match first {
        Some(job) => {
            let name = job.request["model"].as_str().map(str::to_owned);
            let model = models::speech_of(&server, name).await?;
            (job.id, model.map(|(_, speech)| speech.sample_rate))
        }
        None => {
            let (request, notices, rate) = read(&server, &caller, object, format).await?;
            let submission = Submission { notices, ..submission };
            (server.submit(&caller, Kind::Speak, request, submission).await?.job.id, rate)
        }
    };
    // Samples on their way have 16 bits.
    let is_wav = format == Format::Wav16 && !is_raw;
    let pieces = if is_raw || is_wav {
        results::samples(server, caller, id, is_wav).await
    } else {
        results::whole(server, caller, id, false).await
    };
    let pieces = match pieces {
        Ok(pieces) => pieces,
        Err(error) => return Ok(results::with_id(error, id)),
    };
    if is_events {
        let events = Sse::new(events(pieces)).keep_alive(KeepAlive::default());
        return Ok(results::with_id(events, id));
    }
    let raw = is_raw.then_some((sample_rate, 1));
    Ok(results::with_id(sound(pieces, format, raw), id))
}

/// Reads the form of the answer.
fn form(from: &mut Map<String, Value>) -> Result<Form, ApiError> {
    let is_events = match text(from, "stream_format")?.as_deref() {
        None | Some("audio") => false,
        Some("sse") => true,
        Some(_) => return Err(wrong("stream_format", "audio or sse")),
    };
    // The answer is always sent in pieces.
    flag(from, "stream")?;
    let (format, is_raw) = sound_format(from, &[("audio_format", "response_format")])?;
    Ok(Form { format, is_raw, is_events })
}

/// Reads the rest: the request, its notices, and the samples per second of a model that is here.
async fn read(
    server: &Server,
    caller: &Caller,
    mut object: Map<String, Value>,
    format: Format,
) -> Result<(Map<String, Value>, Vec<String>, Option<u32>), ApiError> {
    let from = &mut object;
    let mut notices = Vec::new();
    let spoken = text(from, "input")?.ok_or_else(|| wrong("input", "there is no text to speak"))?;
    if spoken.chars().count() > LONGEST {
        let error = wrong("input", "it has more than 4096 characters");
        return Err(error.hint("POST /v1/jobs with the kind `speak` takes longer texts"));
    }
    let mut request = Map::new();
    request.insert("text".to_owned(), spoken.into());
    if number(from, "speed")?.is_some_and(|speed| speed != 1.0) {
        let error = wrong("speed", "only 1 is possible: the models have no control of the speed");
        return Err(error.hint("say it in `instructions`, for a model that follows them"));
    }
    let has = |field: &str| from.get(field).is_some_and(|value| !value.is_null());
    let has_recording = has("ref_audio") || has("reference");
    let (named, voice) = (model(from)?, voice_name(from)?);
    let name = match &voice {
        Some(voice) if named.is_none() && !has_recording => server.model_of_voice(voice).await?,
        _ => named,
    };
    let (name, speech) = match models::speech_of(server, name.clone()).await? {
        Some((name, speech)) => (Some(name), Some(speech)),
        None => (name, None),
    };
    let rate = speech.as_ref().map(|speech| speech.sample_rate);
    if let (Some(wanted), Some(rate)) = (number(from, "sample_rate")?, rate)
        && wanted != f64::from(rate)
    {
        let why = format!("this model speaks with {rate} samples a second");
        return Err(wrong("sample_rate", &why));
    }
    request.insert("audio_format".to_owned(), format.name().into());
    let takes = |field: &str| {
        speech.as_ref().is_none_or(|speech| speech.fields.iter().any(|own| own == field))
    };
    if let Some(voice) = voice {
        if takes("voice") {
            // A recording speaks in its place.
            if !has_recording {
                check_voice(server, &voice, name.as_deref()).await?;
            }
            request.insert("voice".to_owned(), voice.into());
        } else {
            // Clients of OpenAI must send one.
            notices.push("`voice` is not read: the model has no voices of its own".to_owned());
        }
    }
    if let Some(name) = name {
        request.insert("model".to_owned(), name.into());
    }
    input::rename(from, &NAMES)?;
    for &(ours, theirs) in &NAMES[..2] {
        if let Some(value) = text(from, theirs)? {
            request.insert(ours.to_owned(), value.into());
        }
    }
    if let Some(language) = text(from, "language")? {
        request.insert("language".to_owned(), language.into());
    }
    if let Some(task) = text(from, "task_type")? {
        if !TASKS.contains(&task.to_lowercase().replace('_', "").as_str()) {
            return Err(wrong("task_type", "CustomVoice, VoiceDesign or Base"));
        }
        notices.push("`task_type` is not read: the model decides it".to_owned());
    }
    if let Some(reference) = text(from, "ref_audio")? {
        let id = input::sound(server, caller, "ref_audio", reference).await?;
        request.insert("reference".to_owned(), id.into());
    }
    if flag(from, "x_vector_only_mode")? {
        request.remove("transcript");
    }
    for setting in ["max_new_tokens", "seed", "top_k"] {
        if let Some(value) = number(from, setting)? {
            if value.fract() != 0.0 || !(0.0..9e15).contains(&value) {
                return Err(wrong(setting, "it must be a whole number"));
            }
            request.insert(setting.to_owned(), (value as u64).into());
        }
    }
    for setting in ["temperature", "top_p", "repetition_penalty"] {
        if let Some(value) = number(from, setting)? {
            request.insert(setting.to_owned(), value.into());
        }
    }
    from.remove("user");
    if let Some(speech) = &speech {
        own_fields(server, caller, from, &speech.fields, &mut request).await?;
    }
    input::unread(from, &mut notices)?;
    Ok((request, notices, rate))
}

/// Moves the other fields of the model's family into the request. Forms have texts.
async fn own_fields(
    server: &Server,
    caller: &Caller,
    from: &mut Map<String, Value>,
    fields: &[String],
    request: &mut Map<String, Value>,
) -> Result<(), ApiError> {
    for field in fields {
        let Some(value) = from.remove(field).filter(|value| !value.is_null()) else { continue };
        let value = match value {
            Value::String(text) if FILES.contains(&&**field) => {
                input::sound(server, caller, field, text).await?.into()
            }
            Value::String(text) if !TEXTS.contains(&&**field) => {
                // Numbers, true and false.
                let read = serde_json::from_str::<Value>(text.trim()).ok();
                read.filter(|value| value.is_number() || value.is_boolean()).unwrap_or(text.into())
            }
            other => other,
        };
        request.insert(field.clone(), value);
    }
    Ok(())
}

/// Reads the voice: a name, or an object with an id.
fn voice_name(from: &mut Map<String, Value>) -> Result<Option<String>, ApiError> {
    match from.remove("voice") {
        Some(Value::Object(mut voice)) => text(&mut voice, "id"),
        Some(other) => {
            from.insert("voice".to_owned(), other);
            text(from, "voice")
        }
        None => Ok(None),
    }
}

/// Refuses a voice that the model does not have, if voices of the model are known.
async fn check_voice(server: &Server, named: &str, model: Option<&str>) -> Result<(), ApiError> {
    let mut known = models::known_voices(server).await?;
    known.retain(|voice| model.is_none_or(|model| voice.model == model));
    if known.is_empty() || known.iter().any(|voice| voice.id.eq_ignore_ascii_case(named)) {
        return Ok(());
    }
    let names: Vec<_> = known.iter().map(|voice| voice.id.as_str()).collect();
    let error = ApiError::bad("voice_not_found", format!("no voice is called `{named}`"));
    Err(error.param("voice").hint(format!("here are {}", names.join(", "))))
}

/// Sends pieces as events; the last one says how the stream ended.
fn events(
    pieces: impl Stream<Item = Piece> + Send + 'static,
) -> impl Stream<Item = Result<Event, Infallible>> + Send + 'static {
    let event = |name: &str, mut data: Value| {
        data["type"] = name.into();
        Ok(Event::default().event(name).data(data.to_string()))
    };
    let is_whole = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let seen = is_whole.clone();
    let deltas = pieces.map(move |piece| match piece {
        Ok(bytes) => event("speech.audio.delta", json!({ "audio": STANDARD.encode(bytes) })),
        Err(error) => {
            seen.store(false, std::sync::atomic::Ordering::Relaxed);
            let error = json!({ "message": error.to_string(), "type": "server_error" });
            event("speech.audio.error", json!({ "error": error }))
        }
    });
    let done = stream::once(async move {
        let usage = json!({ "input_tokens": 0, "output_tokens": 0, "total_tokens": 0 });
        is_whole
            .load(std::sync::atomic::Ordering::Relaxed)
            .then(|| event("speech.audio.done", json!({ "usage": usage })))
    });
    deltas.chain(done.filter_map(|event| async { event }))
}
