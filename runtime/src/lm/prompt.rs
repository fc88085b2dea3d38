//! The texts that the language model continues, byte by byte.

/// How the assistant's turn stands before the codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Turn {
    /// Open.
    #[default]
    Open,
    /// Closed.
    Closed,
}
