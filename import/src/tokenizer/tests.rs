use serde_json::{Value, json};

use super::*;
use crate::testing::{directory, golden_json, goldens};

fn golden_directory() -> Directory {
    Directory::Disk(goldens().join("checkpoints_a/Qwen3-Embedding-0.6B"))
}

/// Golden cases: (text, ids with the appended `<|endoftext|>`).
fn cases() -> Vec<(String, Vec<u32>)> {
    let all = golden_json("a/logic/tokenizer_cases.json");
    let cases = all["tiny"].as_array().expect("cases");
    let case = |case: &Value| {
        let ids = serde_json::from_value(case["te_ids"].clone()).expect("ids");
        (case["text"].as_str().expect("text").to_owned(), ids)
    };
    cases.iter().map(case).collect()
}

/// Returns the golden directory's vocab.json and merges.txt, without its tokenizer.json.
fn parts() -> Vec<(&'static str, Vec<u8>)> {
    let read = |name: &'static str| (name, golden_directory().text(name).expect(name).into_bytes());
    vec![read("vocab.json"), read("merges.txt")]
}

#[test]
fn both_forms_of_a_tokenizer_give_the_ids_of_the_reference() -> Result<(), Error> {
    let (_temporary, in_parts) = directory(&parts());
    let [whole, joined] = [golden_directory(), in_parts].map(|from| TextTokenizer::open(&from));
    let (whole, joined) = (whole?, joined?);
    // All ids are equal, including the added tokens.
    assert_eq!(joined.inner.get_vocab(true), whole.inner.get_vocab(true));
    assert_eq!((whole.end_of_text(), whole.vocabulary()), (420, 446));
    let cases = cases();
    assert_eq!(cases.len(), 39);
    for (text, ids) in cases {
        assert_eq!(joined.token_ids(&text, 100_000).as_ref(), Ok(&ids), "{text:?}");
        assert_eq!(whole.token_ids(&text, 100_000), Ok(ids), "{text:?}");
    }
    Ok(())
}

/// Golden: `dit_prompts.json`, `build_dit_inputs`, with upstream's limits of 256 and 2048 tokens.
#[test]
fn prompts_become_the_ids_of_the_reference() -> Result<(), Error> {
    let tokenizer = TextTokenizer::open(&golden_directory())?;
    let all = golden_json("a/logic/dit_prompts.json");
    let cases = all["build_dit_inputs"].as_array().expect("cases");
    assert_eq!(cases.len(), 22);
    for case in cases {
        for (text, ids, most) in
            [("caption_input", "caption_ids_tiny", 256), ("lyrics_input", "lyric_ids_tiny", 2048)]
        {
            let text = case[text].as_str().expect("a text");
            let ids: Vec<u32> = serde_json::from_value(case[ids].clone()).expect("ids");
            assert_eq!(tokenizer.token_ids(text, most), Ok(ids), "{text:?}");
        }
    }
    Ok(())
}

#[test]
fn cutting_keeps_the_appended_token_last() -> Result<(), Error> {
    let tokenizer = TextTokenizer::open(&golden_directory())?;
    let whole = tokenizer.token_ids("a calm piano melody", 256).expect("ids");
    let length = whole.len();
    assert!(length > 4, "{whole:?}");
    assert_eq!(tokenizer.token_ids("a calm piano melody", length), Ok(whole.clone()));
    let cut = tokenizer.token_ids("a calm piano melody", length - 1).expect("ids");
    assert_eq!(cut, [&whole[..length - 2], &[420]].concat());
    assert_eq!(tokenizer.token_ids("a calm piano melody", 1), Ok(vec![420]));
    Ok(())
}

#[test]
fn a_file_that_asks_for_cutting_and_padding_is_not_obeyed() -> Result<(), Error> {
    let text = golden_directory().text("tokenizer.json")?;
    let mut json: Value = serde_json::from_str(&text).expect("JSON");
    json["truncation"] =
        json!({"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0});
    json["padding"] = json!({"strategy": {"Fixed": 99}, "direction": "Right", "pad_to_multiple_of": null,
                             "pad_id": 420, "pad_type_id": 0, "pad_token": END_OF_TEXT});
    let (_temporary, directory) = directory(&[("tokenizer.json", json.to_string().into())]);
    let tokenizer = TextTokenizer::open(&directory)?;
    let reference = TextTokenizer::open(&golden_directory())?;
    let text = "bpm: 120 caption: a calm piano melody";
    assert_eq!(tokenizer.token_ids(text, 256), reference.token_ids(text, 256));
    Ok(())
}

#[test]
fn each_way_to_be_no_tokenizer_is_told() {
    let [vocab, merges] = parts().try_into().expect("two files");
    let text = golden_directory().text("tokenizer.json").expect("a golden");
    let mut bare: Value = serde_json::from_str(&text).expect("JSON");
    bare["post_processor"] = Value::Null;
    for (files, says) in [
        (vec![], "tokenizer.json` is missing, and so are `vocab.json` and `merges.txt`"),
        (vec![vocab.clone()], "tokenizer.json` is missing"),
        (vec![("tokenizer.json", b"{".to_vec())], "EOF while parsing"),
        (vec![("tokenizer.json", vec![0xFF])], "not UTF-8"),
        (
            vec![("tokenizer.json", bare.to_string().into())],
            "the empty text into [] instead of [420]",
        ),
        (
            vec![vocab.clone(), ("merges.txt", b"#version: 0.2\nab\n".to_vec())],
            "`ab` is not a pair",
        ),
        (vec![vocab, ("merges.txt", b"q zz\n".to_vec())], "is not the tokenizer"),
        (vec![("vocab.json", br#"{"a":0,"b":2}"#.to_vec()), merges], "without gaps"),
    ] {
        let (_temporary, directory) = directory(&files);
        let error = TextTokenizer::open(&directory).expect_err(says).to_string();
        assert!(error.contains(says), "{error}");
    }
}
