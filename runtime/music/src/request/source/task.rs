//! Tasks: music from text, or from an existing song.
//!
//! Source: upstream `TASK_TYPES`.

use crate::named::named;

named! {
    /// The kind of generation, by upstream's names; the first is the default.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Task {
        /// Music from text, and from audio codes if there are any.
        TextToMusic = "text2music",
        /// The structure of a song in another style.
        Cover = "cover",
        /// A cover from the song's latents, which hold more of it than its audio codes.
        CoverNofsq = "cover-nofsq",
        /// A part of a song made again, or an extension before or after it.
        Repaint = "repaint",
        /// A new track for a song.
        Lego = "lego",
        /// One track extracted from a song.
        Extract = "extract",
        /// Missing tracks added to a song.
        Complete = "complete",
    }
}

impl Task {
    /// True if the task needs an existing song.
    pub fn has_source(self) -> bool {
        self != Self::TextToMusic
    }

    /// True if distilled models were not trained for the task.
    pub(super) fn needs_base(self) -> bool {
        matches!(self, Self::Lego | Self::Extract | Self::Complete)
    }

    /// True if audio codes may replace the source.
    pub(super) fn takes_codes(self) -> bool {
        matches!(self, Self::TextToMusic | Self::Cover | Self::CoverNofsq)
    }

    /// True if a part of the source can be chosen.
    pub(in super::super) fn takes_region(self) -> bool {
        matches!(self, Self::Repaint | Self::Lego)
    }
}
