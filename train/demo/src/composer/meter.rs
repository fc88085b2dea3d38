//! Meters: three or four quarter notes per bar.

use std::fmt;

use serde::{Serialize, Serializer};

/// Beats per bar; displayed and serialised as upstream does, `3` or `4`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meter {
    /// Three quarters per bar.
    Three,
    /// Four quarters per bar.
    Four,
}

impl Meter {
    /// Returns the beats per bar.
    pub fn beats(self) -> u32 {
        match self {
            Self::Three => 3,
            Self::Four => 4,
        }
    }
}

impl fmt::Display for Meter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.beats())
    }
}

impl Serialize for Meter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(self.beats())
    }
}
