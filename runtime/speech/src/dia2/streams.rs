//! The constants of a model that a run needs: ids, delays and limits.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{grid::Grid, ids::Ids, machine::StateMachine, script::Entry};

/// Steps after the last word: its last frames, and six frames of rest.
const TAIL: usize = 6;

/// The streams of a model: two of text, and one for each codebook.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Streams {
    /// Special ids.
    pub ids: Ids,
    /// Delay of each codebook in frames, at least 1.
    pub delays: Vec<usize>,
    /// `second_stream_ahead`: number of the word that the second stream spells; 0 for none.
    pub ahead: usize,
    /// Most steps of a run, with those of a recording.
    pub most_steps: usize,
    /// Codes of a codebook.
    pub codebook_size: usize,
    /// Frames per second.
    pub frame_rate: f64,
}

/// All of them in one line, for a log.
impl fmt::Display for Streams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Ids { bos, zero, pad, new_word, speakers: [first, second], audio_bos, audio_pad } =
            self.ids;
        write!(f, "text ids: bos {bos}, zero {zero}, pad {pad}, new word {new_word}, ")?;
        write!(f, "[S1] {first}, [S2] {second}; codes: bos {audio_bos}, pad {audio_pad}; ")?;
        let (delays, ahead, steps, rate) =
            (&self.delays, self.ahead, self.most_steps, self.frame_rate);
        write!(f, "delays {delays:?}; {ahead} words ahead; {steps} steps; {rate} frames per second")
    }
}

impl Streams {
    /// The largest delay.
    pub fn most_delay(&self) -> usize {
        self.delays.iter().copied().max().unwrap_or_default()
    }

    /// The first step that is not taken if the text ends at `end_step`.
    pub fn cut(&self, end_step: usize) -> usize {
        end_step + self.most_delay() + TAIL
    }

    /// A machine for `entries`.
    pub fn machine(&self, entries: Vec<Entry>, initial_padding: usize) -> StateMachine {
        StateMachine::new(entries, initial_padding, self.ahead, &self.ids)
    }

    /// An empty grid. `unwritten` is the code of columns that are never written.
    pub fn grid(&self, unwritten: u32) -> Grid {
        Grid::new(&self.delays, unwritten)
    }
}

#[cfg(test)]
mod tests {
    use super::{super::testing, *};

    #[test]
    fn row_05_the_constants_are_one_line() {
        let delays = vec![8, 10];
        let (ids, ahead, most_steps, codebook_size) = (testing::IDS, 2, 200, 64);
        let streams = Streams { ids, delays, ahead, most_steps, codebook_size, frame_rate: 12.5 };
        assert_eq!(
            streams.to_string(),
            "text ids: bos 1, zero 7, pad 3, new word 2, [S1] 448, [S2] 449; codes: bos 64, pad 65; \
             delays [8, 10]; 2 words ahead; 200 steps; 12.5 frames per second"
        );
    }
}
