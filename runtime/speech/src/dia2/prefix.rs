//! Recordings of the speakers, as the beginning of a run.
//!
//! Source: nari-labs/dia2 at 8687268, `runtime/voice_clone.py`.

use std::collections::BTreeSet;

use acestep_engine::{Notice, error::counted};
use serde::{Deserialize, Serialize};

use super::{
    error::Dia2Error,
    script::{Entry, Reader},
    words::Placed,
};
use crate::spoken::Word;

/// Steps by which the words of speaker 1 are late. Those of speaker 2 are not.
const FIRST_LATE: usize = 3;

/// The most frames of recordings before a snapshot: 80 s, as in stream-dia2.
pub const MOST_PREFIX: usize = 1000;

/// A recording of a speaker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// The codes, one list per frame.
    pub frames: Vec<Vec<u32>>,
    /// The words and their times.
    pub words: Vec<Word>,
}

/// The beginning of a run: the words and codes of the recordings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prefix {
    /// The codes of all recordings.
    pub frames: Vec<Vec<u32>>,
    /// The words of all recordings.
    pub entries: Vec<Entry>,
    /// The steps at which a word begins.
    pub steps: BTreeSet<usize>,
    /// Words that would begin after the last frame, and so were not begun.
    pub late: usize,
    /// Frames that were cut off.
    pub cut_frames: usize,
    /// Words that were cut off with them.
    pub cut_words: usize,
}

impl Prefix {
    /// Joins recordings of speaker 1 and, if there are two, of speaker 2. `most` is the limit of
    /// their frames.
    ///
    /// # Errors
    /// [`Dia2Error::TooLong`].
    pub fn new(
        recordings: &[Recording],
        reader: &Reader<'_>,
        most: usize,
    ) -> Result<Self, Dia2Error> {
        let frames = recordings.iter().map(|recording| recording.frames.len()).sum();
        match frames > most {
            true => Err(Dia2Error::TooLong { frames, most }),
            false => Ok(Self::cut(recordings, reader, most)),
        }
    }

    /// As [`Self::new`], without the frames from `most` on, and without the words that begin there.
    pub fn cut(recordings: &[Recording], reader: &Reader<'_>, most: usize) -> Self {
        let mut prefix = Self::default();
        let all: usize = recordings.iter().map(|recording| recording.frames.len()).sum();
        // Late words of recordings that are not cut stay: upstream speaks them.
        let end = if all > most { most } else { usize::MAX };
        for (speaker, Recording { frames, words }) in recordings.iter().enumerate() {
            let late = if speaker == 0 { FIRST_LATE } else { prefix.frames.len() };
            let Placed { entries, steps } = reader.placed(words, Some(speaker));
            for (entry, step) in entries.into_iter().zip(steps.into_iter().map(|step| step + late))
            {
                if step < end {
                    prefix.entries.push(entry);
                    prefix.steps.insert(step);
                } else {
                    prefix.cut_words += 1;
                }
            }
            prefix.frames.extend_from_slice(frames);
        }
        prefix.frames.truncate(most);
        prefix.cut_frames = all - prefix.frames.len();
        prefix.late = prefix.steps.range(prefix.frames.len()..).count();
        prefix
    }

    /// Returns notices about words that are not begun, and frames that are cut off. `late` describes
    /// the fate of late words.
    pub(super) fn notices(&self, late: &str) -> Vec<Notice> {
        let (mut notices, used) = (Vec::new(), self.frames.len());
        if self.cut_frames > 0 {
            let words = counted(self.cut_words, "word");
            notices.push(Notice(format!(
                "{used} frames of the recordings are used: the rest is left out, with {words}"
            )));
        }
        if self.late > 0 {
            let words = counted(self.late, "word");
            let text = format!("words after the end of the recordings {late}: {words}");
            notices.push(Notice(text));
        }
        notices
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::{super::testing, *};

    /// The recordings of the goldens, with codes that mean nothing: 17 and 10 frames.
    pub(in super::super) fn recordings(count: usize) -> Vec<Recording> {
        let golden = testing::json("words_to_entries.json");
        let of = |(file, frames): (&str, usize)| Recording {
            frames: (0..frames).map(|frame| vec![frame as u32; 8]).collect(),
            words: testing::of(&golden["plan"]["words"][file]),
        };
        [("pre1.wav", 17), ("pre2.wav", 10)].into_iter().take(count).map(of).collect()
    }

    /// Golden: words_to_entries.json, `plan`.
    #[test]
    fn two_speakers_are_joined_as_by_the_reference() {
        let golden = &testing::json("words_to_entries.json")["plan"];
        let prefix = Prefix::new(&recordings(2), &testing::reader(), 200).expect("short");
        assert_eq!(prefix.entries, testing::entries(&golden["entries"]));
        assert_eq!(prefix.steps, BTreeSet::from([3, 7, 14, 17, 21]));
        assert_eq!(prefix.frames.len(), 27);
        assert_eq!(prefix.late, 0);
    }

    /// Row 14. Of the words at the steps 3, 7, 14, 17 and 21, the last two begin at frame 17 or later.
    #[test]
    fn recordings_that_are_too_long_are_cut_with_the_words_that_begin_there() {
        let reader = testing::reader();
        let whole = Prefix::cut(&recordings(2), &reader, 27);
        assert_eq!((whole.cut_frames, whole.cut_words, whole.notices("").len()), (0, 0, 0));
        let cut = Prefix::cut(&recordings(2), &reader, 17);
        assert_eq!(cut.steps, BTreeSet::from([3, 7, 14]));
        assert_eq!((cut.frames.len(), cut.cut_frames, cut.cut_words, cut.late), (17, 10, 2, 0));
        assert_eq!(cut.entries, whole.entries[..3]);
        assert_eq!(
            cut.notices("")[0].0,
            "17 frames of the recordings are used: the rest is left out, with 2 words"
        );
        // A word at the last frame stays, the one after it does not.
        let cut = Prefix::cut(&recordings(2), &reader, 22);
        assert_eq!(cut.steps, BTreeSet::from([3, 7, 14, 17, 21]));
        let cut = Prefix::cut(&recordings(2), &reader, 21);
        assert_eq!(cut.steps, BTreeSet::from([3, 7, 14, 17]));
        assert!(cut.notices("")[0].0.ends_with(", with 1 word"));
    }

    #[test]
    fn words_after_the_end_are_counted_and_too_many_frames_refused() {
        let reader = testing::reader();
        let mut late = recordings(1);
        late[0].frames.truncate(14);
        let prefix = Prefix::new(&late, &reader, 200).expect("short");
        let notice = "words after the end of the recordings are spoken: 1 word";
        assert_eq!((prefix.late, &*prefix.notices("are spoken")[0].0), (1, notice));
        let error = Prefix::new(&recordings(2), &reader, 26).expect_err("27 frames");
        assert!(matches!(error, Dia2Error::TooLong { frames: 27, most: 26 }), "{error}");
    }
}
