use super::*;
use crate::test_goldens::golden_json;

const SYSTEM: &str = "<|im_start|>system\n# Instruction\nGenerate audio semantic tokens based \
                      on the given conditions:\n\n<|im_end|>\n";

/// Golden: `lm_prompts.json`.
#[test]
fn prompts_equal_upstreams_byte_for_byte() {
    let golden = golden_json("a/logic/lm_prompts.json");
    for section in ["tiny", "full"] {
        let cases = golden[section].as_array().expect("cases");
        assert_eq!(cases.len(), 63);
        for case in cases {
            let function = case["mode"].as_str().expect("a name");
            let ours = by_upstreams_name(function, &case["args"]);
            assert_eq!(ours.as_deref(), case["text"].as_str(), "{function} {}", case["args"]);
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

#[test]
fn an_unknown_function_or_a_missing_argument_is_no_prompt() {
    assert_eq!(by_upstreams_name("build", &Value::Null), None);
    assert_eq!(by_upstreams_name("build_formatted_prompt", &Value::Null), None);
}
