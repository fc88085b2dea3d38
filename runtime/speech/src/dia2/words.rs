//! The words of a recording with their times, and the entries and steps that they become.
//!
//! Upstream runs Whisper itself. Here the words come from a file of any usual aligner.
//!
//! Source: nari-labs/dia2 at 8687268, `runtime/voice_clone.py`.

use serde_json::Value;

use super::{
    error::Dia2Error,
    reading::{TAGS, is_space},
    script::{Entry, Reader},
};
use crate::spoken::Word;

/// Latest second of a word; a later one is a mistake of units.
const MOST_SECONDS: f64 = 600.0;

/// Reads words with times from JSON, which is the value of `field`:
///
/// | form | from |
/// |---|---|
/// | `[{"text", "start", "end"}]`, also with `word` | this program, hand-written |
/// | `{"words": [..]}` | the API of OpenAI, gentle, ElevenLabs |
/// | `{"segments": [{"words": [..]}]}` | Whisper, whisper-timestamped, WhisperX |
/// | `{"tiers": {"words": {"entries": [[start, end, text]]}}}` | Montreal Forced Aligner |
/// | `{"transcription": [{"text", "offsets": {"from", "to"}}]}` | whisper.cpp, in milliseconds |
///
/// A word without times, such as WhisperX's `2014`, follows the word before it at once. Upstream places it so
/// too: its times are 0 there.
///
/// # Errors
/// [`Dia2Error::Words`] if it is another JSON, no word has times, or times are out of order.
pub fn words_of_json(json: &str, field: &'static str) -> Result<Vec<Word>, Dia2Error> {
    let bad = |why: String| Dia2Error::Words { field, why };
    let value: Value =
        serde_json::from_str(json).map_err(|error| bad(format!("it is not JSON: {error}")))?;
    let found = found(&value).ok_or_else(|| bad("it has no list of words".to_owned()))?;
    let has_times = found.iter().any(|word| matches!(word.times, Some([Some(_), _])));
    let mut words: Vec<Word> = Vec::new();
    for RawWord { text, times } in found {
        let text = text.trim_matches(is_space);
        if text.contains(is_space) {
            let why = format!("`{text}` is no single word: let the aligner write each word");
            return Err(bad(why));
        }
        if text.is_empty() {
            continue;
        }
        let number = words.len() + 1;
        let bad = |why: &str| Err(bad(format!("word {number}, `{text}`, {why}")));
        let Some([start, end]) = times.filter(|_| has_times) else {
            return bad("has no `start` and `end`");
        };
        let start = start.unwrap_or_else(|| words.last().map_or(0.0, |before| before.start));
        let end = end.unwrap_or(start);
        if !(0.0..=MOST_SECONDS).contains(&start) || !(start..=MOST_SECONDS).contains(&end) {
            return bad(&format!("has impossible times: {start} s to {end} s"));
        }
        if words.last().is_some_and(|before| before.start > start) {
            return bad("begins before the word before it");
        }
        words.push(Word { text: text.to_owned(), start, end });
    }
    match words.is_empty() {
        true => Err(bad("it has no words".to_owned())),
        false => Ok(words),
    }
}

/// A word as an aligner wrote it.
struct RawWord<'a> {
    text: &'a str,
    /// Start and end, where they are given; none if one has another type.
    times: Option<[Option<f64>; 2]>,
}

fn found(value: &Value) -> Option<Vec<RawWord<'_>>> {
    if let Some(list) = value.as_array().or_else(|| value["words"].as_array()) {
        return list.iter().map(word).collect();
    }
    if let Some(segments) = value["segments"].as_array() {
        let lists = segments.iter().map(|segment| segment["words"].as_array());
        let lists: Vec<_> = lists.collect::<Option<_>>()?;
        return lists.into_iter().flatten().map(word).collect();
    }
    if let Some(entries) = value["tiers"]["words"]["entries"].as_array() {
        return entries.iter().map(interval).collect();
    }
    value["transcription"].as_array()?.iter().map(offsets).collect()
}

fn word(value: &Value) -> Option<RawWord<'_>> {
    let text = value["text"].as_str().or_else(|| value["word"].as_str())?;
    Some(RawWord { text, times: pair(&value["start"], &value["end"]) })
}

fn interval(value: &Value) -> Option<RawWord<'_>> {
    Some(RawWord { text: value[2].as_str()?, times: pair(&value[0], &value[1]) })
}

fn offsets(value: &Value) -> Option<RawWord<'_>> {
    let offsets = &value["offsets"];
    let seconds = |ms: Option<f64>| ms.map(|ms| ms / 1000.0);
    let times = pair(&offsets["from"], &offsets["to"]).map(|times| times.map(seconds));
    Some(RawWord { text: value["text"].as_str()?, times })
}

fn pair(start: &Value, end: &Value) -> Option<[Option<f64>; 2]> {
    let time = |value: &Value| if value.is_null() { Some(None) } else { value.as_f64().map(Some) };
    Some([time(start)?, time(end)?])
}

/// The words of one speaker as entries, and the steps at which they begin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// The entries.
    pub entries: Vec<Entry>,
    /// The step of each entry.
    pub steps: Vec<usize>,
}

