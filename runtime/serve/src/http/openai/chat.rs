//! Songs by chat: `POST /v1/chat/completions`, as upstream's adapter has it, with all songs of a batch.

use std::{io, path::PathBuf, time::Duration};

use axum::{
    body::{Body, Bytes},
    extract::Request,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use futures_util::{
    StreamExt as _, TryStreamExt as _,
    stream::{self, Stream},
};
use serde_json::{Map, Value, json};
use tokio::{fs::File, io::AsyncReadExt as _};

use super::{asked, flag, model, text, words, wrong};
use crate::{
    http::{
        Answer, ApiError, Asker, Server, Submission, delayed, formats, input,
        results::{self, Piece, Pieces},
    },
    job::{Content, Job, Kind, now},
};

/// Time between two signs of life in a stream.
const HEARTBEAT: Duration = Duration::from_secs(2);
/// Bytes of a file that become a piece of an answer: a multiple of three, since base64 is padded only at its end.
const PIECE: u64 = 24 << 10;
/// Tasks whose first sound is the source.
const OF_SOURCE: [&str; 5] = ["cover", "repaint", "lego", "extract", "complete"];
/// Fields that have the same name in a request of ours.
const SAME: [&str; 12] = [
    "seed",
    "thinking",
    "guidance_scale",
    "batch_size",
    "use_cot_caption",
    "use_cot_language",
    "task_type",
    "repainting_start",
    "repainting_end",
    "audio_cover_strength",
    "inference_steps",
    "shift",
];
/// Fields of `audio_config` that have the same name in a request of ours.
const OF_AUDIO: [&str; 6] =
    ["duration", "bpm", "key_scale", "time_signature", "vocal_language", "instrumental"];

/// Makes songs of the last message.
pub(super) async fn create(asker: Asker, request: Request) -> Answer<Response> {
    let (mut object, first, submission) = asked(&asker, request).await?;
    let is_streamed = flag(&mut object, "stream")?;
    let job = match first {
        Some(job) => job,
        None => {
            let (request, notices) = read(&asker, object).await?;
            let submission = Submission { notices, ..submission };
            asker.submit(Kind::Generate, request, submission).await?.job
        }
    };
    let id = job.id;
    let head = Head {
        id: format!("chatcmpl-{id}"),
        created: now() / 1000,
        model: job.model.unwrap_or_else(|| "acestep".to_owned()),
    };
    if is_streamed {
        let chunks = Chunks { asker, id, head, step: Step::Begin };
        let chunks = stream::unfold(chunks, |mut chunks| async {
            let event = chunks.next().await?;
            Some((event, chunks))
        });
        let head =
            [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")];
        return Ok(results::with_id((head, Body::from_stream(chunks.flatten())), id));
    }
    // A failure after a second is in the body, as in OpenRouter's API, which upstream's adapter follows.
    let answer = async move { whole(&asker, id, head).await };
    Ok(delayed::answer(id, StatusCode::OK, answer).await)
}

/// Answers when the job has ended.
async fn whole(asker: &Asker, id: uuid::Uuid, head: Head) -> Answer<Response> {
    let job = results::ended(asker, id).await?;
    let message = json!({
        "role": "assistant",
        "content": content(&job),
        "audio": [],
    });
    let choice = json!({ "index": 0, "message": message, "finish_reason": "stop" });
    let answer = json!({
        "id": head.id,
        "object": "chat.completion",
        "created": head.created,
        "model": head.model,
        "choices": [choice],
        "usage": { "prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0 },
    });
    let body = Body::from_stream(pieces(&answer, sounds(asker, &job).await?));
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

/// Converts a chat to a request for songs.
async fn read(
    asker: &Asker,
    mut object: Map<String, Value>,
) -> Result<(Map<String, Value>, Vec<String>), ApiError> {
    let from = &mut object;
    let said = words::read(from.remove("messages"))?;
    let mut request = Map::new();
    let mut notices = Vec::new();
    let mut audio = match from.remove("audio_config") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(audio)) => audio,
        Some(_) => return Err(wrong("audio_config", "it must be an object")),
    };
    let format = text(&mut audio, "format")?;
    let format = formats::choose("audio_config.format", format.as_deref())?;
    request.insert("audio_format".to_owned(), format.name().into());
    let has_voice_choice = input::given(&audio, "instrumental").is_some();
    let mut take = |from: &mut Map<String, Value>, theirs: &str, ours: &str| {
        let value = from.remove(theirs).filter(|value| !value.is_null());
        input::put(&mut request, ours, value);
    };
    for name in OF_AUDIO {
        take(&mut audio, name, name);
    }
    for name in SAME {
        take(from, name, name);
    }
    for (theirs, ours) in [("temperature", "lm_temperature"), ("top_p", "lm_top_p")] {
        take(from, theirs, ours);
    }
    input::put(&mut request, "model", model(from)?);
    let given = text(from, "lyrics")?;
    let wishes = flag(from, "sample_mode")?;
    if wishes && given.is_some() {
        notices.push("`sample_mode` is not read: `lyrics` comes first".to_owned());
    }
    let words::UserMessage { caption, lyrics, wish, sounds } = said;
    // As upstream documents it, these fields come before the lyrics of a message.
    let first_field = match &given {
        Some(given) => (*given != lyrics).then_some("lyrics"),
        None => wishes.then_some("sample_mode"),
    };
    if let Some(field) = first_field.filter(|_| !caption.is_empty() && !lyrics.is_empty()) {
        notices.push(format!("the lyrics in `messages` are not read: `{field}` comes first"));
    }
    let (caption, lyrics, wish) = match given {
        // Then the message is the caption, whatever it looks like.
        Some(given) => (first([caption, wish, lyrics]), given, String::new()),
        None if wishes => (String::new(), String::new(), first([wish, caption, lyrics])),
        None => (caption, lyrics, wish),
    };
    let is_empty = [&caption, &lyrics, &wish].into_iter().all(|text| text.is_empty());
    if is_empty && sounds.is_empty() {
        return Err(wrong("messages", "they have neither words nor a sound"));
    }
    let named = request.get("model").and_then(Value::as_str).map(str::to_owned);
    let is_wish = !wish.is_empty()
        && asker.ask(move |catalog| catalog.has_language(named.as_deref())).await?;
    if is_wish {
        request.insert("lm_mode".to_owned(), "inspire".into());
    } else if !wish.is_empty() {
        request.entry("thinking").or_insert(false.into());
        notices.push("no language model is here: the message is the caption as it is".to_owned());
    }
    if flag(from, "use_format")? {
        if is_wish {
            notices.push("`use_format` is not read: the message is a wish".to_owned());
        } else {
            request.insert("lm_mode".to_owned(), "format".into());
        }
    }
    input::open_end(&mut request);
    // Clients of OpenAI send these.
    for name in ["user", "modalities"] {
        from.remove(name);
    }
    from.extend(audio.into_iter().map(|(key, value)| (format!("audio_config.{key}"), value)));
    input::unread(from, &mut notices)?;
    if lyrics.is_empty() && !is_wish && !has_voice_choice {
        request.insert("instrumental".to_owned(), true.into());
    }
    for (name, value) in [("caption", first([caption, wish])), ("lyrics", lyrics)] {
        if !value.is_empty() {
            request.insert(name.to_owned(), value.into());
        }
    }
    let task = request.get("task_type").and_then(Value::as_str).unwrap_or_default();
    let fields = match OF_SOURCE.contains(&task) {
        true => ["src_audio", "reference_audio"],
        false => ["reference_audio", "src_audio"],
    };
    let most = if OF_SOURCE.contains(&task) { 2 } else { 1 };
    if sounds.len() > most {
        return Err(wrong("messages", "they have more sounds than the task takes"));
    }
    for (field, data) in fields.into_iter().zip(sounds) {
        let id = input::base64(asker, "messages", data).await?;
        request.insert(field.to_owned(), id.into());
    }
    Ok((request, notices))
}

/// Returns the first text that is not empty.
fn first<const N: usize>(texts: [String; N]) -> String {
    texts.into_iter().find(|text| !text.is_empty()).unwrap_or_default()
}

/// The place of a sound, and its media type.
type Sound = (PathBuf, String);

/// Returns the sounds of a job.
async fn sounds(server: &Server, job: &Job) -> Result<Vec<Sound>, ApiError> {
    let mut list = Vec::new();
    for output in results::of(job, Content::Audio) {
        list.push((results::place(server, output).await?, output.media_type.clone()));
    }
    Ok(list)
}

/// Returns an answer as JSON, with the sounds in its empty list `audio` as data: addresses. No file is whole in
/// memory. A failure cuts the body.
fn pieces(answer: &Value, sounds: Vec<Sound>) -> Pieces {
    const LIST: &str = "\"audio\":[";
    let mut begin = answer.to_string();
    // Within a text, a backslash is before each quotation mark: there is no other such place.
    let end = begin.find(LIST).map_or(begin.len(), |place| place + LIST.len());
    let end = begin.split_off(end);
    let sounds = stream::iter(sounds.into_iter().enumerate()).flat_map(sound);
    piece(begin).chain(sounds).chain(piece(end)).boxed()
}

/// Returns an item of the list.
fn sound((index, (place, media_type)): (usize, Sound)) -> impl Stream<Item = Piece> + Send {
    let comma = if index == 0 { "" } else { "," };
    let object = r#"{"type":"audio_url","audio_url":{"url":"data:"#;
    let begin = format!("{comma}{object}{media_type};base64,");
    let opened =
        async move { Ok::<_, io::Error>(stream::try_unfold(File::open(place).await?, encoded)) };
    piece(begin).chain(stream::once(opened).try_flatten()).chain(piece("\"}}".to_owned()))
}

/// Returns the base64 of the next bytes of a file; none at its end.
async fn encoded(mut file: File) -> io::Result<Option<(Bytes, File)>> {
    let mut bytes = Vec::new();
    (&mut file).take(PIECE).read_to_end(&mut bytes).await?;
    Ok((!bytes.is_empty()).then(|| (STANDARD.encode(bytes).into(), file)))
}

fn piece(text: String) -> impl Stream<Item = Piece> + Send {
    stream::iter([Ok(text.into())])
}

/// Tells what was made, in words.
fn content(job: &Job) -> String {
    let empty = Value::Null;
    let resolved = job.resolved.as_ref().unwrap_or(&empty);
    let names = [
        ("caption", "Caption"),
        ("bpm", "BPM"),
        ("duration", "Duration"),
        ("keyscale", "Key"),
        ("timesignature", "Time signature"),
        ("vocal_language", "Language"),
        ("seed", "Seed"),
    ];
    let mut lines = vec!["## Metadata".to_owned()];
    for (key, name) in names {
        match &resolved[key] {
            Value::Null => {}
            Value::String(text) => lines.push(format!("**{name}:** {text}")),
            other => lines.push(format!("**{name}:** {other}")),
        }
    }
    if let Some(lyrics) = resolved["lyrics"].as_str().filter(|lyrics| !lyrics.is_empty()) {
        lines.push(format!("\n## Lyrics\n{lyrics}"));
    }
    lines.extend(job.notices.iter().map(|notice| format!("\n> {notice}")));
    lines.join("\n")
}

/// The head of every chunk.
struct Head {
    id: String,
    created: i64,
    model: String,
}

/// The next chunk of a stream.
enum Step {
    Begin,
    Wait,
    Sounds(Box<Job>),
    Finish(&'static str),
    Close,
    End,
}

/// A stream on its way.
struct Chunks {
    asker: Asker,
    id: uuid::Uuid,
    head: Head,
    step: Step,
}

impl Chunks {
    async fn next(&mut self) -> Option<Pieces> {
        let mut list = Vec::new();
        let (delta, reason, step) = match std::mem::replace(&mut self.step, Step::End) {
            Step::Begin => (json!({ "role": "assistant", "content": "" }), None, Step::Wait),
            Step::Wait => match self.wait().await {
                Ok(None) => (json!({ "content": "." }), None, Step::Wait),
                Ok(Some(job)) => {
                    let text = format!("\n\n{}", content(&job));
                    (json!({ "content": text }), None, Step::Sounds(Box::new(job)))
                }
                Err(error) => (failed(&error), None, Step::Finish("error")),
            },
            Step::Sounds(job) => match sounds(&self.asker, &job).await {
                Ok(sounds) => {
                    list = sounds;
                    (json!({ "audio": [] }), None, Step::Finish("stop"))
                }
                Err(error) => (failed(&error), None, Step::Finish("error")),
            },
            Step::Finish(reason) => (json!({}), Some(reason), Step::Close),
            Step::Close => return Some(piece("data: [DONE]\n\n".to_owned()).boxed()),
            Step::End => return None,
        };
        self.step = step;
        let Head { id, created, model } = &self.head;
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": reason });
        let chunk = json!({
            "id": id,
            "object": "chat.completion.chunk",
            "created": created,
            "model": model,
            "choices": [choice],
        });
        let event = piece("data: ".to_owned()).chain(pieces(&chunk, list));
        Some(event.chain(piece("\n\n".to_owned())).boxed())
    }

    /// Waits a moment; returns the job if it is done.
    async fn wait(&self) -> Result<Option<Job>, ApiError> {
        let job = self.asker.wait(self.id, HEARTBEAT).await?;
        if !job.state.is_ended() && !*self.asker.ending.borrow() {
            return Ok(None);
        }
        results::finished(&self.asker, self.id).await.map(Some)
    }
}

fn failed(error: &ApiError) -> Value {
    json!({ "content": format!("\n\nError: {}", error.error.message) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A piece has 24 576 bytes. The text has the same letters as the list.
    #[tokio::test]
    async fn an_answer_has_its_sounds_in_small_pieces() {
        let folder = tempfile::tempdir().expect("a folder");
        let sounds = [0, 1, 24_576, 50_000].map(|size| {
            let place = folder.path().join(size.to_string());
            std::fs::write(&place, vec![7u8; size]).expect("written");
            (place, "audio/wav".to_owned())
        });
        let answer = json!({ "a": "\"audio\":[", "audio": [], "b": 1 });
        let made: Vec<_> = pieces(&answer, sounds.into()).try_collect().await.expect("pieces");
        assert!(made.iter().all(|piece| piece.len() <= 32_768));
        let read: Value = serde_json::from_slice(&made.concat()).expect("JSON");
        assert_eq!([&read["a"], &read["b"]], [&answer["a"], &answer["b"]]);
        for (index, size) in [0, 1, 24_576, 50_000].into_iter().enumerate() {
            let wanted = format!("data:audio/wav;base64,{}", STANDARD.encode(vec![7u8; size]));
            assert!(read["audio"][index]["audio_url"]["url"] == wanted, "{size}");
        }
    }
}
