//! Prompts of the language model, and formatting, parsing and sampling of its answers: text and
//! numbers that need no weights.

use acestep_model::Tokenizer;
use acestep_music::lm::{
    constrain::{Phase, replay},
    cot::cot,
    metadata::{Metadata, is_complete},
    parse, prompt,
    sample::{Scores, keep_top_k, keep_top_p, max_new_tokens, penalise, softmax},
};
use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{
    page::{Page, entries},
    vocabularies::Vocabularies,
};

/// `lm_prompts`: upstream's prompt functions by name, compared as text and as ids.
pub(super) fn prompts(
    page: Page<'_>,
    content: &Value,
    vocabularies: Vocabularies<'_>,
) -> Result<()> {
    for (vocabulary, case, entry) in entries(content) {
        let function = entry["mode"].as_str().unwrap_or_default();
        let text = prompt::by_upstreams_name(function, &entry["args"]);
        let ids = format!("{case}.ids");
        match vocabularies.language(vocabulary)? {
            Some(tokenizer) => {
                let ours = text.as_deref().map(|text| tokenizer.encode(text));
                page.equal(ids, &json!(ours), &entry["ids"]);
            }
            None => page.skip(ids, vocabularies.why_absent(vocabulary)),
        }
        page.equal(format!("{case}.text"), &text.into(), &entry["text"]);
    }
    Ok(())
}

/// `cot_yaml`: metadata to YAML, and the model's text back to metadata, codes and lyrics.
pub(super) fn texts(page: Page<'_>, content: &Value) -> Result<()> {
    for (section, case, entry) in entries(content) {
        let word = |key: &str| entry[key].as_str().unwrap_or_default();
        match section {
            "format_metadata_as_cot" if entry["cot"].is_null() => {
                page.skip(case, "upstream raises an exception here");
            }
            "format_metadata_as_cot" => {
                let metadata: Metadata = serde_json::from_value(entry["metadata"].clone())
                    .with_context(|| format!("{case} has no metadata"))?;
                page.equal(case, &cot(&metadata).into(), &entry["cot"]);
            }
            "parse_lm_output" => {
                let text = word("text");
                let metadata = serde_json::to_value(parse::metadata(text))?;
                page.equal(format!("{case}.metadata"), &metadata, &entry["metadata"]);
                let codes = parse::codes_as_text(text);
                page.equal(format!("{case}.codes"), &codes.into(), &entry["codes"]);
                let lyrics = parse::lyrics(text);
                page.equal(format!("{case}.lyrics"), &lyrics.into(), &entry["lyrics"]);
            }
            "postprocess_caption" => {
                let ours = parse::caption_on_one_line(word("in"));
                page.equal(case, &ours.into(), &entry["out"]);
            }
            "has_all_metas" => {
                let keys = entry["in"].as_object().into_iter().flat_map(|given| given.keys());
                let ours = is_complete(keys.map(String::as_str));
                page.equal(case, &ours.into(), &entry["out"]);
            }
            _ => page.unknown(case),
        }
    }
    Ok(())
}

/// `lm_sampling`: the filters before sampling, and the largest length of an answer.
pub(super) fn sampling(page: Page<'_>, content: &Value) {
    for (section, case, entry) in entries(content) {
        match (section, length_of_model(section)) {
            ("filters", _) => filters(page, &case, entry),
            (_, Some(longest)) => length(page, case, entry, longest),
            _ => page.unknown(case),
        }
    }
}

/// Applies the filters of one entry, each alone to the same logits. Each name ends with the
/// filter's number.
fn filters(page: Page<'_>, case: &str, entry: &Value) {
    let number = |key: &str| entry[key].as_u64().unwrap_or_default();
    let scores = replay::scores(number("seed") as u32, 0, number("n") as usize);
    let history: Vec<u32> =
        entry["history"].as_array().into_iter().flatten().filter_map(id).collect();
    for (name, stored) in entry.as_object().into_iter().flatten() {
        if ["seed", "n", "history"].contains(&name.as_str()) {
            continue;
        }
        let case = format!("{case}.{name}");
        let after = |change: &dyn Fn(&mut Scores)| {
            let mut scores = scores.clone();
            change(&mut scores);
            page.equal_scores(case.clone(), &scores.logits, stored);
        };
        match name.rsplit_once('_').map(|(filter, number)| (filter, number.parse::<f32>())) {
            Some(("repetition_penalty", Ok(penalty))) => {
                after(&|scores| penalise(scores, &history, penalty));
            }
            Some(("top_k", Ok(k))) => after(&|scores| keep_top_k(scores, k as usize)),
            Some(("top_p", Ok(p))) => after(&|scores| keep_top_p(scores, p)),
            Some(("probs", Err(_))) => match probabilities(name, &scores) {
                // torch's `exp` is accurate to two units in the last place, and it sums in f32.
                Some(ours) => page.near(case, &ours, stored, 4),
                None => page.unknown(case),
            },
            _ => page.unknown(case),
        }
    }
}

/// The probabilities at temperature `T` for a case named `probs_tT`.
fn probabilities(name: &str, scores: &Scores) -> Option<Vec<f32>> {
    softmax(&scores.logits, name.strip_prefix("probs_t")?.parse().ok()?)
}

fn id(value: &Value) -> Option<u32> {
    value.as_u64().map(|id| id as u32)
}

/// The model's maximum length, which is in the section's name.
fn length_of_model(section: &str) -> Option<usize> {
    section.strip_prefix("compute_max_new_tokens(max_model_len=")?.strip_suffix(')')?.parse().ok()
}

fn length(page: Page<'_>, case: String, entry: &Value, longest: usize) {
    /// Upstream's limit on a machine without a GPU; the goldens were made on one.
    const MOST_SECONDS: u32 = 240;
    let phase = if entry["phase"] == "codes" { Phase::Codes } else { Phase::Cot };
    let fallback = entry["fallback"].as_u64().map(|tokens| tokens as usize);
    let seconds = entry["target_duration"].as_f64();
    let ours = max_new_tokens(seconds, phase, fallback, longest, MOST_SECONDS);
    page.equal(case, &ours.into(), &entry["out"]);
}