impl Reader<'_> {
    /// Places the words of `speaker`, 0 or 1; without a speaker the first word has no tag.
    pub fn placed(&self, words: &[Word], speaker: Option<usize>) -> Placed {
        let frame = |seconds: f64| (seconds * self.frame_rate).round_ties_even() as usize;
        let (mut entries, mut steps) = (Vec::new(), Vec::new());
        let mut before = 0;
        for (index, word) in words.iter().enumerate() {
            let tokens = match speaker {
                Some(speaker) if index == 0 => {
                    self.tokenizer.encode(&format!("{} {}", TAGS[speaker], word.text))
                }
                _ => self.tokenizer.encode(&word.text),
            };
            let start = frame(word.start).max(before + 1);
            let end = start + tokens.len();
            let next = words.get(index + 1).map_or(word.end, |next| next.start);
            let next = frame(next).max(end + 1);
            steps.push(start - 1);
            entries.push(Entry { tokens, text: word.text.clone(), padding: next - start - 1 });
            before = end;
        }
        Placed { entries, steps }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::testing, *};

    fn word(text: &str, start: f64, end: f64) -> Word {
        Word { text: text.to_owned(), start, end }
    }

    /// Golden: words_to_entries.json, nari-labs/dia2 at 8687268.
    #[test]
    fn words_are_placed_as_by_the_reference() {
        let golden = testing::json("words_to_entries.json");
        let reader = testing::reader();
        let cases = golden["cases"].as_array().expect("cases");
        assert_eq!(cases.len(), 18);
        for case in cases {
            let words: Vec<(String, f64, f64)> = testing::of(&case["words"]);
            let of = |(text, start, end): &(String, f64, f64)| word(text, *start, *end);
            let words: Vec<Word> = words.iter().map(of).collect();
            let speaker =
                case["speaker"].as_str().and_then(|tag| TAGS.iter().position(|t| *t == tag));
            let placed = reader.placed(&words, speaker);
            assert_eq!(placed.entries, testing::entries(&case["entries"]), "{words:?}");
            let expected: Vec<usize> = testing::of(&case["new_word_steps"]);
            assert_eq!(placed.steps, expected, "{words:?}");
        }
    }

    #[test]
    fn every_form_of_the_aligners_is_read() {
        let expected = [word("Hello", 0.08, 0.36), word("there.", 0.4, 0.62)];
        for json in [
            r#"[{"text": " Hello", "start": 0.08, "end": 0.36}, {"word": "there.", "start": 0.4, "end": 0.62}]"#,
            r#"{"words": [{"text": "Hello", "start": 0.08, "end": 0.36, "type": "word"},
                {"text": " ", "start": 0.36, "end": 0.4, "type": "spacing"},
                {"text": "there.", "start": 0.4, "end": 0.62, "type": "word"}]}"#,
            r#"{"text": "Hello there.", "segments": [{"words": [{"word": " Hello", "start": 0.08, "end": 0.36, "probability": 0.9}]},
                {"words": []}, {"words": [{"text": "there.", "start": 0.4, "end": 0.62, "confidence": 0.8}]}]}"#,
            r#"{"start": 0, "end": 1, "tiers": {"words": {"type": "interval", "entries":
                [[0, 0.08, ""], [0.08, 0.36, "Hello"], [0.4, 0.62, "there."]]}, "phones": {"entries": []}}}"#,
            r#"{"transcription": [{"text": " Hello", "offsets": {"from": 80, "to": 360}},
                {"text": " there.", "offsets": {"from": 400, "to": 620}}]}"#,
        ] {
            assert_eq!(words_of_json(json, "words_1").expect("words"), expected, "{json}");
        }
    }

    /// WhisperX aligns no digits. The reference's times, 0, place them at the same steps.
    #[test]
    fn a_word_without_times_follows_the_word_before_it() {
        let json = r#"[{"word": "In", "start": 0.4, "end": 0.5}, {"word": "2014"},
            {"word": "it", "start": 1.6, "end": 1.7}, {"word": "5"}]"#;
        let read = words_of_json(json, "words_1").expect("words");
        assert_eq!((&read[1], &read[3]), (&word("2014", 0.4, 0.4), &word("5", 1.6, 1.6)));
        let mut upstream = read.clone();
        for at in [1, 3] {
            upstream[at] = word(&read[at].text, 0.0, 0.0);
        }
        let reader = testing::reader();
        assert_eq!(reader.placed(&read, Some(0)), reader.placed(&upstream, Some(0)));
    }

    #[test]
    fn words_that_cannot_be_used_are_refused_with_a_reason() {
        for (json, reason) in [
            ("nonsense", "it is not JSON"),
            ("{}", "it has no list of words"),
            ("[]", "it has no words"),
            (r#"[{"text": " "}]"#, "it has no words"),
            (r#"["Hello"]"#, "it has no list of words"),
            (r#"{"segments": [{"text": "Hello"}]}"#, "it has no list of words"),
            (r#"[{"word": "2014"}]"#, "word 1, `2014`, has no `start` and `end`"),
            (r#"[{"word": "a", "start": "0", "end": 1}]"#, "word 1, `a`, has no `start` and `end`"),
            (r#"[{"word": "a", "start": -1, "end": 2}]"#, "impossible times: -1 s to 2 s"),
            (r#"[{"word": "a", "start": 2, "end": 1}]"#, "impossible times"),
            (r#"[{"word": "a", "start": 80, "end": 36000}]"#, "impossible times"),
            (
                r#"[{"word": "a", "start": 2, "end": 3}, {"word": "b", "start": 1, "end": 3}]"#,
                "word 2, `b`, begins before the word before it",
            ),
        ] {
            let error = words_of_json(json, "words_2").expect_err(json).to_string();
            assert!(error.starts_with("the words in `words_2` cannot be used: "), "{error}");
            assert!(error.contains(reason), "{json}: {error}");
        }
    }
}
