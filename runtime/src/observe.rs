//! Progress events of a run, and its cancellation.

use std::time::Duration;

use burn::tensor::DType;

/// A stage of a run, long enough to show its progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Sound to latents.
    VaeEncoder,
    /// The language model's text: metadata, lyrics; the total is an upper bound.
    LmText,
    /// The language model's audio codes.
    LmCodes,
    /// Caption and lyrics to hidden states.
    TextEncoder,
    /// Lyrics, timbre and caption to one condition.
    Condition,
    /// Audio codes to latent hints, or latents to audio codes.
    Codes,
    /// Noise to latents.
    Diffusion,
    /// Latents to sound.
    Vae,
    /// Finished latents to the times of the lyrics' lines.
    Alignment,
    /// The language model's score of a song.
    Score,
    /// Training of a network.
    Learning,
}

impl Stage {
    /// The name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::VaeEncoder => "VAE encoder",
            Self::LmText => "plan",
            Self::LmCodes => "codes",
            Self::TextEncoder => "text encoder",
            Self::Condition => "condition",
            Self::Codes => "audio codes",
            Self::Diffusion => "diffusion",
            Self::Vae => "VAE",
            Self::Alignment => "alignment",
            Self::Score => "score",
            Self::Learning => "learning",
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
    /// again in f32. [`notice`](crate::overflow::notice) returns a message about it.
    Overflowed {
        /// The network, as a noun phrase.
        who: &'static str,
        /// The type that was too narrow.
        dtype: DType,
    },
    /// A notice for the user.
    Noticed(crate::Notice),
}

/// Observer of a run.
pub trait Observe {
    /// Called for every event, in order.
    fn event(&self, event: Event);

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

/// Forwards all events to `observe`, and cancels work whose files have changed.
pub(crate) struct WhileUnchanged<'a> {
    pub(crate) observe: &'a dyn Observe,
    pub(crate) is_unchanged: &'a dyn Fn() -> bool,
}

impl Observe for WhileUnchanged<'_> {
    fn event(&self, event: Event) {
        self.observe.event(event);
    }

    fn cancelled(&self) -> bool {
        self.observe.cancelled() || !(self.is_unchanged)()
    }
}

/// Returns [`crate::Error::Cancelled`] if the observer cancelled the run.
pub(crate) fn check(observe: &dyn Observe) -> Result<(), crate::Error> {
    if observe.cancelled() { Err(crate::Error::Cancelled) } else { Ok(()) }
}
