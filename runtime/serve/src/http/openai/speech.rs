//! Speech: `POST /v1/audio/speech`, with the fields of OpenAI and those of vllm-omni.

use std::{convert::Infallible, future::ready};

use acestep_engine::Format;
use acestep_session::speech::{FILES, TEXTS};
use axum::{
    extract::Request,
    response::{
        IntoResponse, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures_util::{Stream, StreamExt, stream};
use serde_json::{Map, Value, json};

use super::{
    asked_for_sound, flag, model, models, number, pieces, sound, sound_format, text, wrong,
};
use crate::{
    http::{
        Answer, ApiError, Asker, Server, Submission,
        input::{self, given, put},
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

/// Speaks a text. The sound comes in pieces while it is made: WAV of 16 bits and PCM as they are spoken,
/// other formats when they are complete.
pub(super) async fn create(asker: Asker, request: Request) -> Answer<Response> {
    let (mut object, first, submission) = asked_for_sound(&asker, request).await?;
    let is_events = match text(&mut object, "stream_format")?.as_deref() {
        None | Some("audio") => false,
        Some("sse") => true,
        Some(_) => return Err(wrong("stream_format", "audio or sse")),
    };
    // The answer is always sent in pieces.
    flag(&mut object, "stream")?;
    let formats = [("audio_format", "response_format")];
    let (format, is_raw) = sound_format(&mut object, &formats)?;
    let (id, sample_rate) = match first {
        Some(job) => {
            let name = job.request["model"].as_str().map(str::to_owned);
            let model = models::speech_of(&asker, name).await?;
            (job.id, model.map(|(_, speech)| speech.sample_rate))
        }
        None => {
            let (request, notices, rate) = read(&asker, object, format).await?;
            let submission = Submission { notices, ..submission };
            (asker.submit(Kind::Speak, request, submission).await?.job.id, rate)
        }
    };
    let raw = is_raw.then_some((sample_rate, 1));
    let pieces = pieces(asker, id, format, is_raw, true).await;
    let answer = pieces.map(|pieces| match is_events {
        true => Sse::new(events(pieces)).keep_alive(KeepAlive::default()).into_response(),
        false => sound(pieces, format, raw),
    });
    Ok(results::with_id(answer, id))
}

/// Reads the rest: the request, its notices, and the samples per second of a model that is here.
async fn read(
    asker: &Asker,
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
    let has_recording = ["ref_audio", "reference"].iter().any(|key| given(from, key).is_some());
    let (named, voice) = (model(from)?, voice_name(from)?);
    let name = match &voice {
        Some(voice) if named.is_none() && !has_recording => asker.model_of_voice(voice).await?,
        _ => named,
    };
    let (name, speech) = match models::speech_of(asker, name.clone()).await? {
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
                check_voice(asker, &voice, name.as_deref()).await?;
            }
            request.insert("voice".to_owned(), voice.into());
        } else {
            // Clients of OpenAI must send one.
            notices.push("`voice` is not read: the model has no voices of its own".to_owned());
        }
    }
    put(&mut request, "model", name);
    input::rename(from, &NAMES)?;
    for &(ours, theirs) in &NAMES[..2] {
        put(&mut request, ours, text(from, theirs)?);
    }
    put(&mut request, "language", text(from, "language")?);
    if let Some(task) = text(from, "task_type")? {
        if !TASKS.contains(&task.to_lowercase().replace('_', "").as_str()) {
            return Err(wrong("task_type", "CustomVoice, VoiceDesign or Base"));
        }
        notices.push("`task_type` is not read: the model decides it".to_owned());
    }
    if let Some(reference) = text(from, "ref_audio")? {
        let id = input::sound(asker, "ref_audio", reference).await?;
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
        put(&mut request, setting, number(from, setting)?);
    }
    from.remove("user");
    if let Some(speech) = &speech {
        own_fields(asker, from, &speech.fields, &mut request).await?;
    }
    input::unread(from, &mut notices)?;
    Ok((request, notices, rate))
}

/// Moves the other fields of the model's family into the request. Forms have texts.
async fn own_fields(
    asker: &Asker,
    from: &mut Map<String, Value>,
    fields: &[String],
    request: &mut Map<String, Value>,
) -> Result<(), ApiError> {
    for field in fields {
        let Some(value) = from.remove(field).filter(|value| !value.is_null()) else { continue };
        let value = match value {
            Value::String(text) if FILES.contains(&&**field) => {
                input::sound(asker, field, text).await?.into()
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
    // After the last piece.
    let with_end = pieces.map(Some).chain(stream::iter([None]));
    with_end.scan(true, move |is_whole, piece| {
        ready(match piece {
            Some(Ok(bytes)) => {
                Some(event("speech.audio.delta", json!({ "audio": STANDARD.encode(bytes) })))
            }
            Some(Err(error)) => {
                *is_whole = false;
                let error = json!({ "message": error.to_string(), "type": "server_error" });
                Some(event("speech.audio.error", json!({ "error": error })))
            }
            None => is_whole.then(|| {
                let usage = json!({ "input_tokens": 0, "output_tokens": 0, "total_tokens": 0 });
                event("speech.audio.done", json!({ "usage": usage }))
            }),
        })
    })
}
