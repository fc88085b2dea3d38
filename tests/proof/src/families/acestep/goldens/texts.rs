//! Texts as token ids of the real vocabulary: prompts, and what constrained decoding allows.
//!
//! The functions that make the texts are compared by the tests beside them. A user's tokenizer is
//! no part of the project, so its ids are compared here. All must be equal.

use std::sync::Arc;

use acestep_import::TextTokenizer;
use acestep_model::{Backend, Place, Tokenizer};
use acestep_music::{
    lm::{
        constrain::{Field, Grammar, genres::GenreVocabulary},
        vocabulary::Vocabulary,
    },
    text::{CAPTION_TOKENS, LYRIC_TOKENS},
};
use anyhow::{Context, Result, anyhow};
use serde_json::{Value, json};

use super::constrained::Runs;
use crate::{families::GoldenSource, golden::page::Page};

/// The name of the real vocabulary in the files.
const FULL: &str = "full";

/// The entries of a section, with their index.
fn entries<'a>(content: &'a Value, section: &str) -> impl Iterator<Item = (usize, &'a Value)> {
    content[section].as_array().into_iter().flatten().enumerate()
}

fn ids(tokenizer: &TextTokenizer, text: &Value, most: usize) -> Result<Value> {
    let text = text.as_str().unwrap_or_default();
    Ok(json!(tokenizer.token_ids(text, most).map_err(|reason| anyhow!(reason))?))
}

/// `dit_prompts`: the texts of the condition encoder.
pub(crate) fn prompts<B: Backend>(
    page: Page<'_>,
    content: &Value,
    GoldenSource { checkpoints: of, .. }: &GoldenSource,
    _: &Place<B>,
) -> Result<()> {
    for (i, entry) in entries(content, "build_dit_inputs") {
        for (text, name, most) in [
            ("caption_input", "caption_ids_full", CAPTION_TOKENS),
            ("lyrics_input", "lyric_ids_full", LYRIC_TOKENS),
        ] {
            let case = format!("build_dit_inputs.{i}.{name}");
            match of.real_text()? {
                Some(tokenizer) => {
                    page.equal(case, &ids(tokenizer, &entry[text], most)?, &entry[name]);
                }
                None => page.skip(case, of.why_no_tokenizer()),
            }
        }
    }
    Ok(())
}

/// `lm_prompts`: the prompts of the language model.
pub(crate) fn language_prompts<B: Backend>(
    page: Page<'_>,
    content: &Value,
    GoldenSource { checkpoints: of, .. }: &GoldenSource,
    _: &Place<B>,
) -> Result<()> {
    for (i, entry) in entries(content, FULL) {
        let case = format!("{FULL}.{i}.ids");
        let text = entry["text"].as_str().unwrap_or_default();
        match of.real_language()? {
            Some(tokenizer) => page.equal(case, &json!(tokenizer.encode(text)), &entry["ids"]),
            None => page.skip(case, of.why_no_tokenizer()),
        }
    }
    Ok(())
}

/// `tokenizer_cases`: texts to ids and back.
pub(crate) fn tokens<B: Backend>(
    page: Page<'_>,
    content: &Value,
    GoldenSource { checkpoints: of, .. }: &GoldenSource,
    _: &Place<B>,
) -> Result<()> {
    let (text, language) = (of.real_text()?, of.real_language()?);
    let why = of.why_no_tokenizer();
    for (i, entry) in entries(content, FULL) {
        let name = |key: &str| format!("{FULL}.{i}.{key}");
        match text {
            Some(text) => {
                let ids = ids(text, &entry["text"], usize::MAX)?;
                page.equal(name("te_ids"), &ids, &entry["te_ids"]);
            }
            None => page.skip(name("te_ids"), why),
        }
        match language {
            Some(language) => {
                let ids = language.encode(entry["text"].as_str().unwrap_or_default());
                page.equal(name("lm_ids"), &json!(ids), &entry["lm_ids"]);
                let decoded = language.decode(&ids);
                page.equal(name("lm_decoded"), &decoded.into(), &entry["lm_decoded"]);
            }
            None => ["lm_ids", "lm_decoded"].map(name).into_iter().for_each(|n| page.skip(n, why)),
        }
    }
    for (key, stored) in content["full_info"].as_object().into_iter().flatten() {
        let case = format!("full_info.{key}");
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

/// `constrained_decoding`: written tokens, step by step, and the allowed tokens.
pub(crate) fn constrained<B: Backend>(
    page: Page<'_>,
    content: &Value,
    GoldenSource { checkpoints: of, .. }: &GoldenSource,
    _: &Place<B>,
) -> Result<()> {
    const OUTPUTS: [&str; 5] = ["tokens", "finite_counts", "state_path", "final_state", "text"];
    let runs: Runs = serde_json::from_value(content.clone()).context("they are not stored runs")?;
    let genres = Arc::new(GenreVocabulary::parse(&runs.genres.join("\n")));
    let vocabulary = of.real_language()?.map(|tokenizer| Vocabulary::new(tokenizer)).transpose()?;
    for (i, run) in runs.results.get(FULL).into_iter().flatten().enumerate() {
        let case = |output: &str| format!("{FULL}.{i}.{}.{output}", run.case.name);
        let Some(vocabulary) = &vocabulary else {
            OUTPUTS.iter().for_each(|output| page.skip(case(output), of.why_no_tokenizer()));
            continue;
        };
        let [ours, stored] =
            [&run.replay(vocabulary, &genres)?, &run.trace].map(|trace| json!(trace));
        for output in OUTPUTS {
            page.equal(case(output), &ours[output], &stored[output]);
        }
    }
    Ok(())
}

/// `prefix_trees_full`: every prefix of a value and its allowed next tokens.
pub(crate) fn trees<B: Backend>(
    page: Page<'_>,
    content: &Value,
    GoldenSource { checkpoints: of, .. }: &GoldenSource,
    _: &Place<B>,
) -> Result<()> {
    // A tree that is null was left out; its size is stored.
    let stored = content.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    let Some(tokenizer) = of.real_language()? else {
        stored.for_each(|(case, _)| page.skip(case.clone(), of.why_no_tokenizer()));
        return Ok(());
    };
    let vocabulary = Vocabulary::new(tokenizer)?;
    let grammar = Grammar::new(&vocabulary, 600)?;
    for (case, stored) in stored {
        let field = |name: &str| Field::ALL.into_iter().find(|field| field.key() == name);
        let ours = match (case.as_str(), case.strip_suffix("_nodes")) {
            ("newline", _) => json!(vocabulary.newline),
            ("audio_tokens", _) => json!(vocabulary.codes().len()),
            (_, Some(name)) => json!(field(name).and_then(|f| Some(grammar.beginnings(f)?.len()))),
            (name, None) => json!(field(name).and_then(|f| grammar.beginnings(f))),
        };
        match ours {
            Value::Null => page.unknown(case.clone()),
            ours => page.equal(case.clone(), &ours, stored),
        }
    }
    Ok(())
}
