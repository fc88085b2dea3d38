//! The results of a run.

use acestep_engine::Notice;

use super::words::Word;
use crate::spoken::Spoken;

/// A result of a run.
#[derive(Debug, Clone)]
pub enum Made {
    /// The next samples.
    Samples(Vec<f32>),
    /// The end.
    Done(Dialogue),
}

/// The result of a run.
#[derive(Debug, Clone)]
pub struct Dialogue {
    /// The sound, its codes and times.
    pub spoken: Spoken,
    /// The words that were spoken, with their times in the sound.
    pub words: Vec<Word>,
    /// Number of words and breaks of the script that were not begun.
    pub left: usize,
}

impl Dialogue {
    /// Returns notices about an end that is not that of the script.
    pub fn notices(&self) -> Vec<Notice> {
        let mut notices = self.spoken.notices();
        if self.left > 0 {
            let left = self.left;
            notices.push(Notice(format!("{left} words and breaks of the script are not spoken")));
        }
        notices
    }
}
