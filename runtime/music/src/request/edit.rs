//! An edit of a song from one description to another: see [`edit`](crate::flow::edit).

use acestep_engine::{
    Error, Notice,
    check::{self, real, whole},
    texts::unix_lines,
};
use serde::Serialize;

use super::{
    noise::{Noise, retake_seeds},
    topic::topic,
    words::WordsPlan,
};
use crate::{flow::edit::Window, lyrics::cleaned, prompt};

topic! {
    /// An edit of the source.
    Edit {
        /// True to edit the source: from the two source texts below to `caption` and `lyrics`.
        flow_edit_morph: bool = Flag("flow_edit", "flow_edit_enabled"),
        /// Description of the source.
        flow_edit_source_caption: String = Text,
        /// Lyrics of the source.
        flow_edit_source_lyrics: String = Text,
        /// Start of the editing window, as a share of the steps; earlier steps are skipped.
        flow_edit_n_min: f64 = Number,
        /// End of the editing window, as a share of the steps; later steps use the target alone.
        flow_edit_n_max: f64 = Number,
        /// Noise samples per step of an edit.
        flow_edit_n_avg: i64 = Count,
    }
}

/// An edit of a song from one description to another: see [`edit`](crate::flow::edit).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FlowEdit {
    /// Description of the source.
    pub source_caption: String,
    /// Lyrics of the source.
    pub source_lyrics: String,
    /// The steps that edit, and the number of noise samples.
    #[serde(flatten)]
    pub window: Window,
    /// Seeds of the noise, one per song: those of `retake_seed` if it is given.
    pub seeds: Vec<u64>,
    /// Full text for the caption encoder, as [`WordsPlan::caption_prompt`] but for the source.
    #[serde(skip)]
    pub caption_prompt: String,
    /// Full text for the lyric encoder.
    #[serde(skip)]
    pub lyric_prompt: String,
}

/// Largest number of noise samples per step of an edit.
const MOST_DRAWS: u32 = 16;

impl Edit {
    /// True if the request edits a song.
    pub fn is_on(&self) -> bool {
        self.flow_edit_morph == Some(true)
    }

    /// Decides the edit: `words` and `instruction` are the target, `songs` the seeds of the songs.
    pub(crate) fn plan(
        &self,
        words: &WordsPlan,
        instruction: &str,
        noise: &Noise,
        songs: &[u64],
        notices: &mut Vec<Notice>,
    ) -> Result<Option<FlowEdit>, Error> {
        let share =
            |field, value: Option<f64>, default| real(field, value.unwrap_or(default), 0.0, 1.0);
        let n_min = share("flow_edit_n_min", self.flow_edit_n_min, 0.0)?;
        let n_max = share("flow_edit_n_max", self.flow_edit_n_max, 1.0)?;
        let n_avg = whole("flow_edit_n_avg", self.flow_edit_n_avg.unwrap_or(1), 1, MOST_DRAWS)?;
        if !self.is_on() {
            let words = [&self.flow_edit_source_caption, &self.flow_edit_source_lyrics];
            let has_words = words.into_iter().flatten().any(|text| !text.trim().is_empty());
            if has_words || (n_min, n_max, n_avg) != (0.0, 1.0, 1) {
                let text = "the settings of an edit have no effect without `flow_edit_morph`";
                notices.push(Notice(text.into()));
            }
            return Ok(None);
        }
        if n_min > n_max {
            return Err(Error::Conflict(format!(
                "`flow_edit_n_min: {n_min}` is above `flow_edit_n_max: {n_max}`: exchange \
                 them"
            )));
        }
        let source_caption = self.flow_edit_source_caption.clone().unwrap_or_default();
        let source_lyrics = unix_lines(self.flow_edit_source_lyrics.as_deref().unwrap_or_default());
        // As the lyrics of the new song: a text that is equal on both sides must not be an edit.
        let (source_lyrics, left_out) = cleaned(&source_lyrics);
        notices.extend(left_out);
        check::text("flow_edit_source_caption", &source_caption)?;
        check::text("flow_edit_source_lyrics", &source_lyrics)?;
        if source_caption.trim().is_empty() && source_lyrics.trim().is_empty() {
            let text = "the edit knows nothing of the song as it is: `flow_edit_source_caption` and \
                        `flow_edit_source_lyrics` are both empty";
            notices.push(Notice(text.into()));
        }
        let seeds = match &noise.retake_seed {
            Some(given) => retake_seeds(Some(given), songs.len())?,
            None => songs.to_vec(),
        };
        let window = Window { n_min, n_max, n_avg: n_avg as usize };
        let metas = words.metas.to_text();
        Ok(Some(FlowEdit {
            caption_prompt: prompt::caption_prompt(instruction, &source_caption, &metas),
            lyric_prompt: prompt::lyric_prompt(&words.vocal_language, &source_lyrics),
            source_caption,
            source_lyrics,
            window,
            seeds,
        }))
    }
}
