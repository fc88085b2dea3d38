//! Text logic stored as JSON: prompts, tokens, audio codes as text. All of it must be equal.

use acestep_import::TextTokenizer;
use acestep_model::Tokenizer;
use acestep_music::{
    codes,
    prompt::{caption_of_prompt, instruction, prompts_from_metas},
    text::{CAPTION_TOKENS, LYRIC_TOKENS},
};
use anyhow::{Result, anyhow};
use serde_json::{Value, json};

use super::{
    page::{Page, entries},
    vocabularies::Vocabularies,
};

/// The component name of these cases.
pub(super) const COMPONENT: &str = "text";

/// `dit_prompts`: the texts of the condition encoder and the functions that build them.
pub(super) fn prompts(
    page: Page<'_>,
    content: &Value,
    vocabularies: Vocabularies<'_>,
) -> Result<()> {
    for (section, case, entry) in entries(content) {
        let word = |key: &str| entry[key].as_str();
        match section {
            "build_dit_inputs" => dit_inputs(page, &case, entry, vocabularies)?,
            "build_metadata_dict" => {
                page.skip(case, "no such dictionary exists here; its text is in the prompts");
            }
            "parse_audio_code_string" => {
                let codes = codes::parse_markup(word("in").unwrap_or_default());
                page.equal(case, &json!(codes), &entry["out"]);
            }
            "generate_instruction" if entry["out"].is_null() => {
                page.skip(case, "upstream raises an exception here");
            }
            "generate_instruction" => {
                let classes = entry["classes"].as_array().into_iter().flatten();
                let classes: Vec<&str> = classes.filter_map(Value::as_str).collect();
                let task = word("task").unwrap_or_default();
                let ours = instruction(task, word("track_name"), &classes);
                page.equal(case, &ours.into(), &entry["out"]);
            }
            "extract_caption_from_sft_format" => {
                let ours = caption_of_prompt(word("in").unwrap_or_default());
                page.equal(case, &ours.into(), &entry["out"]);
            }
            "create_target_wavs_frames" => {
                page.skip(case, "durations are kept exactly; upstream rounds them to 0.1 s");
            }
            _ => page.unknown(case),
        }
    }
    Ok(())
}

fn dit_inputs(
    page: Page<'_>,
    case: &str,
    entry: &Value,
    vocabularies: Vocabularies<'_>,
) -> Result<()> {
    let word = |key: &str| entry[key].as_str().unwrap_or_default();
    let (caption, lyrics) = prompts_from_metas(
        entry["instruction"].as_str(),
        word("caption"),
        word("lyrics"),
        &entry["metas"],
        word("vocal_language"),
    );
    for (key, prompt, most) in
        [("caption", &caption, CAPTION_TOKENS), ("lyric", &lyrics, LYRIC_TOKENS)]
    {
        for vocabulary in ["tiny", "full"] {
            let name = format!("{key}_ids_{vocabulary}");
            let case = format!("{case}.{name}");
            match vocabularies.text(vocabulary)? {
                Some(text) => page.equal(case, &json!(ids(text, prompt, most)?), &entry[&name]),
                None => page.skip(case, vocabularies.why_absent(vocabulary)),
            }
        }
    }
    page.equal(format!("{case}.caption_input"), &caption.into(), &entry["caption_input"]);
    page.equal(format!("{case}.lyrics_input"), &lyrics.into(), &entry["lyrics_input"]);
    Ok(())
}

fn ids(tokenizer: &TextTokenizer, text: &str, most: usize) -> Result<Vec<u32>> {
    tokenizer.token_ids(text, most).map_err(|reason| anyhow!(reason))
}

/// `tokenizer_cases`: texts to ids and back.
pub(super) fn tokens(
    page: Page<'_>,
    content: &Value,
    vocabularies: Vocabularies<'_>,
) -> Result<()> {
    for vocabulary in ["tiny", "full"] {
        let why = vocabularies.why_absent(vocabulary);
        let text = vocabularies.text(vocabulary)?;
        let language = vocabularies.language(vocabulary)?;
        for (i, entry) in content[vocabulary].as_array().into_iter().flatten().enumerate() {
            let name = |key: &str| format!("{vocabulary}.{i}.{key}");
            let words = entry["text"].as_str().unwrap_or_default();
            match text {
                Some(text) => {
                    let ids = ids(text, words, usize::MAX)?;
                    page.equal(name("te_ids"), &json!(ids), &entry["te_ids"]);
                }
                None => page.skip(name("te_ids"), why),
            }
            match language {
                Some(language) => {
                    let ids = language.encode(words);
                    page.equal(name("lm_ids"), &json!(ids), &entry["lm_ids"]);
                    let decoded = language.decode(&ids);
                    page.equal(name("lm_decoded"), &decoded.into(), &entry["lm_decoded"]);
                }
                None => {
                    ["lm_ids", "lm_decoded"].map(name).into_iter().for_each(|n| page.skip(n, why))
                }
            }
        }
        let info = format!("{vocabulary}_info");
        for (key, stored) in content[&info].as_object().into_iter().flatten() {
            let case = format!("{info}.{key}");
            let ours = match key.as_str() {
                "te_pad" => text.map(|text| json!(text.end_of_text())),
                key => language.and_then(|language| about(language, key, stored)),
            };
            let is_known = ["te_pad", "len", "eos", "pad", "special"].contains(&key.as_str());
            match ours {
                Some(ours) => page.equal(case, &ours, stored),
                None if is_known => page.skip(case, why),
                None => page.unknown(case),
            }
        }
    }
    Ok(())
}

/// A property of the language model's tokenizer.
fn about(tokenizer: &impl Tokenizer, key: &str, stored: &Value) -> Option<Value> {
    Some(match key {
        "len" => json!(tokenizer.vocabulary()),
        "eos" => json!(tokenizer.id_of("<|im_end|>")),
        "pad" => json!(tokenizer.id_of("<|endoftext|>")),
        "special" => {
            let names = stored.as_object()?.keys();
            names.map(|name| (name.clone(), json!(tokenizer.id_of(name)))).collect()
        }
        _ => return None,
    })
}
