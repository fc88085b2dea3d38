//! Kinds of values of our keys, and every key of other programs with its meaning.
//!
//! Source: upstream `GenerationParams`, `GenerationConfig` and its REST server; acestep.cpp's
//! request files.

use super::Takes;

/// The kind of value of one of our keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Text, verbatim; empty = not set.
    Text,
    /// A word; empty, `N/A` and null = not set. A number becomes its digits.
    Word,
    /// A whole number; 0 and -1 = not set.
    Count,
    /// A number; 0 and -1 = not set.
    Positive,
    /// Any number.
    Number,
    /// Any whole number.
    Whole,
    /// Kilobits a second, also as `128k`; 0 and -1 = not set.
    Kilobits,
    /// True or false.
    Flag,
    /// One seed or several; -1 = not set.
    Seeds,
    /// One seed; -1 = not set.
    Seed,
    /// Audio codes in any spelling, for one song or several.
    Codes,
    /// Times, as a list or as `a,b,c`.
    Times,
    /// Names of files or tracks: one or several.
    Names,
    /// A model's name, path or `.gguf` file.
    Model,
    /// A number or a list of numbers.
    Numbers,
    /// The mode of the language model.
    Mode,
}

impl Kind {
    /// Returns the JSON that a value of this kind has.
    pub(super) fn takes(self) -> Takes {
        match self {
            Self::Flag => Takes::Flag,
            Self::Count
            | Self::Positive
            | Self::Number
            | Self::Whole
            | Self::Seeds
            | Self::Seed
            | Self::Numbers
            | Self::Times => Takes::Numbers,
            Self::Text
            | Self::Word
            | Self::Kilobits
            | Self::Codes
            | Self::Names
            | Self::Model
            | Self::Mode => Takes::Text,
        }
    }
}

/// Meaning of another program's key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Meaning {
    /// A wish from which the language model writes the caption.
    Wish,
    /// A switch for this `lm_mode`.
    Mode(&'static str),
    /// A feature that upstream has not built either; causes a notice.
    Unbuilt,
    /// An unsupported setting that changes the sound: an error.
    Sound,
    /// A choice of a file or an output; a notice names the field or the work to choose instead.
    Chosen(&'static str),
    /// A setting without effect on the sound, or only for an unsupported feature.
    Nothing,
}

/// Values that mean "off", besides null, `""` and `false`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Neutral {
    /// No other value.
    Empty,
    /// Every value.
    Any,
}

use Meaning::{Chosen, Mode, Nothing, Sound, Unbuilt, Wish};
use Neutral::{Any, Empty};

/// acestep.cpp's names for the modes of its language model.
pub(super) const MODES: [&str; 3] = ["generate", "inspire", "format"];

/// Keys that only acestep.cpp writes.
pub(super) const ACESTEP_CPP: [&str; 3] = ["lm_batch_size", "synth_batch_size", "synth_model"];

const MODEL: Meaning = Chosen("`model`");

/// Keys of other programs: name, meaning, values without effect.
pub(super) const THEIRS: &[(&str, Meaning, Neutral)] = &[
    // Language model.
    ("description", Wish, Empty),
    ("desc", Wish, Empty),
    ("query", Wish, Empty),
    ("sample_query", Wish, Empty),
    ("sample_mode", Mode("inspire"), Empty),
    ("use_format", Mode("format"), Empty),
    ("format", Mode("format"), Empty),
    ("analysis_only", Chosen("`plan` and `codes: false`"), Empty),
    ("full_analysis_only", Chosen("`understand`"), Empty),
    ("use_cot_lyrics", Unbuilt, Empty),
    ("lm_backend", Nothing, Any),
    ("lm_batch_chunk_size", Nothing, Any),
    ("allow_lm_batch", Nothing, Any),
    ("parallel_thinking", Nothing, Any),
    ("constrained_decoding_debug", Nothing, Any),
    ("is_format_caption", Nothing, Any),
    // Decisions of a language model; upstream writes them next to the request.
    ("cot_bpm", Nothing, Any),
    ("cot_keyscale", Nothing, Any),
    ("cot_timesignature", Nothing, Any),
    ("cot_duration", Nothing, Any),
    ("cot_vocal_language", Nothing, Any),
    ("cot_caption", Nothing, Any),
    ("cot_lyrics", Nothing, Any),
    // Model file.
    ("vae", MODEL, Empty),
    // Output.
    ("use_tiled_decode", Nothing, Any),
    // Post-processing on upstream's web page.
    ("auto_lrc", Chosen("`lrc: true`"), Empty),
    ("auto_score", Chosen("`score: true`"), Empty),
    ("score_scale", Nothing, Any),
    ("use_random_seed", Nothing, Any),
    ("global_caption", Sound, Empty),
];

/// Objects with more keys of the request; its own keys take precedence, then later objects.
pub(super) const NESTED: &[&str] = &["user_metadata", "metadata", "meta", "metas", "param_obj"];
