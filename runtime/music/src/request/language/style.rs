//! Formats of the prompts, by program.

use crate::named::named;

named! {
    /// Format of the language model's prompts. The formats differ in the text before the audio codes.
    ///
    /// | style | plan before the codes | assistant's turn | unconditional prompt |
    /// |---|---|---|---|
    /// | `open` | upstream's, and a given language | open | negative prompt or `NO USER INPUT` |
    /// | `closed` | the same | closed | the song, with an empty plan |
    /// | `upstream` | upstream's: tempo, length, key and metre if all are given | open | as `open` |
    /// | `acestep.cpp` | all known values, with caption, language | open | negative prompt or nothing |
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
    pub enum PromptStyle {
        /// Codes continue the turn of the plan, as in training.
        #[default]
        Open = "open",
        /// Codes follow after a closed turn: upstream from February to April 2026, used for the public
        /// examples of that time.
        Closed = "closed",
        /// Later upstream, byte by byte.
        Upstream = "upstream",
        /// acestep.cpp, byte by byte.
        AcestepCpp = "acestep.cpp",
    }
}
