//! Messages of a client.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::ApiError;
use crate::http::input::json_of;

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Sent {
    /// A text to speak, after what waits.
    Tts {
        #[serde(flatten)]
        request: Map<String, Value>,
    },
    Append {
        text: String,
        #[serde(flatten)]
        settings: Map<String, Value>,
    },
    End,
    /// The voice of all later texts.
    SetVoice {
        #[serde(flatten)]
        voice: Map<String, Value>,
    },
    /// The wish to stop.
    Cancel,
    Ping,
    /// The answer to a sign of life.
    Pong,
    /// The end of the connection.
    Close,
}

impl Sent {
    pub(super) fn read(text: &str) -> Result<Self, ApiError> {
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
