//! The times of the spoken words, and files of them: JSON, SRT and WebVTT.

use serde::{Deserialize, Serialize};

use super::{machine::Spoken, words::Word};

/// A form of files with the times of words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TimesFormat {
    /// A list of `{"text", "start", "end"}`, in seconds.
    Json,
    /// SubRip, a number and a time for each word.
    Srt,
    /// WebVTT.
    Vtt,
}

/// Returns the words of a transcript with their times in the sound, which begins at step `first` and
/// is `frames` long. Words before it are left out; a word ends where the next one begins.
///
/// A frame says what its step asked for, so the delays of the codebooks do not count.
pub fn times(transcript: &[Spoken], first: usize, frames: usize, frame_rate: f64) -> Vec<Word> {
    let start = |word: &Spoken| Some(word.step.checked_sub(first)? as f64 / frame_rate);
    let words: Vec<(&Spoken, f64)> =
        transcript.iter().filter_map(|word| Some((word, start(word)?))).collect();
    let length = frames as f64 / frame_rate;
    let of = |(index, (word, start)): (usize, &(&Spoken, f64))| {
        let end = words.get(index + 1).map_or(length, |(_, next)| *next).max(*start);
        Word { text: word.text.clone(), start: *start, end }
    };
    words.iter().enumerate().map(of).collect()
}

impl TimesFormat {
    /// Returns the text of a file.
    pub fn text(self, words: &[Word]) -> String {
        let cues = words.iter().enumerate();
        match self {
            Self::Json => {
                let json = serde_json::to_string_pretty(words).expect("texts and finite numbers");
                json + "\n"
            }
            Self::Srt => cues
                .map(|(index, Word { text, start, end })| {
                    let [start, end] = [start, end].map(|seconds| clock(*seconds, ','));
                    format!("{}\n{start} --> {end}\n{text}\n\n", index + 1)
                })
                .collect(),
            Self::Vtt => cues.fold("WEBVTT\n\n".to_owned(), |all, (_, word)| {
                let [start, end] = [word.start, word.end].map(|seconds| clock(seconds, '.'));
                format!("{all}{start} --> {end}\n{}\n\n", escaped(&word.text))
            }),
        }
    }
}

/// Returns `00:01:02,500`.
fn clock(seconds: f64, point: char) -> String {
    let ms = (seconds * 1000.0).round() as u64;
    let [hours, minutes, whole] = [ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60];
    format!("{hours:02}:{minutes:02}:{whole:02}{point}{:03}", ms % 1000)
}

/// Replaces the characters that are marks of WebVTT.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::{super::words::words_of_json, *};

    fn spoken() -> Vec<Spoken> {
        [("old", 3), ("R&B", 10), ("<b>", 14), ("end", 60)]
            .map(|(text, step)| Spoken { text: text.to_owned(), step })
            .to_vec()
    }

    /// Steps 10, 14 and 60 after 10 at 12.5 Hz: 0, 0.32 and 4 s.
    #[test]
    fn a_word_lasts_until_the_next_and_the_last_until_the_end() {
        let words = times(&spoken(), 10, 63, 12.5);
        let of: Vec<_> = words.iter().map(|word| (&*word.text, word.start, word.end)).collect();
        assert_eq!(of, [("R&B", 0.0, 0.32), ("<b>", 0.32, 4.0), ("end", 4.0, 5.04)]);
        // A sound that was cut before its last word.
        assert_eq!(times(&spoken(), 10, 20, 12.5)[2].end, 4.0);
        assert_eq!(times(&[], 0, 5, 12.5), []);
    }

    #[test]
    fn files_have_the_times_of_their_form() {
        let words = [
            Word { text: "R&B".to_owned(), start: 0.32, end: 61.0 },
            Word { text: "x".to_owned(), start: 61.0, end: 3_723.4567 },
        ];
        assert_eq!(
            TimesFormat::Srt.text(&words),
            "1\n00:00:00,320 --> 00:01:01,000\nR&B\n\n2\n00:01:01,000 --> 01:02:03,457\nx\n\n"
        );
        assert_eq!(
            TimesFormat::Vtt.text(&words),
            "WEBVTT\n\n00:00:00.320 --> 00:01:01.000\nR&amp;B\n\n00:01:01.000 --> 01:02:03.457\nx\n\n"
        );
    }

    #[test]
    fn the_json_is_read_again_as_the_words_of_a_recording() {
        let words = times(&spoken(), 3, 70, 12.5);
        let json = TimesFormat::Json.text(&words);
        assert!(json.starts_with("[\n  {\n    \"text\": \"old\",\n    \"start\": 0.0,"), "{json}");
        assert_eq!(words_of_json(&json).expect("words"), words);
    }
}
