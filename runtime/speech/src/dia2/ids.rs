//! The special ids of a model.

use acestep_model::Tokenizer;
use serde::{Deserialize, Serialize};

use super::reading::TAGS;

/// Special ids of the streams of text and sound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ids {
    /// The first text of the conditional row.
    pub bos: u32,
    /// The text of the unconditional row.
    pub zero: u32,
    /// No text.
    pub pad: u32,
    /// The beginning of a word.
    pub new_word: u32,
    /// The tags of the two speakers.
    pub speakers: [u32; 2],
    /// The code before the first one.
    pub audio_bos: u32,
    /// No code.
    pub audio_pad: u32,
}

impl Ids {
    /// Completes the ids that a configuration states with those of its tokenizer: `bos`, which is 1
    /// if the tokenizer's is 0 or absent, and the speakers, which are new words if it has no tags.
    #[must_use]
    pub fn with(self, bos: Option<u32>, tokenizer: &dyn Tokenizer) -> Self {
        let bos = bos.filter(|&id| id > 0).unwrap_or(1);
        let speakers = TAGS.map(|tag| tokenizer.id_of(tag).unwrap_or(self.new_word));
        Self { bos, speakers, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::testing, *};

    struct Nothing;

    impl Tokenizer for Nothing {
        fn encode(&self, _: &str) -> Vec<u32> {
            Vec::new()
        }

        fn decode(&self, _: &[u32]) -> String {
            String::new()
        }

        fn id_of(&self, _: &str) -> Option<u32> {
            None
        }

        fn vocabulary(&self) -> usize {
            0
        }
    }

    /// Golden: tokenizer.json of the reference: bos 1, spk1 448, spk2 449.
    #[test]
    fn the_ids_of_the_tokenizer_are_those_of_the_reference() {
        let stated = Ids { bos: 9, speakers: [9; 2], ..testing::IDS };
        assert_eq!(stated.with(Some(0), testing::reader().tokenizer), testing::IDS);
        let without = stated.with(None, &Nothing);
        assert_eq!((without.bos, without.speakers), (1, [2, 2]));
        assert_eq!(stated.with(Some(5), &Nothing).bos, 5);
    }
}
