//! Constrained decoding: stored runs of the state machine, and the prefix trees of values.

use std::sync::Arc;

use acestep_music::lm::{
    constrain::{Field, Grammar, genres::GenreVocabulary, replay::Runs},
    vocabulary::Vocabulary,
};
use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{page::Page, vocabularies::Vocabularies};

/// `constrained_decoding`: written tokens, step by step, and the allowed tokens.
pub(super) fn runs(page: Page<'_>, content: &Value, vocabularies: Vocabularies<'_>) -> Result<()> {
    const OUTPUTS: [&str; 5] = ["tokens", "finite_counts", "state_path", "final_state", "text"];
    let runs: Runs = serde_json::from_value(content.clone()).context("they are not stored runs")?;
    let genres = Arc::new(GenreVocabulary::parse(&runs.genres.join("\n")));
    for (name, runs) in &runs.results {
        let tokenizer = vocabularies.language(name)?;
        let vocabulary = tokenizer.map(|tokenizer| Vocabulary::new(tokenizer)).transpose()?;
        for (i, run) in runs.iter().enumerate() {
            let case = |output: &str| format!("{name}.{i}.{}.{output}", run.case.name);
            let Some(vocabulary) = &vocabulary else {
                let why = vocabularies.why_absent(name);
                OUTPUTS.iter().for_each(|output| page.skip(case(output), why));
                continue;
            };
            let ours = run.replay(vocabulary, &genres)?;
            let ours = json!({
                "tokens": ours.tokens,
                "finite_counts": ours.finite_counts,
                "state_path": ours.state_path,
                "final_state": ours.final_state,
                "text": ours.text,
            });
            for output in OUTPUTS {
                page.equal(case(output), &ours[output], &content["results"][name][i][output]);
            }
        }
    }
    Ok(())
}

/// `prefix_trees_tiny`, `prefix_trees_full`: every prefix of a value and its allowed next tokens.
pub(super) fn trees(
    page: Page<'_>,
    content: &Value,
    name: &str,
    vocabularies: Vocabularies<'_>,
) -> Result<()> {
    // A tree that is null was left out; its size is stored.
    let stored = content.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    let Some(tokenizer) = vocabularies.language(name)? else {
        let why = vocabularies.why_absent(name);
        stored.for_each(|(case, _)| page.skip(case.clone(), why));
        return Ok(());
    };
    let vocabulary = Vocabulary::new(tokenizer)?;
    let grammar = Grammar::new(&vocabulary, 600)?;
    for (case, stored) in stored {
        let field =
            |name: &str| Field::ALL.into_iter().find(|f| f.name().trim_end_matches(':') == name);
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
