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

use Meaning::{Chosen, Mode, Nothing, Sound, Unbuilt, Wish};

/// acestep.cpp's names for the modes of its language model.
pub(super) const MODES: [&str; 3] = ["generate", "inspire", "format"];

/// Keys that only acestep.cpp writes.
pub(super) const ACESTEP_CPP: [&str; 3] = ["lm_batch_size", "synth_batch_size", "synth_model"];

const MODEL: Meaning = Chosen("`model`");

/// Keys of other programs, with their meaning.
pub(super) const THEIRS: &[(&str, Meaning)] = &[
    // Language model.
    ("description", Wish),
    ("desc", Wish),
    ("query", Wish),
    ("sample_query", Wish),
    ("sample_mode", Mode("inspire")),
    ("use_format", Mode("format")),
    ("format", Mode("format")),
    ("analysis_only", Chosen("`plan` and `codes: false`")),
    ("full_analysis_only", Chosen("`understand`")),
    ("extract_codes_only", Chosen("`understand`")),
    ("use_cot_lyrics", Unbuilt),
    ("lm_backend", Nothing),
    ("lm_batch_chunk_size", Nothing),
    ("allow_lm_batch", Nothing),
    ("parallel_thinking", Nothing),
    ("constrained_decoding_debug", Nothing),
    ("is_format_caption", Nothing),
    // Decisions of a language model, see `DECIDED`.
    ("cot_bpm", Nothing),
    ("cot_keyscale", Nothing),
    ("cot_timesignature", Nothing),
    ("cot_duration", Nothing),
    ("cot_vocal_language", Nothing),
    ("cot_caption", Nothing),
    ("cot_lyrics", Nothing),
    // Model file.
    ("vae", MODEL),
    // Files of upstream's songs name no adapter.
    ("use_lora", Chosen("`adapter`")),
    ("lora_loaded", Nothing),
    ("lora_scale", Nothing),
    ("lora_weights_hash", Nothing),
    // Output.
    ("use_tiled_decode", Nothing),
    // Post-processing on upstream's web page.
    ("auto_lrc", Chosen("`lrc: true`")),
    ("auto_score", Chosen("`score: true`")),
    ("score_scale", Nothing),
    ("use_random_seed", Nothing),
    ("song_name", Nothing),
    ("repaint_source_latents_file", Nothing),
    ("global_caption", Sound),
    ("guidance_params", Sound),
];

/// Keys whose `cot_` value upstream's language model chose; its songs' files have them.
pub(super) const DECIDED: [&str; 6] =
    ["bpm", "caption", "duration", "keyscale", "timesignature", "vocal_language"];

/// Objects with more keys of the request; its own keys take precedence, then later objects.
pub(super) const NESTED: &[&str] = &["user_metadata", "metadata", "meta", "metas", "param_obj"];
