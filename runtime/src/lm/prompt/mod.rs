//! The texts that the language model continues, byte by byte.
//!
//! All are Qwen3's chat form: a system turn with one instruction, a user turn, and the beginning
//! of the assistant's. Nothing is stripped or escaped: as in upstream, a `<|im_end|>` that stands
//! in a caption or in lyrics becomes that token and ends the user's turn early. Whoever writes it
//! steers their own song, and other bytes would be another prompt than the model was trained on.
//!
//! Source: upstream `llm_inference.py`, `build_formatted_prompt*`; `constants.py`; the chat
//! template in the `tokenizer_config.json` of the checkpoints. [`Turn::Open`] is that of later
//! revisions of upstream and of acestep.cpp `prompt.h`.

use std::{fmt, str::FromStr};

use serde_json::Value;

use super::parse::python::strip;
use crate::{Error, codes, near::nearest, prompt::INSTRUMENTAL};

/// Asks for a plan, and for audio codes.
pub const GENERATE: &str = "Generate audio semantic tokens based on the given conditions:";
/// Asks for metadata and lyrics that describe given audio codes.
pub const UNDERSTAND: &str =
    "Understand the given musical conditions and describe the audio semantics accordingly:";
/// Asks for a whole song from a few words.
pub const INSPIRE: &str =
    "Expand the user's input into a more detailed and specific musical description:";
/// Asks for the given caption and lyrics in the form that the model was trained on.
pub const FORMAT: &str =
    "Format the user's input into a more detailed and specific musical description:";

/// What the user says in training where there is nothing to say.
pub const NO_USER_INPUT: &str = "NO USER INPUT";

/// Whether the assistant's turn that holds the plan is still going on when codes follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub enum Turn {
    /// Codes go on in the turn of the plan, as in training. Later upstream and acestep.cpp.
    #[default]
    Open,
    /// The turn is closed, and codes follow after it: upstream from February to April 2026, with
    /// which the public examples of that time were made.
    Closed,
}

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open",
            Self::Closed => "closed",
        })
    }
}

impl FromStr for Turn {
    type Err = Error;

    /// Reads `open` or `closed`.
    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "open" => Ok(Self::Open),
            "closed" => Ok(Self::Closed),
            _ => Err(Error::BadValue {
                flag: "lm-prompt-style",
                value: crate::error::shortened(text),
                why: "use open or closed".into(),
                near: nearest(text, ["open", "closed"]).map(str::to_owned),
            }),
        }
    }
}

/// A system turn, a user turn and the head of the assistant's.
pub fn custom(system: &str, user: &str) -> String {
    format!(
        "<|im_start|>system\n{system}<|im_end|>\n<|im_start|>user\n{user}<|im_end|>\n\
         <|im_start|>assistant\n"
    )
}

fn ask(instruction: &str, user: &str) -> String {
    custom(&format!("# Instruction\n{instruction}\n\n"), user)
}

fn song(caption: &str, lyrics: &str) -> String {
    format!("# Caption\n{caption}\n\n# Lyric\n{lyrics}\n")
}

/// A negative prompt that says something, as it is; blank and [`NO_USER_INPUT`] say nothing.
pub fn meaningful_negative(text: &str) -> Option<&str> {
    let stripped = strip(text);
    (!stripped.is_empty() && stripped != NO_USER_INPUT).then_some(text)
}

/// Asks for the plan of a song.
pub fn plan(caption: &str, lyrics: &str) -> String {
    ask(GENERATE, &song(caption, lyrics))
}

/// [`plan`] without the caption, or with the negative prompt in its place if that is
/// [meaningful](meaningful_negative).
pub fn plan_unconditional(lyrics: &str, negative: Option<&str>) -> String {
    match negative.and_then(meaningful_negative) {
        Some(negative) => plan(negative, lyrics),
        None => ask(GENERATE, &format!("# Lyric\n{lyrics}\n")),
    }
}

/// Asks for the audio codes of a song whose plan is `cot`, see [`cot`](super::cot::cot).
///
/// `caption` is the user's, also where the plan has another one.
pub fn codes(caption: &str, lyrics: &str, cot: &str, turn: Turn) -> String {
    // ANCHOR: turn
    let plan = plan(caption, lyrics);
    match turn {
        Turn::Open => format!("{plan}{cot}\n\n"),
        Turn::Closed => format!("{plan}{}", closed_answer(cot)),
    }
    // ANCHOR_END: turn
}

