//! Progress events of a run, and its cancellation.

use std::time::Duration;

use burn::tensor::DType;

/// A stage of a run, long enough to show its progress. A model family defines its stages as
/// constants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stage {
    /// The name for people.
    pub name: &'static str,
    /// The unit of its steps.
    pub unit: Unit,
}

/// The unit of a stage's steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Steps.
    Step,
    /// Tiles of a long sequence.
    Tile,
    /// Tokens of a language model, whose number is known.
    Token,
    /// Tokens of a language model that ends when it chooses; the total is an upper bound.
    TokenOfText,
    /// Frames of speech, which ends when it chooses; the total is an upper bound.
    Frame,
}

impl Unit {
    /// The unit's name in the singular.
    pub fn name(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Tile => "tile",
            Self::Token | Self::TokenOfText => "token",
            Self::Frame => "frame",
        }
    }
}

/// A progress event.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A stage reads its network's weights.
    Loading(Stage),
    /// A stage has done `done` of `total` steps; `done` is 0 when it begins.
    Advanced {
        /// The stage.
        stage: Stage,
        /// Steps done.
        done: usize,
        /// All steps.
        total: usize,
    },
    /// A GPU failed in a stage, perhaps for lack of memory; the stage starts again in smaller
    /// tiles.
    Again {
        /// The stage.
        stage: Stage,
        /// Latent frames of a tile.
        frames: usize,
        /// The message of the GPU's backend.
        why: String,
    },
    /// A stage is over; `elapsed` includes loading.
    Finished {
        /// The stage.
        stage: Stage,
        /// Its duration.
        elapsed: Duration,
    },
    /// The result of the current stage was not finite in a narrow float type; the stage starts
    /// again in f32. [`notice`](crate::retry::notice) returns a message about it.
    Overflowed {
        /// The network, as a noun phrase.
        who: &'static str,
        /// The type that was too narrow.
        dtype: DType,
    },
    /// A notice for the user.
    Noticed(crate::Notice),
}

/// A decoded part of a sound, before changes that need the whole sound, such as its loudness.
#[derive(Debug, Clone, Copy)]
pub struct AudioChunk<'a> {
    /// Position of its first sample in the sound.
    pub start: usize,
    /// Samples of each channel.
    pub channels: &'a [Vec<f32>],
}

/// Observer of a run. A function that takes the events is one too.
pub trait Observe {
    /// Called for every event, in order.
    fn event(&self, event: Event);

    /// True if the observer takes the parts of a sound as soon as they are decoded.
    fn listens(&self) -> bool {
        false
    }

    /// Called for each decoded part of the first sound of a run, if the observer
    /// [listens](Self::listens). A stage that starts again sends its parts again, from the first one.
    fn sound(&self, _chunk: AudioChunk<'_>) {}

    /// Called between steps; true ends the run with [`crate::Error::Cancelled`].
    fn cancelled(&self) -> bool {
        false
    }
}

/// An observer that ignores all events.
#[derive(Debug, Clone, Copy)]
pub struct Unobserved;

impl Observe for Unobserved {
    fn event(&self, _event: Event) {}
}

impl<F: Fn(Event)> Observe for F {
    fn event(&self, event: Event) {
        self(event);
    }
}

/// An observer that ignores all events, and cancels the run once its function returns true.
#[derive(Debug, Clone, Copy)]
pub struct CancelIf<F>(pub F);

impl<F: Fn() -> bool> Observe for CancelIf<F> {
    fn event(&self, _event: Event) {}

    fn cancelled(&self) -> bool {
        (self.0)()
    }
}

/// The progress of one stage.
#[derive(Clone, Copy)]
pub struct StageReporter<'a> {
    /// The stage.
    pub stage: Stage,
    /// The observer.
    pub observe: &'a dyn Observe,
}

impl std::fmt::Debug for StageReporter<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StageReporter").field("stage", &self.stage).finish_non_exhaustive()
    }
}

impl StageReporter<'_> {
    /// Sends [`Event::Advanced`].
    pub fn advanced(&self, done: usize, total: usize) {
        self.observe.event(Event::Advanced { stage: self.stage, done, total });
    }

    /// Returns [`Error::Cancelled`](crate::Error::Cancelled) if the observer cancelled the run.
    ///
    /// # Errors
    /// [`Error::Cancelled`](crate::Error::Cancelled).
    pub fn check(&self) -> Result<(), crate::Error> {
        check(self.observe)
    }
}

/// Forwards everything to `observe`, and cancels work whose files have changed.
pub struct WhileUnchanged<'a> {
    /// The observer.
    pub observe: &'a dyn Observe,
    /// True while no file has changed.
    pub is_unchanged: &'a dyn Fn() -> bool,
}

impl Observe for WhileUnchanged<'_> {
    fn event(&self, event: Event) {
        self.observe.event(event);
    }

    fn listens(&self) -> bool {
        self.observe.listens()
    }

    fn sound(&self, chunk: AudioChunk<'_>) {
        self.observe.sound(chunk);
    }

    fn cancelled(&self) -> bool {
        self.observe.cancelled() || !(self.is_unchanged)()
    }
}

/// Returns [`crate::Error::Cancelled`] if the observer cancelled the run.
///
/// # Errors
/// [`crate::Error::Cancelled`].
pub fn check(observe: &dyn Observe) -> Result<(), crate::Error> {
    if observe.cancelled() { Err(crate::Error::Cancelled) } else { Ok(()) }
}
