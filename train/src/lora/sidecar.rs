//! The JSON file beside a song: its texts and metadata, with the same rules as in a request.
//!
//! Keys are the keys of a request, in all accepted spellings, and additional keys of upstream's
//! datasets.
//!
//! Source: upstream `LoRA_Training_Tutorial.md`, `dataset_builder_modules/models.py`.

use std::path::Path;

use acestep_engine::{Error as Wrong, Notice};
use acestep_music::{Request, SongError, plan::SongMetadata, request::object};
use serde_json::{Map, Value};

use super::dataset::bad;
use crate::Error;

/// Keys of upstream's datasets that are not needed for training.
const NOTHING: [&str; 6] =
    ["id", "audio_path", "filename", "labeled", "raw_lyrics", "formatted_lyrics"];

/// Keys of upstream's datasets that would change the caption, and the alternatives.
const UNREAD: [(&str, &str); 3] = [
    ("custom_tag", "pass it as `custom_tag`"),
    ("genre", "write it into the caption"),
    ("prompt_override", "only the caption is learned"),
];

/// The text and the metadata of one song.
#[derive(Debug, Default)]
pub(super) struct SongText {
    /// Caption, lyrics, and whether the song is instrumental.
    pub request: Request,
    /// Tempo, key, metre and language.
    pub metadata: SongMetadata,
    /// Notices about the file.
    pub notices: Vec<Notice>,
}

/// Reads `json`, the content of `file`.
///
/// # Errors
/// [`Error::Dataset`] that names the file, the key and its value.
pub(super) fn read(file: &Path, json: &str) -> Result<SongText, Error> {
    let object = object(json).map_err(reason);
    let mut text = object.and_then(of_object).map_err(|reason| bad(file, &reason))?;
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    text.say_of(&name);
    Ok(text)
}

impl SongText {
    /// Puts the name of their place before the notices.
    pub(super) fn say_of(&mut self, place: &str) {
        for notice in &mut self.notices {
            notice.0 = format!("`{place}`: {}", notice.0);
        }
    }
}

/// Reads the keys of one song.
///
/// # Errors
/// The reason, with the key and its value.
pub(super) fn of_object(object: Map<String, Value>) -> Result<SongText, String> {
    let (object, mut notices) = without_foreign_keys(object);
    let (mut request, said) = Request::from_object(object).map_err(reason)?;
    notices.extend(said);
    // For a song without lyrics, upstream writes an empty text.
    let has_words = request.words.lyrics.as_deref().is_some_and(|text| !text.trim().is_empty());
    if request.words.instrumental == Some(true) && has_words {
        return Err("it has lyrics and is said to be instrumental: leave one out".to_owned());
    }
    request.words.lyrics = request.words.lyrics.filter(|_| has_words);
    // The sound has it, and may be longer than a song that can be made.
    request.words.duration = None;
    let metadata = SongMetadata::of(&request.words, &mut notices).map_err(reason)?;
    Ok(SongText { request, metadata, notices })
}

/// The object without upstream's own keys; `is_instrumental` becomes a request's `instrumental`.
fn without_foreign_keys(mut object: Map<String, Value>) -> (Map<String, Value>, Vec<Notice>) {
    let is_said = |value: Option<Value>| value.is_some_and(|value| !is_empty(&value));
    NOTHING.iter().for_each(|key| drop(object.remove(*key)));
    let mut notices = Vec::new();
    for (key, instead) in UNREAD {
        if is_said(object.remove(key)) {
            notices.push(Notice(format!("its {key} is not read: {instead}")));
        }
    }
    let is_silent = object.remove("is_instrumental") == Some(Value::Bool(true));
    if is_silent && !is_said(object.get("lyrics").cloned()) {
        object.insert("instrumental".into(), true.into());
    }
    (object, notices)
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value.as_str().is_some_and(|text| text.trim().is_empty())
}

