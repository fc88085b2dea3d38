//! The run of a text: step by step to frames, chunk after chunk.
//!
//! A chunk is read together with the end of the text before it. The rows of that end are kept from the
//! chunk before. The sound of each chunk begins anew with the voice.
//!
//! Source: NeMo 3.0.0, `magpietts.py`: `infer_batch`, `generate_speech`.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use acestep_engine::Error;

use super::{
    MagpieError,
    align::{self, Align},
    choose::{DrawSettings, RandomSource, SPECIAL_IDS, TextState, guide, likeliest, restrict},
    end::EndRule,
    network::{StepOutput, VoiceNetworks},
};

/// Most ids of the text before a chunk that are read with it.
pub(super) const HISTORY: usize = 20;
/// Steps near the end of the text after which a chunk ends that is not the last one.
const STEPS_NEAR_END: u32 = 3;
/// Steps near the end of the text after which only the end of speech is allowed: in the first chunk,
/// and in the others.
const STEPS_UNTIL_SPOKEN: [u32; 2] = [20, 5];

/// Settings of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Scale of guidance; `None` without it.
    pub guidance: Option<f32>,
    /// Settings of the draws.
    pub sampling: DrawSettings,
    /// The attention prior.
    pub prior: align::PriorSettings,
    /// False without the prior. Then a later chunk keeps the prior of its first step, as in the reference.
    pub has_prior: bool,
    /// Steps of a chunk before the prior starts.
    pub start_prior_after: usize,
    /// True if the state of the text allows and forbids the end.
    pub is_tracking: bool,
    /// The rule of the end.
    pub end: EndRule,
    /// Frames of a chunk before its end is allowed.
    pub least_frames: usize,
    /// Most frames of a chunk.
    pub most_frames: usize,
    /// False to draw all codes of a stack at once, without the local transformer.
    pub is_local: bool,
}

/// The end of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChunkEnd {
    /// The model wrote its end.
    Finished,
    /// The text of a chunk that is not the last one was spoken.
    Spoken,
    /// The limit of frames was reached.
    Limit,
    /// A frame has the code of the end, and the rule of the end does not see it. It has no sound.
    HalfEnd,
}

/// A step of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Stepped {
    /// The frames that are kept, at most one for each frame of a stack.
    pub frames: Vec<Vec<u32>>,
    /// The end of the chunk, if it is here.
    pub ended: Option<ChunkEnd>,
    /// The decisions, for tests.
    #[doc(hidden)]
    pub decided: Decided,
}

/// The decisions of a step, for tests.
#[doc(hidden)]
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decided {
    /// Codes that were drawn, all of the stack.
    pub drawn: Vec<u32>,
    /// The likeliest codes.
    pub likeliest: Vec<u32>,
    /// Guided logits.
    pub logits: Vec<f32>,
    /// The attended position.
    pub attended: Option<usize>,
    /// The prior of the next step.
    pub prior: Option<Vec<f32>>,
}

/// A chunk that is spoken.
struct Chunk<M> {
    window: Vec<u32>,
    memory: M,
    step: usize,
    stack: Vec<u32>,
    prior: Option<Vec<f32>>,
}

/// A run of a text.
pub struct Frames<N: VoiceNetworks> {
    network: N,
    settings: Settings,
    source: RandomSource,
    codes: usize,
    align: Align,
    waiting: VecDeque<Vec<u32>>,
    chunk: Option<Chunk<N::Memory>>,
    is_speaking: bool,
    steps: usize,
}

impl<N: VoiceNetworks> std::fmt::Debug for Frames<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Frames")
            .field("settings", &self.settings)
            .field("steps", &self.steps)
            .finish()
    }
}

impl<N: VoiceNetworks> Frames<N> {
    /// Begins a run. `chunks` are the ids of each chunk with their end, `codes` the number of codes of
    /// a codebook without the special ones.
    pub fn new(
        network: N,
        chunks: Vec<Vec<u32>>,
        codes: usize,
        settings: Settings,
        source: RandomSource,
    ) -> Self {
        let align = Align::new(settings.prior, 0);
        let waiting = chunks.into();
        let (chunk, is_speaking, steps) = (None, false, 0);
        Self { network, settings, source, codes, align, waiting, chunk, is_speaking, steps }
    }

    /// Number of chunks that have not begun.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The ids that the chunk is read with, for tests.
    #[doc(hidden)]
    pub fn window(&self) -> &[u32] {
        self.chunk.as_ref().map_or(&[], |chunk| &chunk.window)
    }

    /// The memory of those ids, for tests.
    #[doc(hidden)]
    pub fn memory(&self) -> Option<&N::Memory> {
        self.chunk.as_ref().map(|chunk| &chunk.memory)
    }

    /// The networks, for tests.
    #[doc(hidden)]
    pub fn network(&self) -> &N {
        &self.network
    }

    /// Takes a step. Returns `None` after the last chunk.
    ///
    /// # Errors
    /// The errors of the networks; [`MagpieError::Scores`].
    pub fn step(&mut self) -> Result<Option<Stepped>, Error> {
        if !self.is_speaking && !self.begin()? {
            return Ok(None);
        }
        let Some(chunk) = &mut self.chunk else { return Ok(None) };
        let StepOutput { mut logits, attention } =
            self.network.step(&chunk.stack, chunk.prior.as_deref())?;
        self.steps += 1;
        let logits = match (self.settings.guidance, logits.pop(), logits.pop()) {
            (Some(scale), Some(without), Some(with)) => guide(&with, &without, scale),
            (_, Some(only), _) => only,
            (_, None, _) => Vec::new(),
        };
        let mut decided = Decided { logits, ..Decided::default() };
        if self.settings.has_prior && chunk.step >= self.settings.start_prior_after {
            decided.attended = Some(self.align.attend(&mean(&attention)));
            chunk.prior = Some(self.align.prior());
            decided.prior.clone_from(&chunk.prior);
        }
        self.align.count(self.waiting.is_empty());
        self.choose(&mut decided)?;
        Ok(Some(self.take(decided)))
    }

