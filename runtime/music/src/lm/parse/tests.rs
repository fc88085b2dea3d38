use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{lm::cot::cot, test_goldens::golden_cases};

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

fn dictionary(text: &str) -> Value {
    serde_json::to_value(metadata(text)).expect("JSON")
}

/// Golden: `cot_yaml.json`, `parse_lm_output` and `_extract_lyrics_from_output`.
#[test]
fn texts_are_read_as_upstream_reads_them() {
    let cases = golden_cases("a/logic/cot_yaml.json", "parse_lm_output");
    assert_eq!(cases.len(), 54);
    for case in &cases {
        let input = text(&case["text"]);
        assert_eq!(dictionary(input), case["metadata"], "{input}");
        assert_eq!(codes::to_markup(&codes::parse_markup(input)), text(&case["codes"]), "{input}");
        assert_eq!(lyrics(input), text(&case["lyrics"]), "{input}");
    }
}

/// Golden: `cot_yaml.json`, `postprocess_caption`.
#[test]
fn captions_are_unfolded_as_upstream_does() {
    let cases = golden_cases("a/logic/cot_yaml.json", "postprocess_caption");
    assert_eq!(cases.len(), 6);
    for case in &cases {
        assert_eq!(caption_on_one_line(text(&case["in"])), text(&case["out"]));
    }
}

// Expected values from upstream.

#[test]
fn fields_are_read_from_any_text() {
    for (text, expected) in [
        // The first block is read; an empty one is none.
        ("<think>bpm: 1</think><think>bpm: 2</think>", json!({"bpm": 1})),
        ("<think>\n</think>\nbpm: 5<|audio_code_x", json!({"bpm": 5})),
        ("<think>\nbpm: 5\n<|audio_code_1|>\nduration: 3", json!({"bpm": 5})),
        // A field without a value is absent unless blank lines follow.
        ("bpm:\ncaption:  \n: x\n  y\nno colon", json!({})),
        (
            "x: y\nbpm:\n  \n\ncaption:\n \t\nlanguage: en",
            json!({"bpm": "", "caption": "", "language": "en"}),
        ),
        // A line without a colon does not end a field.
        ("caption: a\nlost\n  <lost>\n  b", json!({"caption": "a b"})),
        // The last one counts, but not if it is empty.
        ("bpm: 1\nBPM : 0_2\nbpm:\nkeyscale: \u{A0}C\r", json!({"bpm": 2, "keyscale": "C"})),
    ] {
        assert_eq!(dictionary(text), expected, "{text}");
    }
}

#[test]
fn numbers_without_end_stay_text() {
    let digits = "9".repeat(5000);
    let output = format!("bpm: {digits}\nduration: -{digits}\n<|audio_code_{digits}|>");
    assert_eq!(dictionary(&output), json!({"bpm": digits, "duration": format!("-{digits}")}));
    assert_eq!(codes::parse_markup(&output), [63_999]);
}

#[test]
fn codes_in_digits_of_any_script_are_codes() {
    let text = "<|audio_code_٣|><|audio_code_007|><|audio_code_²|>";
    assert_eq!(codes::parse_markup(text), [3, 7]);
}

#[test]
fn a_heading_is_only_a_heading_with_text_below_it() {
    for (output, expected) in [
        ("</think> # LYRIC \n\n  la", "la"),
        ("</think>#\n\nlyri\nla", "la"),
        ("</think># Lyri|\nla", "la"),
        ("</think># lyrıſ\nla", "la"),
        ("</think># Lyric", "# Lyric"),
        ("</think># Lyrics\nla", "# Lyrics\nla"),
        ("</think># Lyric\n# Lyric\nla", "# Lyric\nla"),
        ("</think>la<|im_end|>\n<|im_end|> ", "la<|im_end|>"),
        ("</think><|im_end|>", ""),
        ("</think>a</think>b", "a</think>b"),
    ] {
        assert_eq!(lyrics(output), expected, "{output}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_text_stops_the_parser(
        pieces in prop::collection::vec(
            prop_oneof![
                any::<String>(),
                "[ -~\n\t\u{1C}\u{A0}]{0,12}",
                "(bpm|caption|duration|genres|x)[ :]{0,2}",
                "</?(think|reasoning)>|\n|<\\|audio_code_[0-9٣]{0,25}(\\|>)?|<\\|im_end\\|>|# ?Lyric\n",
            ],
            0..12,
        )
    ) {
        let output = pieces.concat();
        let all = metadata(&output);
        prop_assert!(all.caption.is_none_or(|caption| !caption.contains('\n')));
        prop_assert!(codes::parse_markup(&output).iter().all(|&code| code <= 63_999));
        prop_assert!(output.contains(&lyrics(&output)));
    }

    /// Captions that begin with a letter and have no colon need no quotes, except words like `no`.
    #[test]
    fn a_plain_caption_comes_back_on_one_line(
        words in prop::collection::vec("[a-zA-Zéß中🎵][a-zA-Z0-9é中,.'\"()&/-]{0,14}", 2..60),
        codes_after in prop::collection::vec(0..64_000u32, 0..8),
    ) {
        let caption = words.join(" ");
        let plan = cot(&Metadata { caption: Some(caption.clone()), ..Metadata::default() });
        let output = format!("{plan}\n\n{}<|im_end|>", codes::to_markup(&codes_after));
        prop_assert_eq!(metadata(&output).caption, Some(caption));
        prop_assert_eq!(codes::parse_markup(&output), codes_after);
    }

    #[test]
    fn numbers_come_back_through_a_plan(bpm: i64, duration: i64) {
        let whole = Metadata {
            bpm: Some(Scalar::Whole(bpm)),
            duration: Some(Scalar::Whole(duration)),
            ..Metadata::default()
        };
        prop_assert_eq!(&metadata(&cot(&whole)), &whole);
        let text = Metadata { bpm: Some(Scalar::Text(bpm.unsigned_abs().to_string())), ..whole };
        prop_assert_eq!(metadata(&cot(&text)).bpm(), i64::try_from(bpm.unsigned_abs()).ok());
    }
}
