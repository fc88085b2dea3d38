//! Songs by one call: `POST /v1/audio/generations`.

use axum::{extract::Request, response::Response};
use serde_json::{Map, Value};

use super::{asked_for_sound, flag, model, sound, sound_format};
use crate::{
    http::{Answer, ApiError, Asker, Caller, Server, input, results},
    job::Kind,
};

/// Other programs' names of our keys.
const NAMES: [(&str, &str); 4] = [
    ("steps", "inference_steps"),
    ("cfg", "guidance_scale"),
    ("n", "batch_size"),
    ("ref_audio", "reference_audio"),
];

/// Names of the format in a request of ours, and its name here.
const FORMATS: [(&str, &str); 2] =
    [("audio_format", "response_format"), ("output_format", "response_format")];

/// The channels of a song.
const CHANNELS: u16 = 2;

/// Makes a song, and answers with its file. The header comes at once, the file when it is there; with
/// `stream` WAV of 16 bits and PCM come while they are made, as a preview.
pub(super) async fn create(Asker(server, caller): Asker, request: Request) -> Answer<Response> {
    let (mut object, first, submission) = asked_for_sound(&server, &caller, request).await?;
    let is_streamed = flag(&mut object, "stream")?;
    let (format, is_raw) = sound_format(&mut object, &FORMATS)?;
    let name_of = |value: Option<&Value>| Some(value?.as_str()?.to_owned());
    let (id, model) = match first {
        Some(job) => (job.id, name_of(job.request.get("model"))),
        None => {
            object.insert("audio_format".to_owned(), format.name().into());
            let request = request_of(&server, &caller, object).await?;
            let model = name_of(request.get("model"));
            (server.submit(&caller, Kind::Generate, request, submission).await?.job.id, model)
        }
    };
    let raw = match is_raw {
        true => {
            let rate = server.ask(move |catalog| catalog.song_rate(model.as_deref())).await;
            Some((rate.ok().flatten(), CHANNELS))
        }
        false => None,
    };
    // Samples on their way have 16 bits.
    let is_wav = format == acestep_engine::Format::Wav16 && !is_raw;
    // A preview may have another loudness, so only who asks for a stream gets it.
    let pieces = match is_streamed && (is_raw || is_wav) {
        true => results::samples(server, caller, id, is_wav).await,
        false => results::whole(server, caller, id, is_raw).await,
    };
    let answer = pieces.map(|pieces| sound(pieces, format, raw));
    Ok(results::with_id(answer, id))
}

/// Returns the fields of a request with our names, and its sounds as ids.
async fn request_of(
    server: &Server,
    caller: &Caller,
    mut object: Map<String, Value>,
) -> Result<Map<String, Value>, ApiError> {
    if let Some(name) = model(&mut object)? {
        object.insert("model".to_owned(), name.into());
    }
    object.remove("user");
    input::rename(&mut object, &NAMES)?;
    input::sounds(server, caller, &mut object, &["src_audio", "reference_audio"]).await?;
    if songs(&object) > 1 {
        let error = ApiError::bad("out_of_range", "this answer has room for one song").param("n");
        return Err(error.hint("POST /v1/chat/completions or /v1/jobs make several at once"));
    }
    Ok(object)
}

/// The number of songs that a request asks for.
fn songs(object: &Map<String, Value>) -> u64 {
    match object.get("batch_size") {
        Some(Value::Number(number)) => number.as_u64().unwrap_or(1),
        Some(Value::String(text)) => text.trim().parse().unwrap_or(1),
        _ => 1,
    }
}
