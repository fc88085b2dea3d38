//! Networks that keep their results, so that every step of a run can be compared.

use std::cell::RefCell;

use acestep_engine::{Error, host::to_host};
use acestep_model::Backend;
use acestep_speech::dia2::{Pair, Read, StepNetworks};

/// Results of each step, both rows one after the other.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// The tokens that were read.
    pub(super) tokens: Vec<Vec<u32>>,
    pub(super) hidden: Vec<Vec<f32>>,
    pub(super) action: Vec<Vec<f32>>,
    pub(super) code: Vec<Vec<f32>>,
    /// The logits of the stages.
    pub(super) stages: Vec<Vec<f32>>,
}

/// Networks with their log.
#[derive(Debug)]
pub(super) struct Recorded<B: Backend> {
    pair: Pair<B>,
    log: RefCell<Log>,
}

impl<B: Backend> Recorded<B> {
    pub(super) fn new(pair: Pair<B>) -> Self {
        Self { pair, log: RefCell::default() }
    }

    /// Takes the log, which begins anew.
    pub(super) fn take(&self) -> Log {
        self.log.take()
    }
}

impl<B: Backend> StepNetworks for Recorded<B> {
    type State = <Pair<B> as StepNetworks>::State;
    type Hidden = <Pair<B> as StepNetworks>::Hidden;
    type Stages = <Pair<B> as StepNetworks>::Stages;

    fn step(
        &self,
        tokens: &[Vec<u32>],
        position: usize,
        state: &mut Self::State,
    ) -> Result<Read<Self::Hidden>, Error> {
        let read = self.pair.step(tokens, position, state)?;
        let mut log = self.log.borrow_mut();
        log.tokens.push(tokens.concat());
        log.hidden.push(to_host(read.hidden.clone()));
        log.action.push(read.action.concat());
        log.code.push(read.code.concat());
        log.stages.push(Vec::new());
        Ok(read)
    }

    fn stages(&self, rows: usize) -> Self::Stages {
        self.pair.stages(rows)
    }

    fn stage(
        &self,
        stage: usize,
        hidden: &Self::Hidden,
        previous: u32,
        text: [u32; 2],
        stages: &mut Self::Stages,
    ) -> Result<Vec<Vec<f32>>, Error> {
        let logits = self.pair.stage(stage, hidden, previous, text, stages)?;
        let mut log = self.log.borrow_mut();
        log.stages.last_mut().expect("a step before its stages").extend(logits.concat());
        Ok(logits)
    }
}
