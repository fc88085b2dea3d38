//! The results of a run.

use acestep_engine::Notice;

use crate::spoken::{self, Spoken};

/// A result of a run.
pub type StreamItem = spoken::StreamItem<Dialogue>;

/// The result of a run.
#[derive(Debug, Clone)]
pub struct Dialogue {
    /// The sound, its words, codes and times.
    pub spoken: Spoken,
    /// Number of words and breaks of the script that were not begun.
    pub left: usize,
}

impl Dialogue {
    /// Returns notices about an end before the end of the script.
    pub fn notices(&self) -> Vec<Notice> {
        let mut notices = self.spoken.notices();
        notices.extend(self.left());
        notices
    }

    /// Returns a notice if a part of the script was not spoken.
    pub fn left(&self) -> Option<Notice> {
        let text = || format!("words and breaks of the script are not spoken: {}", self.left);
        (self.left > 0).then(|| Notice(text()))
    }
}
