//! The requests of a run to its networks. Tests answer in their place.

use acestep_engine::Error;

/// The networks with one voice.
pub trait VoiceNetworks {
    /// The memory of a text: a row for each id.
    type Memory;

    /// Codes of a frame.
    fn codebooks(&self) -> usize;

    /// Codes of a stack, those of all frames of a step.
    fn tables(&self) -> usize;

    /// Returns the memory of a text.
    ///
    /// # Errors
    /// The errors of the networks.
    fn encode(&mut self, ids: &[u32]) -> Result<Self::Memory, Error>;

    /// Returns `memory` with its first `rows` rows replaced by the last ones of `before`.
    fn spliced(&self, before: &Self::Memory, memory: Self::Memory, rows: usize) -> Self::Memory;

    /// Begins a chunk of text with the voice and without sound.
    ///
    /// # Errors
    /// The errors of the networks.
    fn begin(&mut self, memory: &Self::Memory) -> Result<(), Error>;

    /// Reads a stack of codes, frame by frame. `prior` are factors of the attention to each row of the
    /// memory.
    ///
    /// # Errors
    /// The errors of the networks.
    fn step(&mut self, stack: &[u32], prior: Option<&[f32]>) -> Result<StepOutput, Error>;

    /// Returns the logits of code `index` of the stack after the last step, one list for each row.
    /// `before` is the code before it, `None` for the first.
    ///
    /// # Errors
    /// The errors of the networks.
    fn code(&mut self, index: usize, before: Option<u32>) -> Result<Vec<Vec<f32>>, Error>;
}

/// The result of a step.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StepOutput {
    /// Logits of all codes of a stack, one list for each row: the conditional one, and with guidance
    /// the unconditional one.
    pub logits: Vec<Vec<f32>>,
    /// Attention to each row of the memory, one list for each layer that shows it.
    pub attention: Vec<Vec<f32>>,
}
