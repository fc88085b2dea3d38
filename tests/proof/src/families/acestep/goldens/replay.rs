//! Replay of the reference's recorded runs of both phases of the language model.

use acestep_music::{
    Request, codes,
    lm::{
        compose::{Composed, Composing, LmMode},
        prompt::{self, PromptStyle},
        settings::LmSettings,
    },
};
use serde_json::Value;

/// Arguments of upstream's `generate_with_stop_condition`: greedy, with closed turns.
#[derive(Debug, Clone)]
pub(super) struct Replay {
    request: Request,
    settings: LmSettings,
    writes_codes: bool,
}

impl Replay {
    /// Reads the arguments as recorded in the goldens.
    pub(super) fn new(args: &Value) -> Self {
        let text = |key: &str| args[key].as_str().map(str::to_owned);
        let user = &args["user_metadata"];
        let word = |key: &str| user[key].as_str().map(str::to_owned);
        let number = |key: &str| args[key].as_f64().map(|number| number as f32);
        let flag = |key: &str| args[key].as_bool().unwrap_or(true);
        let negative = text("negative_prompt");
        Self {
            request: Request::default().with(|r| {
                r.words.caption = text("caption");
                r.words.lyrics = Some(text("lyrics").unwrap_or_default());
                r.words.bpm = word("bpm").and_then(|bpm| bpm.parse().ok());
                r.words.keyscale = word("keyscale");
                r.words.timesignature = word("timesignature");
                r.words.duration =
                    args["target_duration"].as_f64().or_else(|| word("duration")?.parse().ok());
            }),
            settings: LmSettings {
                temperature: 0.0,
                cfg_scale: number("cfg_scale").unwrap_or(1.0),
                top_k: args["top_k"].as_u64().map(|k| k as usize),
                top_p: number("top_p"),
                repetition_penalty: number("repetition_penalty").unwrap_or(1.0),
                negative_prompt: negative
                    .filter(|text| prompt::meaningful_negative(text).is_some()),
                cot_metas: flag("use_cot_metas"),
                cot_caption: flag("use_cot_caption"),
                cot_language: flag("use_cot_language"),
                constrained: true,
                prompt_style: PromptStyle::Closed,
                max_tokens: None,
                max_seq: 4096,
                seeds: vec![0],
            },
            writes_codes: args["infer_type"] == "llm_dit",
        }
    }

    /// Returns the task to run.
    pub(super) fn composing(&self) -> Composing<'_> {
        Composing {
            request: &self.request,
            mode: LmMode::Plan,
            writes_codes: self.writes_codes,
            settings: &self.settings,
            genres: None,
        }
    }
}

/// Returns metadata and codes of a run in the format of upstream.
pub(super) fn result(composed: &Composed, text_of: impl Fn(&[u32]) -> String) -> Value {
    let call =
        composed.request.source.audio_codes.is_some().then(|| composed.calls.last()).flatten();
    let written = call.and_then(|call| call.written.first());
    serde_json::json!({
        "metadata": composed.metadata,
        "audio_codes": written.map(|tokens| codes::to_markup(&codes::parse_markup(&text_of(tokens)))).unwrap_or_default(),
        "success": true,
        "error": null,
    })
}