/// What [`codes()`] is contrasted with: nothing is known of the song.
///
/// With an open turn the user says the negative prompt, or [`NO_USER_INPUT`] if it is not
/// [meaningful](meaningful_negative), and neither caption nor lyrics. With a closed one the
/// negative prompt stands in the caption's place if it is meaningful; only the plan is missing
/// otherwise.
pub fn codes_unconditional(
    caption: &str,
    lyrics: &str,
    negative: Option<&str>,
    turn: Turn,
) -> String {
    let negative = negative.and_then(meaningful_negative);
    match turn {
        Turn::Open => {
            let prompt = ask(GENERATE, negative.unwrap_or(NO_USER_INPUT));
            format!("{prompt}<think>\n\n</think>\n\n")
        }
        Turn::Closed => codes(negative.unwrap_or(caption), lyrics, "<think>\n</think>", turn),
    }
}

/// The chat template's form of a last assistant message: the text before the first `</think>`
/// and after the `<think>` before it, then the text after the last `</think>`. A message without
/// these tags gets an empty block.
fn closed_answer(message: &str) -> String {
    let newline = ['\n'];
    let (reasoning, answer) =
        match (message.split_once("</think>"), message.rsplit_once("</think>")) {
            (Some((before, _)), Some((_, after))) => {
                let before = before.trim_end_matches(newline);
                let inside = before.rsplit_once("<think>").map_or(before, |(_, inside)| inside);
                (inside.trim_matches(newline), after)
            }
            _ => ("", message),
        };
    let answer = answer.trim_start_matches(newline);
    format!("<think>\n{reasoning}\n</think>\n\n{answer}<|im_end|>\n")
}

/// Asks for a whole song; a blank query is for the caller to replace, see [`or_no_input`].
pub fn inspire(query: &str, instrumental: bool) -> String {
    ask(INSPIRE, &format!("{query}\n\ninstrumental: {instrumental}"))
}

/// Asks for caption and lyrics in the model's own form; blank ones are for the caller to replace,
/// see [`or_no_input`] and [`or_instrumental`].
pub fn format(caption: &str, lyrics: &str) -> String {
    ask(FORMAT, &format!("# Caption\n{caption}\n\n# Lyric\n{lyrics}"))
}

/// Asks what a song is like; without codes, for any song at all.
pub fn understand(codes: &[u32]) -> String {
    let markup = codes::to_markup(codes);
    ask(UNDERSTAND, or_no_input(&markup))
}

/// What [`inspire`], [`format()`] and [`understand`] would be contrasted with, by their instruction.
/// Upstream can write it and never uses it: these run without guidance.
///
/// Here [`NO_USER_INPUT`] is a text as any other; a blank one is empty.
pub fn unconditional(instruction: &str, negative: &str) -> String {
    ask(instruction, if strip(negative).is_empty() { "" } else { negative })
}

/// A query, or the caption for [`format()`], as upstream fills in a blank one.
pub fn or_no_input(text: &str) -> &str {
    if strip(text).is_empty() { NO_USER_INPUT } else { text }
}

/// The lyrics for [`format()`], as upstream fills in blank ones.
pub fn or_instrumental(lyrics: &str) -> &str {
    if strip(lyrics).is_empty() { INSTRUMENTAL } else { lyrics }
}

/// Upstream's functions by their names and arguments, as the goldens record them; `None` for an
/// unknown name or if an argument is missing.
///
/// Codes follow a [closed](Turn::Closed) turn here.
pub fn by_upstreams_name(function: &str, args: &Value) -> Option<String> {
    let text = |name: &str| args[name].as_str();
    let is_set = |name: &str| args[name].as_bool().unwrap_or(false);
    let negative = text("negative_prompt").unwrap_or(NO_USER_INPUT);
    let lyrics = text("lyrics").unwrap_or_default();
    Some(match (function, is_set("is_negative_prompt")) {
        ("build_formatted_prompt", false) => plan(text("caption")?, lyrics),
        ("build_formatted_prompt", true) => match text("generation_phase") {
            None | Some("cot") => plan_unconditional(lyrics, Some(negative)),
            // Kept by upstream for older callers, and used by none.
            Some(_) => ask(GENERATE, text("caption")?),
        },
        ("build_formatted_prompt_with_cot", false) => {
            codes(text("caption")?, lyrics, text("cot_text")?, Turn::Closed)
        }
        ("build_formatted_prompt_with_cot", true) => {
            codes_unconditional(text("caption")?, lyrics, Some(negative), Turn::Closed)
        }
        ("build_formatted_prompt_for_inspiration", false) => {
            inspire(text("query")?, is_set("instrumental"))
        }
        ("build_formatted_prompt_for_inspiration", true) => unconditional(INSPIRE, negative),
        ("build_formatted_prompt_for_format", false) => format(text("caption")?, lyrics),
        ("build_formatted_prompt_for_format", true) => unconditional(FORMAT, negative),
        ("build_formatted_prompt_for_understanding", false) => {
            understand(&codes::parse(text("audio_codes")?).ok()?)
        }
        ("build_formatted_prompt_for_understanding", true) => unconditional(UNDERSTAND, negative),
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
