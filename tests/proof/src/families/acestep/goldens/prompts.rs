//! Prompts of the condition encoder from upstream's recorded arguments.

use acestep_music::prompt::{Metas, TEXT_TO_MUSIC, caption_prompt, duration_text, lyric_prompt};
use serde_json::Value;

/// Formats caption and lyric prompt from upstream's metadata: an object, a text or null.
///
/// An object's `caption` and `language`, if present, override the arguments. `instruction` defaults
/// to [`TEXT_TO_MUSIC`]. This is upstream's `build_dit_inputs`.
pub(super) fn prompts_from_metas(
    task_instruction: Option<&str>,
    caption: &str,
    lyrics: &str,
    metas: &Value,
    language: &str,
) -> (String, String) {
    let metas_text = match metas {
        Value::String(text) => text.clone(),
        metas => metas_of(metas).to_text(),
    };
    let own = |key: &str| metas[key].as_str().filter(|text| !text.is_empty());
    (
        caption_prompt(
            task_instruction.unwrap_or(TEXT_TO_MUSIC),
            own("caption").unwrap_or(caption),
            &metas_text,
        ),
        lyric_prompt(own("language").unwrap_or(language), lyrics),
    )
}

/// Reads a metadata object with any of upstream's key names. A key that is absent, null or of
/// another type counts as unknown.
fn metas_of(metas: &Value) -> Metas {
    let first = |keys: &[&str]| keys.iter().map(|key| &metas[*key]).find(|v| !v.is_null());
    let words = |keys: &[&str]| first(keys).and_then(Value::as_str).map(str::to_owned);
    Metas {
        bpm: first(&["bpm", "tempo"]).and_then(Value::as_u64).map(|bpm| bpm as u32),
        timesignature: words(&["timesignature", "time_signature"]),
        keyscale: words(&["keyscale", "key", "scale"]),
        duration: first(&["duration", "length"]).and_then(|value| match value.as_f64() {
            Some(seconds) => Some(duration_text(seconds)),
            None => value.as_str().map(str::to_owned),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Golden: `dit_prompts.json`, `build_dit_inputs`.
    #[test]
    fn both_prompts_equal_upstreams_byte_for_byte() {
        let text = |value: &Value| value.as_str().expect("a text").to_owned();
        let golden = include_str!("../../../../../goldens/a/logic/dit_prompts.json");
        let golden: Value = serde_json::from_str(golden).expect("JSON");
        let cases = golden["build_dit_inputs"].as_array().expect("cases");
        assert_eq!(cases.len(), 22);
        for case in cases {
            let (caption, lyrics) = prompts_from_metas(
                case["instruction"].as_str(),
                &text(&case["caption"]),
                &text(&case["lyrics"]),
                &case["metas"],
                &text(&case["vocal_language"]),
            );
            assert_eq!(caption, text(&case["caption_input"]));
            assert_eq!(lyrics, text(&case["lyrics_input"]));
        }
    }
}
