//! The program whose prompts are written.

/// Whose prompts the language model reads. They differ in what stands before the audio codes.
///
/// | style | plan before the codes | assistant's turn | prompt without the song, for guidance |
/// |---|---|---|---|
/// | `open` | upstream's, and the language that was given | open | negative prompt or `NO USER INPUT` |
/// | `closed` | the same | closed | the song, its plan empty |
/// | `upstream` | upstream's: tempo, length, key and metre where all are given | open | as `open` |
/// | `acestep.cpp` | all that is known, caption and language too | open | negative prompt or nothing |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum PromptStyle {
    /// Codes go on in the turn of the plan, as in training.
    #[default]
    Open,
    /// The turn is closed, and codes follow after it: upstream from February to April 2026, with
    /// which the public examples of that time were made.
    Closed,
    /// Later upstream, to the byte.
    Upstream,
    /// acestep.cpp, to the byte.
    AcestepCpp,
}

impl PromptStyle {
    /// Every style.
    pub const ALL: [Self; 4] = [Self::Open, Self::Closed, Self::Upstream, Self::AcestepCpp];

    /// Its name on the command line and in requests.
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
            Self::Upstream => "upstream",
            Self::AcestepCpp => "acestep.cpp",
        }
    }
}
