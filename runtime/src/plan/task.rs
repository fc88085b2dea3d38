//! What is done: music from nothing, or from a song that exists.
//!
//! Source: upstream `TASK_TYPES`, `prepare_padding_info`, `_build_chunk_masks_and_src_latents` and
//! `_resolve_repaint_config`.

use std::ops::Range;

use super::{
    MOST_SECONDS, ModelInfo, frames_from_seconds,
    limits::{self, choice, real, whole},
};
use crate::{
    Error, Notice, Request,
    error::shortened,
    prompt,
    sounds::{Sound, Sounds},
};

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Music from words, and from audio codes if there are some.
    TextToMusic,
    /// The outline of a song, in another style.
    Cover,
    /// The same from the song's latents, which hold more of it than its audio codes.
    CoverNofsq,
    /// A part of a song made anew, or something before or after it.
    Repaint,
    /// One more track for a song.
    Lego,
    /// One track out of a song.
    Extract,
    /// The tracks that a song lacks.
    Complete,
}

/// The tracks that the models were trained on.
pub const TRACKS: [&str; 12] = [
    "woodwinds",
    "brass",
    "fx",
    "synth",
    "strings",
    "percussion",
    "keyboard",
    "guitar",
    "bass",
    "drums",
    "backing_vocals",
    "vocals",
];

/// Longest ramp where a repaint meets its source.
const MOST_CROSSFADE_FRAMES: u32 = 250;
const MOST_CROSSFADE_SECONDS: f64 = 20.0;

impl Task {
    /// All of them, the default first.
    pub const ALL: [Self; 7] = [
        Self::TextToMusic,
        Self::Cover,
        Self::CoverNofsq,
        Self::Repaint,
        Self::Lego,
        Self::Extract,
        Self::Complete,
    ];

    /// Upstream's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::TextToMusic => "text2music",
            Self::Cover => "cover",
            Self::CoverNofsq => "cover-nofsq",
            Self::Repaint => "repaint",
            Self::Lego => "lego",
            Self::Extract => "extract",
            Self::Complete => "complete",
        }
    }

    /// The task of a request.
    ///
    /// # Errors
    /// [`Error::BadValue`] with the names that there are.
    pub fn of(request: &Request) -> Result<Self, Error> {
        let name = request.task_type.as_deref().map(|name| name.replace('_', "-"));
        choice("task-type", name.as_deref(), &Self::ALL.map(|task| (task.name(), task)))
    }

    /// Whether it is made from a song that exists.
    pub fn has_source(self) -> bool {
        self != Self::TextToMusic
    }

    /// Whether distilled models were not trained for it.
    fn needs_base(self) -> bool {
        matches!(self, Self::Lego | Self::Extract | Self::Complete)
    }

    /// Whether audio codes may stand for its source.
    fn takes_codes(self) -> bool {
        matches!(self, Self::TextToMusic | Self::Cover | Self::CoverNofsq)
    }

    fn takes_region(self) -> bool {
        matches!(self, Self::Repaint | Self::Lego)
    }
}

/// What the transformer is told of where it makes music.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaskMode {
    /// One inside the region, zero outside; one everywhere without a region.
    Explicit,
    /// One everywhere, as upstream's `auto` of spring 2026 came out.
    Ones,
    /// Two everywhere, as upstream's later `auto` has it.
    Twos,
}

impl MaskMode {
    /// Its name, and whether it is the default.
    pub const NAMES: [(&str, Self); 4] = [
        ("explicit", Self::Explicit),
        // Every file of upstream's says this, and three of its versions mean three things by it.
        ("auto", Self::Explicit),
        ("ones", Self::Ones),
        ("twos", Self::Twos),
    ];

    /// What a person writes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Explicit => "explicit",
            Self::Ones => "ones",
            Self::Twos => "twos",
        }
    }
}

/// How a region meets what is around it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Repaint {
    /// Share of the steps after which the source is put back around the region.
    pub injection_ratio: f64,
    /// Latent frames on either side in which source and song are mixed.
    pub crossfade_frames: usize,
    /// The same of the sound, in seconds.
    pub crossfade_s: f64,
}

/// The part of a song that is made.
#[derive(Debug, Clone, PartialEq)]
pub struct Region {
    /// In latent frames of the song with what is added to its ends.
    pub frames: Range<usize>,
    /// In seconds of the source: below 0 is before it.
    pub seconds: (f64, f64),
    /// How it meets the rest.
    pub repaint: Repaint,
}

/// Samples of silence that are added to a source to be filled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Added {
    /// Before it.
    pub before: usize,
    /// After it.
    pub after: usize,
}

/// What is done with which source.
#[derive(Debug, Clone)]
pub(super) struct Work {
    pub task: Task,
    pub source: Option<Sound>,
    pub references: Vec<Sound>,
    pub added: Added,
    pub region: Option<Region>,
    pub mask_mode: MaskMode,
    /// Samples of the source alone, which the prompt states the length of.
    pub source_samples: Option<usize>,
}

