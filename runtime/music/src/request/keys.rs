//! Kinds of values of our keys, and every key of other programs with its meaning.
//!
//! Source: upstream `GenerationParams`, `GenerationConfig` and its REST server; acestep.cpp's
//! request files.

use acestep_engine::Error;
use serde_json::Value;

use super::{Takes, values};

/// Defines the kinds of values: `kind: the JSON of a value = its reader` for each.
macro_rules! kinds {
    ($($(#[$about:meta])* $kind:ident: $takes:ident = $read:path,)+) => {
        /// The kind of value of one of our keys.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Kind {
            $($(#[$about])* $kind,)+
        }

        impl Kind {
            /// Returns the JSON that a value of this kind has.
            pub(super) fn takes(self) -> Takes {
                match self {
                    $(Self::$kind => Takes::$takes,)+
                }
            }

            /// Reads a value of this kind; `None` = not set.
            pub(super) fn read(self, key: &str, value: &Value) -> Result<Option<Value>, Error> {
                Ok(match self {
                    $(Self::$kind => $read(key, value)?.map(Value::from),)+
                })
            }
        }
    };
}

kinds! {
    /// Text, verbatim; empty = not set.
    Text: Text = values::text,
    /// A word; empty, `N/A` and null = not set. A number becomes its digits.
    Word: Text = values::word,
    /// A whole number; 0 and -1 = not set.
    Count: Numbers = values::count,
    /// A number; 0 and -1 = not set.
    Positive: Numbers = values::positive,
    /// Any number.
    Number: Numbers = values::number,
    /// Any whole number.
    Whole: Numbers = values::whole,
    /// Kilobits a second, also as `128k`; 0 and -1 = not set.
    Kilobits: Text = values::kilobits,
    /// True or false.
    Flag: Flag = values::flag,
    /// One seed or several; -1 = not set.
    Seeds: Numbers = values::seeds,
    /// One seed; -1 = not set.
    Seed: Numbers = values::one_seed,
    /// Audio codes in any spelling, for one song or several.
    Codes: Text = values::code_lists,
    /// Times, as a list or as `a,b,c`.
    Times: Numbers = values::times,
    /// Names of files or tracks: one or several.
    Names: Text = values::names,
    /// A model's name, path or `.gguf` file.
    Model: Text = values::model,
    /// A number or a list of numbers.
    Numbers: Numbers = values::numbers,
    /// The mode of the language model.
    Mode: Text = values::mode,
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

/// Keys that only acestep.cpp writes.
pub(super) const ACESTEP_CPP: [&str; 3] = ["lm_batch_size", "synth_batch_size", "synth_model"];

/// Keys of other programs by their meaning, separated by spaces.
const THEIRS: &[(Meaning, &str)] = &[
    // Language model.
    (Wish, "description desc query sample_query"),
    (Mode("inspire"), "sample_mode"),
    (Mode("format"), "use_format format"),
    (Chosen("`plan` and `codes: false`"), "analysis_only"),
    (Chosen("`understand`"), "full_analysis_only extract_codes_only"),
    (Unbuilt, "use_cot_lyrics"),
    (Nothing, "lm_backend lm_batch_chunk_size allow_lm_batch parallel_thinking is_format_caption"),
    (Nothing, "constrained_decoding_debug"),
    // Decisions of a language model, see `DECIDED`.
    (Nothing, "cot_bpm cot_keyscale cot_timesignature cot_duration cot_vocal_language"),
    (Nothing, "cot_caption cot_lyrics"),
    // Model file.
    (Chosen("`model`"), "vae"),
    // Files of upstream's songs name no adapter.
    (Chosen("`adapter`"), "use_lora"),
    (Nothing, "lora_loaded lora_scale lora_weights_hash"),
    // Output, and post-processing on upstream's web page.
    (Chosen("`lrc: true`"), "auto_lrc"),
    (Chosen("`score: true`"), "auto_score"),
    (Nothing, "use_tiled_decode score_scale use_random_seed song_name repaint_source_latents_file"),
    (Sound, "global_caption guidance_params"),
];

/// Returns the keys of other programs, with their meaning.
pub(super) fn theirs() -> impl Iterator<Item = (&'static str, Meaning)> {
    THEIRS.iter().flat_map(|&(meaning, keys)| keys.split(' ').map(move |key| (key, meaning)))
}

/// Keys whose `cot_` value upstream's language model chose; its songs' files have them.
pub(super) const DECIDED: [&str; 6] =
    ["bpm", "caption", "duration", "keyscale", "timesignature", "vocal_language"];

/// Objects with more keys of the request; its own keys take precedence, then later objects.
pub(super) const NESTED: &[&str] = &["user_metadata", "metadata", "meta", "metas", "param_obj"];
