//! The text of standard input, line by line while it arrives.

use std::{
    io,
    sync::mpsc::{Receiver, RecvTimeoutError, sync_channel},
    thread,
    time::Duration,
};

use acestep_engine::{Error, Observe, Unobserved, progress::check};
use acestep_session::{speech::Arriving, texts};

use crate::interrupt;

/// Lines that are read before they are spoken.
const AHEAD: usize = 64;
/// Time between two looks at a wish to stop.
const LOOK: Duration = Duration::from_millis(50);

/// Lines of standard input.
pub(super) struct Lines(Receiver<Result<String, Error>>);

impl Lines {
    /// Begins to read.
    pub(super) fn begin() -> Self {
        let (sender, lines) = sync_channel(AHEAD);
        thread::spawn(move || {
            let mut lines = texts::lines(io::stdin().lock(), "standard input");
            // Nobody takes lines any more when the program ends.
            let _ = lines.try_for_each(|line| sender.send(line));
        });
        Self(lines)
    }

    /// Waits for the first line; empty if there is none. Ctrl-C ends the program.
    ///
    /// # Errors
    /// The errors of [`texts::lines`].
    pub(super) fn first(&mut self) -> Result<String, Error> {
        Ok(interrupt::at_once(|| self.more(&Unobserved))?.unwrap_or_default())
    }
}

impl Arriving for Lines {
    fn more(&mut self, observe: &dyn Observe) -> Result<Option<String>, Error> {
        loop {
            check(observe)?;
            match self.0.recv_timeout(LOOK) {
                Ok(Ok(line)) if line.trim().is_empty() => (),
                Ok(line) => return line.map(Some),
                Err(RecvTimeoutError::Timeout) => (),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
            }
        }
    }
}
