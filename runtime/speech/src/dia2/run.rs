//! A run: steps from a state to the end of the script.
//!
//! Source: nari-labs/dia2 at 8687268, `runtime/generator.py`.

use acestep_engine::Error;

use super::{
    script::Entry,
    step::{Chooser, RunState, Step, StepNetworks},
    streams::Streams,
};

/// The reason why the steps ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunEnd {
    /// The script is spoken.
    Finished,
    /// The model can read no more steps.
    Context,
    /// The limit of the request.
    Limit,
}

/// Steps of a run.
pub struct Run<N: StepNetworks> {
    streams: Streams,
    networks: N,
    stages: N::Stages,
    chooser: Chooser,
    state: RunState<N::State>,
    start: usize,
    known: usize,
    most: usize,
}

impl<N: StepNetworks> std::fmt::Debug for Run<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { state, start, known, most, .. } = self;
        let mut f = f.debug_struct("Run");
        f.field("step", &state.step).field("start", start).field("known", known);
        f.field("most", most).finish_non_exhaustive()
    }
}

impl<N: StepNetworks> Run<N> {
    /// Begins at the step of `state`, for at most `most` steps. The first `known` frames are those of
    /// a recording, whose codes are kept.
    pub fn new(
        state: RunState<N::State>,
        (known, most): (usize, usize),
        chooser: Chooser,
        streams: Streams,
        networks: N,
    ) -> Self {
        let (start, stages) = (state.step, networks.stages(state.rows));
        Self { streams, networks, stages, chooser, state, start, known, most }
    }

    /// The state after the last step.
    pub fn state(&self) -> &RunState<N::State> {
        &self.state
    }

    /// The networks.
    pub fn networks(&self) -> &N {
        &self.networks
    }

    /// Adds entries to the script, so that the run goes on.
    pub fn append(&mut self, entries: impl IntoIterator<Item = Entry>) {
        self.state.machine.append(entries);
    }

    /// The first step.
    pub fn start(&self) -> usize {
        self.start
    }

    /// The reason of the end, if the run is over.
    pub fn ending(&self) -> Option<RunEnd> {
        let step = self.state.step;
        let cut = self.state.machine.end_step().map(|end| self.streams.cut(end));
        if cut.is_some_and(|cut| step >= cut) {
            return Some(RunEnd::Finished);
        }
        // Upstream has no rotation for later positions, and fails there.
        if step >= self.streams.most_steps {
            return Some(RunEnd::Context);
        }
        (step - self.start >= self.most).then_some(RunEnd::Limit)
    }

    /// The number of steps that are certain to come: the text ends at the next one at the earliest.
    pub fn steps_left(&self) -> usize {
        let step = self.state.step;
        let cut = self.streams.cut(self.state.machine.end_step().unwrap_or(step));
        let limit = self.start.saturating_add(self.most).min(self.streams.most_steps);
        cut.min(limit).saturating_sub(step)
    }

    /// Takes the next step; `None` if the run is over.
    ///
    /// # Errors
    /// The errors of [`RunState::advance`].
    pub fn advance(&mut self) -> Result<Option<Step>, Error> {
        if self.ending().is_some() {
            return Ok(None);
        }
        let Self { state, known, chooser, streams, networks, stages, .. } = self;
        state.advance(*known, chooser, streams, &*networks, stages).map(Some)
    }

    /// Returns frame `frame`, if it is complete.
    pub fn frame(&self, frame: usize) -> Option<Vec<u32>> {
        if frame >= self.state.frames() {
            return None;
        }
        self.state.grid.frame(frame)
    }

    /// Returns the codes of the first codebooks of a frame, as many as are known; `None` if not even that
    /// of the first one is.
    pub fn begun_frame(&self, frame: usize) -> Option<Vec<u32>> {
        self.state.grid.begun(frame, self.state.step + 1)
    }
}

#[cfg(test)]
mod tests;
