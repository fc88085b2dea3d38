//! Parser: from the model's text to metadata, codes and lyrics.
//!
//! ```text
//! <think>
//! bpm: 73
//! caption: A calm piano melody
//!   on two lines.
//! </think>
//!
//! <|audio_code_56535|>...        or        # Lyric ...
//! ```
//!
//! No text is an error: unreadable parts are treated as absent.
//!
//! As in upstream, quotes in the YAML are kept: a caption that [`cot`](super::cot::cot) must quote
//! is read back with its quotes.
//!
//! Source: upstream `llm_inference.py`, `parse_lm_output`, `_extract_lyrics_from_output`;
//! `constrained_logits_processor.py`, `postprocess_caption`.

use std::sync::LazyLock;

use regex::Regex;

use super::metadata::{Metadata, Scalar};
use crate::{
    codes,
    python::{self, is_space, strip},
};

const THINK_END: &str = "</think>";
const TURN_END: &str = "<|im_end|>";

/// The heading before lyrics. Upstream's pattern is `^#\s*Lyri[c|cs]?\s*\n`, ignoring case. Its brackets
/// match one letter only, so `# Lyrics` is not a heading. White space has four more characters in Python,
/// and Python maps the three letters beyond ASCII to ASCII letters when it ignores case.
static HEADING: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^#[\s\x1c-\x1f]*[lL][yY][rR][iI\u{130}\u{131}][cC|sS\u{17f}]?[\s\x1c-\x1f]*\n")
        .expect("the pattern is a constant")
});

/// Parses the fields between `<think>` and `</think>`, or if there is nothing, those before the
/// first audio code.
///
/// A line with a name and a colon begins a field; indented lines continue it; lines that begin with
/// `<` are skipped. Of a repeated field the last one counts; unknown fields are ignored.
pub fn metadata(text: &str) -> Metadata {
    let mut metadata = Metadata::default();
    let mut field = Field::default();
    for line in reasoning(text).split('\n') {
        if strip(line).starts_with('<') {
            continue;
        }
        if line.starts_with([' ', '\t']) {
            field.lines.push(line);
        } else if !line.starts_with(is_space)
            && let Some((key, value)) = line.split_once(':')
        {
            std::mem::take(&mut field).save(&mut metadata);
            field.key = strip(key).to_lowercase();
            if !strip(value).is_empty() {
                field.lines.push(value);
            }
        }
    }
    field.save(&mut metadata);
    metadata
}

/// A field whose lines are being read.
#[derive(Default)]
struct Field<'a> {
    key: String,
    lines: Vec<&'a str>,
}

impl Field<'_> {
    fn save(self, metadata: &mut Metadata) {
        if self.lines.is_empty() {
            return;
        }
        let value = self.lines.join("\n");
        let text = || Some(strip(&value).to_owned());
        let number = || {
            Some(
                python::int(&value)
                    .map_or_else(|| Scalar::Text(strip(&value).into()), Scalar::Whole),
            )
        };
        match self.key.as_str() {
            "bpm" => metadata.bpm = number(),
            "caption" => metadata.caption = Some(caption_on_one_line(&value)),
            "duration" => metadata.duration = number(),
            "genres" => metadata.genres = text(),
            "keyscale" => metadata.keyscale = text(),
            "language" => metadata.language = text(),
            "timesignature" => metadata.timesignature = text(),
            _ => {}
        }
    }
}

fn reasoning(text: &str) -> &str {
    let between = |open: &str, close: &str| {
        let (_, after) = text.split_once(open)?;
        Some(after.split_once(close)?.0)
    };
    let inside = between("<think>", THINK_END).or_else(|| between("<reasoning>", "</reasoning>"));
    let before_codes = || text.split_once(codes::OPEN).map_or(text, |(before, _)| before);
    strip(inside.filter(|inside| !strip(inside).is_empty()).unwrap_or_else(before_codes))
}

/// Returns the lyrics after `</think>`, without the heading `# Lyric` and the end of the turn.
pub fn lyrics(text: &str) -> String {
    let Some((_, after)) = text.split_once(THINK_END) else { return String::new() };
    let after = HEADING.replace(strip(after), "");
    strip(after.strip_suffix(TURN_END).unwrap_or(&after)).to_owned()
}

/// Joins lines with spaces, without indentation and empty lines.
///
/// As upstream's `postprocess_caption`, this undoes the folding of YAML.
pub fn caption_on_one_line(caption: &str) -> String {
    let lines = caption.split('\n').map(strip).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