impl Work {
    /// Samples of the song, if the source decides them.
    pub(super) fn samples(&self) -> Option<usize> {
        Some(self.source_samples? + self.added.before + self.added.after)
    }

    /// Whether something of the source stays as it is.
    pub(super) fn keeps(&self, model: &ModelInfo) -> bool {
        let all = 0..self.samples().unwrap_or(0) / model.hop;
        self.region.as_ref().is_some_and(|region| region.frames != all)
    }

    /// The instruction of the task.
    pub(super) fn instruction(&self, request: &Request, has_codes: bool) -> String {
        let own = request.instruction.as_deref().map(str::trim);
        match own {
            // Upstream's files always carry the default, whatever the task.
            None | Some("" | prompt::TEXT_TO_MUSIC) => (),
            Some(own) => return own.to_owned(),
        }
        if has_codes {
            return prompt::COVER.into();
        }
        let task = match self.task {
            Task::CoverNofsq => Task::Cover,
            task => task,
        };
        let track = request.track_name.as_deref().map(canonical);
        let classes: Vec<String> = classes(request).into_iter().map(canonical).collect();
        let classes: Vec<&str> = classes.iter().map(String::as_str).collect();
        prompt::instruction(task.name(), track.as_deref(), &classes)
    }
}

pub(super) fn decide(
    request: &Request,
    model: &ModelInfo,
    sounds: &Sounds,
    notices: &mut Vec<Notice>,
) -> Result<Work, Error> {
    let mut note = |text: String| notices.push(Notice(text));
    let task = Task::of(request)?;
    let name = task.name();
    if task.needs_base() && model.is_turbo {
        return Err(Error::WrongModel { task: name, model: model.name.clone() });
    }
    let codes = request.has_codes();
    let is_edit = request.flow_edit_morph == Some(true);
    let follows = task.has_source() || is_edit;
    if is_edit && !matches!(task, Task::TextToMusic | Task::Cover) {
        let why = format!("`--flow-edit-morph` goes with text2music and cover, not with `{name}`");
        return Err(Error::Conflict(why));
    }
    if is_edit && codes {
        let why = "`--flow-edit-morph` edits a song, not audio codes: leave them out";
        return Err(Error::Conflict(why.into()));
    }
    if is_edit && model.is_turbo {
        let text =
            "upstream edits with base and sft models only; with turbo less of the song may stay";
        note(text.into());
    }
    if codes && !task.takes_codes() {
        let why =
            format!("`--task-type {name}` follows a song, and not audio codes: leave them out");
        return Err(Error::Conflict(why));
    }
    let source = match &sounds.source {
        Some(_) if codes => {
            note("the source is not used: there are audio codes, which win".into());
            None
        }
        Some(_) if !follows => {
            let text =
                "the source is not used: text2music takes none; did you mean --task-type cover?";
            note(text.into());
            None
        }
        None if is_edit => return Err(Error::NoSource { task: "text2music --flow-edit-morph" }),
        None if task.has_source() && !codes => return Err(Error::NoSource { task: name }),
        source => source.clone(),
    };
    let (start, end) = (request.repainting_start, request.repainting_end);
    let is_set = start.is_some_and(|s| s != 0.0) || end.is_some_and(|s| s >= 0.0);
    if is_set && !task.takes_region() {
        note(format!("--repainting-start and --repainting-end have no effect on `{name}`"));
    }
    tracks(request, task, &mut note)?;
    let mask_mode =
        choice("chunk-mask-mode", request.chunk_mask_mode.as_deref(), &MaskMode::NAMES)?;
    let source_samples = source.as_ref().map(|source| source.samples(model.hop));
    let mut work = Work {
        task,
        references: sounds.references.clone(),
        added: Added::default(),
        region: None,
        mask_mode,
        source_samples,
        source,
    };
    let repaint = repaint(request, &mut note)?;
    let has_region = task == Task::Repaint || is_set && task == Task::Lego;
    if !has_region && has_repaint_settings(request) {
        note(format!("how a repaint meets its surroundings has no effect on `{name}`"));
    }
    if let Some(samples) = source_samples.filter(|_| has_region) {
        region(&mut work, samples, request, model, repaint, &mut note)?;
    }
    if let Some(samples) = work.samples() {
        let seconds = samples as f64 / f64::from(model.sample_rate);
        if seconds > MOST_SECONDS {
            return Err(Error::TooLong { seconds, most: MOST_SECONDS });
        }
    }
    Ok(work)
}

/// The region in frames, and what it adds to the ends of the source.
// ANCHOR: region
fn region(
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
        "repainting-start",
        request.repainting_start.unwrap_or(0.0),
        -MOST_SECONDS,
        MOST_SECONDS,
    )?;
    let end = match request.repainting_end {
        // Upstream's word for the end of the source.
        None | Some(-1.0) => source_s,
        Some(end) => real("repainting-end", end, 0.0, MOST_SECONDS)?,
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
    // Without an end of its own it has all frames that there are.
    let end_frame = if end == source_s { last } else { frame(end) };
    let frames = first..end_frame.clamp(first + 1, last.max(first + 1));
    // ANCHOR_END: region
    if end <= start {
        let why = format!("the region ends at {end} s, but begins at {start} s");
        return Err(Error::Conflict(why));
    }
    let frame_s = model.hop as f64 / rate;
    if end - start < frame_s || start + before_s >= last as f64 * frame_s {
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
        let how = "--repainting-start and --repainting-end choose a part";
        note(format!("the whole song is made anew; {how}"));
    }
    work.region = Some(Region { frames, seconds: (start, end), repaint });
    Ok(())
}

