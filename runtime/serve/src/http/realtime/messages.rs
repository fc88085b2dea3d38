//! Messages of a client.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::ApiError;
use crate::http::input::{check_json, json_of};

/// A message of a client.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Sent {
    /// A text to speak, after what waits.
    Tts {
        #[serde(flatten)]
        request: Map<String, Value>,
    },
    /// More of a text.
    Append {
        text: String,
        #[serde(flatten)]
        settings: Map<String, Value>,
    },
    /// The end of a text.
    End,
    /// The voice of all later texts.
    SetVoice {
        #[serde(flatten)]
        voice: Map<String, Value>,
    },
    /// The wish to stop.
    Cancel,
    /// A sign of life, which is answered.
    Ping,
    /// The answer to a sign of life.
    Pong,
    /// The end of the connection.
    Close,
}

impl Sent {
    /// Reads a message.
    ///
    /// # Errors
    /// A text that is no message, has a key twice, or too many values.
    pub(super) fn read(text: &str) -> Result<Self, ApiError> {
        check_json(text)?;
        let unread = |why: String| {
            let message = format!("the message cannot be read: {why}");
            ApiError::bad("bad_message", message)
                .hint(r#"send {"type": "tts", "text": "Good morning."}"#)
        };
        Self::deserialize(json_of(text, unread)?).map_err(|error| unread(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::Sent;

    #[test]
    fn a_message_with_two_texts_is_refused() {
        let two = r#"{"type": "tts", "text": "a", "text": "b"}"#;
        assert_eq!(Sent::read(two).expect_err("two texts").error.code, "repeated_key");
    }
}
