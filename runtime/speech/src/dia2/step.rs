//! The state of a run, and its steps: of a recording, of the rest after it, of speech.
//!
//! Source: nari-labs/dia2 at 8687268, `runtime/generator.py` and `runtime/voice_clone.py`.

use acestep_engine::{Error, sampling::ScoreError};

use super::{
    choose::{DrawSettings, Drawing, Guidance, ban},
    error::Dia2Error,
    grid::Grid,
    machine::{NEW_WORD, StateMachine, StepText},
    prefix::Prefix,
    streams::Streams,
};

/// Steps of rest after a recording: 480 ms.
pub(super) const REST: usize = 6;

/// The networks of a step, with logits on the host.
pub trait StepNetworks {
    /// Keys and values of the steps so far.
    type State: Clone;
    /// The result of a step that the stages read.
    type Hidden;
    /// Keys and values of the stages of one step.
    type Stages;

    /// Reads a row of tokens for each row of `state`: main text, second text, a code of each
    /// codebook. The row takes the next slot; `position` is for its rotation.
    ///
    /// # Errors
    /// The errors of the device.
    fn step(
        &self,
        tokens: &[Vec<u32>],
        position: usize,
        state: &mut Self::State,
    ) -> Result<Read<Self::Hidden>, Error>;

    /// Creates a state of the stages for `rows` rows.
    fn stages(&self, rows: usize) -> Self::Stages;

    /// Returns the logits of each row for codebook `stage + 1`, after the code `previous` of the
    /// codebook before it. `text` is the step's. Stage 0 begins a new step.
    ///
    /// # Errors
    /// The errors of the device.
    fn stage(
        &self,
        stage: usize,
        hidden: &Self::Hidden,
        previous: u32,
        text: [u32; 2],
        stages: &mut Self::Stages,
    ) -> Result<Vec<Vec<f32>>, Error>;
}

/// The result of a step of the first network.
#[derive(Debug, Clone)]
pub struct Read<H> {
    /// The state for the stages.
    pub hidden: H,
    /// Logits of the action, by row.
    pub action: Vec<Vec<f32>>,
    /// Logits of codebook 0, by row.
    pub code: Vec<Vec<f32>>,
}

/// The choice of ids from logits.
#[derive(Debug)]
pub struct Chooser {
    /// The guidance.
    pub guidance: Guidance,
    /// The draw of actions.
    pub text: DrawSettings,
    /// The draw of codes.
    pub audio: DrawSettings,
    /// The source of draws.
    pub drawing: Box<dyn Drawing>,
}

impl Chooser {
    fn action(&mut self, rows: Vec<Vec<f32>>) -> Result<u32, ScoreError> {
        let logits = self.guidance.candidates(rows)?;
        Ok(self.text.choose(&logits, &mut *self.drawing))
    }

    /// Chooses a code; `banned` ids are none.
    fn code(&mut self, rows: Vec<Vec<f32>>, banned: &[u32]) -> Result<u32, ScoreError> {
        let mut logits = self.guidance.candidates(rows)?;
        ban(&mut logits, banned);
        Ok(self.audio.choose(&logits, &mut *self.drawing))
    }
}

/// The state of a run between two steps.
#[derive(Debug, Clone)]
pub struct RunState<S> {
    /// Keys and values of the networks.
    pub networks: S,
    /// Rows of the networks.
    pub rows: usize,
    /// The codes so far.
    pub grid: Grid,
    /// The text of the next step, and the codes of the last one: the conditional row.
    pub tokens: Vec<u32>,
    /// The rest of the script.
    pub machine: StateMachine,
    /// The next step.
    pub step: usize,
}

/// A step of speech.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Its number.
    pub step: usize,
    /// The action that the network chose.
    pub action: u32,
    /// The text that the machine gave.
    pub text: StepText,
}

impl<S: Clone> RunState<S> {
    /// The state before the first step.
    pub fn fresh(
        networks: S,
        rows: usize,
        grid: Grid,
        machine: StateMachine,
        streams: &Streams,
    ) -> Self {
        // The tokens before the first step: text, then codes.
        let mut tokens = vec![streams.ids.audio_pad; 2 + streams.delays.len()];
        tokens[..2].copy_from_slice(&[streams.ids.bos, streams.ids.pad]);
        Self { networks, rows, grid, tokens, machine, step: 0 }
    }

