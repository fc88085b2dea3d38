//! Task and material of a song: a source, references, audio codes, tracks.
//!
//! Source: upstream `TASK_TYPES` and `_build_chunk_masks_and_src_latents`.

mod task;
mod tracks;

use acestep_engine::{
    Error, Notice,
    check::{self, choice, length, real},
};
use serde::{Serialize, Serializer};

use super::topic::topic;
use crate::{
    ModelInfo, SongError, prompt,
    sounds::{Sound, Sounds},
};

pub use task::Task;
pub use tracks::TRACKS;

topic! {
    /// Task and material of a song.
    Source {
        /// Name of a [`Task`](crate::plan::Task).
        task_type: String = Word("task"),
        /// Instruction for the model, instead of the task's own.
        instruction: String = Text,
        /// Source sound file of a cover, a repaint and similar tasks. The caller of
        /// [`Plan`](crate::Plan) reads it, and the other files below.
        src_audio: String = Text("src_audio_path", "ctx_audio"),
        /// The source as a file of latents.
        src_latents: String = Text,
        /// Sound files as timbre references.
        #[serde(with = "super::one_or_many")]
        reference_audio: Vec<String> = Names("reference_audio_path", "ref_audio"),
        /// The timbre references as files of latents.
        #[serde(with = "super::one_or_many")]
        ref_latents: Vec<String> = Names,
        /// Audio codes, five per second: one list for all songs, or one per song. They take precedence
        /// over the duration.
        #[serde(with = "super::code_lists")]
        audio_codes: Vec<Vec<u32>> = Codes("audio_code_string"),
        /// Share of the steps that follow the audio codes.
        audio_cover_strength: f64 = Number,
        /// Share of the source in the initial latents; the rest is noise.
        cover_noise_strength: f64 = Number,
        /// The track that `lego` adds or `extract` extracts.
        track_name: String = Word("track"),
        /// The tracks that `complete` adds.
        #[serde(with = "super::one_or_many")]
        track_classes: Vec<String> = Names("complete_track_classes"),
    }
}

/// The most timbre references of a song. All of them are in memory at once.
const MOST_REFERENCES: usize = 16;

/// Task and material of a song.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SourcePlan {
    /// Audio codes, five per second: one list for all songs or one per song, all of equal length;
    /// empty = no codes. As JSON, their number.
    #[serde(rename = "audio_codes", serialize_with = "count")]
    pub codes: Vec<Vec<u32>>,
    /// The task.
    #[serde(rename = "task_type")]
    pub task: Task,
    /// The source song; `None` for text2music, and if audio codes replace the source.
    #[serde(skip)]
    pub sound: Option<Sound>,
    /// Timbre references, each a part of a song; empty = the timbre of silence.
    #[serde(skip)]
    pub references: Vec<Sound>,
    /// Instruction for the model.
    #[serde(skip)]
    pub instruction: String,
    /// Share of the steps that follow codes or source; the others get silence instead.
    #[serde(skip)]
    pub audio_cover_strength: f64,
    /// Share of the source in the initial latents, 0 to 1.
    pub cover_noise_strength: f64,
}

impl SourcePlan {
    /// True if the song follows audio codes.
    pub fn has_codes(&self) -> bool {
        !self.codes.is_empty()
    }

    /// Returns the number of audio codes per song.
    pub fn codes_per_song(&self) -> usize {
        self.codes.first().map_or(0, Vec::len)
    }

    /// True if the source is reduced to audio codes.
    pub fn is_cover(&self) -> bool {
        self.task == Task::Cover && self.sound.is_some()
    }

    /// True if the song follows audio codes or a source.
    pub fn is_followed(&self) -> bool {
        self.has_codes() || self.sound.is_some()
    }

    /// Returns the samples of the source alone.
    pub(super) fn samples(&self, model: &ModelInfo) -> Option<usize> {
        self.sound.as_ref().map(|sound| sound.samples(model.hop))
    }
}

