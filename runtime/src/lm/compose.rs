//! A request in which the language model has decided what was left open.

use std::time::Duration;

use crate::{Notice, Request};

/// What the language model is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// Metadata that are missing, from caption and lyrics: upstream's first phase.
    Plan,
    /// Caption, lyrics and metadata from a description: the request's caption.
    Inspire,
    /// Caption and lyrics put into the form that the model was trained on, and metadata.
    Format,
    /// Whatever an instruction of the user's own asks for, in the form of an inspiration's answer.
    Custom {
        /// The instruction.
        system: String,
        /// What it is about.
        user: String,
    },
}

impl Ask {
    /// What a request asks for by itself: an inspiration if nothing is said about lyrics, else the
    /// missing metadata.
    pub fn of(request: &Request) -> Self {
        let has_lyrics = request.lyrics.is_some() || request.instrumental == Some(true);
        if has_lyrics { Self::Plan } else { Self::Inspire }
    }
}

/// What the language model made of a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Composed {
    /// The request with everything that was decided; with codes, it needs no language model again.
    pub request: Request,
    /// One sentence for everything of the user's that was changed or filled in.
    pub changes: Vec<Notice>,
    /// The model's answer in words, as it was written; empty if none was asked for.
    pub text: String,
    /// How long it took.
    pub timing: Timing,
}

/// How long the language model took, without reading its weights.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timing {
    /// From the prompt to the first token.
    pub first_token: Duration,
    /// Metadata and lyrics.
    pub text: Duration,
    /// Tokens of metadata and lyrics.
    pub text_tokens: usize,
    /// Audio codes.
    pub codes: Duration,
    /// Audio codes of all items.
    pub code_tokens: usize,
}
