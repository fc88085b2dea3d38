//! The words of a chat: caption, lyrics, a wish, and sounds.

use serde_json::Value;

use super::wrong;
use crate::http::ApiError;

/// Marks of lyrics.
const SECTIONS: [&str; 9] =
    ["verse", "chorus", "bridge", "intro", "outro", "hook", "pre-chorus", "refrain", "inst"];
/// Lines from which a text without marks may be lyrics.
const LINES: usize = 4;
/// Mean length of a line of lyrics, in characters: less than this.
const LINE: usize = 60;

/// The content of the last message of the user.
#[derive(Debug, Default, PartialEq)]
pub(super) struct UserMessage {
    /// Description of the sound, from a tag.
    pub(super) caption: String,
    /// Lyrics, from a tag or by their look.
    pub(super) lyrics: String,
    /// A wish: text without a tag.
    pub(super) wish: String,
    pub(super) sounds: Vec<String>,
}

/// Reads the last message of the user: a text, or a list of texts and sounds.
/// Errors: messages of another shape, and sounds by their address.
pub(super) fn read(messages: Option<Value>) -> Result<UserMessage, ApiError> {
    let Some(Value::Array(list)) = messages else {
        return Err(wrong("messages", "a list of messages is needed"));
    };
    let is_users = |message: &Value| message["role"].as_str().unwrap_or("user") == "user";
    let Some(mut message) = list.into_iter().rev().find(is_users) else {
        return Ok(UserMessage::default());
    };
    let mut sounds = Vec::new();
    let text = match message.get_mut("content").map(Value::take).unwrap_or_default() {
        Value::String(text) => text,
        Value::Array(parts) => {
            let mut texts = Vec::new();
            for mut part in parts {
                match part["type"].as_str() {
                    Some("text") => {
                        texts.push(part["text"].as_str().unwrap_or_default().trim().to_owned());
                    }
                    // Taken, not copied: a sound may be large.
                    Some("input_audio") => match part.pointer_mut("/input_audio/data") {
                        Some(Value::String(data)) => sounds.push(std::mem::take(data)),
                        _ => return Err(wrong("messages", "a sound has no `data`")),
                    },
                    _ => return Err(wrong("messages", "parts are `text` or `input_audio`")),
                }
            }
            texts.join("\n")
        }
        Value::Null => String::new(),
        _ => return Err(wrong("messages", "`content` is a text or a list of parts")),
    };
    let said = UserMessage { sounds, ..of_text(text.trim()) };
    Ok(said)
}

fn of_text(text: &str) -> UserMessage {
    let (caption, rest) = tagged(text, "prompt");
    let (lyrics, rest) = tagged(&rest, "lyrics");
    if caption.is_some() || lyrics.is_some() {
        let caption = caption.filter(|caption| !caption.is_empty());
        let caption = caption.unwrap_or_else(|| rest.trim().to_owned());
        return UserMessage {
            caption,
            lyrics: lyrics.unwrap_or_default(),
            ..UserMessage::default()
        };
    }
    if look_like_lyrics(text) {
        return UserMessage { lyrics: text.to_owned(), ..UserMessage::default() };
    }
    UserMessage { wish: text.to_owned(), ..UserMessage::default() }
}

/// Takes the content of `<tag>..</tag>` out of a text.
fn tagged(text: &str, tag: &str) -> (Option<String>, String) {
    let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
    // Only ASCII changes, so places stay the same.
    let lower = text.to_ascii_lowercase();
    let found = lower.find(&open).and_then(|begin| {
        let inner = begin + open.len();
        Some((begin, inner, inner + lower[inner..].find(&close)?))
    });
    match found {
        Some((begin, inner, end)) => {
            let rest = format!("{}{}", &text[..begin], &text[end + close.len()..]);
            (Some(text[inner..end].trim().to_owned()), rest)
        }
        None => (None, text.to_owned()),
    }
}

fn look_like_lyrics(text: &str) -> bool {
    let lower = text.to_lowercase();
    if SECTIONS.iter().any(|section| lower.contains(&format!("[{section}"))) {
        return true;
    }
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let letters: usize = lines.iter().map(|line| line.chars().count()).sum();
    lines.len() >= LINES && letters < LINE * lines.len()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(content: Value) -> UserMessage {
        read(Some(json!([{ "role": "user", "content": content }]))).expect("a message")
    }

    #[test]
    fn tags_sections_and_short_lines_decide_what_a_text_is() {
        let tagged = of(json!("<Prompt>slow piano</Prompt><lyrics>[inst]</lyrics>"));
        assert_eq!((&*tagged.caption, &*tagged.lyrics), ("slow piano", "[inst]"));
        let rest = of(json!("jazz <lyrics>la</lyrics>"));
        assert_eq!((&*rest.caption, &*rest.lyrics), ("jazz", "la"));
        assert_eq!(of(json!("[Verse]\nla")).lyrics, "[Verse]\nla");
        assert_eq!(of(json!("la\nla\nla\nla")).lyrics, "la\nla\nla\nla");
        assert_eq!(of(json!("a song about rain")).wish, "a song about rain");
        assert_eq!(of(json!("<prompt>open")).wish, "<prompt>open");
    }

    #[test]
    fn the_last_message_of_the_user_counts_with_its_sounds() {
        let messages = json!([
            { "role": "user", "content": "first" },
            { "role": "user", "content": [
                { "type": "text", "text": "second" },
                { "type": "input_audio", "input_audio": { "data": "AAAA", "format": "wav" } },
            ] },
            { "role": "assistant", "content": "third" },
        ]);
        let said = read(Some(messages)).expect("a message");
        assert_eq!((&*said.wish, &said.sounds[..]), ("second", &["AAAA".to_owned()][..]));
        read(None).expect_err("no messages");
        let address = json!([{ "content": [{ "type": "image_url" }] }]);
        read(Some(address)).expect_err("a part of another kind");
    }
}
