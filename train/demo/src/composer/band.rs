//! Who plays.

use serde::Serialize;

/// The players of a piece.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Band {
    /// Others in each piece: every instrument sounds a little different, and notes begin on any
    /// sample. Who hears only these learns what instruments have in common.
    #[default]
    Varied,
    /// The same in all pieces, and notes begin every 10 ms as in a sequencer. A note then looks the same
    /// in the latents wherever it is played, so that a network can learn to play it by heart.
    Same,
}

impl Band {
    /// Samples between two moments at which notes begin.
    pub(super) fn grid(self) -> usize {
        match self {
            Self::Varied => 1,
            Self::Same => 480,
        }
    }
}