/// The message of a request's error, for texts of songs.
pub(super) fn reason(error: Wrong) -> String {
    if let Some(SongError::UnknownLanguage { code, near }) = error.family() {
        let like = match near.first() {
            Some(near) => format!(", such as {near}"),
            None => " (en, zh, ja, .., or unknown)".to_owned(),
        };
        return format!("the language `{code}` is not a code that the model knows{like}");
    }
    match error {
        Wrong::RequestValue { key, value, expected } => {
            format!("`{key}` is {value}, but {expected}")
        }
        Wrong::UnknownKey { key, near: Some(near) } => {
            format!("an unknown key `{key}`; `{near}` is one")
        }
        Wrong::UnknownKey { key, near: None } => format!("an unknown key `{key}`"),
        Wrong::RequestSyntax(why) => {
            format!("not an object of caption, lyrics, bpm and so on: {why}")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(json: &str) -> SongText {
        read(Path::new("a.json"), json).expect(json)
    }

    fn refusal(json: &str) -> String {
        read(Path::new("a.json"), json).expect_err(json).to_string()
    }

    #[test]
    fn metadata_of_a_song_are_held_to_the_rules_of_a_request() {
        let song = said(
            r#"{"bpm": "92.5", "timesignature": 4.0, "key": "F# minor", "language": "EN",
                "duration": 1200}"#,
        );
        assert_eq!(song.metadata.bpm, Some(92), "cut, as upstream does and requests are");
        assert_eq!(song.metadata.timesignature.as_deref(), Some("4"));
        assert_eq!(song.metadata.keyscale.as_deref(), Some("F# minor"));
        assert_eq!(song.metadata.vocal_language, Some("en"));
        let cut = "`a.json`: `bpm: \"92.5\"` is no whole number: it counts as 92";
        assert_eq!(song.notices, [Notice(cut.to_owned())]);
        for (json, why) in [
            (r#"{"bpm": 4294967416}"#, "`bpm: 4294967416` is out of range: a whole number from 30"),
            (r#"{"bpm": "fast"}"#, "`bpm` is \"fast\", but it must be a number"),
            (
                r#"{"language": "English"}"#,
                "`English` is not a code that the model knows, such as en",
            ),
            (r#"{"vocal_language": "klingon"}"#, "knows (en, zh, ja, .., or unknown)"),
            (
                r#"{"timesignature": "4 beats"}"#,
                "`timesignature: 4 beats` cannot be used: use 2, 3, 4 or 6",
            ),
            (r#"{"keyscale": "C\nmajor"}"#, "a key is a note and a mode"),
            (r#"{"captoin": "rain"}"#, "an unknown key `captoin`; `caption` is one"),
            (r#"{"bpm": 90, "tempo": 92}"#, "which mean the same"),
            (r#"{"caption": "a", "caption": "b"}"#, "`caption` twice"),
            (r#"{"caption": 5}"#, "`caption` is 5, but it must be a text"),
            (r#"[1]"#, "not an object"),
            (r#"{"#, "EOF while parsing"),
            (r#"{"id": 1, "bpm": 90, "bpm": 91}"#, "`bpm` twice"),
        ] {
            let text = refusal(json);
            assert!(text.starts_with("`a.json`: ") && text.contains(why), "{text}");
        }
    }

    #[test]
    fn files_of_upstreams_data_sets_are_read() {
        let song = said(
            r#"{"id": "ab12", "audio_path": "x/a.wav", "filename": "a.wav", "caption": "calm",
                "genre": "", "lyrics": "", "raw_lyrics": "", "formatted_lyrics": "", "bpm": null,
                "keyscale": "", "timesignature": "", "duration": 61, "language": "unknown",
                "is_instrumental": true, "custom_tag": "zyx", "labeled": true,
                "prompt_override": null}"#,
        );
        assert_eq!(song.request.words.caption.as_deref(), Some("calm"));
        assert_eq!(
            (song.request.words.lyrics, song.request.words.instrumental),
            (None, Some(true))
        );
        let notices: Vec<_> = song.notices.into_iter().map(|notice| notice.0).collect();
        assert_eq!(notices, ["`a.json`: its custom_tag is not read: pass it as `custom_tag`"]);
    }

    /// Upstream's `is_instrumental` is true by default, even beside lyrics.
    #[test]
    fn words_beside_upstreams_mark_of_a_silent_song_stay() {
        let song = said(r#"{"lyrics": "la", "is_instrumental": true}"#);
        assert_eq!(song.request.words.lyrics.as_deref(), Some("la"));
        assert!(refusal(r#"{"lyrics": "la", "instrumental": true}"#).contains("leave one out"));
    }
}
