use acestep_model::Tokenizer as _;
use serde_json::{Value, json};

use super::*;
use crate::testing::{directory, golden_json, goldens};
use crate::tokenizer::audio_code;

/// Rows of the golden network's table; its tokenizer has as many ids.
const ROWS: usize = 958;

fn golden_directory() -> Directory {
    Directory::Disk(goldens().join("checkpoints_a/acestep-5Hz-lm-0.6B"))
}

fn golden(file: &str) -> Value {
    golden_json(&format!("a/logic/{file}"))
}

fn ids(value: &Value) -> Vec<u32> {
    serde_json::from_value(value.clone()).expect("ids")
}

/// Returns the golden directory's `names`.
fn files<const N: usize>(names: [&'static str; N]) -> Vec<(&'static str, Vec<u8>)> {
    let read = |name| (name, golden_directory().text(name).expect(name).into_bytes());
    names.map(read).into()
}

/// Creates a directory with a changed copy of the golden tokenizer.json.
fn changed(change: impl FnOnce(&mut Value)) -> (tempfile::TempDir, Directory) {
    let text = golden_directory().text("tokenizer.json").expect("a golden");
    let mut json: Value = serde_json::from_str(&text).expect("JSON");
    change(&mut json);
    directory(&[("tokenizer.json", json.to_string().into())])
}

#[test]
fn texts_become_the_ids_of_the_reference_and_back() -> Result<(), Error> {
    let tokenizer = LanguageTokenizer::open(&golden_directory(), ROWS)?;
    let (_temporary, in_parts) = directory(&files(["vocab.json", "merges.txt"]));
    let joined = LanguageTokenizer::open(&in_parts, ROWS)?;
    // All ids are equal, including the added tokens.
    assert_eq!(joined.inner.get_vocab(true), tokenizer.inner.get_vocab(true));
    let golden = golden("tokenizer_cases.json");
    let cases = golden["tiny"].as_array().expect("cases");
    assert_eq!(cases.len(), 39);
    for case in cases {
        let text = case["text"].as_str().expect("a text");
        let decoded = case["lm_decoded"].as_str().expect("a text");
        for tokenizer in [&tokenizer, &joined] {
            assert_eq!(tokenizer.encode(text), ids(&case["lm_ids"]), "{text:?}");
            assert_eq!(tokenizer.decode(&ids(&case["lm_ids"])), decoded, "{text:?}");
        }
    }
    let info = &golden["tiny_info"];
    assert_eq!(json!(tokenizer.vocabulary()), info["len"]);
    for (content, id) in info["special"].as_object().expect("tokens") {
        assert_eq!(json!(tokenizer.id_of(content)), *id, "{content}");
    }
    Ok(())
}

#[test]
fn prompts_become_the_ids_of_the_reference() -> Result<(), Error> {
    let tokenizer = LanguageTokenizer::open(&golden_directory(), ROWS)?;
    let golden = golden("lm_prompts.json");
    let prompts = golden["tiny"].as_array().expect("prompts");
    assert!(prompts.len() > 50, "{}", prompts.len());
    for prompt in prompts {
        let text = prompt["text"].as_str().expect("a text");
        assert_eq!(tokenizer.encode(text), ids(&prompt["ids"]), "{text:?}");
    }
    Ok(())
}

#[test]
fn an_id_of_a_text_is_that_of_a_single_token_only() -> Result<(), Error> {
    let tokenizer = LanguageTokenizer::open(&golden_directory(), ROWS)?;
    assert_eq!(tokenizer.id_of("\n"), Some(198));
    assert_eq!(tokenizer.id_of("<|audio_code_511|>"), Some(957));
    for content in ["", "\n\n", "<|audio_code_512|>", "Ċ"] {
        assert_eq!(tokenizer.id_of(content), None, "{content:?}");
    }
    Ok(())
}

#[test]
fn ids_that_do_not_exist_have_no_text_and_half_characters_are_replaced() -> Result<(), Error> {
    let tokenizer = LanguageTokenizer::open(&golden_directory(), ROWS)?;
    assert_eq!(tokenizer.decode(&[198, 958, u32::MAX, 445]), "\n</think>");
    let piano = tokenizer.encode("♯");
    assert_eq!(tokenizer.decode(&piano), "♯");
    assert_eq!(tokenizer.decode(&piano[..1]), "\u{FFFD}");
    assert_eq!(tokenizer.decode(&[]), "");
    Ok(())
}

/// 420 tokens and 26 added ones come before the first code.
#[test]
fn put_together_it_has_as_many_audio_codes_as_there_are_rows_for() -> Result<(), Error> {
    let (_temporary, directory) = directory(&files(["vocab.json", "merges.txt"]));
    for (rows, codes) in [(447, 1), (1000, 554), (446 + 65_535, 65_535), (70_000, 65_535)] {
        let tokenizer = LanguageTokenizer::open(&directory, rows)?;
        assert_eq!(tokenizer.vocabulary(), 446 + codes, "{rows} rows");
        let last = audio_code(codes - 1);
        assert_eq!(tokenizer.id_of(&last), Some(445 + codes as u32), "{rows} rows");
    }
    for rows in [0, 446] {
        let error = LanguageTokenizer::open(&directory, rows).expect_err("no row left").to_string();
        assert!(error.ends_with("it has no token `<|audio_code_0|>`"), "{error}");
    }
    Ok(())
}

#[test]
fn what_the_file_appends_cuts_or_pads_is_left_undone() -> Result<(), Error> {
    let (_temporary, directory) = changed(|json| {
        let end = "<|endoftext|>";
        json["post_processor"] = json!({
            "type": "TemplateProcessing",
            "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": end, "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {(end): {"id": end, "ids": [420], "tokens": [end]}},
        });
        json["truncation"] =
            json!({"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0});
        json["padding"] = json!({"strategy": {"Fixed": 99}, "direction": "Right", "pad_to_multiple_of": null,
                                 "pad_id": 420, "pad_type_id": 0, "pad_token": end});
    });
    let tokenizer = LanguageTokenizer::open(&directory, ROWS)?;
    let reference = LanguageTokenizer::open(&golden_directory(), ROWS)?;
    let text = "<think>\nbpm: 120\n</think>";
    assert_eq!(tokenizer.encode(text), reference.encode(text));
    assert!(tokenizer.encode(text).len() > 5);
    Ok(())
}

#[test]
fn each_way_to_be_no_tokenizer_of_a_language_model_is_told() {
    type Change = fn(&mut Value);
    let cases: [(Change, usize, &str); 6] = [
        (|_| (), 957, "it has 958 ids, but the network has 957 rows for them"),
        (
            |json| json["added_tokens"].as_array_mut().expect("tokens").truncate(26),
            ROWS,
            "it has no token `<|audio_code_0|>`",
        ),
        (|json| json["decoder"] = Value::Null, ROWS, "it is not a byte-level BPE as Qwen's"),
        (
            |json| json["model"]["unk_token"] = "<|endoftext|>".into(),
            ROWS,
            "it is not a byte-level BPE as Qwen's",
        ),
        (
            |json| {
                json["model"] = json!({"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"})
            },
            ROWS,
            "it is not a byte-level BPE as Qwen's",
        ),
        (
            |json| {
                let vocab = json["model"]["vocab"].as_object_mut().expect("a vocabulary");
                let id = vocab.remove("Ā").expect("the token of byte 0");
                vocab.insert("unused".into(), id);
            },
            ROWS,
            "it has no token for some single byte",
        ),
    ];
    for (change, rows, says) in cases {
        let (_temporary, directory) = changed(change);
        let error = LanguageTokenizer::open(&directory, rows).expect_err(says).to_string();
        assert!(
            error.contains("tokenizer.json` is not the tokenizer of the language model: "),
            "{error}"
        );
        assert!(error.ends_with(says), "{error}");
    }
    let (_temporary, directory) = directory(&files(["vocab.json"]));
    let error = LanguageTokenizer::open(&directory, ROWS).expect_err("no merges");
    assert!(matches!(error, Error::MissingFile { .. }), "{error}");
}

/// Encoding never fails for any text, and decoding returns the text.
#[test]
fn any_text_has_ids_that_give_it_back() -> Result<(), Error> {
    let tokenizer = LanguageTokenizer::open(&golden_directory(), ROWS)?;
    let all: String = ('\0'..='\u{2FF}').chain(['\u{FFFD}', '\u{10FFFF}']).collect();
    for text in [all.as_str(), &" ".repeat(10_000), "<|audio_code_<|audio_code_7|>", "<think"] {
        assert_eq!(tokenizer.decode(&tokenizer.encode(text)), text);
    }
    Ok(())
}
