//! Requests for songs, and for words of the language model.

use std::sync::Arc;

use acestep_engine::Notice;
use acestep_music::{
    Request,
    lm::{compose::LmMode, constrain::genres::GenreVocabulary},
};
use acestep_session::language::TokenLimits;
use serde_json::{Map, Value};

use super::{flag, text, value};
use crate::{error::of, job::JobError};

/// A request for songs.
#[derive(Debug)]
pub struct SongRequest {
    /// The request of the family.
    pub request: Request,
    /// Notices about its spelling.
    pub notices: Vec<Notice>,
    /// Genres that the language model may name.
    pub genres: Option<Arc<GenreVocabulary>>,
    /// True if times of the lines are wanted; by default if the model can tell them.
    pub lrc: Option<bool>,
    /// True if times of the lines are wanted as WebVTT too.
    pub vtt: bool,
    /// True if a picture of the waveform is wanted.
    pub plot: bool,
    /// True if scores are wanted.
    pub score: bool,
    /// True if latents are wanted.
    pub latents: bool,
    /// The id of a file with the initial noise.
    pub noise: Option<String>,
    /// The id of a file with the transformer's conditions.
    pub conditioning: Option<String>,
    /// True if the conditions are wanted.
    pub dump_conditioning: bool,
    /// The difference in nats per token that counts as large in scores.
    pub score_scale: Option<f64>,
    /// Limits of the language model.
    pub limits: TokenLimits,
    /// True if files of sound have tags.
    pub tags: bool,
}

impl SongRequest {
    /// Reads a JSON object: the fields of a request for songs; the flags `lrc`, `vtt`, `plot`, `score`,
    /// `latents` and `dump_conditioning` for more results; `tags: false` for fewer; the files `noise` and
    /// `conditioning`; the list `genres`; `score_scale`, `max_tokens`, `max_seq`.
    ///
    /// # Errors
    /// A field that does not exist or has another type; too many references.
    pub fn read(mut object: Map<String, Value>) -> Result<Self, JobError> {
        let mut song = Self {
            lrc: flag(&mut object, "lrc")?,
            vtt: flag(&mut object, "vtt")?.unwrap_or(false),
            plot: flag(&mut object, "plot")?.unwrap_or(false),
            score: flag(&mut object, "score")?.unwrap_or(false),
            latents: flag(&mut object, "latents")?.unwrap_or(false),
            dump_conditioning: flag(&mut object, "dump_conditioning")?.unwrap_or(false),
            noise: text(&mut object, "noise")?,
            conditioning: text(&mut object, "conditioning")?,
            genres: genres(object.remove("genres"))?,
            tags: flag(&mut object, "tags")?.unwrap_or(true),
            score_scale: value(&mut object, "score_scale", "a number")?,
            limits: TokenLimits {
                max_tokens: value(&mut object, "max_tokens", "a whole number")?,
                max_seq: value(&mut object, "max_seq", "a whole number")?,
            },
            request: Request::default(),
            notices: Vec::new(),
        };
        (song.request, song.notices) = Request::from_object(object).map_err(|error| of(&error))?;
        // Each is looked up, here and by the worker.
        song.request.source.check_references().map_err(|error| of(&error))?;
        Ok(song)
    }
}

