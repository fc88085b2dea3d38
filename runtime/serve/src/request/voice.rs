//! A request to keep the voice of recordings.

use acestep_session::speech::Fields;
use serde_json::{Map, Value};

use super::text;
use crate::job::JobError;

/// Fields of the recordings.
const KNOWN: [&str; 7] =
    ["reference", "transcript", "language", "speaker_1", "words_1", "speaker_2", "words_2"];

/// A request to keep the voice of recordings.
#[derive(Debug)]
pub struct VoiceRequest {
    /// The name of the voice.
    pub name: String,
    /// The model that makes it.
    pub model: Option<String>,
    /// The recordings by the ids of their files, and their words.
    pub fields: Fields,
}

impl VoiceRequest {
    /// Reads a JSON object: `name`, `model`, and `reference` with `transcript` and `language`, or
    /// `speaker_1`, `words_1`, `speaker_2` and `words_2`.
    ///
    /// # Errors
    /// No name or no recording; an unknown field; a field of another type.
    pub fn read(mut fields: Map<String, Value>) -> Result<Self, JobError> {
        fields.retain(|_, value| !value.is_null());
        let missing = |field: &str, message: &str| JobError::new("missing", message).param(field);
        let name = text(&mut fields, "name")?;
        let name = name.ok_or_else(|| missing("name", "the voice has no `name`"))?;
        let model = text(&mut fields, "model")?;
        if let Some(other) = fields.keys().find(|field| !KNOWN.contains(&field.as_str())) {
            let message = format!("a voice takes no `{other}`");
            let hint = format!("it takes `name`, `model`, {}", KNOWN.join(", "));
            return Err(JobError::new("unknown_key", message).param(other.as_str()).hint(hint));
        }
        if !["reference", "speaker_1"].iter().any(|field| fields.contains_key(*field)) {
            return Err(missing("reference", "the voice has no recording")
                .hint("send a file as `reference`, or `speaker_1` for a dialogue model"));
        }
        Ok(Self { name, model, fields })
    }
}
