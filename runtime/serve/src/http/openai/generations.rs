//! Songs by one call: `POST /v1/audio/generations`.

use axum::{extract::Request, response::Response};
use serde_json::{Map, Value};

use super::{asked_for_sound, flag, model, pieces, sound, sound_format};
use crate::{
    http::{Answer, ApiError, Asker, input, results},
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
pub(super) async fn create(asker: Asker, request: Request) -> Answer<Response> {
    let (mut object, first, submission) = asked_for_sound(&asker, request).await?;
    let is_streamed = flag(&mut object, "stream")?;
    let (format, is_raw) = sound_format(&mut object, &FORMATS)?;
    let name_of = |value: Option<&Value>| Some(value?.as_str()?.to_owned());
    let (id, model) = match first {
        Some(job) => (job.id, name_of(job.request.get("model"))),
        None => {
            object.insert("audio_format".to_owned(), format.name().into());
            let request = request_of(&asker, object).await?;
            let model = name_of(request.get("model"));
            (asker.submit(Kind::Generate, request, submission).await?.job.id, model)
        }
    };
    let raw = match is_raw {
        true => {
            let rate = asker.ask(move |catalog| catalog.song_rate(model.as_deref())).await;
            Some((rate.ok().flatten(), CHANNELS))
        }
        false => None,
    };
    // A preview may have another loudness, so only who asks for a stream gets it.
    let pieces = pieces(asker, id, format, is_raw, is_streamed).await;
    let answer = pieces.map(|pieces| sound(pieces, format, raw));
    Ok(results::with_id(answer, id))
}

/// Returns the fields of a request with our names, and its sounds as ids.
async fn request_of(
    asker: &Asker,
    mut object: Map<String, Value>,
) -> Result<Map<String, Value>, ApiError> {
    let name = model(&mut object)?;
    input::put(&mut object, "model", name);
    object.remove("user");
    input::rename(&mut object, &NAMES)?;
    input::sounds(asker, &mut object, &["src_audio", "reference_audio"]).await?;
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
