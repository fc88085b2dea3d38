//! A script of two speakers to entries: words with their tokens, and breaks.
//!
//! `[S1]` and `[S2]` alone give the next word to a speaker; `<break time="1.5s"/>` is a pause. All
//! other words are spoken as they are.
//!
//! Source: nari-labs/dia2 at 8687268, `runtime/script_parser.py`.

use acestep_model::Tokenizer;
use serde::{Deserialize, Serialize};

use super::ids::Ids;

/// A word or a break.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Token ids of a word; none for a break.
    pub tokens: Vec<u32>,
    /// The word as it is written; empty for a break.
    pub text: String,
    /// Steps before the next entry may come: after a word, or with the step that takes a break.
    pub padding: usize,
}

impl Entry {
    /// True for a break.
    pub fn is_break(&self) -> bool {
        self.tokens.is_empty()
    }
}

/// Reads scripts for a model.
#[derive(Clone, Copy)]
pub struct Reader<'a> {
    /// The tokenizer.
    pub tokenizer: &'a dyn Tokenizer,
    /// The special ids.
    pub ids: Ids,
    /// Frames per second, in which breaks are counted.
    pub frame_rate: f64,
}

impl std::fmt::Debug for Reader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { ids, frame_rate, .. } = self;
        f.debug_struct("Reader").field("ids", ids).field("frame_rate", frame_rate).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{error::Dia2Error, reading::is_space, testing};

    /// Golden: parse.json, nari-labs/dia2 at 8687268.
    #[test]
    fn scripts_become_the_entries_of_the_reference() {
        let golden = testing::json("parse.json");
        let reader = testing::reader();
        let cases = golden["cases"].as_array().expect("cases");
        assert_eq!(cases.len(), 26);
        for case in cases {
            let lines: Vec<String> = testing::of(&case["lines"]);
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            let expected = testing::entries(&case["entries"]);
            assert_eq!(reader.lines(&lines).expect("entries"), expected, "{lines:?}");
            let script = lines.iter().map(|line| line.trim_matches(is_space)).collect::<Vec<_>>();
            let script = script.join("\n");
            assert_eq!(case["normalized_single"], script);
            let expected = testing::entries(&case["normalized_entries"]);
            assert_eq!(reader.script(&script).expect("entries"), expected, "{script}");
        }
    }

    /// 1.5 s at 12.5 Hz are 18.75 frames, 0.36 s are 4.5, 0.04 s are 0.5, 0.12 s are 1.5.
    #[test]
    fn breaks_are_rounded_to_the_even_frame() {
        let reader = testing::reader();
        for (time, frames) in [("1.5", 19), ("0.36", 4), ("0.12", 2), ("1", 12), ("2.", 25)] {
            let entries = reader.script(&format!("<break time=\"{time}s\"/>")).expect("a break");
            assert_eq!(entries.len(), 1);
            assert_eq!((entries[0].padding, entries[0].is_break()), (frames, true), "{time}");
        }
        assert_eq!(reader.script("<break time=\"0.04s\"/>").expect("too short"), []);
        let huge = format!("<break time=\"{}s\"/>", "9".repeat(400));
        assert_eq!(reader.script(&huge).expect("a break")[0].padding, usize::MAX);
    }

    #[test]
    fn a_break_without_a_number_is_refused_and_other_tags_are_words() {
        let reader = testing::reader();
        for time in ["1,5", "1s", "12x3", "1 5"] {
            let tag = format!("<break time=\"{time}s\"/>");
            let Err(Dia2Error::BreakTime { tag: named }) = reader.script(&format!("a {tag} b"))
            else {
                panic!("{tag} is taken");
            };
            assert_eq!(named, tag);
        }
        for (text, words) in [
            ("<break time=\"1s\"", 2),
            ("<break  time='1s'/>", 2),
            ("<breaktime=\"1s\"/>", 1),
            ("<BREAK time=\"1s\"/>", 2),
            ("<break time=\"1\n5s\"/>", 3),
            ("<break time=\"-1s\"/>", 2),
            ("<break time=\"s\"/>", 2),
        ] {
            let entries = reader.script(text).expect("words");
            assert_eq!(entries.len(), words, "{text:?}");
            assert!(entries.iter().all(|entry| !entry.is_break()), "{text:?}");
        }
    }

    /// No text panics, each word is spoken once, and a word takes as many frames as tokens.
    #[test]
    fn odd_texts_are_words_in_order() {
        let reader = testing::reader();
        for (text, words) in [
            ("", &[][..]),
            ("[S1]", &[]),
            ("[S1] [S2] [S1]", &[]),
            ("\u{a0}\u{2028}\u{1d}\u{85}", &[]),
            ("a\u{a0}b\u{2028}c\u{1d}d\u{3000}e", &["a", "b", "c", "d", "e"]),
            ("::: a:b :", &["a", "b"]),
            ("[S1][S2]", &["[S1][S2]"]),
            ("[S9] [s2]", &["[S9]", "[s2]"]),
            ("👩‍👩‍👧 e\u{301} שלום \u{0}\u{7f}", &["👩‍👩‍👧", "e\u{301}", "שלום", "\u{0}\u{7f}"]),
            ("(laughs)(sighs)", &["(laughs)(sighs)"]),
            ("<|endoftext|> <speak>", &["<|endoftext|>", "<speak>"]),
            ("a<break time=\"1s\"/>[S2]<break time=\"1s\"/>b", &["a", "", "", "b"]),
            ("\u{2019}\u{2019}", &["''"]),
        ] {
            let entries = reader.script(text).expect("words");
            let texts: Vec<&str> = entries.iter().map(|entry| &*entry.text).collect();
            assert_eq!(texts, words, "{text:?}");
            for entry in entries.iter().filter(|entry| !entry.is_break()) {
                assert_eq!(entry.padding, entry.tokens.len(), "{text:?}");
            }
        }
        let long = "word ".repeat(20_000);
        assert_eq!(reader.script(&long).expect("words").len(), 20_000);
    }
}
