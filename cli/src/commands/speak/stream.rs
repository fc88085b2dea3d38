//! Sound on standard output while it is made: WAV of unknown length, or samples alone.

use acestep_engine::{Error, audio::stream};
use anyhow::Result;

use crate::report;

/// The sound on standard output.
pub(super) struct Stream {
    /// The error that ended it.
    pub(super) failed: Option<report::Stdout>,
}

impl Stream {
    /// Writes the header, unless only samples are wanted. The sound has `sample_rate` samples per second.
    pub(super) fn begin(is_raw: bool, sample_rate: u32) -> Result<Self> {
        if !is_raw {
            report::bytes(&stream::header(sample_rate, 1))?;
        }
        Ok(Self { failed: None })
    }

    /// Writes samples as 16-bit integers.
    ///
    /// # Errors
    /// [`Error::Cancelled`], with the reason in `failed`.
    pub(super) fn write(&mut self, samples: &[f32]) -> Result<(), Error> {
        report::bytes(&stream::integers(samples)).map_err(|failed| {
            self.failed = Some(failed);
            Error::Cancelled
        })
    }
}
