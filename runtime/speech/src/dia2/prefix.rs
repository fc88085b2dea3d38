//! Recordings of the speakers, as the beginning of a run.
//!
//! Source: nari-labs/dia2 at 8687268, `runtime/voice_clone.py`.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{
    error::Dia2Error,
    script::{Entry, Reader},
    words::Placed,
};
use crate::spoken::Word;

/// Steps by which the words of speaker 1 are late. Those of speaker 2 are not.
const FIRST_LATE: usize = 3;

/// A recording of a speaker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// The codes, one list per frame.
    pub frames: Vec<Vec<u32>>,
    /// The words and their times.
    pub words: Vec<Word>,
}

/// The beginning of a run: what was said before, and how it sounded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefix {
    /// The codes of all recordings.
    pub frames: Vec<Vec<u32>>,
    /// The words of all recordings.
    pub entries: Vec<Entry>,
    /// The steps at which a word begins.
    pub steps: BTreeSet<usize>,
    /// Words that would begin after the last frame, and so were not begun.
    pub late: usize,
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
        let mut prefix =
            Self { frames: Vec::new(), entries: Vec::new(), steps: BTreeSet::new(), late: 0 };
        for (speaker, Recording { frames, words }) in recordings.iter().enumerate() {
            let late = if speaker == 0 { FIRST_LATE } else { prefix.frames.len() };
            let Placed { entries, steps } = reader.placed(words, Some(speaker));
            prefix.entries.extend(entries);
            prefix.steps.extend(steps.into_iter().map(|step| step + late));
            prefix.frames.extend_from_slice(frames);
        }
        let frames = prefix.frames.len();
        if frames > most {
            return Err(Dia2Error::TooLong { frames, most });
        }
        prefix.late = prefix.steps.range(frames..).count();
        Ok(prefix)
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
            words: serde_json::from_value(golden["plan"]["words"][file].clone()).expect("words"),
        };
        [("pre1.wav", 17), ("pre2.wav", 10)].into_iter().take(count).map(of).collect()
    }

    /// Golden: words_to_entries.json, `plan`.
    #[test]
    fn two_speakers_are_joined_as_by_the_reference() {
        let golden = &testing::json("words_to_entries.json")["plan"];
        let tokenizer = testing::tokenizer();
        let prefix = Prefix::new(&recordings(2), &testing::reader(&tokenizer), 200).expect("short");
        assert_eq!(prefix.entries, testing::entries(&golden["entries"]));
        assert_eq!(prefix.steps, BTreeSet::from([3, 7, 14, 17, 21]));
        assert_eq!(prefix.frames.len(), 27);
        assert_eq!(prefix.late, 0);
    }

    #[test]
    fn words_after_the_end_are_counted_and_too_many_frames_refused() {
        let tokenizer = testing::tokenizer();
        let reader = testing::reader(&tokenizer);
        let mut late = recordings(1);
        late[0].frames.truncate(14);
        let prefix = Prefix::new(&late, &reader, 200).expect("short");
        assert_eq!(prefix.late, 1);
        let error = Prefix::new(&recordings(2), &reader, 26).expect_err("27 frames");
        assert!(matches!(error, Dia2Error::TooLong { frames: 27, most: 26 }), "{error}");
    }
}
