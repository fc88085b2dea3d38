//! Requests as JSON objects: a family's own fields, and the fields that are the server's.

use acestep_engine::Notice;
use acestep_music::Request;
use serde_json::{Map, Value};

use crate::{error::of, job::JobError};

/// A request for songs.
#[derive(Debug)]
pub struct SongRequest {
    /// The request of the family.
    pub request: Request,
    /// Notices about its spelling.
    pub notices: Vec<Notice>,
    /// True if times of the lines are wanted; by default if the model can tell them.
    pub lrc: Option<bool>,
    /// True if scores are wanted.
    pub score: bool,
    /// True if latents are wanted.
    pub latents: bool,
}

/// Fields of a request for songs that are the server's.
const RESULTS: [&str; 3] = ["lrc", "score", "latents"];

impl SongRequest {
    /// Reads a JSON object: the fields of a request for songs, and the flags `lrc`, `score` and
    /// `latents` for more results.
    ///
    /// # Errors
    /// A field that does not exist or has another type.
    pub fn read(object: &Map<String, Value>) -> Result<Self, JobError> {
        let mut object = object.clone();
        let mut flags = [None; 3];
        for (flag, key) in flags.iter_mut().zip(RESULTS) {
            *flag = match object.remove(key) {
                None | Some(Value::Null) => None,
                Some(Value::Bool(flag)) => Some(flag),
                Some(_) => {
                    let message = format!("`{key}` is not true or false");
                    return Err(JobError::new("bad_value", message).param(key));
                }
            };
        }
        let [lrc, score, latents] = flags;
        let (request, notices) = Request::from_object(object).map_err(|error| of(&error))?;
        let (score, latents) = (score.unwrap_or(false), latents.unwrap_or(false));
        Ok(Self { request, notices, lrc, score, latents })
    }
}

/// A request for speech.
#[derive(Debug)]
pub struct SpeechRequest {
    /// The request of the family.
    pub request: acestep_speech::Request,
    /// The model.
    pub model: Option<String>,
    /// The file of a recording, whose voice speaks.
    pub reference: Option<String>,
    /// Its words.
    pub transcript: Option<String>,
    /// The format of the file.
    pub audio_format: Option<String>,
}

impl SpeechRequest {
    /// Reads a JSON object: the fields of a request for speech, `model`, `reference`, `transcript` and
    /// `audio_format`.
    ///
    /// # Errors
    /// A field that does not exist or has another type.
    pub fn read(object: &Map<String, Value>) -> Result<Self, JobError> {
        let mut object = object.clone();
        let model = text(&mut object, "model")?;
        let reference = text(&mut object, "reference")?;
        let transcript = text(&mut object, "transcript")?;
        let audio_format = text(&mut object, "audio_format")?;
        if transcript.is_some() && reference.is_none() {
            let message = "`transcript` has no `reference`";
            return Err(JobError::new("conflict", message).param("transcript"));
        }
        let request = serde_json::from_value(Value::Object(object))
            .map_err(|error| JobError::new("bad_value", format!("the request: {error}")))?;
        Ok(Self { request, model, reference, transcript, audio_format })
    }
}

/// Takes a text out of a request.
///
/// # Errors
/// A value of another type.
pub(crate) fn text(object: &mut Map<String, Value>, key: &str) -> Result<Option<String>, JobError> {
    match object.remove(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(JobError::new("bad_value", format!("`{key}` is not a text")).param(key)),
    }
}
