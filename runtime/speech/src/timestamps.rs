//! Files of the times of spoken words: JSON, SRT and WebVTT.

use serde::{Deserialize, Serialize};

use crate::spoken::Word;

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

impl TimesFormat {
    /// The ending of its files.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Srt => "srt",
            Self::Vtt => "vtt",
        }
    }

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
    use super::*;

    #[test]
    fn files_have_the_times_of_their_form() {
        let words = [
            Word { text: "R&B".to_owned(), start: 0.32, end: 61.0 },
            Word { text: "x".to_owned(), start: 61.0, end: 3_723.456_7 },
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
}
