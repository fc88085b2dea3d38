//! How the language model draws, and what it may decide.

use super::prompt::Turn;

/// Everything about the language model that a request decides, with nothing left open.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Spread of the draws; 0 takes the likeliest token.
    pub temperature: f32,
    /// Strength of guidance while codes are written; 1 = none. Text is written without: guidance
    /// was found to cut captions short (upstream, spring 2026).
    pub cfg_scale: f32,
    /// Only so many of the likeliest tokens; `None` = all.
    pub top_k: Option<usize>,
    /// Only the likeliest tokens that together have this probability; `None` = all.
    pub top_p: Option<f32>,
    /// Divides the scores of what was written before; 1 = not.
    pub repetition_penalty: f32,
    /// What guidance leads away from; `None` = from the same without its plan.
    pub negative_prompt: Option<String>,
    /// Whether missing metadata are decided.
    pub cot_metas: bool,
    /// Whether the caption is written anew.
    pub cot_caption: bool,
    /// Whether a missing language is decided.
    pub cot_language: bool,
    /// Whether only what can be read back may be written.
    pub constrained: bool,
    /// The form of the prompt that codes are written after.
    pub turn: Turn,
    /// Tokens that each answer may have; `None` = as many as its length needs.
    pub max_tokens: Option<usize>,
    /// Tokens of prompt and answer together.
    pub max_seq: usize,
    /// Seeds of the items; the first also draws metadata and lyrics.
    pub seeds: Vec<u64>,
}