fn genres(value: Option<Value>) -> Result<Option<Arc<GenreVocabulary>>, JobError> {
    let list = match value {
        None | Some(Value::Null) => return Ok(None),
        Some(list) => serde_json::from_value::<Vec<String>>(list).unwrap_or_default(),
    };
    let genres = GenreVocabulary::parse(&list.join("\n"));
    if genres.is_empty() {
        let message = "`genres` is not a list of genres";
        let error = JobError::new("bad_value", message).param("genres");
        return Err(error.hint(r#"send ["lo-fi hip hop", "jazz"]"#));
    }
    Ok(Some(Arc::new(genres)))
}

/// A request for words of the language model.
#[derive(Debug)]
pub struct ComposeRequest {
    /// The task of the language model.
    pub mode: LmMode,
    /// True if audio codes are wanted too.
    pub codes: bool,
    /// The request that it completes.
    pub song: SongRequest,
}

impl ComposeRequest {
    /// Reads a JSON object: `mode` is `plan`, `inspire` or `format`; or `system` and `user`, an instruction
    /// of the client's own and its input; `no_codes`; the fields of a request for songs.
    ///
    /// # Errors
    /// A field that does not exist or has another type; half of an instruction.
    pub fn read(mut object: Map<String, Value>) -> Result<Self, JobError> {
        let mode = text(&mut object, "mode")?;
        let own = (text(&mut object, "system")?, text(&mut object, "user")?);
        let bad = |key, message: &str| JobError::new("conflict", message).param(key);
        let mode = match mode.as_deref() {
            Some(_) if own != (None, None) => {
                return Err(bad("mode", "an instruction of your own has no `mode`"));
            }
            None if own != (None, None) => {
                let (Some(system), Some(user)) = own else {
                    return Err(bad("system", "send both `system` and `user`"));
                };
                LmMode::Custom { system, user }
            }
            None | Some("plan") => LmMode::Plan,
            Some("inspire") => LmMode::Inspire,
            Some("format") => LmMode::Format,
            Some(other) => {
                let message = format!("`mode: {other}` is not known");
                let error = JobError::new("bad_value", message).param("mode");
                return Err(error.hint("plan, inspire or format"));
            }
        };
        let no_codes = flag(&mut object, "no_codes")?.unwrap_or(false);
        // As on the command line: a plan has codes, the other answers are words.
        let codes = matches!(mode, LmMode::Plan | LmMode::Custom { .. }) && !no_codes;
        Ok(Self { mode, codes, song: SongRequest::read(object)? })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: &Value) -> Map<String, Value> {
        value.as_object().expect("an object").clone()
    }

    #[test]
    fn a_plan_has_codes_unless_they_are_not_wanted() {
        for (request, codes) in [
            (json!({ "caption": "x" }), true),
            (json!({ "caption": "x", "no_codes": true }), false),
            (json!({ "caption": "x", "mode": "format" }), false),
        ] {
            assert_eq!(ComposeRequest::read(object(&request)).expect("read").codes, codes);
        }
        for (wrong, param) in [
            (json!({ "caption": "x", "mode": "sing" }), "mode"),
            (json!({ "system": "sing", "user": "la", "mode": "plan" }), "mode"),
            (json!({ "system": "sing" }), "system"),
        ] {
            let error = ComposeRequest::read(object(&wrong)).expect_err("a wrong task");
            assert_eq!(error.param.as_deref(), Some(param));
        }
        let own = ComposeRequest::read(object(&json!({ "system": "sing", "user": "la" })));
        assert!(matches!(own.expect("read").mode, LmMode::Custom { user, .. } if user == "la"));
    }

    #[test]
    fn limits_and_scales_are_numbers() {
        let request = json!({ "caption": "x", "max_tokens": 9, "score_scale": 0.5, "tags": false });
        let read = SongRequest::read(object(&request)).expect("read");
        let limits = TokenLimits { max_tokens: Some(9), max_seq: None };
        assert_eq!((read.limits, read.score_scale, read.tags), (limits, Some(0.5), false));
        for key in ["max_tokens", "max_seq", "score_scale", "tags", "noise"] {
            let wrong = json!({ "caption": "x", key: [1] });
            let error = SongRequest::read(object(&wrong)).expect_err("a list");
            assert_eq!(error.param.as_deref(), Some(key));
        }
        let many = json!({ "caption": "x", "ref_audio": vec!["x"; 16], "ref_latents": "y" });
        let error = SongRequest::read(object(&many)).expect_err("17 references");
        assert_eq!(error.message, "`reference_audio: (17 references)` is out of range: at most 16");
    }

    #[test]
    fn genres_are_a_list_with_something_in_it() {
        let read = |genres: Value| {
            let request = json!({ "caption": "x", "genres": genres });
            let read = SongRequest::read(object(&request));
            read.map(|read| read.genres.is_some()).map_err(|error| error.param)
        };
        assert_eq!(read(json!(["jazz", "lo-fi hip hop"])), Ok(true));
        assert_eq!(read(Value::Null), Ok(false));
        for wrong in [json!([]), json!(["  "]), json!("jazz"), json!([5]), json!({})] {
            assert_eq!(read(wrong.clone()), Err(Some("genres".to_owned())), "{wrong}");
        }
    }
}
