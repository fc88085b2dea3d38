//! What a run tells whoever watches it, and how it is asked to stop.

use std::time::Duration;

use burn::tensor::DType;

/// A stretch of work that takes time worth showing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Sound to latents.
    VaeEncoder,
    /// The language model's words: metadata, lyrics; the total is the most there may be.
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
    /// The finished song to the times of its lines.
    Alignment,
    /// The language model's judgement of a song.
    Score,
    /// A network learns.
    Learning,
}

impl Stage {
    /// What a person reads.
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

/// One thing that happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A stage reads its network's weights.
    Loading(Stage),
    /// A stage has done `done` of `total` steps; `done` is 0 when it begins.
    Advanced {
        /// Which.
        stage: Stage,
        /// Steps done.
        done: usize,
        /// Steps in all.
        total: usize,
    },
    /// A card failed in a stage, perhaps for lack of memory; it begins again in smaller pieces.
    Again {
        /// Which.
        stage: Stage,
        /// Latent frames of a piece.
        frames: usize,
        /// What the card's backend says.
        why: String,
    },
    /// A stage is over; `elapsed` includes loading.
    Finished {
        /// Which.
        stage: Stage,
        /// How long it took.
        elapsed: Duration,
    },
    /// The result of the current stage was not finite in a narrow float type; the stage begins again
    /// in f32. [`notice`](crate::overflow::notice) says it in words.
    Overflowed {
        /// The network, as a noun phrase.
        who: &'static str,
        /// The type that was too narrow.
        dtype: DType,
    },
    /// Something turned out that the user should know.
    Noticed(crate::Notice),
}

/// Watches a run.
pub trait Observe {
    /// Called for everything that happens, in order.
    fn event(&self, event: Event);

    /// Asked between steps; true ends the run with [`crate::Error::Cancelled`].
    fn cancelled(&self) -> bool {
        false
    }
}

/// Watches nothing.
#[derive(Debug, Clone, Copy)]
pub struct Unobserved;

impl Observe for Unobserved {
    fn event(&self, _event: Event) {}
}

/// Passes everything on to `observe`, and stops work whose files have changed.
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

/// [`crate::Error::Cancelled`] if the observer asked to stop.
pub(crate) fn check(observe: &dyn Observe) -> Result<(), crate::Error> {
    if observe.cancelled() { Err(crate::Error::Cancelled) } else { Ok(()) }
}
