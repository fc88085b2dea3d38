//! Length of a song: its seconds, and their exact conversion to latent frames.
//!
//! `frames = floor(seconds x sample rate / hop)`, 25 per second for the released models.

use acestep_engine::{Error, Notice};
use serde::Serialize;

use crate::ModelInfo;

/// Least number of latent frames that upstream samples; shorter songs are cropped afterwards.
pub const LEAST_FRAMES: usize = 128;

/// Longest song in seconds: the length of the checkpoint's silence latent.
pub const MOST_SECONDS: f64 = 600.0;

/// Length if neither duration nor codes are given: short enough for a first try.
const DEFAULT_SECONDS: f64 = 30.0;

/// Returns the notice for a song without a given length.
pub fn no_duration() -> Notice {
    Notice(format!("no duration given, making {DEFAULT_SECONDS} s"))
}

/// Length of a song, and the rates of the model.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Length {
    /// Length in seconds: as the codes or the source if there are any, else as requested.
    #[serde(skip)]
    pub duration_s: f64,
    /// Latent frames of the finished song.
    pub frames: usize,
    /// Latent frames to sample, at least [`LEAST_FRAMES`].
    pub padded_frames: usize,
    /// Samples of one latent frame.
    #[serde(skip)]
    pub hop: usize,
    /// Samples per second.
    pub sample_rate: u32,
    /// Latent channels.
    #[serde(skip)]
    pub channels: usize,
}

impl Length {
    /// Decides the length: of the codes, else of the source (`samples`), else the one that is
    /// asked for.
    pub(super) fn of(
        asked: Option<f64>,
        codes: Option<&Vec<u32>>,
        samples: Option<usize>,
        model: &ModelInfo,
        notices: &mut Vec<Notice>,
    ) -> Result<Self, Error> {
        let (duration_s, frames) = decide(asked, codes, samples, model, notices)?;
        Ok(Self {
            duration_s,
            frames,
            padded_frames: frames.max(LEAST_FRAMES),
            hop: model.hop,
            sample_rate: model.sample_rate,
            channels: model.channels,
        })
    }
}

/// Returns the seconds and the latent frames.
fn decide(
    asked: Option<f64>,
    codes: Option<&Vec<u32>>,
    samples: Option<usize>,
    model: &ModelInfo,
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
    if let Some(samples) = samples {
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

/// Returns the number of whole latent frames in `seconds`.
///
/// A frame that lacks a tenth of a sample or less is counted: 1.16 x 25 is 28.999999999999996 in
/// f64 although the user means 29 frames, and other programs write only six digits.
///
/// `hop` is the number of samples of one frame.
// ANCHOR: frames
pub fn frames_from_seconds(seconds: f64, sample_rate: u32, hop: usize) -> usize {
    let tenths = (seconds * f64::from(sample_rate) * 10.0).round() as u128;
    let frames = (tenths + 1) / (hop as u128 * 10);
    usize::try_from(frames).unwrap_or(usize::MAX)
}
// ANCHOR_END: frames

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floating_point_dust_costs_no_frame() {
        assert_eq!(1.16 * 25.0, 28.999999999999996);
        assert_eq!(frames_from_seconds(1.16, 48_000, 1920), 29);
        assert_eq!(frames_from_seconds(0.1 + 0.2 + 0.74, 48_000, 1920), 26);
        // A twentieth of a sample is missing, then half a sample.
        assert_eq!(frames_from_seconds(1.159_999, 48_000, 1920), 29);
        assert_eq!(frames_from_seconds(1.159_99, 48_000, 1920), 28);
    }
}
