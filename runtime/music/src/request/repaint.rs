//! The part of a song to regenerate, and its transition to the rest.
//!
//! Source: upstream `prepare_padding_info` and `_resolve_repaint_config`.

use std::ops::Range;

use acestep_engine::{
    Error, Notice,
    check::{choice, real, whole},
};
use serde::{Serialize, Serializer};

use super::{
    length::{MOST_SECONDS, frames_from_seconds},
    source::{SourcePlan, Task},
    topic::topic,
};
use crate::{ModelInfo, SongError};

topic! {
    /// The part of a song to regenerate.
    Repaint {
        /// Start of the region to generate, in seconds of the source; negative = before its start.
        repainting_start: f64 = Number,
        /// End of the region; negative = the end of the source.
        repainting_end: f64 = Number,
        /// Transition to the surroundings: `balanced`, `conservative`, `aggressive` or `custom`.
        repaint_mode: String = Word,
        /// Freedom of the region in mode `balanced` or `custom`, 0 to 1.
        repaint_strength: f64 = Number,
        /// Latent frames of crossfade on either side of the region, in mode `custom`.
        repaint_latent_crossfade_frames: i64 = Whole,
        /// Crossfade of the sound in seconds, in mode `custom`.
        repaint_wav_crossfade_sec: f64 = Number,
        /// Mask of the region for the transformer: `explicit`, `ones` or `twos`.
        chunk_mask_mode: String = Word,
    }
}

/// Longest crossfade between a repaint and its source.
const MOST_CROSSFADE_FRAMES: u32 = 250;
const MOST_CROSSFADE_SECONDS: f64 = 20.0;

/// Transition between a region and its surroundings.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Transition {
    /// Share of the steps after which the source is restored around the region.
    pub injection_ratio: f64,
    /// Latent frames on either side in which source and song are crossfaded.
    #[serde(rename = "latent_crossfade_frames")]
    pub crossfade_frames: usize,
    /// Crossfade of the sound, in seconds.
    #[serde(rename = "wav_crossfade_sec")]
    pub crossfade_s: f64,
}

/// The part of a song to generate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Region {
    /// In seconds of the source; a negative time is before its start.
    pub seconds: (f64, f64),
    /// In latent frames of the song, including the added silence.
    #[serde(serialize_with = "ends")]
    pub frames: Range<usize>,
    /// Transition to the rest.
    #[serde(flatten)]
    pub transition: Transition,
}

fn ends<S: Serializer>(range: &Range<usize>, to: S) -> Result<S::Ok, S::Error> {
    [range.start, range.end].serialize(to)
}

/// Mask for the transformer that marks the part to generate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaskMode {
    /// One inside the region, zero outside; one everywhere without a region.
    Explicit,
    /// One everywhere, the effect of upstream's `auto` in spring 2026.
    Ones,
    /// Two everywhere, as in upstream's later `auto`.
    Twos,
}

impl MaskMode {
    /// Names of the modes; the first is the default.
    pub const NAMES: [(&str, Self); 4] = [
        ("explicit", Self::Explicit),
        // All of upstream's files contain `auto`; three versions interpret it differently.
        ("auto", Self::Explicit),
        ("ones", Self::Ones),
        ("twos", Self::Twos),
    ];

    /// Returns the name for requests.
    pub fn name(self) -> &'static str {
        match self {
            Self::Explicit => "explicit",
            Self::Ones => "ones",
            Self::Twos => "twos",
        }
    }
}

/// Samples of silence that are added to a source, to be filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Added {
    /// Samples before the source.
    pub before: usize,
    /// Samples after the source.
    pub after: usize,
}

/// The part to generate, and its surroundings.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RepaintPlan {
    /// The part to generate; `None` = the whole song.
    pub region: Option<Region>,
    /// Silence that is added to the source, to be filled.
    #[serde(skip)]
    pub added: Added,
    /// The mask that tells the transformer which part to generate.
    #[serde(rename = "chunk_mask_mode")]
    pub mask_mode: MaskMode,
}

impl RepaintPlan {
    /// Returns the samples of the song, if the source determines them.
    pub(crate) fn samples(&self, source: &SourcePlan, model: &ModelInfo) -> Option<usize> {
        Some(source.samples(model)? + self.added.before + self.added.after)
    }

    /// True if a part of the source, of `frames`, is kept.
    pub(crate) fn keeps(&self, frames: usize) -> bool {
        self.region.as_ref().is_some_and(|region| region.frames != (0..frames))
    }
}

impl Repaint {
    /// Decides the region.
    pub(crate) fn plan(
        &self,
        source: &SourcePlan,
        model: &ModelInfo,
        notices: &mut Vec<Notice>,
    ) -> Result<RepaintPlan, Error> {
        let mut note = |text: String| notices.push(Notice(text));
        let (start, end) = (self.repainting_start, self.repainting_end);
        let is_set = start.is_some_and(|s| s != 0.0) || end.is_some_and(|s| s >= 0.0);
        let (task, name) = (source.task, source.task.name());
        if is_set && !task.takes_region() {
            note(format!("`repainting_start` and `repainting_end` have no effect on `{name}`"));
        }
        let mask_mode =
            choice("chunk_mask_mode", self.chunk_mask_mode.as_deref(), &MaskMode::NAMES)?;
        let transition = self.transition(model, &mut note)?;
        let has_region = task == Task::Repaint || is_set && task == Task::Lego;
        if !has_region && self.has_transition() {
            note(format!("how a repaint meets its surroundings has no effect on `{name}`"));
        }
        let mut plan = RepaintPlan { region: None, added: Added::default(), mask_mode };
        if let Some(samples) = source.samples(model).filter(|_| has_region) {
            let (region, added) = self.region(samples, model, transition, &mut note)?;
            (plan.region, plan.added) = (Some(region), added);
        }
        if let Some(samples) = plan.samples(source, model) {
            let seconds = samples as f64 / f64::from(model.sample_rate);
            if seconds > MOST_SECONDS {
                return Err(SongError::TooLong { seconds, most: MOST_SECONDS }.into());
            }
        }
        Ok(plan)
    }

