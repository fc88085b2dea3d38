//! Meters: three or four quarter notes a bar.

use std::fmt;

use serde::{Serialize, Serializer};

/// How many beats a bar has; shown and serialised as upstream does, `3` or `4`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meter {
    /// Three quarters a bar.
    Three,
    /// Four quarters a bar.
    Four,
}

impl Meter {
    /// Beats a bar.
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