    /// Begins the next chunk. Returns false if there is none.
    fn begin(&mut self) -> Result<bool, Error> {
        let Some(ids) = self.waiting.pop_front() else { return Ok(false) };
        let own = ids.len();
        let (window, memory, prior) = match self.chunk.take() {
            None => {
                self.align = Align::new(self.settings.prior, own);
                let memory = self.network.encode(&ids)?;
                (ids, memory, None)
            }
            Some(before) => {
                let mut all = before.window.clone();
                all.extend(ids);
                let window = all.split_off(all.len().saturating_sub(own + own.min(HISTORY)));
                let history = window.len() - own;
                let memory = self.network.encode(&window)?;
                let memory = self.network.spliced(&before.memory, memory, history);
                let left = self.align.left() + before.window.len() - history;
                let prior = self.align.begin_chunk(left, window.len(), own);
                (window, memory, Some(prior))
            }
        };
        self.network.begin(&memory)?;
        let stack = vec![self.codes as u32; self.network.tables()];
        self.chunk = Some(Chunk { window, memory, step: 0, stack, prior });
        self.is_speaking = true;
        Ok(true)
    }

    /// Chooses the codes of a stack.
    fn choose(&mut self, decided: &mut Decided) -> Result<(), Error> {
        let Some(chunk) = &mut self.chunk else { return Ok(()) };
        let Settings { guidance, sampling, is_local, .. } = self.settings;
        let tables = self.network.tables();
        let frames = tables / self.network.codebooks();
        let forbids_end = chunk.step * frames < self.settings.least_frames;
        let text = match self.settings.is_tracking {
            true => state_of(&self.align),
            false => TextState::Open,
        };
        let step = self.steps;
        let unusable = |why| Error::from(MagpieError::Scores { step, why });
        let restricted = |logits: &[f32]| {
            let mut logits = logits.to_vec();
            restrict(&mut logits, text, forbids_end);
            logits
        };
        let per_code: Vec<Vec<f32>> =
            decided.logits.chunks(self.codes + SPECIAL_IDS).map(restricted).collect();
        for logits in &per_code {
            decided.likeliest.push(likeliest(logits.clone()).map_err(unusable)?);
        }
        for (index, logits) in per_code.into_iter().enumerate() {
            let (logits, rows) = if is_local {
                let before = decided.drawn.last().copied();
                let rows = self.network.code(index, before)?;
                let logits = match (guidance, &rows[..]) {
                    (Some(scale), [with, without]) => guide(with, without, scale),
                    _ => rows[0].clone(),
                };
                (restricted(&logits), rows.len())
            } else {
                (logits, 1)
            };
            let code = sampling.choose(logits, &mut self.source, rows).map_err(unusable)?;
            decided.drawn.push(code);
        }
        if sampling.temperature > 0.0 {
            self.source.skip_draws(tables);
        }
        Ok(())
    }

    /// Keeps the frames of a step and looks for the end of the chunk.
    fn take(&mut self, decided: Decided) -> Stepped {
        let codebooks = self.network.codebooks();
        let end = self.codes as u32 + 1;
        let mut frames: Vec<Vec<u32>> =
            decided.drawn.chunks(codebooks).map(<[u32]>::to_vec).collect();
        let last = self.settings.end.frame(&decided.drawn, &decided.likeliest, codebooks, end);
        // An end in one codebook is no end by every rule, and the codec has no such code.
        let is_sound = |frame: &Vec<u32>| frame.iter().all(|&code| (code as usize) < self.codes);
        let half = frames.iter().position(|frame| !is_sound(frame));
        let half = half.filter(|&half| last.is_none_or(|last| half < last));
        let is_last_chunk = self.waiting.is_empty();
        let mut ended = None;
        if let Some(chunk) = &mut self.chunk {
            chunk.step += 1;
            chunk.stack.clone_from(&decided.drawn);
            let steps = self.settings.most_frames / frames.len().max(1);
            ended = (chunk.step >= steps).then_some(ChunkEnd::Limit);
        }
        if let Some(frame) = half {
            frames.truncate(frame);
            ended = Some(ChunkEnd::HalfEnd);
        } else if let Some(frame) = last {
            frames.truncate(frame);
            ended = Some(ChunkEnd::Finished);
        } else if !is_last_chunk && self.align.near().is_some_and(|steps| steps >= STEPS_NEAR_END) {
            ended = Some(ChunkEnd::Spoken);
        }
        self.is_speaking = ended.is_none();
        Stepped { frames, ended, decided }
    }
}

/// The state of the text, from its attended position.
fn state_of(align: &Align) -> TextState {
    let most = STEPS_UNTIL_SPOKEN[usize::from(!align.is_first())];
    match align.near() {
        Some(steps) if steps >= most => TextState::Spoken,
        _ if align.is_unfinished() => TextState::Unfinished,
        _ => TextState::Open,
    }
}

fn mean(layers: &[Vec<f32>]) -> Vec<f32> {
    let length = layers.first().map_or(0, Vec::len);
    let count = layers.len() as f32;
    (0..length).map(|at| layers.iter().map(|layer| layer[at]).sum::<f32>() / count).collect()
}
