//! The texts that the language model continues, byte by byte.
//!
//! All are Qwen3's chat form: a system turn with one instruction, a user turn, and the beginning
//! of the assistant's. Nothing is stripped or escaped: as in upstream, a `<|im_end|>` that stands
//! in a caption or in lyrics becomes that token and ends the user's turn early. Whoever writes it
//! steers their own song, and other bytes would be another prompt than the model was trained on.
//!
//! Source: upstream `llm_inference.py`, `build_formatted_prompt*`; `constants.py`; the chat
//! template in the `tokenizer_config.json` of the checkpoints; acestep.cpp `prompt.h`. See
//! [`PromptStyle`] for what differs between them.

use serde_json::Value;

use super::{cot::cot, metadata::Metadata, parse::python::strip};
use crate::{Request, codes, prompt::INSTRUMENTAL};

pub mod acestep_cpp;
mod style;

pub use style::PromptStyle;

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

/// The plan that the codes of a song follow, `<think>\n{lines}\n</think>`.
///
/// `metadata` is what was given and planned; `request` has been filled in with it. acestep.cpp
/// writes what the request says, the others what the metadata are, see [`cot`].
pub fn song_plan(metadata: &Metadata, request: &Request, style: PromptStyle) -> String {
    match style {
        PromptStyle::Open | PromptStyle::Closed | PromptStyle::Upstream => cot(metadata),
        PromptStyle::AcestepCpp => acestep_cpp::plan(request),
    }
}

/// Asks for the audio codes of a song whose plan is `plan`, see [`song_plan`].
///
/// `caption` is the user's, also where the plan has another one; acestep.cpp's is the plan's.
pub fn codes(caption: &str, lyrics: &str, plan: &str, style: PromptStyle) -> String {
    // ANCHOR: turn
    let asked = self::plan(caption, lyrics);
    match style {
        PromptStyle::Open | PromptStyle::Upstream | PromptStyle::AcestepCpp => {
            format!("{asked}{plan}\n\n")
        }
        PromptStyle::Closed => format!("{asked}{}", closed_answer(plan)),
    }
    // ANCHOR_END: turn
}

/// The prompt that [`codes()`] is contrasted with: nothing is known of the song.
///
/// With an open turn the user says the negative prompt, or [`NO_USER_INPUT`] if it is not
/// [meaningful](meaningful_negative), and neither caption nor lyrics. With a closed one the
/// negative prompt stands in the caption's place if it is meaningful; only the plan is missing
/// otherwise. With acestep.cpp's the user says the negative prompt as it is, or nothing.
pub fn codes_unconditional(
    caption: &str,
    lyrics: &str,
    negative: Option<&str>,
    style: PromptStyle,
) -> String {
    let meaningful = negative.and_then(meaningful_negative);
    let user = match style {
        PromptStyle::Closed => {
            let caption = meaningful.unwrap_or(caption);
            return codes(caption, lyrics, "<think>\n</think>", style);
        }
        PromptStyle::Open | PromptStyle::Upstream => meaningful.unwrap_or(NO_USER_INPUT),
        PromptStyle::AcestepCpp => negative.unwrap_or_default(),
    };
    ask(GENERATE, user) + "<think>\n\n</think>\n\n"
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
/// Codes follow a [closed](PromptStyle::Closed) turn here.
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
            codes(text("caption")?, lyrics, text("cot_text")?, PromptStyle::Closed)
        }
        ("build_formatted_prompt_with_cot", true) => {
            codes_unconditional(text("caption")?, lyrics, Some(negative), PromptStyle::Closed)
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
