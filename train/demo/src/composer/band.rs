//! The players of a piece.

use serde::Serialize;

/// The players of a piece.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Band {
    /// Different players in each piece: every instrument sounds a little different, and notes begin
    /// on any sample. A network trained only on these learns what instruments have in common.
    #[default]
    Varied,
    /// The same players in all pieces, and notes begin on a grid of 10 ms, as in a sequencer. So a
    /// note has the same latents in every place, and a network can memorise it.
    Same,
}

impl Band {
    /// Returns the distance of possible note starts, in samples.
    pub(super) fn grid(self) -> usize {
        match self {
            Self::Varied => 1,
            Self::Same => 480,
        }
    }
}
