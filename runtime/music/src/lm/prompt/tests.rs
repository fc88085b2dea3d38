use serde_json::Value;

use super::*;
use crate::test_goldens::golden_json;

const SYSTEM: &str = "<|im_start|>system\n# Instruction\nGenerate audio semantic tokens based \
                      on the given conditions:\n\n<|im_end|>\n";

/// Calls upstream's functions by name and arguments, as recorded in the goldens; `None` for the
/// unconditional prompts that upstream has but never uses. Codes follow a closed turn here.
fn by_upstreams_name(function: &str, args: &Value) -> Option<String> {
    let text = |name: &str| args[name].as_str().unwrap_or_default();
    let is_set = |name: &str| args[name].as_bool().unwrap_or(false);
    let (caption, lyrics) = (text("caption"), text("lyrics"));
    Some(match (function, is_set("is_negative_prompt")) {
        ("build_formatted_prompt", false) => plan(caption, lyrics),
        ("build_formatted_prompt_with_cot", false) => {
            codes(caption, lyrics, text("cot_text"), PromptStyle::Closed)
        }
        ("build_formatted_prompt_with_cot", true) => {
            let negative = args["negative_prompt"].as_str();
            codes_unconditional(caption, lyrics, negative, PromptStyle::Closed)
        }
        ("build_formatted_prompt_for_inspiration", false) => {
            inspire(text("query"), is_set("instrumental"))
        }
        ("build_formatted_prompt_for_format", false) => format(caption, lyrics),
        ("build_formatted_prompt_for_understanding", false) => {
            understand(&codes::parse(text("audio_codes")).expect("codes"))
        }
        _ => return None,
    })
}

/// Golden: `lm_prompts.json`.
#[test]
fn prompts_equal_upstreams_byte_for_byte() {
    let golden = golden_json("a/logic/lm_prompts.json");
    for section in ["tiny", "full"] {
        let cases = golden[section].as_array().expect("cases");
        assert_eq!(cases.len(), 63);
        for case in cases {
            let function = case["mode"].as_str().expect("a name");
            if let Some(ours) = by_upstreams_name(function, &case["args"]) {
                assert_eq!(ours, case["text"], "{function} {}", case["args"]);
            }
        }
    }
}

/// Derived by hand from the description of later upstream.
#[test]
fn codes_follow_the_plan_in_an_open_turn() {
    assert_eq!(
        codes("calm", "la", "<think>\nbpm: 90\n</think>", PromptStyle::Open),
        format!(
            "{SYSTEM}<|im_start|>user\n# Caption\ncalm\n\n# Lyric\nla\n<|im_end|>\n\
             <|im_start|>assistant\n<think>\nbpm: 90\n</think>\n\n"
        )
    );
    for (negative, user) in [
        (None, "NO USER INPUT"),
        (Some(" \n"), "NO USER INPUT"),
        (Some(" NO USER INPUT\n"), "NO USER INPUT"),
        (Some(" noise "), " noise "),
    ] {
        assert_eq!(
            codes_unconditional("calm", "la", negative, PromptStyle::Open),
            format!(
                "{SYSTEM}<|im_start|>user\n{user}<|im_end|>\n\
                 <|im_start|>assistant\n<think>\n\n</think>\n\n"
            )
        );
    }
}

/// Expected values from the template of `acestep-5Hz-lm-0.6B`.
#[test]
fn a_closed_turn_is_rendered_anew() {
    for (message, rendered) in [
        ("<think>\n\n\na\n\n</think>\n\n\nb\n", "<think>\na\n</think>\n\nb\n"),
        ("<think>a</think>b</think>c", "<think>\na\n</think>\n\nc"),
        ("x<think>a<think>b</think>", "<think>\nb\n</think>\n\n"),
        ("a</think>", "<think>\na\n</think>\n\n"),
        ("\nplain", "<think>\n\n</think>\n\nplain"),
    ] {
        assert_eq!(closed_answer(message), format!("{rendered}<|im_end|>\n"), "{message}");
    }
}

#[test]
fn what_a_user_leaves_blank_is_filled_in() {
    assert_eq!(or_no_input(" \u{1F}\n"), "NO USER INPUT");
    assert_eq!(or_no_input(" rain "), " rain ");
    assert_eq!(or_instrumental(""), "[Instrumental]");
    assert!(understand(&[]).contains("<|im_start|>user\nNO USER INPUT<|im_end|>"));
    assert!(understand(&[7, 0]).contains("user\n<|audio_code_7|><|audio_code_0|><|im_end|>"));
}
