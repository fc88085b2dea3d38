//! Prompts as token ids and as rows.
//!
//! Ids of the released vocabulary need its files, which a user passes.

use acestep_import::Qwen3Tts;
use acestep_model::{Backend, Place, Tokenizer, speech::qwen3_tts::Files};
use acestep_speech::qwen3_tts::{
    Plan, Request,
    prompt::{Codec, Row},
};
use anyhow::Result;
use serde_json::{Value, json};

use super::{runs, vocabulary};
use crate::{families::GoldenSource, golden::page::Page};

/// Texts in their templates as ids of the tiny vocabulary, and of the released one.
pub(super) fn ids<B: Backend>(
    page: Page<'_>,
    content: &Value,
    of: &GoldenSource,
    _: &Place<B>,
) -> Result<()> {
    let model = match of.speech.any() {
        Ok(model) => model,
        Err(lacks) => {
            page.skip_entries(content, &lacks.to_string());
            return Ok(());
        }
    };
    let tokenizer = model.tokenizer().map_err(acestep_engine::Error::Checkpoint)?;
    let local = Qwen3Tts::open(model.path())?.with_fix_mistral_regex(true);
    let fixed = local.tokenizer().map_err(acestep_engine::Error::Checkpoint)?;
    section(page, content, "tiny", [tokenizer, fixed]);
    let full = content["full"].as_array().map_or(0, Vec::len);
    if full == 0 {
        return Ok(());
    }
    match vocabulary::released(&of.speech, model)? {
        Ok([own, fixed]) => section(page, content, "full", [&own, &fixed]),
        Err(why) => (0..full).for_each(|index| page.skip(format!("full.{index}"), why)),
    }
    Ok(())
}

/// The texts of a section as ids: of Qwen's own way to split texts, and of upstream's other one.
fn section(page: Page<'_>, content: &Value, name: &str, [own, fixed]: [&dyn Tokenizer; 2]) {
    for (index, entry) in content[name].as_array().into_iter().flatten().enumerate() {
        let case = format!("{name}.{index}");
        let kind = entry["kind"].as_str().unwrap_or("text");
        let (Some(template), Some(text)) =
            (content["strings"][kind].as_str(), entry["text"].as_str())
        else {
            page.unknown(case);
            continue;
        };
        let text = template.replace(&format!("{{{kind}}}"), text);
        page.equal(case.clone(), &json!(own.encode(&text)), &entry["ids"]);
        // Stored only where it differs, and of the released vocabulary only for plain texts.
        let local = match entry.get("local") {
            None if name == "full" && entry.get("kind").is_some() => continue,
            None => &entry["ids"],
            Some(local) => local,
        };
        page.equal(format!("{case}.local"), &json!(fixed.encode(&text)), local);
    }
}

/// The rows of every stored run.
pub(super) fn rows<B: Backend>(
    page: Page<'_>,
    content: &Value,
    of: &GoldenSource,
    _: &Place<B>,
) -> Result<()> {
    let runs = of.set.tensors("runs.safetensors")?;
    let plans = content.as_object().into_iter().flatten();
    for (tag, plans) in plans.filter(|(tag, _)| *tag != "note") {
        let note = runs.note(tag);
        let name = note["model"].as_str().unwrap_or_default();
        let Some(model) = page.found(tag, of.speech.named(name)) else { continue };
        for (row, stored) in plans.as_array().into_iter().flatten().enumerate() {
            let case = format!("{tag}.{row}");
            let request = runs::request(note, row);
            let voice = runs::stored_voice(&runs, tag, note, row)?;
            page.attempt(vec![case.clone()], || {
                let plan = plan(&request, voice, model)?;
                page.equal(case.clone(), &plan, stored);
                Ok(())
            })?;
        }
    }
    Ok(())
}

fn plan(
    request: &Request,
    voice: Option<acestep_speech::qwen3_tts::Voice>,
    model: &Qwen3Tts,
) -> Result<Value> {
    let plan = Plan::new(request, voice, 0, model)?;
    let codec = |codec: Option<Codec>| match codec {
        None => Value::Null,
        Some(Codec::Id(id)) => json!(id),
        Some(Codec::Speaker) => json!("x"),
        Some(Codec::Frame(frame)) => json!(["ref", frame]),
    };
    let row = |row: &Row| json!([row.text, codec(row.codec)]);
    let rows: Vec<_> = plan.prompt.rows.iter().map(row).collect();
    Ok(json!({"rows": rows, "trailing": plan.prompt.trailing}))
}
