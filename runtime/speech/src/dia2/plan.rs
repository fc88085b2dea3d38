//! Everything that a run will do; nothing is optional.

use acestep_engine::{Error, Notice, check, error::counted};
use acestep_model::speech::dia2::Files;

use super::{
    choose::{DrawSettings, Guidance},
    error::Dia2Error,
    networks::{reader, streams},
    prefix::{Prefix, Recording},
    reading::is_space,
    request::Request,
    script::Entry,
    streams::Streams,
};
use crate::codes;

/// Most steps that a request may ask for.
const MOST_STEPS: u32 = 1_000_000;
/// The shortest and longest recordings that a request may ask for, in seconds.
const LEAST_PREFIX: f64 = 0.08;
const MOST_SECONDS: f64 = 3600.0;
/// Frames before the first word, as in upstream; after a snapshot there is a rest already.
const PADDING: usize = 2;

/// The beginning of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VoiceKind {
    /// Voices that the model makes up.
    Own,
    /// Recordings of the speakers, which the script continues.
    Recorded(Prefix),
    /// A snapshot after recordings of the speakers.
    Kept,
}

/// A planned run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The script.
    pub script: String,
    /// The script in words and breaks.
    pub entries: Vec<Entry>,
    /// The beginning of the run.
    pub voice: VoiceKind,
    /// The guidance.
    pub guidance: Guidance,
    /// The draw of actions of the text.
    pub text: DrawSettings,
    /// The draw of codes.
    pub audio: DrawSettings,
    /// Frames before the first word.
    pub initial_padding: usize,
    /// True if the recordings are heard too.
    pub include_prefix: bool,
    /// Number of frames that are decoded before their last codebooks are known.
    pub early: usize,
    /// Most steps of the script.
    pub most_steps: usize,
    /// The seed of the draws.
    pub seed: u64,
    /// The constants of the model.
    pub streams: Streams,
    /// Notices for the user.
    pub notices: Vec<Notice>,
}

/// The voices of a request.
#[derive(Debug, Clone, Copy)]
pub enum Speakers<'a> {
    /// Recordings of speaker 1 and, if there are two, of speaker 2; none for voices of the model.
    Recorded(&'a [Recording]),
    /// A snapshot, as [`Snapshot`](super::Snapshot).
    Kept,
}

impl Plan {
    /// Plans `request` for a model; `seed` is the seed if the request has none.
    ///
    /// # Errors
    /// An error about a field that is out of range; [`Dia2Error`] about the script and the recordings;
    /// [`Error::Checkpoint`].
    pub fn new(
        request: &Request,
        speakers: Speakers<'_>,
        seed: u64,
        model: &dyn Files,
    ) -> Result<Self, Error> {
        let rules = Rules::of(request)?;
        let streams = streams(model)?;
        let reader = reader(&streams, model)?;
        let script = request.script.trim_matches(is_space).to_owned();
        let entries = reader.script(&script)?;
        let mut notices = Vec::new();
        let voice = match speakers {
            Speakers::Recorded([]) => VoiceKind::Own,
            Speakers::Recorded(recordings) => {
                let most = streams.most_steps.saturating_sub(1);
                let prefix = match request.most_prefix(&streams) {
                    Some(asked) => Prefix::cut(recordings, &reader, asked.min(most)),
                    None => Prefix::new(recordings, &reader, most)?,
                };
                check_codes(&prefix.frames, &streams)?;
                notices.extend(prefix.notices("are spoken"));
                VoiceKind::Recorded(prefix)
            }
            Speakers::Kept if request.include_prefix == Some(true) => {
                let why = "a snapshot has no sound for `include_prefix`: pass the recordings";
                return Err(Error::Conflict(why.to_owned()));
            }
            Speakers::Kept => VoiceKind::Kept,
        };
        let padding = if voice == VoiceKind::Kept { 0 } else { PADDING };
        let early = early_frames(request, &voice, &streams);
        if request.early == Some(true) {
            notices.push(Notice(match early {
                0 => "`early` changes nothing: this beginning is known too late".to_owned(),
                _ => {
                    format!("`early` leaves out the last codebooks of {}", counted(early, "frame"))
                }
            }));
        }
        Ok(Self {
            script,
            entries,
            guidance: rules.guidance,
            text: rules.text,
            audio: rules.audio,
            initial_padding: request.initial_padding.map_or(padding, |frames| frames as usize),
            include_prefix: request.include_prefix.unwrap_or(false),
            early,
            most_steps: request.max_steps.map_or(streams.most_steps, |steps| steps as usize),
            seed: request.seed.unwrap_or(seed),
            voice,
            streams,
            notices,
        })
    }
}

/// Number of frames that are decoded before their last codebooks are known.
fn early_frames(request: &Request, voice: &VoiceKind, streams: &Streams) -> usize {
    // Recordings that are heard are known from the beginning. Without a second stream that is ahead, the
    // first word that is heard is known only when it is spoken.
    let is_known =
        *voice == VoiceKind::Kept || (streams.ahead > 0 && request.include_prefix != Some(true));
    if request.early != Some(true) || !is_known {
        return 0;
    }
    // The first codebook is known before the last one.
    streams.most_delay() - streams.delays.first().copied().unwrap_or_default()
}

