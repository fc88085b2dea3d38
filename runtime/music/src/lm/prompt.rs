//! Prompts of the language model, byte by byte.
//!
//! All have Qwen3's chat format: a system turn with one instruction, a user turn, and the start of
//! the assistant's turn. Nothing is stripped or escaped: as in upstream, a `<|im_end|>` in a
//! caption or in lyrics becomes that token and ends the user's turn early. Users affect only their
//! own song, and other bytes would differ from the prompts of the training.
//!
//! Source: upstream `llm_inference.py`, `build_formatted_prompt*`; `constants.py`; the chat
//! template in the `tokenizer_config.json` of the checkpoints; acestep.cpp `prompt.h`. See
//! [`PromptStyle`] for the differences.

use super::{cot::cot, metadata::Metadata};
use crate::{Request, codes, prompt::INSTRUMENTAL, python::strip};

pub mod acestep_cpp;

pub use crate::request::language::{NO_USER_INPUT, PromptStyle, meaningful_negative};

/// Instruction for a plan, and for audio codes.
pub const GENERATE: &str = "Generate audio semantic tokens based on the given conditions:";
/// Instruction for metadata and lyrics that describe given audio codes.
pub const UNDERSTAND: &str =
    "Understand the given musical conditions and describe the audio semantics accordingly:";
/// Instruction for a whole song from a few words.
pub const INSPIRE: &str =
    "Expand the user's input into a more detailed and specific musical description:";
/// Instruction to rewrite caption and lyrics in the format of the training data.
pub const FORMAT: &str =
    "Format the user's input into a more detailed and specific musical description:";

/// Returns a system turn, a user turn and the header of the assistant's turn.
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

/// Returns the prompt for the plan of a song.
pub fn plan(caption: &str, lyrics: &str) -> String {
    ask(GENERATE, &song(caption, lyrics))
}

/// Returns the plan before the codes of a song, `<think>\n{lines}\n</think>`.
///
/// `metadata` has the given and the planned values, and `request` is filled in with them.
/// acestep.cpp writes the values of the request, the others the metadata, see [`cot`].
pub fn song_plan(metadata: &Metadata, request: &Request, style: PromptStyle) -> String {
    match style {
        PromptStyle::Open | PromptStyle::Closed | PromptStyle::Upstream => cot(metadata),
        PromptStyle::AcestepCpp => acestep_cpp::plan(request),
    }
}

/// Returns the prompt for the audio codes of a song with the plan `plan`, see [`song_plan`].
///
/// `caption` is the user's, even if the plan has another one; for acestep.cpp it is the plan's.
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

/// Returns the unconditional prompt of [`codes()`], without knowledge of the song.
///
/// With an open turn, the user turn is a [meaningful](meaningful_negative) negative prompt or
/// [`NO_USER_INPUT`], without caption and lyrics. With a closed turn, the plan is empty, and a
/// meaningful negative prompt replaces the caption. With acestep.cpp, the user turn is the negative
/// prompt as it is, or nothing.
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

/// Formats a last assistant message as the chat template does: the text before the first `</think>`
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

/// Returns the prompt for a whole song; the caller replaces a blank query, see [`or_no_input`].
pub fn inspire(query: &str, instrumental: bool) -> String {
    ask(INSPIRE, &format!("{query}\n\ninstrumental: {instrumental}"))
}

/// Returns the prompt to rewrite caption and lyrics; the caller replaces blank ones, see
/// [`or_no_input`] and [`or_instrumental`].
pub fn format(caption: &str, lyrics: &str) -> String {
    ask(FORMAT, &format!("# Caption\n{caption}\n\n# Lyric\n{lyrics}"))
}

/// Returns the prompt to describe codes; without codes, to describe any song.
pub fn understand(codes: &[u32]) -> String {
    let markup = codes::to_markup(codes);
    ask(UNDERSTAND, or_no_input(&markup))
}

/// Replaces a blank query, or a blank caption for [`format()`], as upstream does.
pub fn or_no_input(text: &str) -> &str {
    if strip(text).is_empty() { NO_USER_INPUT } else { text }
}

/// Replaces blank lyrics for [`format()`], as upstream does.
pub fn or_instrumental(lyrics: &str) -> &str {
    if strip(lyrics).is_empty() { INSTRUMENTAL } else { lyrics }
}

#[cfg(test)]
mod tests;