/// Mode and strength in numbers; `custom` takes them as they are.
// ANCHOR: repaint
fn repaint(request: &Request, note: &mut impl FnMut(String)) -> Result<Repaint, Error> {
    let own = (request.repaint_latent_crossfade_frames, request.repaint_wav_crossfade_sec);
    let mode = request.repaint_mode.as_deref().unwrap_or("balanced");
    let kinds = [("balanced", 0), ("conservative", 1), ("aggressive", 2), ("custom", 3)];
    let kind: u8 = choice("repaint-mode", Some(mode), &kinds)?;
    let strength = real("repaint-strength", request.repaint_strength.unwrap_or(0.5), 0.0, 1.0)?;
    let kept = 1.0 - strength;
    let balanced = Repaint {
        injection_ratio: kept,
        crossfade_frames: (25.0 * kept).round_ties_even() as usize,
        crossfade_s: 0.05 * kept,
    };
    let repaint = match kind {
        0 => balanced,
        1 => Repaint { injection_ratio: 1.0, crossfade_frames: 25, crossfade_s: 0.05 },
        2 => Repaint { injection_ratio: 0.0, crossfade_frames: 0, crossfade_s: 0.0 },
        _ => {
            let frames = own
                .0
                .map(|n| whole("repaint-latent-crossfade-frames", n, 0, MOST_CROSSFADE_FRAMES));
            let seconds =
                own.1.map(|s| real("repaint-wav-crossfade-sec", s, 0.0, MOST_CROSSFADE_SECONDS));
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
        note(format!("--repaint-strength has no effect: `repaint_mode` is {mode}"));
    }
    if kind != 3 && has_own_widths(request) {
        note(format!(
            "the widths of the crossfades are those of `repaint_mode` {mode}; with `custom` they are \
             your own"
        ));
    }
    Ok(repaint)
}

/// Whether widths of crossfades are given: upstream's files carry 10 and 0, and use neither.
fn has_own_widths(request: &Request) -> bool {
    let (frames, seconds) =
        (request.repaint_latent_crossfade_frames, request.repaint_wav_crossfade_sec);
    frames.is_some_and(|n| n != 10) || seconds.is_some_and(|s| s != 0.0)
}

/// Whether something else is asked for than upstream's files always carry.
fn has_repaint_settings(request: &Request) -> bool {
    let mode = request.repaint_mode.as_deref().is_some_and(|mode| mode != "balanced");
    mode || request.repaint_strength.is_some_and(|x| x != 0.5) || has_own_widths(request)
}

/// The tracks that `complete` adds; acestep.cpp writes them as one text.
fn classes(request: &Request) -> Vec<&str> {
    match (&request.track_classes, &request.track_name) {
        (Some(classes), _) => named(classes.iter().map(String::as_str)),
        (None, Some(track)) => named(track.split(['|', ','])),
        (None, None) => Vec::new(),
    }
}

fn named<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    names.map(str::trim).filter(|name| !name.is_empty()).collect()
}

/// A track as the model was taught it; what it was not taught stays as it is.
fn canonical(name: &str) -> String {
    let known = name.trim().to_lowercase().replace([' ', '-'], "_");
    if TRACKS.contains(&known.as_str()) { known } else { name.trim().to_owned() }
}

/// What is said or refused of track names.
fn tracks(request: &Request, task: Task, note: &mut impl FnMut(String)) -> Result<(), Error> {
    let (track, several) = (request.track_name.as_deref(), request.track_classes.is_some());
    let named = match task {
        Task::Complete => classes(request),
        Task::Lego | Task::Extract => track.into_iter().collect(),
        _ => Vec::new(),
    };
    for name in named {
        limits::text("track-name", name)?;
        if !TRACKS.contains(&canonical(name).as_str()) {
            note(format!(
                "the model does not know the track `{}`; it knows {}",
                shortened(name),
                TRACKS.join(", ")
            ));
        }
    }
    let own = request.instruction.as_deref().is_some_and(|text| {
        let text = text.trim();
        !text.is_empty() && text != prompt::TEXT_TO_MUSIC
    });
    match task {
        Task::Lego | Task::Extract if track.is_none() && !own => {
            return Err(Error::NoTrack { task: task.name() });
        }
        Task::Lego | Task::Extract if several => {
            note("--track-classes has no effect: it is for `complete`".into());
        }
        Task::Lego | Task::Extract | Task::Complete => (),
        _ if track.is_some() || several => {
            note(format!("track names have no effect on `{}`", task.name()));
        }
        _ => (),
    }
    Ok(())
}
