//! Text logic stored as JSON: prompts, tokens, audio codes as text. All of it exact.

use acestep_import::TextEncoderFolder;
use acestep_runtime::{
    codes,
    prompt::{caption_of_prompt, instruction, prompts_from_metas},
    text::{CAPTION_TOKENS, LYRIC_TOKENS},
};
use anyhow::Result;
use serde_json::{Value, json};

use super::sheet::Case;

/// Compares the outputs of one JSON file.
#[derive(Debug)]
pub(super) struct Page<'a> {
    file: &'a str,
    cases: Vec<Case>,
}

impl<'a> Page<'a> {
    pub(super) fn new(file: &'a str) -> Self {
        Self { file, cases: Vec::new() }
    }

    fn case(&self, case: String) -> Case {
        Case {
            file: self.file.to_owned(),
            case,
            component: "text",
            max_abs: None,
            tolerance: None,
            pass: None,
            skipped: None,
        }
    }

    fn equal(&mut self, case: String, ours: &Value, stored: &Value) {
        let pass = Some(ours == stored);
        self.cases.push(Case { tolerance: Some(0.0), pass, ..self.case(case) });
    }

    fn skip(&mut self, case: String, why: &str) {
        self.cases.push(Case { skipped: Some(why.to_owned()), ..self.case(case) });
    }

    /// One case an entry, none of which this version computes.
    pub(super) fn skip_entries(mut self, content: &Value, why: &str) -> Vec<Case> {
        match content {
            Value::Object(sections) => {
                for (section, value) in sections {
                    let entries = value.as_array().map_or(1, Vec::len);
                    (0..entries).for_each(|i| self.skip(format!("{section}.{i}"), why));
                }
            }
            _ => self.skip("all".to_owned(), why),
        }
        self.cases
    }
}

/// `dit_prompts`: the texts of the condition encoder and what leads to them.
pub(super) fn prompts(
    file: &str,
    content: &Value,
    text: Option<&TextEncoderFolder>,
) -> Result<Vec<Case>> {
    let mut page = Page::new(file);
    for (section, entries) in content.as_object().into_iter().flatten() {
        for (i, entry) in entries.as_array().into_iter().flatten().enumerate() {
            let case = format!("{section}.{i}");
            let word = |key: &str| entry[key].as_str();
            match section.as_str() {
                "build_dit_inputs" => dit_inputs(&mut page, &case, entry, text)?,
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
                _ => page.skip(case, "this version does not know this case"),
            }
        }
    }
    Ok(page.cases)
}

fn dit_inputs(
    page: &mut Page<'_>,
    case: &str,
    entry: &Value,
    text: Option<&TextEncoderFolder>,
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
            match text.filter(|text| vocabulary_of(text) == vocabulary) {
                Some(text) => {
                    let ids = text.token_ids(prompt, most)?;
                    page.equal(case, &json!(ids), &entry[&name]);
                }
                None => page.skip(case, OTHER_VOCABULARY),
            }
        }
    }
    page.equal(format!("{case}.caption_input"), &caption.into(), &entry["caption_input"]);
    page.equal(format!("{case}.lyrics_input"), &lyrics.into(), &entry["lyrics_input"]);
    Ok(())
}

const OTHER_VOCABULARY: &str = "the text encoder at hand has another vocabulary";

/// Rows of the released text encoder's table; a smaller one belongs to the tiny checkpoints.
const FULL_VOCABULARY: usize = 151_643;

fn vocabulary_of(text: &TextEncoderFolder) -> &'static str {
    if text.weights().config().vocab_size >= FULL_VOCABULARY { "full" } else { "tiny" }
}

/// `tokenizer_cases`: texts to ids.
pub(super) fn tokens(
    file: &str,
    content: &Value,
    text: Option<&TextEncoderFolder>,
) -> Result<Vec<Case>> {
    const EVERYTHING: usize = usize::MAX;
    let mut page = Page::new(file);
    for vocabulary in ["tiny", "full"] {
        for (i, entry) in content[vocabulary].as_array().into_iter().flatten().enumerate() {
            let name = |key: &str| format!("{vocabulary}.{i}.{key}");
            match text.filter(|text| vocabulary_of(text) == vocabulary) {
                Some(text) => {
                    let words = entry["text"].as_str().unwrap_or_default();
                    let ids = text.token_ids(words, EVERYTHING)?;
                    page.equal(name("te_ids"), &json!(ids), &entry["te_ids"]);
                }
                None => page.skip(name("te_ids"), OTHER_VOCABULARY),
            }
            page.skip(name("lm_ids"), NO_LANGUAGE_MODEL);
            page.skip(name("lm_decoded"), NO_LANGUAGE_MODEL);
        }
        let info = format!("{vocabulary}_info");
        for key in content[&info].as_object().into_iter().flat_map(|info| info.keys()) {
            let case = format!("{info}.{key}");
            match text.filter(|text| key == "te_pad" && vocabulary_of(text) == vocabulary) {
                Some(text) => {
                    let ours = text.tokenizer()?.end_of_text();
                    page.equal(case, &json!(ours), &content[&info][key]);
                }
                None if key == "te_pad" => page.skip(case, OTHER_VOCABULARY),
                None => page.skip(case, NO_LANGUAGE_MODEL),
            }
        }
    }
    Ok(page.cases)
}

/// Why everything about the language model is skipped.
pub(super) const NO_LANGUAGE_MODEL: &str = "the language model is not in this version";
