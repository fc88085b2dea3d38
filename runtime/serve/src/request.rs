//! Requests as JSON objects: a family's own fields, and the fields that are the server's.

mod song;
mod voice;

use std::sync::Arc;

use acestep_engine::{Notice, audio::format::Format};
use acestep_music::{Request, codes, latents, lm::constrain::genres::GenreVocabulary};
use acestep_session::{language::TokenLimits, speech::Fields};
use acestep_speech::TimesFormat;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

pub use self::{
    song::{ComposeRequest, SongRequest},
    voice::VoiceRequest,
};
use crate::{error::of, job::JobError};

/// A request for speech: the fields of the model's family, and those that are the server's.
#[derive(Debug)]
pub(crate) struct SpeechRequest {
    pub(crate) text: String,
    pub(crate) model: Option<String>,
    /// The fields of the family; files are ids.
    pub(crate) fields: Fields,
    pub(crate) seed: Option<u64>,
    pub(crate) audio_format: Option<String>,
    /// The form of a file with the times of words, beside the JSON.
    pub(crate) timestamps: Option<TimesFormat>,
    /// Frames per chunk of sound, after the first.
    pub(crate) chunk_frames: Option<usize>,
    /// True if text arrives while it is spoken.
    pub(crate) append: bool,
    /// True if the voice is read and nothing is spoken.
    pub(crate) voice_only: bool,
    /// True for a stream whose samples are cut toward zero, as clients of stream-dia2 get them.
    pub(crate) truncate: bool,
}

/// The text of a request that speaks nothing.
const NO_TEXT: &str = ".";
/// The most frames per chunk of sound.
const MOST_FRAMES: usize = 1000;

impl SpeechRequest {
    /// Reads a JSON object: `text`, `model`, `seed`, `audio_format`, `timestamps`, `chunk_frames`,
    /// `append`, `voice_only`, `truncate`, and fields of the model's family, which it checks itself.
    /// Errors: a field of another type.
    pub(crate) fn read(mut fields: Map<String, Value>) -> Result<Self, JobError> {
        fields.retain(|_, value| !value.is_null());
        let (key, why) = ("chunk_frames", "a whole number from 1 to 1000");
        let chunk_frames: Option<usize> = value(&mut fields, key, why)?;
        if chunk_frames.is_some_and(|frames| !(1..=MOST_FRAMES).contains(&frames)) {
            return Err(bad(key, why));
        }
        let voice_only = flag(&mut fields, "voice_only")?.unwrap_or(false);
        let own = text(&mut fields, "text")?;
        Ok(Self {
            text: if voice_only { NO_TEXT.to_owned() } else { own.unwrap_or_default() },
            model: text(&mut fields, "model")?,
            seed: value(&mut fields, "seed", "a whole number from 0")?,
            audio_format: text(&mut fields, "audio_format")?,
            timestamps: value(&mut fields, "timestamps", "json, srt or vtt")?,
            append: flag(&mut fields, "append")?.unwrap_or(false),
            truncate: flag(&mut fields, "truncate")?.unwrap_or(false),
            fields,
            chunk_frames,
            voice_only,
        })
    }
}

/// The song that is described.
#[derive(Debug)]
pub(crate) enum SongSource {
    /// By the file of its sound.
    Sound(String),
    /// By the file of its latents.
    Latents(String),
    Codes(Vec<u32>),
}

/// A request for the words of a song.
#[derive(Debug)]
pub(crate) struct UnderstandRequest {
    pub(crate) model: Option<String>,
    pub(crate) source: SongSource,
    /// The settings of the language model.
    pub(crate) request: Request,
    pub(crate) limits: TokenLimits,
    /// Genres that the language model may name.
    pub(crate) genres: Option<Arc<GenreVocabulary>>,
    /// True if only the audio codes are wanted.
    pub(crate) codes_only: bool,
    /// Notices about the request's spelling.
    pub(crate) notices: Vec<Notice>,
}

impl UnderstandRequest {
    /// Reads a JSON object: `model`, one song as `audio`, `src_latents` or `audio_codes`, `codes_only`, and
    /// fields of a request for songs.
    /// Errors: a field that does not exist or has another type; not one song.
    pub(crate) fn read(mut object: Map<String, Value>) -> Result<Self, JobError> {
        let sound = sound(&mut object)?;
        let latents = text(&mut object, "src_latents")?;
        let codes = text(&mut object, "audio_codes")?;
        let codes_only = flag(&mut object, "codes_only")?.unwrap_or(false);
        let source = match (sound, latents, codes) {
            (Some(id), None, None) => SongSource::Sound(id),
            (None, Some(id), None) => SongSource::Latents(id),
            (None, None, Some(text)) => {
                SongSource::Codes(codes::parse(&text).map_err(|error| of(&error))?)
            }
            _ => {
                let message = "send one song: `audio`, `src_latents` or `audio_codes`";
                return Err(JobError::new("conflict", message).param("audio"));
            }
        };
        let SongRequest { mut request, genres, notices, limits, .. } = SongRequest::read(object)?;
        let model = request.compute.model.take();
        Ok(Self { model, source, request, limits, genres, codes_only, notices })
    }
}

