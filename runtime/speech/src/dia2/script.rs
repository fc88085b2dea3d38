//! A script of two speakers to entries: words with their tokens, and breaks.
//!
//! `[S1]` and `[S2]` alone give the next word to a speaker; `<break time="1.5s"/>` is a pause. All
//! other words are spoken as they are.
//!
//! Source: nari-labs/dia2 at 8687268, `runtime/script_parser.py`.

use acestep_model::Tokenizer;
use serde::{Deserialize, Serialize};

use super::{error::Dia2Error, ids::Ids};

/// The tags of the speakers.
pub(super) const TAGS: [&str; 2] = ["[S1]", "[S2]"];

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

impl Reader<'_> {
    /// Returns the entries of a whole script, which is one line: speaker 1 begins, unless the first
    /// word has another tag.
    ///
    /// # Errors
    /// [`Dia2Error::BreakTime`].
    pub fn script(&self, script: &str) -> Result<Vec<Entry>, Dia2Error> {
        self.lines(&[script])
    }

    /// Returns the entries of lines whose speakers take turns.
    ///
    /// # Errors
    /// [`Dia2Error::BreakTime`].
    pub fn lines(&self, lines: &[&str]) -> Result<Vec<Entry>, Dia2Error> {
        let (mut entries, mut last) = (Vec::new(), None);
        for (index, line) in lines.iter().enumerate() {
            let speaker = index % 2;
            let tag = (last != Some(speaker)).then_some(self.ids.speakers[speaker]);
            let of_line = self.line(line, tag)?;
            if of_line.iter().any(|entry| !entry.is_break()) {
                last = Some(speaker);
            }
            entries.extend(of_line);
        }
        Ok(entries)
    }

    /// Returns the entries of text that is added to a script that is being spoken: the speaker stays
    /// the same until a tag comes.
    ///
    /// # Errors
    /// [`Dia2Error::BreakTime`].
    pub fn more(&self, text: &str) -> Result<Vec<Entry>, Dia2Error> {
        self.line(text, None)
    }

    /// Returns the entries of a line. `tag` begins the first word, unless the word begins with it.
    fn line(&self, line: &str, tag: Option<u32>) -> Result<Vec<Entry>, Dia2Error> {
        let line = line.replace('\u{2019}', "'").replace(':', " ");
        let (mut entries, mut tag, mut pending) = (Vec::new(), tag, None);
        let mut rest = &*line;
        while !rest.is_empty() {
            let Cut { before: word, gap, after } = cut(rest)?;
            rest = after;
            if let Some(tag) = TAGS.iter().find(|&&tag| tag == word) {
                pending = Some(tag);
            } else if !word.is_empty() {
                let mut tokens = match pending.take() {
                    Some(tag) => self.tokenizer.encode(&format!("{tag} {word}")),
                    None => self.tokenizer.encode(word),
                };
                if let Some(tag) = tag.take()
                    && tokens.first() != Some(&tag)
                {
                    tokens.insert(0, tag);
                }
                let padding = tokens.len();
                entries.push(Entry { tokens, text: word.to_owned(), padding });
            }
            if let Some(seconds) = gap {
                // Halves go to the even number; a huge number is the largest one.
                let padding = (seconds * self.frame_rate).round_ties_even() as usize;
                if padding > 0 {
                    entries.push(Entry { tokens: Vec::new(), text: String::new(), padding });
                }
            }
        }
        Ok(entries)
    }
}

/// A text, cut at its first white space or break.
struct Cut<'a> {
    /// One word, or nothing.
    before: &'a str,
    /// Seconds, if it is cut at a break.
    gap: Option<f64>,
    after: &'a str,
}

fn cut(text: &str) -> Result<Cut<'_>, Dia2Error> {
    for (at, letter) in text.char_indices() {
        let (before, from) = text.split_at(at);
        if is_space(letter) {
            return Ok(Cut { before, gap: None, after: from.trim_start_matches(is_space) });
        }
        if let Some((number, after)) = a_break(from) {
            let gap = number.parse().map_err(|_| {
                let tag = from[..from.len() - after.len()].to_owned();
                Dia2Error::BreakTime { tag }
            })?;
            return Ok(Cut { before, gap: Some(gap), after });
        }
    }
    Ok(Cut { before: text, gap: None, after: "" })
}

/// Returns the number in the break that `text` begins with, and the text after it.
///
/// As in upstream, any character may stand for the decimal point.
fn a_break(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix("<break")?;
    let inside = rest.trim_start_matches(is_space);
    if inside.len() == rest.len() {
        return None;
    }
    let number = inside.strip_prefix("time=\"")?;
    let digits =
        |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let whole = digits(number);
    if whole == 0 {
        return None;
    }
    let mut length = whole;
    if !number[whole..].starts_with("s\"") {
        let point = number[whole..].chars().next().filter(|&c| c != '\n')?;
        length += point.len_utf8();
        length += digits(&number[length..]);
    }
    let after = number[length..].strip_prefix("s\"")?.trim_start_matches(is_space);
    let after = after.strip_prefix('/').unwrap_or(after).strip_prefix('>')?;
    Some((&number[..length], after))
}

/// White space of Python, which counts four separators that Unicode does not.
pub(super) fn is_space(letter: char) -> bool {
    letter.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&letter)
}

#[cfg(test)]
mod tests {
    use super::{super::testing, *};

    /// Golden: parse.json, nari-labs/dia2 at 8687268.
    #[test]
    fn scripts_become_the_entries_of_the_reference() {
        let golden = testing::json("parse.json");
        let tokenizer = testing::tokenizer();
        let reader = testing::reader(&tokenizer);
        let cases = golden["cases"].as_array().expect("cases");
        assert_eq!(cases.len(), 26);
        for case in cases {
            let lines: Vec<&str> = case["lines"]
                .as_array()
                .expect("lines")
                .iter()
                .filter_map(|l| l.as_str())
                .collect();
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
        let tokenizer = testing::tokenizer();
        let reader = testing::reader(&tokenizer);
        for (time, frames) in [("1.5", 19), ("0.36", 4), ("0.12", 2), ("1", 12), ("2.", 25)] {
            let entries = reader.script(&format!("<break time=\"{time}s\"/>")).expect("a break");
            assert_eq!(entries.len(), 1);
            assert_eq!((entries[0].padding, entries[0].is_break()), (frames, true), "{time}");
        }
        assert_eq!(reader.script("<break time=\"0.04s\"/>").expect("too short"), []);
    }

    #[test]
    fn a_break_without_a_number_is_refused_and_other_tags_are_words() {
        let tokenizer = testing::tokenizer();
        let reader = testing::reader(&tokenizer);
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
        let tokenizer = testing::tokenizer();
        let reader = testing::reader(&tokenizer);
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

    #[test]
    fn a_break_of_any_length_is_one_entry() {
        let tokenizer = testing::tokenizer();
        let huge = format!("<break time=\"{}s\"/>", "9".repeat(400));
        let entries = testing::reader(&tokenizer).script(&huge).expect("a break");
        assert_eq!(entries[0].padding, usize::MAX);
    }

    #[test]
    fn added_text_keeps_the_speaker() {
        let tokenizer = testing::tokenizer();
        let reader = testing::reader(&tokenizer);
        let tokens = |entries: Vec<Entry>| entries[0].tokens.clone();
        assert_eq!(tokens(reader.script("b").expect("a word")), [448, 82]);
        assert_eq!(tokens(reader.more("b").expect("a word")), [82]);
        assert_eq!(tokens(reader.more("[S2] b").expect("a word")), [449, 237, 82]);
    }
}
