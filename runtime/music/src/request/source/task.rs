//! Tasks: music from text, or from an existing song.
//!
//! Source: upstream `TASK_TYPES`.

/// The kind of generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Music from text, and from audio codes if there are any.
    TextToMusic,
    /// The structure of a song in another style.
    Cover,
    /// A cover from the song's latents, which hold more of it than its audio codes.
    CoverNofsq,
    /// A part of a song made again, or an extension before or after it.
    Repaint,
    /// A new track for a song.
    Lego,
    /// One track extracted from a song.
    Extract,
    /// Missing tracks added to a song.
    Complete,
}

impl Task {
    /// All tasks; the first is the default.
    pub const ALL: [Self; 7] = [
        Self::TextToMusic,
        Self::Cover,
        Self::CoverNofsq,
        Self::Repaint,
        Self::Lego,
        Self::Extract,
        Self::Complete,
    ];

    /// Returns upstream's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::TextToMusic => "text2music",
            Self::Cover => "cover",
            Self::CoverNofsq => "cover-nofsq",
            Self::Repaint => "repaint",
            Self::Lego => "lego",
            Self::Extract => "extract",
            Self::Complete => "complete",
        }
    }

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