    /// Computes the region in frames, and the silence to add to the source.
    // ANCHOR: region
    fn region(
        &self,
        samples: usize,
        model: &ModelInfo,
        transition: Transition,
        note: &mut impl FnMut(String),
    ) -> Result<(Region, Added), Error> {
        let rate = f64::from(model.sample_rate);
        let source_s = samples as f64 / rate;
        let start = real(
            "repainting_start",
            self.repainting_start.unwrap_or(0.0),
            -MOST_SECONDS,
            MOST_SECONDS,
        )?;
        let end = match self.repainting_end {
            // -1 is upstream's value for the end of the source.
            None | Some(-1.0) => source_s,
            Some(end) => real("repainting_end", end, 0.0, MOST_SECONDS)?,
        };
        let before_s = (-start).max(0.0);
        let after_s = (end - source_s).max(0.0);
        let added = |seconds: f64| (seconds * rate).round() as usize;
        let added = Added { before: added(before_s), after: added(after_s) };
        let total = samples + added.before + added.after;
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
        Ok((Region { frames, seconds: (start, end), transition }, added))
    }

    /// Converts mode and strength to numbers; with `custom` the request's numbers win.
    // ANCHOR: repaint
    fn transition(
        &self,
        model: &ModelInfo,
        note: &mut impl FnMut(String),
    ) -> Result<Transition, Error> {
        let (frames, seconds) =
            (self.repaint_latent_crossfade_frames, self.repaint_wav_crossfade_sec);
        let mode = self.repaint_mode.as_deref().unwrap_or("balanced");
        let kinds = [("balanced", 0), ("conservative", 1), ("aggressive", 2), ("custom", 3)];
        let kind: u8 = choice("repaint_mode", Some(mode), &kinds)?;
        let strength = real("repaint_strength", self.repaint_strength.unwrap_or(0.5), 0.0, 1.0)?;
        let kept = 1.0 - strength;
        let second = f64::from(model.sample_rate) / model.hop as f64; // 25
        let balanced = Transition {
            injection_ratio: kept,
            crossfade_frames: (second * kept).round_ties_even() as usize,
            crossfade_s: 0.05 * kept,
        };
        let transition = match kind {
            0 => balanced,
            1 => Transition {
                injection_ratio: 1.0,
                crossfade_frames: second.round() as usize,
                crossfade_s: 0.05,
            },
            2 => Transition { injection_ratio: 0.0, crossfade_frames: 0, crossfade_s: 0.0 },
            _ => {
                let field = "repaint_latent_crossfade_frames";
                let frames =
                    frames.map(|n| whole(field, n, 0, MOST_CROSSFADE_FRAMES)).transpose()?;
                let field = "repaint_wav_crossfade_sec";
                let seconds = seconds.map(|s| real(field, s, 0.0, MOST_CROSSFADE_SECONDS));
                Transition {
                    crossfade_frames: frames.map_or(balanced.crossfade_frames, |n| n as usize),
                    crossfade_s: seconds.transpose()?.unwrap_or(balanced.crossfade_s),
                    ..balanced
                }
            }
        };
        // ANCHOR_END: repaint
        if matches!(kind, 1 | 2) && self.repaint_strength.is_some_and(|strength| strength != 0.5) {
            note(format!("`repaint_strength` has no effect with `repaint_mode: {mode}`"));
        }
        if kind != 3 && self.has_own_widths() {
            note(format!(
                "the widths of the crossfades are those of `repaint_mode: {mode}`; with `custom` they are \
                 your own"
            ));
        }
        Ok(transition)
    }

    /// True if crossfade widths are given: upstream's files contain 10 and 0, which have no effect.
    fn has_own_widths(&self) -> bool {
        self.repaint_latent_crossfade_frames.is_some_and(|n| n != 10)
            || self.repaint_wav_crossfade_sec.is_some_and(|s| s != 0.0)
    }

    /// True if the settings differ from those that upstream's files always contain.
    fn has_transition(&self) -> bool {
        self.repaint_mode.as_deref().is_some_and(|mode| mode != "balanced")
            || self.repaint_strength.is_some_and(|x| x != 0.5)
            || self.has_own_widths()
    }

    /// Returns the fields with the decisions of `plan`, which they make again.
    pub(crate) fn decided(&self, plan: &RepaintPlan) -> Self {
        let seconds = plan.region.as_ref().map(|region| region.seconds);
        let mask = plan.mask_mode;
        Self {
            repainting_start: seconds.map(|(start, _)| start),
            repainting_end: seconds.map(|(_, end)| end),
            chunk_mask_mode: (mask != MaskMode::Explicit).then(|| mask.name().to_owned()),
            ..self.clone()
        }
    }
}