fn count<S: Serializer>(codes: &[Vec<u32>], to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(codes.first().map_or(0, Vec::len) as u64)
}

impl Source {
    /// Reads the task.
    ///
    /// # Errors
    /// [`Error::BadValue`] with the valid names.
    pub fn task(&self) -> Result<Task, Error> {
        let name = self.task_type.as_deref().map(|name| name.replace('_', "-"));
        choice("task_type", name.as_deref(), &Task::NAMES)
    }

    /// True if there are audio codes.
    pub fn has_codes(&self) -> bool {
        self.audio_codes.iter().flatten().any(|list| !list.is_empty())
    }

    /// Refuses more timbre references than a song may have.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    pub fn check_references(&self) -> Result<(), Error> {
        let lists = [&self.reference_audio, &self.ref_latents];
        let number: usize = lists.into_iter().flatten().map(Vec::len).sum();
        length("reference_audio", number, "references", MOST_REFERENCES)
    }

    /// Returns the names of all files.
    pub fn files(&self) -> impl Iterator<Item = &String> {
        let Self { src_audio, src_latents, reference_audio, ref_latents, .. } = self;
        let lists = [reference_audio, ref_latents].into_iter().flatten().flatten();
        [src_audio, src_latents].into_iter().flatten().chain(lists)
    }

    /// Returns the names of all files, to change them.
    pub fn files_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let Self { src_audio, src_latents, reference_audio, ref_latents, .. } = self;
        let lists = [reference_audio, ref_latents].into_iter().flatten().flatten();
        [src_audio, src_latents].into_iter().flatten().chain(lists)
    }

    /// Decides task and material; `is_edit` is true if the request edits its source.
    pub(crate) fn plan(
        &self,
        is_edit: bool,
        sounds: &Sounds,
        model: &ModelInfo,
        notices: &mut Vec<Notice>,
    ) -> Result<SourcePlan, Error> {
        let task = self.task()?;
        self.check(task, is_edit, model, notices)?;
        let sound = self.sound(task, is_edit, sounds, notices)?;
        self.check_tracks(task, notices)?;
        let codes = self.codes(model, notices)?;
        if let Some(text) = &self.instruction {
            check::text("instruction", text)?;
        }
        let (cover, noise) = (self.audio_cover_strength, self.cover_noise_strength);
        let mut plan = SourcePlan {
            instruction: self.instruction(task, !codes.is_empty()),
            references: sounds.references.clone(),
            audio_cover_strength: real("audio_cover_strength", cover.unwrap_or(1.0), 0.0, 1.0)?,
            cover_noise_strength: real("cover_noise_strength", noise.unwrap_or(0.0), 0.0, 1.0)?,
            codes,
            task,
            sound,
        };
        let follows = plan.has_codes() || plan.sound.is_some() && task.has_source();
        if plan.audio_cover_strength < 1.0 && !follows {
            let text =
                "`audio_cover_strength` is not used: there are neither audio codes nor a source";
            notices.push(Notice(text.into()));
            plan.audio_cover_strength = 1.0;
        }
        if plan.cover_noise_strength > 0.0 && !plan.is_followed() {
            let text = "`cover_noise_strength` has no effect: there is no source to start from";
            notices.push(Notice(text.into()));
            plan.cover_noise_strength = 0.0;
        }
        Ok(plan)
    }

    /// Refuses a task that the model, an edit or audio codes exclude.
    fn check(
        &self,
        task: Task,
        is_edit: bool,
        model: &ModelInfo,
        notices: &mut Vec<Notice>,
    ) -> Result<(), Error> {
        let name = task.name();
        if task.needs_base() && model.is_turbo {
            return Err(SongError::WrongModel { task: name, model: model.name.clone() }.into());
        }
        if is_edit && !matches!(task, Task::TextToMusic | Task::Cover | Task::CoverNofsq) {
            let why = format!(
                "`flow_edit_morph` goes with text2music and covers, not with `{name}`: leave \
                 it out"
            );
            return Err(Error::Conflict(why));
        }
        if is_edit && self.has_codes() {
            let why = "`flow_edit_morph` edits a song, not audio codes: leave them out";
            return Err(Error::Conflict(why.into()));
        }
        if is_edit && model.is_turbo {
            let text = "with a turbo model less of the song may stay than with base and sft";
            notices.push(Notice(text.into()));
        }
        if self.has_codes() && !task.takes_codes() {
            let why =
                format!("`task_type: {name}` follows a song, and not audio codes: leave them out");
            return Err(Error::Conflict(why));
        }
        Ok(())
    }

    /// Returns the source, if the song follows it.
    fn sound(
        &self,
        task: Task,
        is_edit: bool,
        sounds: &Sounds,
        notices: &mut Vec<Notice>,
    ) -> Result<Option<Sound>, Error> {
        let unused = |why: &str| Notice(format!("the source is not used: {why}"));
        match &sounds.source {
            Some(_) if self.has_codes() => {
                notices.push(unused("there are audio codes, which win"));
                Ok(None)
            }
            Some(_) if !task.has_source() && !is_edit => {
                notices.push(unused("text2music takes none; did you mean `task_type: cover`?"));
                Ok(None)
            }
            None if is_edit => {
                Err(SongError::NoSource { field: "flow_edit_morph", value: "true" }.into())
            }
            None if task.has_source() && !self.has_codes() => {
                Err(SongError::NoSource { field: "task_type", value: task.name() }.into())
            }
            sound => Ok(sound.clone()),
        }
    }

    /// Checks the codes; values beyond the codebook become its last code, as in upstream.
    fn codes(&self, model: &ModelInfo, notices: &mut Vec<Notice>) -> Result<Vec<Vec<u32>>, Error> {
        if !self.has_codes() {
            return Ok(Vec::new());
        }
        let mut songs = self.audio_codes.clone().unwrap_or_default();
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

    /// Returns the user's own instruction, if there is one.
    fn own_instruction(&self) -> Option<&str> {
        // Upstream's files always contain the default instruction, for any task.
        let own = self.instruction.as_deref().map(str::trim);
        own.filter(|own| !own.is_empty() && *own != prompt::TEXT_TO_MUSIC)
    }

    /// Returns the user's instruction, or the task's.
    fn instruction(&self, task: Task, has_codes: bool) -> String {
        if let Some(own) = self.own_instruction() {
            return own.to_owned();
        }
        if has_codes {
            return prompt::COVER.into();
        }
        let task = match task {
            Task::CoverNofsq => Task::Cover,
            task => task,
        };
        let track = self.track_name.as_deref().map(tracks::canonical);
        let classes: Vec<String> = self.classes().into_iter().map(tracks::canonical).collect();
        let classes: Vec<&str> = classes.iter().map(String::as_str).collect();
        prompt::instruction(task.name(), track.as_deref(), &classes)
    }

    /// Returns the fields with the decisions of `plan`, which they make again.
    pub(crate) fn decided(&self, plan: &SourcePlan) -> Self {
        Self {
            task_type: Some(plan.task.name().to_owned()),
            // A task's instruction follows from the task, which may still be changed.
            instruction: (plan.instruction == prompt::TEXT_TO_MUSIC)
                .then(|| prompt::TEXT_TO_MUSIC.to_owned())
                .or_else(|| self.instruction.clone()),
            src_audio: self.src_audio.clone().filter(|_| plan.sound.is_some()),
            src_latents: self.src_latents.clone().filter(|_| plan.sound.is_some()),
            audio_codes: plan.has_codes().then(|| plan.codes.clone()),
            audio_cover_strength: plan.is_followed().then_some(plan.audio_cover_strength),
            ..self.clone()
        }
    }
}
