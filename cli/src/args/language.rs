//! Flags of the language model, in upstream's names: model, sampling, audio codes.

use std::path::PathBuf;

use acestep_music::request;
use acestep_session::language::TokenLimits;

use super::{
    thinking::Decisions,
    values::{pair, put, put_all, seed},
};

/// All flags of the language model, for commands that use all its abilities.
#[derive(Debug, Clone, Default, PartialEq, clap::Args)]
pub(crate) struct Language {
    #[command(flatten)]
    pub(crate) drawing: Drawing,
    #[command(flatten)]
    outline: Outline,
    #[command(flatten)]
    pub(crate) decisions: Decisions,
}

/// Model and sampling, for every command that uses the language model.
#[derive(Debug, Clone, Default, PartialEq, clap::Args)]
#[command(next_help_heading = "Language model")]
pub(crate) struct Drawing {
    /// lm-1.7b, lm-0.6b, lm-4b or a path.
    ///
    /// A short name, the name of a directory or file in the models directory, or a path; GGUF files
    /// of acestep.cpp and safetensors files of ComfyUI also work. [default: the first of lm-1.7b,
    /// lm-0.6b and lm-4b that is installed]
    #[arg(long, value_name = "NAME|PATH")]
    lm_model: Option<String>,

    /// Sampling temperature, 0 to 2; 0 takes the likeliest token [default: 0.85].
    #[arg(long, value_name = "X")]
    lm_temperature: Option<f64>,

    /// Sample from the N likeliest tokens; 0 is all [default: 0].
    #[arg(long, value_name = "N")]
    lm_top_k: Option<i64>,

    /// Sample from the likeliest tokens with this total probability; 0 and 1 are all [default:
    /// 0.9].
    #[arg(long, value_name = "SHARE")]
    lm_top_p: Option<f64>,

    /// Repetition penalty, 0.1 to 2; 1 is none [default: 1].
    #[arg(long, value_name = "X")]
    lm_repetition_penalty: Option<f64>,

    /// Seed of the language model; counts up in a batch [default: the song's].
    #[arg(long, value_name = "SEED", value_parser = seed)]
    lm_seed: Option<u64>,

    /// Allow only answers that can be parsed (the default).
    #[arg(long, alias = "use-constrained-decoding", overrides_with = "no_constrained_decoding")]
    constrained_decoding: bool,

    /// Allow any answer.
    #[arg(long, alias = "no-use-constrained-decoding", overrides_with = "constrained_decoding")]
    no_constrained_decoding: bool,

    /// Maximum tokens per answer [default: as many as the length needs].
    #[arg(long, value_name = "N")]
    max_tokens: Option<i64>,

    /// Maximum tokens of prompt and answer together, at least 128 [default: 8192].
    #[arg(long, value_name = "N")]
    max_seq: Option<i64>,

    /// File of allowed genres, one per line; without it, the model names no genre.
    ///
    /// Lines that begin with # are comments.
    #[arg(long, value_name = "FILE")]
    pub(crate) genres: Option<PathBuf>,
}

/// Flags for audio codes of the language model.
#[derive(Debug, Clone, Default, PartialEq, clap::Args)]
#[command(next_help_heading = "Language model")]
pub(crate) struct Outline {
    /// Guidance of the codes by the plan, 1 to 10; 1 is no guidance [default: 2].
    #[arg(long, value_name = "X")]
    lm_cfg_scale: Option<f64>,

    /// Text that the guidance leads away from.
    #[arg(long, value_name = "TEXT")]
    lm_negative_prompt: Option<String>,

    /// Prompt style: open, closed, upstream or acestep.cpp [default: open].
    ///
    /// `closed` ends the model's turn before the codes, as ACE-Step 1.5 did up to April 2026.
    /// `upstream` and `acestep.cpp` are the prompts of these programs, byte for byte. `open`
    /// differs from `upstream` only in one point: it names the language that you gave.
    #[arg(long, value_name = "STYLE")]
    lm_prompt_style: Option<String>,
}

impl Language {
    /// Puts the typed flags over `request`.
    pub(crate) fn put_over(&self, request: &mut request::Language) {
        self.drawing.put_over(request);
        self.outline.put_over(request);
        self.decisions.put_over(request);
    }

    /// True if any of these flags was typed.
    pub(crate) fn is_typed(&self) -> bool {
        *self != Self::default()
    }
}

impl Drawing {
    /// Puts the typed flags over `request`.
    pub(crate) fn put_over(&self, request: &mut request::Language) {
        put_all!(self => request;
            lm_model, lm_temperature, lm_top_k, lm_top_p, lm_repetition_penalty, lm_seed);
        let constrained = pair(self.constrained_decoding, self.no_constrained_decoding);
        put(&mut request.use_constrained_decoding, constrained.as_ref());
    }

    /// Returns the typed limits of tokens.
    pub(crate) fn limits(&self) -> TokenLimits {
        TokenLimits { max_tokens: self.max_tokens, max_seq: self.max_seq }
    }
}

impl Outline {
    /// Puts the typed flags over `request`.
    pub(crate) fn put_over(&self, request: &mut request::Language) {
        put_all!(self => request; lm_cfg_scale, lm_negative_prompt, lm_prompt_style);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::values::typed;

    #[test]
    fn what_is_typed_goes_over_the_request_and_nothing_else() {
        let typed = typed::<Language>;
        let before = request::Language {
            lm_temperature: Some(0.5),
            lm_top_k: Some(7),
            use_cot_metas: Some(false),
            ..request::Language::default()
        };
        let mut request = before.clone();
        assert!(!typed(&[]).is_typed());
        typed(&[]).put_over(&mut request);
        assert_eq!(request, before);
        let flags = ["--lm-temperature", "0", "--use-cot-metas", "--no-use-cot-caption"];
        let more = ["--lm-seed", "9", "--no-constrained-decoding", "--lm-prompt-style", "closed"];
        let flags = typed(&[&flags[..], &more].concat());
        flags.put_over(&mut request);
        let expected = request::Language {
            lm_temperature: Some(0.0),
            lm_seed: Some(9),
            lm_prompt_style: Some("closed".into()),
            use_cot_metas: Some(true),
            use_cot_caption: Some(false),
            use_constrained_decoding: Some(false),
            ..before
        };
        assert_eq!(request, expected);
        assert!(flags.is_typed());
        assert!(typed(&["--genres", "g.txt"]).is_typed());
    }
}