/// A request for the latents of a sound.
#[derive(Debug)]
pub(crate) struct EncodeRequest {
    pub(crate) model: Option<String>,
    pub(crate) audio: String,
    pub(crate) format: latents::LatentsFormat,
    /// True if the latents are sampled from their distribution; otherwise they are its mean.
    pub(crate) sample: bool,
    /// The seed of sampled latents.
    pub(crate) seed: Option<u64>,
    /// Frames per tile, and their overlap.
    pub(crate) tiles: (Option<i64>, Option<i64>),
}

impl EncodeRequest {
    /// Reads a JSON object: `model`, `audio`, `format`, `sample`, `seed`, `vae_chunk`, `vae_overlap`.
    /// Errors: no sound; another field; a seed without `sample`.
    pub(crate) fn read(mut object: Map<String, Value>) -> Result<Self, JobError> {
        let model = text(&mut object, "model")?;
        let audio = sound(&mut object)?
            .ok_or_else(|| JobError::new("missing", "send a sound as `audio`").param("audio"))?;
        let format = text(&mut object, "format")?.map(|format| format.parse()).transpose();
        let format = format.map_err(|error| of(&error))?.unwrap_or(latents::LatentsFormat::Vae);
        let sample = flag(&mut object, "sample")?.unwrap_or(false);
        let seed = value(&mut object, "seed", "a whole number from 0")?;
        if seed.is_some() && !sample {
            let message = "a seed has an effect with `sample: true` only";
            return Err(JobError::new("conflict", message).param("seed"));
        }
        let mut count = |key| value(&mut object, key, "a whole number");
        let tiles = (count("vae_chunk")?, count("vae_overlap")?);
        match object.keys().next() {
            None => Ok(Self { model, audio, format, sample, seed, tiles }),
            Some(key) => {
                let message = format!("the request has an unknown key `{key}`");
                Err(JobError::new("unknown_key", message).param(key.as_str()))
            }
        }
    }
}

/// A request for the sound of latents.
#[derive(Debug)]
pub(crate) struct DecodeRequest {
    pub(crate) model: Option<String>,
    pub(crate) latents: String,
    /// The settings of the file.
    pub(crate) request: Request,
    /// Notices about the request's spelling.
    pub(crate) notices: Vec<Notice>,
}

impl DecodeRequest {
    /// Reads a JSON object: `model`, `src_latents`, and fields of a request for songs.
    /// Errors: no latents; a field that does not exist or has another type.
    pub(crate) fn read(mut object: Map<String, Value>) -> Result<Self, JobError> {
        let Some(latents) = text(&mut object, "src_latents")? else {
            let message = "send latents as `src_latents`";
            return Err(JobError::new("missing", message).param("src_latents"));
        };
        let SongRequest { mut request, notices, .. } = SongRequest::read(object)?;
        format(request.output.audio_format.as_deref())?;
        let model = request.compute.model.take();
        Ok(Self { model, latents, request, notices })
    }
}

/// Takes the file `audio` or `src_audio` out of a request.
fn sound(object: &mut Map<String, Value>) -> Result<Option<String>, JobError> {
    let renamed = acestep_music::request::rename(object, "src_audio", "audio");
    renamed.map_err(|error| of(&error).param("audio"))?;
    text(object, "audio")
}

/// Returns the format of a sound file: the usual one without a name.
/// Errors: a format that does not exist, or that this build does not write.
pub(crate) fn format(name: Option<&str>) -> Result<Format, JobError> {
    let format: Result<Format, _> = name.map(str::parse).transpose().map(Option::unwrap_or_default);
    format.and_then(Format::require).map_err(|error| of(&error))
}

pub(crate) fn text(object: &mut Map<String, Value>, key: &str) -> Result<Option<String>, JobError> {
    value(object, key, "a text")
}

/// Takes a value out of a request; `what` names its type for an error.
fn value<T: DeserializeOwned>(
    object: &mut Map<String, Value>,
    key: &str,
    what: &str,
) -> Result<Option<T>, JobError> {
    match object.remove(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => serde_json::from_value(value).map(Some).map_err(|_| bad(key, what)),
    }
}

fn flag(object: &mut Map<String, Value>, key: &str) -> Result<Option<bool>, JobError> {
    value(object, key, "true or false")
}

/// The error of a value of another type.
fn bad(key: &str, what: &str) -> JobError {
    JobError::new("bad_value", format!("`{key}` is not {what}")).param(key)
}
