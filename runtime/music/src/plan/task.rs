//! Tasks: music from text, or from an existing song.
//!
//! Source: upstream `TASK_TYPES` and `_build_chunk_masks_and_src_latents`.

mod region;
mod tracks;

use acestep_engine::{Error, Notice, check::choice};

use super::{MOST_SECONDS, ModelInfo};
use crate::{
    Request, SongError, prompt,
    sounds::{Sound, Sounds},
};

pub use region::{Region, Repaint};
use region::{has_repaint_settings, region, repaint};
pub use tracks::TRACKS;
use tracks::{canonical, classes, tracks};

impl Request {
    /// True if the song has a source: by its task, or for an edit.
    pub fn follows_source(&self) -> bool {
        // The plan refuses an unknown task.
        let by_task = Task::of(self).is_ok_and(Task::has_source);
        by_task || self.flow_edit_morph == Some(true)
    }
}

/// The kind of generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Music from text, and from audio codes if there are any.
    TextToMusic,
    /// The structure of a song in another style.
    Cover,
    /// A cover from the song's latents, which hold more of it than its audio codes.
    CoverNofsq,
    /// A part of a song made again, or an extension before or after it.
    Repaint,
    /// A new track for a song.
    Lego,
    /// One track extracted from a song.
    Extract,
    /// Missing tracks added to a song.
    Complete,
}

impl Task {
    /// All tasks; the first is the default.
    pub const ALL: [Self; 7] = [
        Self::TextToMusic,
        Self::Cover,
        Self::CoverNofsq,
        Self::Repaint,
        Self::Lego,
        Self::Extract,
        Self::Complete,
    ];

    /// Returns upstream's name.
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

    /// Reads the task of a request.
    ///
    /// # Errors
    /// [`Error::BadValue`] with the valid names.
    pub fn of(request: &Request) -> Result<Self, Error> {
        let name = request.task_type.as_deref().map(|name| name.replace('_', "-"));
        choice("task_type", name.as_deref(), &Self::ALL.map(|task| (task.name(), task)))
    }

    /// True if the task needs an existing song.
    pub fn has_source(self) -> bool {
        self != Self::TextToMusic
    }

    /// True if distilled models were not trained for the task.
    fn needs_base(self) -> bool {
        matches!(self, Self::Lego | Self::Extract | Self::Complete)
    }

    /// True if audio codes may replace the source.
    fn takes_codes(self) -> bool {
        matches!(self, Self::TextToMusic | Self::Cover | Self::CoverNofsq)
    }

    fn takes_region(self) -> bool {
        matches!(self, Self::Repaint | Self::Lego)
    }
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

/// Task, source and region of a song.
#[derive(Debug, Clone)]
pub(super) struct Work {
    pub task: Task,
    pub source: Option<Sound>,
    pub references: Vec<Sound>,
    pub added: Added,
    pub region: Option<Region>,
    pub mask_mode: MaskMode,
    /// Samples of the source alone; the prompt states this length.
    pub source_samples: Option<usize>,
}

impl Work {
    /// Returns the samples of the song, if the source determines them.
    pub(super) fn samples(&self) -> Option<usize> {
        Some(self.source_samples? + self.added.before + self.added.after)
    }

    /// True if a part of the source is kept.
    pub(super) fn keeps(&self, model: &ModelInfo) -> bool {
        let all = 0..self.samples().unwrap_or(0) / model.hop;
        self.region.as_ref().is_some_and(|region| region.frames != all)
    }

    /// Returns the instruction of the task.
    pub(super) fn instruction(&self, request: &Request, has_codes: bool) -> String {
        let own = request.instruction.as_deref().map(str::trim);
        match own {
            // Upstream's files always contain the default instruction, for any task.
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
        return Err(SongError::WrongModel { task: name, model: model.name.clone() }.into());
    }
    let codes = request.has_codes();
    let is_edit = request.flow_edit_morph == Some(true);
    let follows = task.has_source() || is_edit;
    if is_edit && !matches!(task, Task::TextToMusic | Task::Cover) {
        let why = format!(
            "`flow_edit_morph` goes with text2music and cover, not with `{name}`: leave \
             it out"
        );
        return Err(Error::Conflict(why));
    }
    if is_edit && codes {
        let why = "`flow_edit_morph` edits a song, not audio codes: leave them out";
        return Err(Error::Conflict(why.into()));
    }
    if is_edit && model.is_turbo {
        let text =
            "upstream edits with base and sft models only; with turbo less of the song may stay";
        note(text.into());
    }
    if codes && !task.takes_codes() {
        let why =
            format!("`task_type: {name}` follows a song, and not audio codes: leave them out");
        return Err(Error::Conflict(why));
    }
    let source = match &sounds.source {
        Some(_) if codes => {
            note("the source is not used: there are audio codes, which win".into());
            None
        }
        Some(_) if !follows => {
            let text =
                "the source is not used: text2music takes none; did you mean `task_type: cover`?";
            note(text.into());
            None
        }
        None if is_edit => {
            return Err(SongError::NoSource { field: "flow_edit_morph", value: "true" }.into());
        }
        None if task.has_source() && !codes => {
            return Err(SongError::NoSource { field: "task_type", value: name }.into());
        }
        source => source.clone(),
    };
    let (start, end) = (request.repainting_start, request.repainting_end);
    let is_set = start.is_some_and(|s| s != 0.0) || end.is_some_and(|s| s >= 0.0);
    if is_set && !task.takes_region() {
        note(format!("`repainting_start` and `repainting_end` have no effect on `{name}`"));
    }
    tracks(request, task, &mut note)?;
    let mask_mode =
        choice("chunk_mask_mode", request.chunk_mask_mode.as_deref(), &MaskMode::NAMES)?;
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
    let repaint = repaint(request, model, &mut note)?;
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
            return Err(SongError::TooLong { seconds, most: MOST_SECONDS }.into());
        }
    }
    Ok(work)
}