    /// Reads the recordings of a voice. The next step is then the last frame a second time.
    ///
    /// `check` is called before each step; its error ends the work.
    ///
    /// # Errors
    /// The errors of the networks and of `check`.
    pub fn read<N: StepNetworks<State = S>>(
        &mut self,
        prefix: &Prefix,
        streams: &Streams,
        networks: &N,
        check: &dyn Fn(usize) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.grid.write_frames(&prefix.frames, streams.ids.audio_pad);
        for step in 0..prefix.frames.len() {
            check(step)?;
            let codes = self.grid.inputs_of(&prefix.frames, step, streams.ids.audio_bos);
            self.tokens[2..].copy_from_slice(&codes);
            networks.step(&self.all_rows(streams), step, &mut self.networks)?;
            let action = if prefix.steps.contains(&step) { NEW_WORD } else { 0 };
            let StepText { main, second, .. } = self.machine.step(step, action, true);
            self.tokens[..2].copy_from_slice(&[main, second]);
        }
        self.step = prefix.frames.len().saturating_sub(1);
        Ok(())
    }

    /// Rests after the recordings of a voice, so that the next words do not depend on its last ones.
    ///
    /// # Errors
    /// The errors of the networks.
    pub fn rest<N: StepNetworks<State = S>>(
        &mut self,
        streams: &Streams,
        networks: &N,
    ) -> Result<(), Error> {
        let ids = &streams.ids;
        let silence = vec![ids.audio_bos; streams.delays.len()];
        self.step += 1;
        for _ in 0..REST {
            let step = self.step;
            self.tokens[..2].fill(ids.pad);
            self.tokens[2..].copy_from_slice(&silence);
            self.grid.write(step, silence.clone());
            self.grid.write(step + 1, silence.clone());
            networks.step(&self.all_rows(streams), step, &mut self.networks)?;
            self.step += 1;
        }
        Ok(())
    }

    /// Takes a step of speech, which writes a column of the grid.
    ///
    /// The first `known` frames are those of a recording. Their codes stay where they are written
    /// already; only the networks read them.
    ///
    /// # Errors
    /// The errors of the networks; [`Dia2Error::Scores`].
    pub fn advance<N: StepNetworks<State = S>>(
        &mut self,
        known: usize,
        chooser: &mut Chooser,
        streams: &Streams,
        networks: &N,
        stages: &mut N::Stages,
    ) -> Result<Step, Error> {
        let (step, ids) = (self.step, &streams.ids);
        let unusable = |why| Error::from(Dia2Error::Scores { step, why });
        self.tokens[2..].copy_from_slice(&self.grid.inputs(step, ids.audio_bos));
        let read = networks.step(&self.all_rows(streams), step, &mut self.networks)?;
        let action = chooser.action(read.action).map_err(unusable)?;
        let text = self.machine.step(step, action, false);
        let pair = [text.main, text.second];
        self.tokens[..2].copy_from_slice(&pair);
        let column = step + 1;
        let kept = |state: &Self, codebook: usize| {
            let delay = if codebook == 0 { 0 } else { streams.delays[codebook] };
            (step < known + delay && known > 0).then(|| state.grid.kept(codebook, column))
        };
        let mut code = match kept(self, 0) {
            Some(code) => code,
            None => chooser.code(read.code, &[ids.audio_pad, ids.audio_bos]).map_err(unusable)?,
        };
        let mut codes = vec![code];
        for stage in 0..streams.delays.len() - 1 {
            let logits = networks.stage(stage, &read.hidden, code, pair, stages)?;
            code = match kept(self, stage + 1) {
                Some(code) => code,
                None => chooser.code(logits, &[]).map_err(unusable)?,
            };
            codes.push(code);
        }
        self.grid.write(column, codes);
        self.step = column;
        Ok(Step { step, action, text })
    }

    /// The number of frames that are complete.
    pub fn frames(&self) -> usize {
        self.grid.complete(self.step + 1)
    }

    /// The conditional row, and the unconditional one, which has no text.
    fn all_rows(&self, streams: &Streams) -> Vec<Vec<u32>> {
        let mut rows = vec![self.tokens.clone(); self.rows];
        for row in rows.iter_mut().skip(1) {
            row[..2].copy_from_slice(&[streams.ids.zero, streams.ids.pad]);
        }
        rows
    }
}
