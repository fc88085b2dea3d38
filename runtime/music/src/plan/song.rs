//! Caption, lyrics, metadata, codes and length.

use acestep_engine::{
    Error, Notice,
    check::{self, real},
    texts::unix_lines,
};

use super::{MOST_SECONDS, ModelInfo, SongMetadata, frames_from_seconds, singing, task::Work};
use crate::{
    Request, SongError,
    lyrics::sung,
    prompt::{self, Metas},
};

/// Message for lyrics beside `instrumental`.
pub const VOICE_AND_NONE: &str =
    "`instrumental: true` and lyrics exclude each other: leave one of them out";

/// Length if neither duration nor codes are given: short enough for a first try.
const DEFAULT_SECONDS: f64 = 30.0;

/// Returns the notice for a song without a given length.
pub fn no_duration() -> Notice {
    Notice(format!("no duration given, making {DEFAULT_SECONDS} s"))
}

/// Limits of upstream's input forms; the encoders truncate at 256 and 2048 tokens.
const MOST_CAPTION: usize = 512;
const MOST_LYRICS: usize = 4096;

pub(super) struct Song {
    pub caption: String,
    pub lyrics: String,
    pub vocal_language: &'static str,
    pub instruction: String,
    pub metas: Metas,
    pub duration_s: f64,
    pub frames: usize,
    /// One list for all songs or one per song, all of equal length; empty = no codes.
    pub codes: Vec<Vec<u32>>,
    pub audio_cover_strength: f64,
}

impl Song {
    pub(super) fn caption_prompt(&self, instruction: &str) -> String {
        prompt::caption_prompt(instruction, &self.caption, &self.metas.to_text())
    }
}

pub(super) fn decide(
    request: &Request,
    model: &ModelInfo,
    work: &Work,
    notices: &mut Vec<Notice>,
) -> Result<Song, Error> {
    let (caption, lyrics) = words(request, work, notices)?;
    let codes = codes(request, model, notices)?;
    let metadata = SongMetadata::of(request, notices)?;
    let asked = metadata.duration;
    let (duration_s, frames) = length(asked, model, work, codes.first(), notices)?;
    notices.extend(singing::notice(&lyrics, duration_s));
    let strength = request.audio_cover_strength.unwrap_or(1.0);
    let strength = real("audio_cover_strength", strength, 0.0, 1.0)?;
    let follows = !codes.is_empty() || work.source.is_some() && work.task.has_source();
    if strength < 1.0 && !follows {
        let text = "`audio_cover_strength` is not used: there are neither audio codes nor a source";
        notices.push(Notice(text.into()));
    }
    // The prompt states the length of the source without the added silence.
    let source_s = work.source_samples.map(|n| n as f64 / f64::from(model.sample_rate));
    Ok(Song {
        caption,
        lyrics,
        vocal_language: metadata.vocal_language.unwrap_or("unknown"),
        instruction: work.instruction(request, !codes.is_empty()),
        metas: Metas {
            bpm: metadata.bpm,
            timesignature: metadata.timesignature,
            keyscale: metadata.keyscale,
            // Upstream states the requested length; codes may be slightly shorter or longer.
            duration: Some(prompt::duration_text(source_s.or(asked).unwrap_or(duration_s))),
        },
        duration_s,
        frames,
        audio_cover_strength: if follows { strength } else { 1.0 },
        codes,
    })
}

