//! The part of a song to regenerate, and its transition to the rest.
//!
//! Source: upstream `prepare_padding_info` and `_resolve_repaint_config`.

use std::ops::Range;

use acestep_engine::{
    Error,
    check::{choice, real, whole},
};

use super::{Added, Work};
use crate::{
    Request,
    plan::{MOST_SECONDS, ModelInfo, frames_from_seconds},
};

/// Longest crossfade between a repaint and its source.
const MOST_CROSSFADE_FRAMES: u32 = 250;
const MOST_CROSSFADE_SECONDS: f64 = 20.0;

/// Transition between a region and its surroundings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Repaint {
    /// Share of the steps after which the source is restored around the region.
    pub injection_ratio: f64,
    /// Latent frames on either side in which source and song are crossfaded.
    pub crossfade_frames: usize,
    /// Crossfade of the sound, in seconds.
    pub crossfade_s: f64,
}

/// The part of a song to generate.
#[derive(Debug, Clone, PartialEq)]
pub struct Region {
    /// In latent frames of the song, including the added silence.
    pub frames: Range<usize>,
    /// In seconds of the source; a negative time is before its start.
    pub seconds: (f64, f64),
    /// Transition to the rest.
    pub repaint: Repaint,
}

/// Computes the region in frames, and the silence to add to the source.
// ANCHOR: region
pub(super) fn region(
    work: &mut Work,
    samples: usize,
    request: &Request,
    model: &ModelInfo,
    repaint: Repaint,
    note: &mut impl FnMut(String),
) -> Result<(), Error> {
    let rate = f64::from(model.sample_rate);
    let source_s = samples as f64 / rate;
    let start = real(
        "repainting_start",
        request.repainting_start.unwrap_or(0.0),
        -MOST_SECONDS,
        MOST_SECONDS,
    )?;
    let end = match request.repainting_end {
        // -1 is upstream's value for the end of the source.
        None | Some(-1.0) => source_s,
        Some(end) => real("repainting_end", end, 0.0, MOST_SECONDS)?,
    };
    let before_s = (-start).max(0.0);
    let after_s = (end - source_s).max(0.0);
    let added = |seconds: f64| (seconds * rate).round() as usize;
    work.added = Added { before: added(before_s), after: added(after_s) };
    let total = samples + work.added.before + work.added.after;
    let last = total / model.hop;
    let frame =
        |seconds: f64| frames_from_seconds(seconds + before_s, model.sample_rate, model.hop);
    let first = frame(start).min(last.saturating_sub(1));
    // Without an explicit end the region takes all frames.
    let end_frame = if end == source_s { last } else { frame(end) };
    let frames = first..end_frame.clamp(first + 1, last.max(first + 1));
    // ANCHOR_END: region
    if end <= start {
        let why = format!(
            "the region ends at {end} s, but begins at {start} s: let `repainting_end` lie behind \
             `repainting_start`"
        );
        return Err(Error::Conflict(why));
    }
    let frame_s = model.hop as f64 / rate;
    // A tenth of a sample, as in `frames_from_seconds`: 0.12 - 0.08 is less than 0.04 in f64.
    let dust = 0.1 / rate;
    if end - start + dust < frame_s || start + before_s + dust >= last as f64 * frame_s {
        let why = format!(
            "from {start} s to {end} s there is no whole latent frame of {frame_s} s to make: choose a \
             longer region"
        );
        return Err(Error::Conflict(why));
    }
    if start > source_s {
        note(format!(
            "the region begins {:.2} s after the end of the source: that much silence stays between",
            start - source_s
        ));
    }
    if frames == (0..last) {
        let how = "`repainting_start` and `repainting_end` choose a part";
        note(format!("the whole song is generated; {how}"));
    }
    work.region = Some(Region { frames, seconds: (start, end), repaint });
    Ok(())
}

/// Converts mode and strength to numbers; with `custom` the request's numbers win.
// ANCHOR: repaint
pub(super) fn repaint(
    request: &Request,
    model: &ModelInfo,
    note: &mut impl FnMut(String),
) -> Result<Repaint, Error> {
    let own = (request.repaint_latent_crossfade_frames, request.repaint_wav_crossfade_sec);
    let mode = request.repaint_mode.as_deref().unwrap_or("balanced");
    let kinds = [("balanced", 0), ("conservative", 1), ("aggressive", 2), ("custom", 3)];
    let kind: u8 = choice("repaint_mode", Some(mode), &kinds)?;
    let strength = real("repaint_strength", request.repaint_strength.unwrap_or(0.5), 0.0, 1.0)?;
    let kept = 1.0 - strength;
    let second = f64::from(model.sample_rate) / model.hop as f64; // 25
    let balanced = Repaint {
        injection_ratio: kept,
        crossfade_frames: (second * kept).round_ties_even() as usize,
        crossfade_s: 0.05 * kept,
    };
    let repaint = match kind {
        0 => balanced,
        1 => Repaint {
            injection_ratio: 1.0,
            crossfade_frames: second.round() as usize,
            crossfade_s: 0.05,
        },
        2 => Repaint { injection_ratio: 0.0, crossfade_frames: 0, crossfade_s: 0.0 },
        _ => {
            let frames = own
                .0
                .map(|n| whole("repaint_latent_crossfade_frames", n, 0, MOST_CROSSFADE_FRAMES));
            let seconds =
                own.1.map(|s| real("repaint_wav_crossfade_sec", s, 0.0, MOST_CROSSFADE_SECONDS));
            Repaint {
                injection_ratio: kept,
                crossfade_frames: frames
                    .transpose()?
                    .map_or(balanced.crossfade_frames, |n| n as usize),
                crossfade_s: seconds.transpose()?.unwrap_or(balanced.crossfade_s),
            }
        }
    };
    // ANCHOR_END: repaint
    if matches!(kind, 1 | 2) && request.repaint_strength.is_some_and(|strength| strength != 0.5) {
        note(format!("`repaint_strength` has no effect with `repaint_mode: {mode}`"));
    }
    if kind != 3 && has_own_widths(request) {
        note(format!(
            "the widths of the crossfades are those of `repaint_mode: {mode}`; with `custom` they are \
             your own"
        ));
    }
    Ok(repaint)
}

/// True if crossfade widths are given: upstream's files contain 10 and 0, which have no effect.
fn has_own_widths(request: &Request) -> bool {
    let (frames, seconds) =
        (request.repaint_latent_crossfade_frames, request.repaint_wav_crossfade_sec);
    frames.is_some_and(|n| n != 10) || seconds.is_some_and(|s| s != 0.0)
}

/// True if the settings differ from those that upstream's files always contain.
pub(super) fn has_repaint_settings(request: &Request) -> bool {
    let mode = request.repaint_mode.as_deref().is_some_and(|mode| mode != "balanced");
    mode || request.repaint_strength.is_some_and(|x| x != 0.5) || has_own_widths(request)
}