/// Checks that the codes of recordings are of this model's codec.
pub(super) fn check_codes(frames: &[Vec<u32>], streams: &Streams) -> Result<(), Error> {
    codes::check(frames, streams.delays.len(), streams.codebook_size)
        .map_err(|why| Dia2Error::ForeignSnapshot { why }.into())
}

/// Checks a request before anything is read.
///
/// # Errors
/// An error about a field that is out of range.
pub fn check_request(request: &Request) -> Result<(), Error> {
    Rules::of(request).map(drop)
}

/// A request's settings.
struct Rules {
    guidance: Guidance,
    text: DrawSettings,
    audio: DrawSettings,
}

impl Rules {
    fn of(request: &Request) -> Result<Self, Error> {
        check::text("script", &request.script)?;
        if let Some(padding) = request.initial_padding {
            check::whole("initial_padding", padding.into(), 0, 1000)?;
        }
        if let Some(seconds) = request.max_prefix_duration {
            check::real("max_prefix_duration", seconds, LEAST_PREFIX, MOST_SECONDS)?;
        }
        if let Some(steps) = request.max_steps {
            check::whole("max_steps", steps.into(), 1, MOST_STEPS)?;
        }
        let scale = request.cfg_scale.unwrap_or(2.0);
        check::above("cfg_scale", scale.into(), 0.0, 100.0)?;
        let filter_k = request.cfg_filter_k.unwrap_or(50) as usize;
        let text = Own {
            field: "text_temperature",
            temperature: request.text_temperature,
            top_k: request.text_top_k,
            usual: 0.6,
        };
        let audio = Own {
            field: "audio_temperature",
            temperature: request.audio_temperature,
            top_k: request.audio_top_k,
            usual: 0.8,
        };
        Ok(Self {
            guidance: Guidance { scale, filter_k },
            text: text.sampling(request)?,
            audio: audio.sampling(request)?,
        })
    }
}

/// The fields of one stream, which are stronger than those of both.
struct Own {
    field: &'static str,
    temperature: Option<f32>,
    top_k: Option<u32>,
    /// The temperature if there is none.
    usual: f32,
}

impl Own {
    fn sampling(&self, request: &Request) -> Result<DrawSettings, Error> {
        let (field, temperature) = match (self.temperature, request.temperature) {
            (None, Some(of_both)) => ("temperature", of_both),
            (own, _) => (self.field, own.unwrap_or(self.usual)),
        };
        check::real(field, temperature.into(), 0.0, 100.0)?;
        let top_k = self.top_k.or(request.top_k).unwrap_or(50) as usize;
        Ok(DrawSettings { temperature, top_k })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The defaults of the reference's API: text 0.6 and 50, audio 0.8 and 50, guidance 2 and 50.
    #[test]
    fn fields_that_are_open_have_the_values_of_the_reference() {
        let rules = Rules::of(&Request::default()).expect("all open");
        assert_eq!(rules.guidance, Guidance { scale: 2.0, filter_k: 50 });
        assert_eq!(rules.text, DrawSettings { temperature: 0.6, top_k: 50 });
        assert_eq!(rules.audio, DrawSettings { temperature: 0.8, top_k: 50 });
    }

    #[test]
    fn a_field_of_one_stream_is_stronger_than_that_of_both() {
        let request = Request {
            temperature: Some(0.0),
            top_k: Some(5),
            audio_temperature: Some(0.7),
            text_top_k: Some(0),
            ..Request::default()
        };
        let rules = Rules::of(&request).expect("in range");
        assert_eq!(rules.text, DrawSettings { temperature: 0.0, top_k: 0 });
        assert_eq!(rules.audio, DrawSettings { temperature: 0.7, top_k: 5 });
    }

    #[test]
    fn fields_out_of_range_are_named() {
        let of = |request: Request| check_request(&request).expect_err("out of range").to_string();
        let bad = |temperature| Request { temperature: Some(temperature), ..Request::default() };
        assert!(of(bad(-1.0)).contains("`temperature: -1`"));
        assert!(of(bad(f32::NAN)).contains("`temperature: NaN`"));
        let request = Request { cfg_scale: Some(0.0), ..Request::default() };
        assert!(of(request).contains("`cfg_scale: 0`"));
        let request = Request { max_steps: Some(0), ..Request::default() };
        assert!(of(request).contains("`max_steps: 0`"));
        let request = Request { max_prefix_duration: Some(0.0), ..Request::default() };
        assert!(of(request).contains("`max_prefix_duration: 0`"));
    }

    #[test]
    fn a_request_in_json_needs_only_the_fields_that_are_given() {
        let json = r#"{"script":"[S1] Hi","cfg_scale":6.0,"seed":7}"#;
        let request: Request = serde_json::from_str(json).expect("a request");
        let script = "[S1] Hi".to_owned();
        let own = Request { script, cfg_scale: Some(6.0), seed: Some(7), ..Request::default() };
        assert_eq!(request, own);
        assert!(serde_json::from_str::<Request>(r#"{"text":"[S1] Hi"}"#).is_err());
    }
}