fn words(
    request: &Request,
    work: &Work,
    notices: &mut Vec<Notice>,
) -> Result<(String, String), Error> {
    let [caption, mut lyrics] = [&request.caption, &request.lyrics]
        .map(|text| unix_lines(text.as_deref().unwrap_or_default()));
    let left_out;
    (lyrics, left_out) = sung(&lyrics);
    notices.extend(left_out);
    if request.instrumental == Some(true) {
        let marker = lyrics.trim();
        let says_so = ["[instrumental]", "[inst]"].iter().any(|m| marker.eq_ignore_ascii_case(m));
        if !marker.is_empty() && !says_so {
            return Err(Error::Conflict(VOICE_AND_NONE.into()));
        }
        lyrics = prompt::INSTRUMENTAL.to_owned();
    }
    for (field, text) in [
        ("caption", Some(&caption)),
        ("lyrics", Some(&lyrics)),
        ("instruction", request.instruction.as_ref()),
    ] {
        text.map(|text| check::text(field, text)).transpose()?;
    }
    // A source song replaces caption and lyrics.
    if work.source.is_none()
        && caption.trim().is_empty()
        && request.lyrics.as_deref().unwrap_or("").trim().is_empty()
    {
        return Err(SongError::NothingAsked.into());
    }
    for (what, text, most, tokens) in
        [("caption", &caption, MOST_CAPTION, 256), ("lyrics", &lyrics, MOST_LYRICS, 2048)]
    {
        let length = text.chars().count();
        if length >= most {
            notices.push(Notice(format!(
                "the {what} of {length} characters may be too long: the model reads {tokens} tokens"
            )));
        }
    }
    Ok((caption, lyrics))
}

/// Checks the codes; values beyond the codebook become its last code, as in upstream.
fn codes(
    request: &Request,
    model: &ModelInfo,
    notices: &mut Vec<Notice>,
) -> Result<Vec<Vec<u32>>, Error> {
    if !request.has_codes() {
        return Ok(Vec::new());
    }
    let mut songs = request.audio_codes.clone().unwrap_or_default();
    let first = songs[0].len();
    if let Some(other) = songs.iter().position(|codes| codes.len() != first) {
        return Err(Error::Conflict(format!(
            "audio codes: {first} for song 1, but {} for song {}; songs made together are of one \
             length",
            songs[other].len(),
            other + 1
        )));
    }
    let last = model.codes.saturating_sub(1);
    let all = songs.iter().flatten().count();
    let clamped = songs.iter().flatten().filter(|&&code| code > last).count();
    if clamped > 0 {
        notices.push(Notice(format!(
            "{clamped} of {all} audio codes were above {last} and count as {last}"
        )));
    }
    songs.iter_mut().flatten().for_each(|code| *code = last.min(*code));
    Ok(songs)
}

fn length(
    asked: Option<f64>,
    model: &ModelInfo,
    work: &Work,
    codes: Option<&Vec<u32>>,
    notices: &mut Vec<Notice>,
) -> Result<(f64, usize), Error> {
    let frames = |seconds| frames_from_seconds(seconds, model.sample_rate, model.hop);
    if let Some(codes) = codes {
        let coded = codes.len() * model.frames_per_code;
        let seconds = (coded * model.hop) as f64 / f64::from(model.sample_rate);
        if seconds > MOST_SECONDS {
            return Err(Error::OutOfRange {
                field: "audio_codes",
                value: format!("({} codes)", codes.len()),
                range: format!("at most {MOST_SECONDS} seconds of them"),
            });
        }
        if let Some(asked) = asked.filter(|&asked| frames(asked) != coded) {
            notices.push(Notice(format!(
                "the audio codes decide the length: {seconds} s instead of {asked} s"
            )));
        }
        return Ok((seconds, coded));
    }
    if let Some(samples) = work.samples() {
        let (seconds, frames) =
            (samples as f64 / f64::from(model.sample_rate), samples / model.hop);
        if let Some(asked) = asked.filter(|asked| (asked - seconds).abs() > 0.05) {
            notices.push(Notice(format!(
                "the source decides the length: {seconds:.2} s instead of {asked} s"
            )));
        }
        return Ok((seconds, frames));
    }
    let seconds = asked.unwrap_or_else(|| {
        notices.push(no_duration());
        DEFAULT_SECONDS
    });
    match frames(seconds) {
        0 => Err(Error::OutOfRange {
            field: "duration",
            value: seconds.to_string(),
            range: format!(
                "at least one latent frame, {} s",
                model.hop as f64 / f64::from(model.sample_rate)
            ),
        }),
        frames => Ok((seconds, frames)),
    }
}
